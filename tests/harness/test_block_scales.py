"""Scales by block of fp8 operands: each slice's sums times its own, in every shape of a kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import WgmmaChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.inputs import Factors, Integers, Normal, Powers
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.sums import StepModel, prefix_sums
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan import Wgmma
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.block_scales import BLOCK, blocks_of, shared_columns
from deepgemm_codegen.specfile import read
from tests.harness.scaled import SCALES, by_hand
from tests.harness.support import (
    assert_right,
    assert_wrong,
    device_of,
    launch,
    plan_of,
    program_of,
    source_of,
)

if TYPE_CHECKING:
    from pathlib import Path

NAN = float("nan")
SCALED = f"layout=nt arch=sm_90a {SCALES}"

ONE = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, tile_k=128)
"""A tile in one block of B's columns."""

TWO = replace(ONE, tile_n=96)
"""A tile that may lie in two."""

CASES: dict[str, tuple[str, WgmmaChoice]] = {
    "one block of columns": ("m=100 n=72 k=272 dtype=e4m3", ONE),
    "two blocks, tails": ("m=70 n=200 k=272 dtype=e4m3 dtype_d=fp32", TWO),
    "two consumers": (
        "m=120 n=300 k=144 dtype=e4m3 dtype_b=e5m2 epilogue=bias,relu ldd=304",
        WgmmaChoice(128, 192, 2, 1, 3, 1, 1, 8, tile_k=128),
    ),
    "two consumers, ahead": (
        "m=120 n=300 k=656 dtype=e4m3 dtype_b=e5m2 epilogue=bias,relu ldd=304",
        WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 8, tile_k=128),
    ),
    "two fragments": (
        "m=130 n=80 k=256 dtype=e5m2 dtype_c=bf16",
        WgmmaChoice(128, 80, 1, 1, 3, 1, 1, 8, tile_k=128),
    ),
    "two fragments in sequence": (
        "m=250 n=304 k=272 dtype=e4m3",
        WgmmaChoice(256, 128, 2, 1, 3, 1, 1, 8, tile_k=128),
    ),
    "two fragments in sequence, parts of k": (
        "m=250 n=128 k=656 dtype=e4m3",
        WgmmaChoice(256, 128, 2, 1, 3, 1, 1, 8, tile_k=128, split_k=2),
    ),
    "two fragments in sequence, parts of k in a cluster": (
        "m=250 n=128 k=656 dtype=e4m3",
        WgmmaChoice(256, 128, 2, 1, 3, 1, 1, 8, tile_k=128, split_k=2, cluster_k=2),
    ),
    "in turn": (
        "m=120 n=104 k=400 dtype=e4m3 epilogue=residual",
        replace(TWO, consumers=2, tiles_at_once=2),
    ),
    "tiles past n, in clusters": (
        "m=72 n=128 k=256 dtype=e4m3",
        replace(ONE, tile_n=128, cluster_n=2),
    ),
    "tiles of blocks past n, in clusters": (
        "m=40 n=128 k=144 dtype=e4m3",
        replace(ONE, tile_n=144, cluster_n=2),
    ),
    "tiles past m, in clusters": ("m=64 n=136 k=256 dtype=e4m3", replace(TWO, cluster_m=2)),
    "three blocks of columns": ("m=40 n=528 k=256 dtype=e4m3", replace(ONE, tile_n=176)),
    "parts of k": ("m=40 n=136 k=656 dtype=e4m3", replace(TWO, split_k=3)),
    "parts of k in a cluster": (
        "m=40 n=136 k=400 dtype=e4m3",
        replace(TWO, split_k=3, cluster_k=3),
    ),
    "parts of k in a cluster, two consumers": (  # on an H200 rows of the second were wrong
        "m=120 n=128 k=400 dtype=e4m3",
        WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 8, tile_k=128, split_k=2, cluster_k=2),
    ),
    "sizes at run time": ("m=dynamic:130 n=dynamic:140 k=272 dtype=e4m3 ldd=144", TWO),
    "k at run time": ("m=40 n=64 k=dynamic:528 dtype=e4m3 lda=528 ldb=528", ONE),
    "parts of a k at run time": (
        "m=40 n=64 k=dynamic:528 dtype=e4m3 lda=528 ldb=528",
        replace(ONE, split_k=2),
    ),
    "scales of rows behind it": ("m=70 n=64 k=272 dtype=e4m3 epilogue=quantize:e4m3:dynamic", ONE),
    "scales of rows behind parts in a cluster": (  # once named D where it wrote the values
        "m=70 n=64 k=400 dtype=e4m3 epilogue=quantize:e4m3:dynamic",
        replace(TWO, split_k=3, cluster_k=3),
    ),
    "halves of a pair": (
        "m=70 n=128 k=272 dtype=e4m3 dtype_d=bf16 epilogue=bias,swiglu",
        replace(ONE, tile_n=128),
    ),
    "halves of a pair, in clusters": (
        "m=120 n=256 k=400 dtype=e4m3 dtype_b=e5m2 epilogue=geglu:gate=second,quantize:e4m3",
        WgmmaChoice(128, 128, 2, 1, 3, 1, 2, 8, tile_k=128),
    ),
    "halves of a pair, a batch": (
        "m=70 n=128 k=272 batch=2 dtype=e4m3 dtype_d=bf16 epilogue=swiglu",
        replace(ONE, tile_n=128),
    ),
    "a batch": ("m=70 n=200 k=272 batch=3 dtype=e4m3 dtype_d=fp32", TWO),
    "a batch that shares A": (
        "m=70 n=104 k=272 batch=2 stride_a=shared lda=304 dtype=e4m3 epilogue=bias,residual",
        replace(TWO, consumers=2, tiles_at_once=2),
    ),
    "a batch that shares B, of matrices with gaps": (
        "m=40 n=136 k=144 batch=3 stride_b=shared stride_a=7680 ldd=152 stride_d=6240 dtype=e4m3",
        ONE,
    ),
    "parts of k of a batch": ("m=40 n=136 k=656 batch=3 dtype=e4m3", replace(TWO, split_k=3)),
    "a batch in clusters": (
        "m=72 n=200 k=256 batch=2 dtype=e4m3",
        replace(TWO, cluster_m=2),
    ),
    "a batch at sizes at run time": (
        "m=dynamic:100 n=dynamic:140 k=dynamic:272 lda=272 ldb=272 ldd=144 batch=2 dtype=e4m3",
        TWO,
    ),
    "scales of rows behind a batch": (
        "m=70 n=64 k=272 batch=2 dtype=e4m3 epilogue=rms_norm,quantize:e4m3:dynamic",
        ONE,
    ),
    "a norm behind it": ("m=70 n=104 k=144 dtype=e4m3 epilogue=rms_norm launch=dependent", TWO),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] * (i % 2)) for i, name in enumerate(CASES)],
)
def test_every_slice_has_its_scales(name: str) -> None:
    text, choice = CASES[name]
    verdict = assert_right(f"{SCALED} {text}", choice)
    assert {check.name for check in verdict.checks} >= {"exact", "random", "hostile"}


