"""Overrides that contradict each other: without those that a refusal blames there is a plan."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.overrides import OVERRIDE_WORDS, OVERRIDES, Overrides

PROBLEMS = (
    "m=64 n=64 k=64 arch=sm_80",
    "m=1 n=4096 k=4096 layout=nt arch=sm_90a",
    "m=32 n=1000 k=100 arch=sm_75",
    "m=512 n=512 k=4096 layout=nt arch=sm_90a",
    "m=512 n=500 k=509 layout=nt dtype=int8 arch=sm_90a",
    "m=24 n=24 k=24 batch=100 arch=sm_86",
    "m=128 n=96 k=300 dtype=fp32 arch=sm_89",
    "m=64 n=128 k=256 epilogue=swiglu arch=sm_90a layout=nt",
    "m=256 n=512 k=256 epilogue=rms_norm arch=sm_90a layout=nt",
    "m=256 n=512 k=256 epilogue=quantize:int8:dynamic arch=sm_90",
    "op=epilogue m=64 n=512 epilogue=layer_norm arch=sm_80",
)

NUMBERS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 48, 64, 96, 128, 192, 256, 257, 1000)

VALUES: dict[str, tuple[Any, ...]] = {name: OVERRIDE_WORDS.get(name, NUMBERS) for name in OVERRIDES}

SETS = st.lists(st.sampled_from(list(OVERRIDES)), min_size=1, max_size=5, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in names})
)


def blamed_by(message: str) -> list[str]:
    """The overrides that a refusal says to leave out."""
    found = re.search(r"(?:; |, or )leave ([a-z_]+(?: and [a-z_]+)*) out$", message)
    assert found is not None, message
    return found[1].split(" and ")


def without(spec: GemmSpec, names: list[str]) -> GemmSpec:
    left_out: dict[str, Any] = dict.fromkeys(names)
    return replace(spec, overrides=replace(spec.overrides, **left_out))


def refusal_of(spec: GemmSpec) -> str:
    """What is said of a spec; empty where there is a plan."""
    try:
        decide(spec, load_arch(spec.arch))
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("problem", PROBLEMS)
@settings(max_examples=6, deadline=None)
@given(chosen=SETS)
def test_without_the_blamed_there_is_a_plan(problem: str, chosen: dict[str, Any]) -> None:
    spec = replace(GemmSpec.from_text(problem), overrides=Overrides(**chosen))
    message = refusal_of(spec)
    if not message:
        return
    blamed = blamed_by(message)
    assert set(blamed) <= set(chosen)
    assert refusal_of(without(spec, blamed)) == "", message
    for kept in blamed if len(blamed) > 1 else []:  # none of them is left out for nothing
        assert refusal_of(without(spec, [name for name in blamed if name != kept])), message
    for name, value in re.findall(r"the nearest legal ([a-z_]+) is (\w+)", message):
        number: Any = int(value) if value.isdigit() else value
        changed = replace(spec.overrides, **{name: number})
        assert refusal_of(replace(spec, overrides=changed)) == "", message


SMALL = "m=64 n=64 k=64 arch=sm_80"
ONLY = "only bandwidth has it, but m = 64 and n = 64 are both above 32"

BLAMED = {
    f"{SMALL} ring=shared": f"ring = shared: {ONLY}; leave ring out",
    f"{SMALL} ring=registers stages=3": f"ring = registers: {ONLY}; leave ring out",
    f"{SMALL} ring=shared stages=2": f"ring = shared: {ONLY}; leave ring out",
    f"{SMALL} ring=shared tile_k=32": f"ring = shared: {ONLY}; leave ring out",
    "m=1 n=512 k=4096 layout=nt arch=sm_80 ring=shared tile_k=32": (
        "ring = shared with tile_k = 32: no kernel family has both; leave ring out"
    ),
    f"{SMALL} tile_m=256 tile_n=256 tile_k=128 stages=8": (
        "stages = 8 with tile_n = 256, tile_k = 128: 557056 bytes of shared memory a block (0 of"
        " them static); sm_80 has 166912; tile_n = 256 with tile_m = 256: 256 accumulators a"
        " thread; the limit is 128; leave stages and tile_n out"
    ),
    f"{SMALL} tile_k=24 stages=12": (
        "stages = 12: too large; the nearest legal is 8; tile_k = 24: not a multiple of 16; the"
        " nearest legal are 16 and 32; leave stages and tile_k out"
    ),
    "m=64 n=64 k=534 dtype=int8 arch=sm_80 tile_k=48": (  # 32 of 48 were multiplied
        "tile_k = 48: 16 elements of k are no whole fragment; the nearest legal tile_k is 32, or"
        " leave tile_k out"
    ),
    "m=64 n=64 k=534 dtype=e4m3 arch=sm_89 tile_k=16": (
        "tile_k = 16: 16 elements of k are no whole fragment; the nearest legal tile_k is 32, or"
        " leave tile_k out"
    ),
    f"{SMALL} warps_m=8 warps_n=8": (
        "warps_m = 8: 64 rows or columns of a tile are no multiple of 128, a fragment a warp; the"
        " nearest legal warps_m is 2, or leave warps_m out"
    ),
    "m=128 n=128 k=64 arch=sm_80 warps_m=8 warps_n=8": (
        "warps_n = 8 with warps_m = 8: 64 warps a block; the limit is 16; the nearest legal warps_n"
        " is 2, or leave warps_n out"
    ),
    "m=dynamic:64 n=64 k=64 arch=sm_80 abreast=2 stages=99": (
        "abreast = 2: m is known only at run time; stages = 99: too large; the nearest legal is 8;"
        " leave abreast and stages out"
    ),
}


@pytest.mark.parametrize("text", BLAMED)
def test_it_blames_what_is_at_fault(text: str) -> None:
    assert refusal_of(GemmSpec.from_text(text)) == BLAMED[text]


@pytest.mark.parametrize("arch_dtype", ["sm_75 int8", "sm_80 fp16", "sm_89 e4m3", "sm_90a int8"])
def test_nothing_small_is_refused(arch_dtype: str) -> None:
    """Pairs of bytes that lie along n had no tile up to n = 17: few threads, each with a byte."""
    arch, dtype = arch_dtype.split()
    for layout, step, m, n in product(
        ("nn", "nt", "tn", "tt"), ("swiglu", "relu", "rms_norm"), (1, 9, 33), (1, 2, 7, 9, 17, 31)
    ):
        line = f"m={m} n={n} k=237 dtype={dtype} dtype_d=fp16 layout={layout} epilogue={step}"
        spec = GemmSpec.from_text(f"{line} arch={arch}")
        assert refusal_of(spec) == "", line


def test_tiles_abreast_of_copies_that_do_not_fit() -> None:
    """The copies' tiles are deeper than those of operands as they lie, which were looked at."""
    text = (
        "m=128 n=1 k=dynamic:512 layout_d=t ldd=131 epilogue=quantize:e5m2:scale=per_channel"
        " arch=sm_90a tile_m=128 abreast=2 repack=on"
    )
    with pytest.raises(InputError) as caught:
        decide(GemmSpec.from_text(text), load_arch("sm_90a"))
    assert str(caught.value) == (
        "abreast = 2: 348160 bytes of shared memory a block (0 of them static); sm_90 has 232448;"
        " the nearest legal abreast is 1, or leave abreast out"
    )


def test_more_warps_than_columns_beside_scales_by_block() -> None:
    """A warp of no column was divided by."""
    text = "m=33 n=64 k=16 dtype=e4m3 scale_a=1x128 scale_b=128x128 arch=sm_120 warps_n=16"
    with pytest.raises(InputError, match=r"^warps_n = 16: "):
        decide(GemmSpec.from_text(text), load_arch("sm_120"))
