"""Cases about fp8 operands: small and odd sizes, offsets, scales, and what becomes of long sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.inputs import Normal
from deepgemm_codegen.harness.numbers import decode, encode
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import MmaSync, Wgmma
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import assert_right, launch, plan_of, program_of

TALL = MmaSyncChoice(64, 64, 128, 2, 2, 2, 2, 8)


def product(plan: Any, m: int, n: int, k: int) -> Any:
    """What `Normal` of seeds 1 and 2 give, rounded to the operands' types."""

    def operand(name: str, rows: int, columns: int, seed: int) -> Any:
        raw = Normal(seed).at(0, np.arange(rows)[:, None], np.arange(columns)[None, :], np)
        dtype = getattr(plan.spec, f"dtype_{name}")
        return decode(encode(raw, dtype, np), dtype, np)

    return operand("a", m, k, 1) @ operand("b", k, n, 2)


@planted(faults.text(r"row < M \? ", "row <= M ? "))
def test_t19_fewer_rows_than_the_tile() -> None:
    """Fault seen: wrong rows where m is below the tile's height."""
    for m in (1, 8, 16, 32):
        assert_right(f"m={m} n=96 k=512 dtype=e4m3 layout=nt arch=sm_89", TALL, effort=0.1)


def test_t28_a_scale_a_row_ends_with_the_rows() -> None:
    """A vector of exactly m scales is not read past its end, in the last tile either."""
    for arch in ("sm_89", "sm_90a"):
        text = f"m=129 n=96 k=256 dtype=e4m3 layout=nt arch={arch} epilogue=scale:row:fp32"
        assert_right(text, None, effort=0.2)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 7])
def test_t29_rows_that_four_does_not_divide(m: int) -> None:
    """Each m works, by a kernel for it and by one that is given m at run time."""
    assert_right(f"m={m} n=128 k=512 dtype=e4m3 layout=nt arch=sm_90a", None, effort=0.1)
    plan = plan_of("m=dynamic:64 n=64 k=256 dtype=e4m3 layout=nt arch=sm_89", TALL)
    one = launch(plan, bind(plan, m=m), a=1, b=0.5).d[0]
    assert one.tolist() == [[128.0] * 64] * m


@pytest.mark.parametrize("n", [768, 1536])
def test_t32_one_n_and_twice_that(n: int) -> None:
    """Both shapes run, of a batch too."""
    for words in ("", "batch=2"):
        text = f"m=256 n={n} k=512 dtype=e4m3 layout=nt arch=sm_90a {words}"
        assert_right(text, None, effort=0.05)


def test_a10_b_begins_one_byte_into_its_buffer() -> None:
    """Correct through copies of a byte, or an error that names operand and alignment."""
    plan = plan_of("m=64 n=64 k=128 dtype=e4m3 layout=nt align_b=1 arch=sm_89", None)
    assert isinstance(plan.body, MmaSync)
    assert plan.body.b.vector_bytes == 1
    assert_right("m=64 n=64 k=128 dtype=e4m3 layout=nt align_b=1 arch=sm_89", None, effort=0.1)
    text = "m=64 n=64 k=128 dtype=e4m3 layout=nt align_b=1 arch=sm_90a"
    assert [kernel.body.role for kernel in program_of(text, None).kernels] == ["repack", "product"]
    assert_right(text, None, effort=0.1)
    with pytest.raises(InputError) as caught:
        plan_of(f"{text} repack=off", None)
    assert "B is aligned to 1 bytes, TMA wants 16" in str(caught.value)


@pytest.mark.parametrize("layout", ["nn", "tn", "tt"])
def test_wgmma_takes_k_major_operands_only(layout: str) -> None:
    """The others are turned on their way into the workspace; mma.sync turns them in registers."""
    which = "A has m" if layout[0] == "t" else "B has n"
    text = f"m=70 n=64 k=96 dtype=e5m2 layout={layout}"
    with pytest.raises(InputError) as caught:
        plan_of(f"{text} arch=sm_90a repack=off", None)
    assert (
        f"repack = off: wgmma: {which} contiguous, but 1-byte operands are read along k (layout nt,"
        " or repack = on), and repack = off; leave repack out"
    ) == str(caught.value)
    assert_right(f"{text} arch=sm_90a", None, effort=0.1)
    assert_right(f"{text} arch=sm_120", None, effort=0.1)


@pytest.mark.parametrize(("arch", "k"), [("sm_89", 4096), ("sm_90a", 4096)])
def test_promoted_sums_are_nearer_than_fast_ones(arch: str, k: int) -> None:
    """13 fraction bits of a growing sum lose what 13 of 128 products keep."""
    worst = {}
    for accumulate in ("promoted", "fast"):
        text = f"m=16 n=16 k={k} dtype=e4m3 dtype_d=fp32 layout=nt arch={arch}"
        plan = plan_of(f"{text} split_k_from=0 accumulate={accumulate}", None)
        found = launch(plan, a=Normal(1), b=Normal(2)).d[0]
        worst[accumulate] = float(np.abs(found - product(plan, 16, 16, k)).max())
    assert worst["promoted"] < worst["fast"] / 4


def test_accumulate_is_for_fp8() -> None:
    with pytest.raises(InputError) as caught:
        plan_of("m=64 n=64 k=64 accumulate=fast")
    assert str(caught.value) == (
        "accumulate = fast: fp16 sums are fp32 throughout; it is for e4m3 and e5m2, leave it out"
    )
    with pytest.raises(InputError) as caught:
        plan_of("m=64 n=64 k=64 dtype=e4m3 accumulate=slow arch=sm_89")
    assert str(caught.value) == "accumulate = slow: unknown; give promoted or fast"


def test_where_all_bits_are_kept_nothing_is_promoted() -> None:
    for arch, promoted in (("sm_89", True), ("sm_120", False), ("sm_90a", True)):
        body = plan_of(f"m=256 n=256 k=512 dtype=e4m3 layout=nt arch={arch}", None).body
        assert isinstance(body, MmaSync | Wgmma)
        assert body.promoted == promoted


@pytest.mark.parametrize("dtypes", ["e4m3 dtype_b=e5m2", "e5m2 dtype_b=e4m3", "e5m2"])
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_120"])
def test_mixed_types(dtypes: str, arch: str) -> None:
    assert_right(f"m=70 n=64 k=144 dtype={dtypes} layout=nt arch={arch}", None, effort=0.1)


def test_int8_through_wgmma() -> None:
    for words in ("", "dtype_c=int32", "dtype_b=uint8 dtype_d=bf16 epilogue=scale:row:fp32"):
        text = f"m=130 n=144 k=272 dtype=int8 layout=nt arch=sm_90a family=wgmma {words}"
        assert_right(text, None, effort=0.2)


@pytest.mark.parametrize(
    "more",
    [
        "layout=nt epilogue=bias dtype_c=fp32",
        "layout=tt layout_d=t",
        "layout=nn batch=4 stride_d=pointers epilogue=residual:bf16,quantize:e5m2",
        "layout=nt accumulate=fast split_k=2",
        "layout=nt epilogue=rms_norm,quantize:int8:scale=dynamic",
        "layout=nn epilogue=swiglu",
    ],
)
def test_an_inner_dimension_of_zero_where_wgmma_alone_multiplies_fp8(more: str) -> None:
    """sm_90a refused it: its mma.sync has no fp8, and wgmma no k of 0. Nothing is multiplied."""
    assert_right(f"m=70 n=24 k=0 dtype=e4m3 arch=sm_90a {more}", None, effort=0.2)