def test_an_operand_that_is_turned_on_its_way() -> None:
    fields = SCALED.replace("layout=nt", "layout=nn")
    program = program_of(f"m=64 n=80 k=144 dtype=e4m3 {fields}", None)
    assert [kernel.body.role for kernel in program.kernels] == ["repack", "product"]
    assert_right(f"m=64 n=80 k=144 dtype=e4m3 {fields}", None)


def test_by_hand_of_whole_numbers() -> None:
    values: dict[str, Any] = {
        "a": Integers(1, -5, 5), "b": Integers(2, -5, 5),
        "scale_a": Powers(3), "scale_b": Powers(4),
    }  # fmt: skip
    program = program_of(f"m=70 n=300 k=400 dtype=e4m3 dtype_d=fp32 {SCALED}", TWO)
    d = launch(program, **values).d[0]
    assert (d == by_hand(70, 300, 400, values)).all()


def test_by_hand_of_a_batch() -> None:
    """B is one for all, and so are its scales; every product has scales of A."""
    values: dict[str, Any] = {
        "a": Integers(1, -5, 5), "b": Integers(2, -5, 5),
        "scale_a": Powers(3), "scale_b": Powers(4),
    }  # fmt: skip
    text = "m=dynamic:70 n=300 k=400 batch=3 stride_b=shared dtype=e4m3 dtype_d=fp32"
    program = program_of(f"{text} {SCALED}", TWO)
    found = launch(program, bind(program, m=69), **values).d
    for product, d in enumerate(found):
        assert (d == by_hand(69, 300, 400, values, a=product, scale_a=product)).all()
    assert len(found) == 3


def test_by_hand_of_numbers_with_full_significands() -> None:
    """Of 13 bits a slice, then fp32: near what was meant, and nowhere near without the scales."""
    values: dict[str, Any] = {
        "a": Normal(1),
        "b": Normal(2),
        "scale_a": Factors(3),
        "scale_b": Factors(4),
    }
    program = program_of(f"m=64 n=96 k=1024 dtype=e4m3 dtype_d=fp32 {SCALED}", TWO)
    d, wanted = launch(program, **values).d[0], by_hand(64, 96, 1024, values)
    spread = np.std(wanted)
    assert np.abs(d - wanted).max() < 2e-3 * spread
    plain = by_hand(64, 96, 1024, values | {"scale_a": Powers(3)})
    assert np.abs(plain - wanted).max() > 0.5 * spread


@pytest.mark.parametrize(("scale", "sign"), [(0.0, 0.0), (-2.0, -1.0), (NAN, NAN), (2.0**-120, 0)])
def test_odd_scales_do_what_numbers_do(scale: float, sign: float) -> None:
    """Of one row and slice: a zero leaves the slice out, NaN makes the row NaN, and no other."""
    rows = [[1.0] * 9 for _ in range(2)]
    rows[1][5] = scale
    text = f"m=9 n=16 k=256 dtype=e4m3 dtype_d=fp32 {SCALED}"
    d = launch(program_of(text, ONE), a=1, b=0.5, scale_a=rows, scale_b=1).d[0]
    wanted = np.full((9, 16), 128.0)
    wanted[5] = 64 + 64 * (abs(scale) * sign if sign else 0.0)
    assert np.array_equal(d, wanted, equal_nan=True)


def test_alpha_zero_reads_no_scale() -> None:
    program = program_of(f"m=8 n=8 k=128 dtype=e4m3 dtype_c=bf16 {SCALED}", ONE)
    d = launch(program, bind(program, alpha=0.0, beta=1.0), c=9).d[0]
    assert (d == 9).all()


def test_scales_lie_in_lines_of_sixteen_bytes() -> None:
    program = program_of(f"m=dynamic:70 n=300 k=656 dtype=e4m3 {SCALED}", TWO)
    problem = bind(program, m=69)
    a, b = problem.matrix("scale_a"), problem.matrix("scale_b")
    assert (a.rows, a.columns, a.leading, a.dtype.name) == (6, 69, 72, "fp32")
    assert (b.rows, b.columns, b.leading, b.dtype.name) == (3, 6, 8, "fp32")
    names = [parameter.name for parameter in program.parameters]
    assert names == ["a", "b", "d", "scale_a", "scale_b", "alpha", "m"]


def test_scales_of_a_batch_lie_behind_each_other() -> None:
    text = f"m=dynamic:70 n=300 k=656 batch=3 dtype=e4m3 {SCALED}"
    problem = bind(program_of(text, TWO), m=69)
    assert [problem.matrix(name).starts[1] for name in ("scale_a", "scale_b")] == [6 * 72, 3 * 8]
    shared = bind(program_of(f"{text} stride_a=shared", TWO), m=69)
    assert [shared.matrix(name).batch for name in ("scale_a", "scale_b")] == [1, 3]


def test_p11_an_odd_number_of_blocks_of_k() -> None:
    """Fault seen: nine blocks of 128 misplaced the barriers behind an array of scales."""
    assert_right(f"m=128 n=7168 k=1152 dtype=e4m3 {SCALED}", None, effort=0.05)


@given(
    m=st.integers(1, 150),
    n=st.integers(1, 20).map(lambda n: 16 * n),
    k=st.integers(1, 40).map(lambda k: 16 * k),
    tile_n=st.sampled_from([8, 16, 40, 64, 96, 128, 144, 152, 176, 192]),
    consumers=st.sampled_from([1, 2]),
    parts=st.sampled_from([1, 2]),
    cluster=st.sampled_from([(1, 1), (2, 1), (1, 2)]),
)
@settings(max_examples=8, deadline=None)
def test_any_size_and_any_tile(
    m: int, n: int, k: int, tile_n: int, consumers: int, parts: int, cluster: tuple[int, int]
) -> None:
    text = f"m={m} n={n} k={k} dtype=e4m3 dtype_d=fp32 {SCALED}"
    tile = replace(ONE, tile_m=64 * consumers, tile_n=tile_n, consumers=consumers, split_k=parts)
    choice = replace(tile, cluster_m=1 if tile_n % 16 else cluster[0], cluster_n=cluster[1])
    values: dict[str, Any] = {
        "a": Integers(m, -5, 5), "b": Integers(n, -5, 5),
        "scale_a": Powers(k), "scale_b": Powers(tile_n),
    }  # fmt: skip
    assert (launch(program_of(text, choice), **values).d[0] == by_hand(m, n, k, values)).all()


@pytest.mark.parametrize("tile_n", range(8, 257, 8))
def test_the_blocks_that_a_tile_lies_in(tile_n: int) -> None:
    starts = range(0, BLOCK * tile_n, tile_n)
    lies_in = [(start + tile_n - 1) // BLOCK - start // BLOCK + 1 for start in starts]
    assert blocks_of(tile_n) == max(lies_in)
    group = shared_columns(tile_n)
    assert all((start + group - 1) // BLOCK == start // BLOCK for start in range(0, 4096, group))


def test_the_tree_takes_tiles_of_three_blocks_at_most() -> None:
    arch = load_arch("sm_90a")
    for m, n, k in ((4096, 2112, 7168), (4096, 7168, 16384), (64, 7168, 2048), (128, 24576, 1536)):
        text = f"m={m} n={n} k={k} dtype=e4m3 {SCALED}"
        body = decide(GemmSpec.from_text(text), arch).product.body
        assert isinstance(body, Wgmma)
        assert body.scaled
        assert body.scales_n <= 3


def test_scaling_is_not_free() -> None:
    """The loads, products and selects of a slice are counted beside the additions."""
    arch = load_arch("sm_90a", "H200")
    plain = GemmSpec.from_text("m=4096 n=4096 k=4096 dtype=e4m3 layout=nt arch=sm_90a gpu=H200")
    scaled = replace(plain, scale_a="1x128", scale_b="128x128")
    told = explain(scaled, arch)
    assert told.prediction.us >= explain(plain, arch).prediction.us
    assert "a block of the scales" in told.decisions[1].reason


def test_what_the_scales_product_may_lose_is_in_the_bound() -> None:
    scaled = StepModel.of("sm_90a", plan_of(f"m=64 n=64 k=256 dtype=e4m3 {SCALED}", ONE))
    assert scaled == StepModel(32, 13, 13, 128, scaled=True)
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((16, 320)), rng.standard_normal((320, 16))
    with_it, without = (prefix_sums(a, b, replace(scaled, scaled=s), np) for s in (True, False))
    assert np.allclose(with_it.value, without.value)
    assert (with_it.error > without.error).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "dtype=e4m3 scale_a=1x128",
            "scale_a = 1x128: B has none; give scale_b = 128x128, or leave scale_a out",
        ),
        (
            "dtype=e4m3 scale_b=128x128",
            "scale_b = 128x128: A has none; give scale_a = 1x128, or leave scale_b out",
        ),
        (
            "dtype=e4m3 scale_a=1x32 scale_b=128x128",
            "scale_a = 1x32: no kernel has such blocks; give 1x128",
        ),
        (
            "dtype=e4m3 scale_a=1x128 scale_b=1x128",
            "scale_b = 1x128: no kernel has such blocks; give 128x128",
        ),
        (
            "dtype=fp16 scale_a=1x128 scale_b=128x128",
            (
                "scale_a = 1x128: scales by block are of e4m3 and e5m2, and A is fp16; leave them"
                " out, or scale D by the epilogue step scale"
            ),
        ),
        (
            "dtype=e4m3 accumulate=fast scale_a=1x128 scale_b=128x128",
            (
                "accumulate = fast: scale_a = 1x128 and scale_b = 128x128 take sums out of the"
                " tensor core to be scaled; leave accumulate out"
            ),
        ),
        (
            "dtype=e4m3 epilogue=swiglu scale_a=1x128 scale_b=128x128",
            (
                "n = 64: with scale_a = 1x128 and scale_b = 128x128 each of the halves of B that"
                " swiglu pairs begins with a block of its own; give n a multiple of 128"
            ),
        ),
        (
            "dtype=e4m3 n=dynamic:256 epilogue=geglu scale_a=1x128 scale_b=128x128",
            (
                "n = dynamic:256: with scale_a = 1x128 and scale_b = 128x128 each of the halves of"
                " B that geglu pairs begins with a block of its own; give n a multiple of 128"
            ),
        ),
        (
            "dtype=e4m3 k=0 scale_a=1x128 scale_b=128x128",
            (
                "k = 0: with scale_a = 1x128 and scale_b = 128x128 there has to be a block of k;"
                " the smallest k is 1"
            ),
        ),
        (
            "op=epilogue scale_a=1x128",
            "scale_a = 1x128: op = epilogue has no product, and only A, m x n; leave scale_a out",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    fields = dict(word.split("=") for word in f"m=64 n=64 k=64 layout=nt {text}".split())
    if "op" in fields:
        del fields["k"], fields["layout"]
    with pytest.raises(InputError) as caught:
        GemmSpec.from_fields(fields)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "arch=sm_90",
            (
                "dtype = e4m3: sm_90 multiplies no e4m3, only fp16, bf16, int8, uint8, fp32; give"
                " one of them, or arch sm_89 or sm_90a or sm_120"
            ),
        ),
        (
            "arch=sm_100",
            (
                "dtype = e4m3: sm_100 multiplies no e4m3, only fp16, bf16, int8, uint8, fp32; give"
                " one of them, or arch sm_89 or sm_90a or sm_120"
            ),
        ),
        (
            "tile_n=176 tile_m=128 consumers=1",
            (
                "consumers = 1 with tile_m = 128, tile_n = 176: 264 accumulators a thread; the"
                " limit is 192; the nearest legal consumers is 2, or leave consumers out"
            ),
        ),
        (
            "family=mma_sync",
            (
                "family = mma_sync: sm_90 has no mma.sync for e4m3; the nearest legal family is"
                " wgmma, or leave family out"
            ),
        ),
    ],
)
def test_the_tree_refuses(words: str, message: str) -> None:
    fields = dict(word.split("=") for word in f"m=512 n=512 k=512 dtype=e4m3 {SCALED}".split())
    fields |= dict(word.split("=") for word in words.split())
    spec = GemmSpec.from_fields(fields)
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch(spec.arch))
    assert str(caught.value) == message


def test_the_text_form_round_trips() -> None:
    spec = GemmSpec.from_text(f"m=8 n=8 k=8 dtype=e4m3 {SCALED}")
    assert "scale_a=1x128 scale_b=128x128" in str(spec)
    assert GemmSpec.from_text(str(spec)) == spec


def test_a_kernel_file_says_it_naturally(tmp_path: Path) -> None:
    file = tmp_path / "kernels.yaml"
    file.write_text(
        "defaults: {arch: sm_90a, dtype: e4m3, layout: nt}\n"
        "kernels:\n"
        "  - {name: one, m: 8, n: 16, k: 16, scale: {a: 1x128, b: 128x128}}\n"
        "  - {name: two, m: 8, n: 16, k: 16, scale_a: 1x128, scale_b: 128x128}\n"
    )
    for entry in read(file):
        assert (entry.spec.scale_a, entry.spec.scale_b) == ("1x128", "128x128")


MUTANTS: list[tuple[str, str, WgmmaChoice, str, str]] = [
    ("A's scales dropped", *CASES["two blocks, tails"], r"= of_rows\[.*\];", "= 1.0f;"),
    ("B's scales dropped", *CASES["two blocks, tails"], r"= of_columns\[.*\];", "= 1.0f;"),
    ("rows of the first slice", *CASES["two blocks, tails"], r"of_rows \+= .*;", ""),
    ("columns of the first slice", *CASES["two blocks, tails"], r"of_columns \+= .*;", ""),
    ("rows of the slice behind", *CASES["two blocks, tails"],
     r"(const float\* of_rows = scale_a);", r"\1 + LDSCALE_A;"),
    ("lines as long as m", *CASES["two blocks, tails"], r"LDSCALE_A = \d+", "LDSCALE_A = M"),
    ("lines as long as m at run time", *CASES["sizes at run time"],
     r"ldscale_a = .*;", "ldscale_a = m;"),
    ("upper and lower rows swapped", *CASES["two blocks, tails"],
     r"half \* 8;", "(1 - half) * 8;"),
    ("the first block's for all columns", *CASES["two blocks, tails"],
     r"column < in_first \?", "true ?"),
    ("the second block's for all columns", *CASES["two blocks, tails"],
     r"column < in_first \?", "false ?"),
    ("a group of columns in the wrong block", *CASES["two blocks, tails"],
     r"column < in_first \?", "column <= in_first ?"),
    ("the first half's for both of a pair", *CASES["halves of a pair"],
     r"of_row\[j / \(TILE_D / 8\)\]", "of_row[0]"),
    ("B's second half begins a block early", *CASES["halves of a pair"],
     r"of_columns\[N / 128 \* ", "of_columns[(N / 128 - 1) * "),
    ("the second block's for the third", *CASES["three blocks of columns"],
     r"of_row\[2\]", "of_row[1]"),
    ("the third block begins late", *CASES["three blocks of columns"],
     r"in_first \+ 128", "in_first + 144"),
    ("past the last row", *CASES["two blocks, tails"], r"min\(row, M - 1\)", "row"),
    ("past the last block", *CASES["two blocks, tails"], r"min\(block, more_blocks\)", "block"),
    ("past the last block of columns", *CASES["tiles past n, in clusters"],
     r"min\(n0, N - 1\)", "n0"),
    ("past the last slice", *CASES["one block of columns"], r"more \? LDSCALE_A : 0", "LDSCALE_A"),
    ("the sum is scaled, too", *CASES["two blocks, tails"],
     r"__fmaf_rn\((slice_sums\[.*?\]), scale, (acc.*?)\);",
     r"__fmul_rn(scale, __fadd_rn(\1, \2));"),
    ("the first product's rows for all", *CASES["a batch"],
     r"scale_a = scale_a_first \+ .*;", ""),
    ("the first product's columns for all", *CASES["a batch"],
     r"scale_b = scale_b_first \+ .*;", ""),
    ("a product's rows a line too early", *CASES["a batch"],
     r"(scale_a_first \+ batch \* \()SLICES", r"\1(SLICES - 1)"),
    ("blocks of columns as if none were short", *CASES["a batch"],
     r"\(N \+ 127\) / 128", "N / 128"),
    ("a product's columns where the lines are dense", *CASES["a batch at sizes at run time"],
     r"127\) / 128 \* ldscale_b", "127) / 128 * slices"),
    ("every part begins at the first slice", *CASES["parts of k"],
     r"(of_rows = scale_a) \+ .*;", r"\1;"),
    ("rows of the first consumer", *CASES["parts of k in a cluster, two consumers"],
     r"m0 \+ consumer \* CONSUMER_M \+ (i \* 64 \+ warp \* 16 \+ lane / 4)", r"m0 + \1"),
    ("the second fragment's sums to the first", *CASES["two fragments in sequence"],
     r"acc\[1\]\[j\]\[e\] = __fmaf_rn\((.*), acc\[1\]\[j\]\[e\]\)",
     r"acc[0][j][e] = __fmaf_rn(\1, acc[0][j][e])"),
    ("added before it is summed", *CASES["in turn"], r"wgmma_wait<1>\(\);", ""),
    ("added before the last is summed", *CASES["in turn"], r"wgmma_wait<0>\(\);", ""),
    ("scales of the other slice", *CASES["in turn"],
     r"= row_ahead\[which\]", "= row_ahead[1 - which]"),
    ("the other slice's sums", *CASES["in turn"],
     r"__fmaf_rn\(slice_sums\[which\]", "__fmaf_rn(slice_sums[1 - which]"),
    ("a slot given back before it is read", *CASES["two consumers, ahead"],
     r"previous = slot;", "previous = slot + 1 == STAGES ? 0 : slot + 1;"),
    ("the turn handed over before all is started", *CASES["in turn"],
     r"start\(0\);\n(\s+for)",
     r"start(0);\nhand_over();\n\1"),
    ("and B's", *CASES["parts of k in a cluster"],
     r"(of_columns = scale_b \+ .*) \+ first_slice;", r"\1;"),
]  # fmt: skip


@pytest.mark.parametrize("letter", ["a", "b"])
def test_the_verdict_names_scales_that_were_left_out(letter: str) -> None:
    text, choice = CASES["one block of columns"]
    program = program_of(f"{SCALED} {text}", choice)
    kind = "rows" if letter == "a" else "columns"
    source = re.sub(rf"= of_{kind}\[.*\];", "= 1.0f;", source_of(program))
    verdict = judge(device_of(program, source), program, Settings(effort=0.3))
    assert f"scale_{letter} was left out" in "\n".join(format_verdict(verdict))


@pytest.mark.parametrize(
    ("text", "choice", "pattern", "replacement"),
    [
        pytest.param(*mutant[1:], id=mutant[0], marks=[pytest.mark.full] * (i % 2))
        for i, mutant in enumerate(MUTANTS)
    ],
)
def test_a_mutant_fails(text: str, choice: WgmmaChoice, pattern: str, replacement: str) -> None:
    program = program_of(f"{SCALED} {text}", choice)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count
    assert_wrong(program, source, effort=0.3)
