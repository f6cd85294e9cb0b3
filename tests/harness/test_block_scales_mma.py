"""Scales by block of mma.sync's kernels: each product of 32 of k times its own, as it is added."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import MmaSyncChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.inputs import Factors, Integers, Normal, Powers
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.sums import StepModel
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan import MmaSync
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.block_scales import BLOCK
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

NAN = float("nan")
ARCHES = ("sm_89", "sm_120")

WHOLE = MmaSyncChoice(64, 64, 128, 2, 2, 3, 1, 8)
"""A slice is a block of the scales."""

HALF = replace(WHOLE, tile_n=96, tile_k=64, warps_n=3)
"""A block is two slices; six warps, three of which end in the middle of a block of columns."""

QUARTER = replace(WHOLE, tile_k=32)
"""A block is four slices, each of one step."""

CASES: dict[str, tuple[str, MmaSyncChoice | None]] = {
    "a slice a block": ("m=100 n=72 k=272", WHOLE),
    "two slices a block, tails": ("m=70 n=200 k=272 dtype_d=fp32", HALF),
    "four slices a block": ("m=70 n=200 k=400 dtype_b=e5m2 dtype_c=bf16", QUARTER),
    "nothing ragged": ("m=64 n=128 k=256", WHOLE),
    "less than a block": ("m=17 n=24 k=48", replace(WHOLE, tile_k=64)),
    "one warp, eight columns": (
        "m=33 n=40 k=272",
        replace(WHOLE, tile_m=16, tile_n=8, warps_m=1, warps_n=1),
    ),
    "warps past n": (
        "m=40 n=72 k=272 ldd=80 epilogue=bias,relu",
        replace(QUARTER, tile_m=16, tile_n=256, warps_m=1, warps_n=4),
    ),
    "a whole block of columns a warp": (
        "m=40 n=300 k=272",
        replace(WHOLE, tile_m=32, tile_n=256, stages=2),
    ),
    "columns contiguous": ("m=70 n=200 k=272 layout=tn", HALF),
    "columns contiguous, four slices": ("m=70 n=200 k=272 layout=tt dtype=e5m2", QUARTER),
    "B as it lies": ("m=70 n=208 k=272 layout=nn", replace(WHOLE, tile_n=128)),
    "through registers": ("m=33 n=41 k=275 layout=nn repack=off", replace(WHOLE, stages=2)),
    "through registers, one step": ("m=33 n=41 k=275 repack=off", replace(QUARTER, stages=2)),
    "parts of k that begin within blocks": ("m=40 n=136 k=656", replace(QUARTER, split_k=3)),
    "parts of k": ("m=40 n=136 k=656", replace(HALF, split_k=3)),
    "a part of no slice": ("m=40 n=72 k=272", replace(WHOLE, split_k=4)),
    "parts of k of a batch": ("m=40 n=136 k=656 batch=3", replace(WHOLE, split_k=2)),
    "sizes at run time": ("m=dynamic:130 n=dynamic:140 k=272 ldd=144", HALF),
    "k at run time": ("m=40 n=64 k=dynamic:528 lda=528 ldb=528", QUARTER),
    "parts of a k at run time": (
        "m=40 n=64 k=dynamic:528 lda=528 ldb=528",
        replace(HALF, split_k=2),
    ),
    "halves of a pair": (
        "m=70 n=128 k=272 dtype_d=bf16 epilogue=bias,swiglu",
        replace(WHOLE, tile_n=128),
    ),
    "halves of a pair, wide": (
        "m=70 n=256 k=272 dtype_b=e5m2 epilogue=geglu:gate=second,quantize:e4m3",
        replace(HALF, tile_m=32, tile_n=256, warps_m=1, warps_n=2),
    ),
    "halves of a pair, parts of k": (
        "m=70 n=128 k=400 epilogue=swiglu",
        replace(WHOLE, tile_n=128, split_k=2),
    ),
    "halves of a pair, a batch": (
        "m=70 n=128 k=272 batch=2 dtype_d=bf16 epilogue=swiglu",
        replace(WHOLE, tile_n=128),
    ),
    "a batch": ("m=70 n=200 k=272 batch=3 dtype_d=fp32", HALF),
    "a batch that shares A": (
        "m=70 n=104 k=272 batch=2 stride_a=shared lda=304 epilogue=bias,residual",
        WHOLE,
    ),
    "a batch that shares B, of matrices with gaps": (
        "m=40 n=136 k=144 batch=3 stride_b=shared stride_a=7680 ldd=152 stride_d=6240",
        QUARTER,
    ),
    "a batch of pointers": ("m=40 n=136 k=272 batch=2 stride_a=pointers stride_b=pointers", HALF),
    "a batch at sizes at run time": (
        "m=dynamic:100 n=dynamic:140 k=dynamic:272 lda=272 ldb=272 ldd=144 batch=2",
        HALF,
    ),
    "two tiles abreast": ("m=100 n=72 k=272", replace(WHOLE, abreast=2)),
    "columns of D": ("m=70 n=104 k=272 layout_d=t dtype_c=bf16", None),
    "scales of rows behind it": ("m=70 n=64 k=272 epilogue=quantize:e4m3:dynamic", None),
    "a norm in the tile": (
        "m=70 n=104 k=272 epilogue=rms_norm",
        replace(WHOLE, tile_n=128, warps_m=4, warps_n=1, holds_rows=True),
    ),
    "a norm behind it": ("m=70 n=520 k=144 epilogue=rms_norm", None),
}


def line_of(text: str, arch: str) -> str:
    layout = "" if "layout=" in text else "layout=nt "
    dtype = "" if " dtype=" in text else "dtype=e4m3 "
    return f"{text} {dtype}{layout}arch={arch} {SCALES}"


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        pytest.param(name, arch, marks=[pytest.mark.full] * ((i + j) % 2))
        for i, name in enumerate(CASES)
        for j, arch in enumerate(ARCHES)
    ],
)
def test_every_slice_has_its_scales(name: str, arch: str) -> None:
    text, choice = CASES[name]
    verdict = assert_right(line_of(text, arch), choice)
    assert {check.name for check in verdict.checks} >= {"exact", "random", "hostile"}


def test_r12_a_card_without_wgmma() -> None:
    """R12: once refused on sm_120; its kernel may begin before the one before it has ended, too."""
    text = "m=512 n=512 k=512 launch=dependent"
    program = program_of(line_of(text, "sm_120"), None)
    assert isinstance(program.product.body, MmaSync)
    assert_right(line_of(text, "sm_120"), None, effort=0.1)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("choice", [HALF, QUARTER])
def test_by_hand_of_whole_numbers(arch: str, choice: MmaSyncChoice) -> None:
    values: dict[str, Any] = {
        "a": Integers(1, -5, 5), "b": Integers(2, -5, 5),
        "scale_a": Powers(3), "scale_b": Powers(4),
    }  # fmt: skip
    program = program_of(line_of("m=70 n=300 k=400 dtype_d=fp32", arch), choice)
    d = launch(program, **values).d[0]
    assert (d == by_hand(70, 300, 400, values)).all()


def test_by_hand_of_a_batch() -> None:
    """B is one for all, and so are its scales; every product has scales of A."""
    values: dict[str, Any] = {
        "a": Integers(1, -5, 5), "b": Integers(2, -5, 5),
        "scale_a": Powers(3), "scale_b": Powers(4),
    }  # fmt: skip
    text = "m=dynamic:70 n=300 k=400 batch=3 stride_b=shared dtype_d=fp32"
    program = program_of(line_of(text, "sm_89"), HALF)
    found = launch(program, bind(program, m=69), **values).d
    for product, d in enumerate(found):
        assert (d == by_hand(69, 300, 400, values, a=product, scale_a=product)).all()
    assert len(found) == 3


@pytest.mark.parametrize("arch", ARCHES)
def test_by_hand_of_numbers_with_full_significands(arch: str) -> None:
    """Near what was meant, and nowhere near without the scales; nearer where sums keep all bits."""
    values: dict[str, Any] = {
        "a": Normal(1), "b": Normal(2), "scale_a": Factors(3), "scale_b": Factors(4),
    }  # fmt: skip
    program = program_of(line_of("m=64 n=96 k=1024 dtype_d=fp32", arch), HALF)
    d, wanted = launch(program, **values).d[0], by_hand(64, 96, 1024, values)
    spread = np.std(wanted)
    assert np.abs(d - wanted).max() < (1e-3 if arch == "sm_89" else 2e-6) * spread
    plain = by_hand(64, 96, 1024, values | {"scale_a": Powers(3)})
    assert np.abs(plain - wanted).max() > 0.5 * spread


@pytest.mark.parametrize(("scale", "sign"), [(0.0, 0.0), (-2.0, -1.0), (NAN, NAN), (2.0**-120, 0)])
def test_odd_scales_do_what_numbers_do(scale: float, sign: float) -> None:
    """Of one row and block: a zero leaves the block out, NaN makes the row NaN, and no other."""
    rows = [[1.0] * 9 for _ in range(2)]
    rows[1][5] = scale
    text = line_of("m=9 n=16 k=256 dtype_d=fp32", "sm_120")
    d = launch(program_of(text, HALF), a=1, b=0.5, scale_a=rows, scale_b=1).d[0]
    wanted = np.full((9, 16), 128.0)
    wanted[5] = 64 + 64 * (abs(scale) * sign if sign else 0.0)
    assert np.array_equal(d, wanted, equal_nan=True)


def test_alpha_zero_reads_no_scale() -> None:
    program = program_of(line_of("m=8 n=8 k=128 dtype_c=bf16", "sm_89"), WHOLE)
    d = launch(program, bind(program, alpha=0.0, beta=1.0), c=9).d[0]
    assert (d == 9).all()


@given(
    m=st.integers(1, 40).map(lambda m: 4 * m),
    n=st.integers(1, 75).map(lambda n: 4 * n),
    k=st.integers(1, 150).map(lambda k: 4 * k),
    layout=st.sampled_from(["nt", "nn", "tn", "tt"]),
    tile_k=st.sampled_from([32, 64, 128]),
    warps=st.sampled_from([(1, 1), (2, 2), (1, 4), (4, 1), (2, 3)]),
    warp_n=st.sampled_from([16, 32, 64, 128]),
    parts=st.sampled_from([1, 2, 3]),
    arch=st.sampled_from(ARCHES),
)
@settings(max_examples=12, deadline=None)
def test_any_size_and_any_tile(
    m: int,
    n: int,
    k: int,
    layout: str,
    tile_k: int,
    warps: tuple[int, int],
    warp_n: int,
    parts: int,
    arch: str,
) -> None:
    text = f"m={m} n={n} k={k} dtype_d=fp32 layout={layout} repack=off"
    warps_m, warps_n = warps
    tile_n = min(warps_n * warp_n, 256)
    if warps_n == 3:
        tile_n = 3 * min(warp_n, 64)
    tile = MmaSyncChoice(32 * warps_m, tile_n, tile_k, warps_m, warps_n, 2, 1, 8, split_k=parts)
    values: dict[str, Any] = {
        "a": Integers(m, -5, 5), "b": Integers(n, -5, 5),
        "scale_a": Powers(k), "scale_b": Powers(tile_n),
    }  # fmt: skip
    program = program_of(line_of(text, arch), tile)
    assert (launch(program, **values).d[0] == by_hand(m, n, k, values)).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_warps_of_the_tree_lie_in_one_block(arch: str) -> None:
    for m, n, k in ((4096, 2112, 7168), (4096, 7168, 16384), (64, 7168, 2048), (128, 24576, 1536)):
        spec = GemmSpec.from_text(line_of(f"m={m} n={n} k={k}", arch))
        body = decide(spec, load_arch(arch)).product.body
        assert isinstance(body, MmaSync)
        assert body.promoted
        assert BLOCK % body.warp_n == 0
        assert BLOCK % body.tile_k == 0


def test_scaling_is_not_free() -> None:
    """The loads of a slice are counted, and the registers of factors leave fewer sums."""
    for arch in ARCHES:
        plain = GemmSpec.from_text(f"m=4096 n=4096 k=4096 dtype=e4m3 layout=nt arch={arch}")
        scaled = replace(plain, scale_a="1x128", scale_b="128x128")
        told = explain(scaled, load_arch(arch))
        assert told.prediction.us >= explain(plain, load_arch(arch)).prediction.us
        assert "scaled by block as it is added" in told.decisions[1].reason


def test_what_the_scales_product_may_lose_is_in_the_bound() -> None:
    """Sums of sm_120 keep all of fp32's bits and leave the tensor core all the same."""
    for arch, kept in (("sm_89", 13), ("sm_120", 23)):
        model = StepModel.of(arch, plan_of(line_of("m=64 n=64 k=256", arch), WHOLE))
        assert (model.kept, model.apart, model.scaled) == (kept, 32, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "tile_k=96",
            (
                "tile_k = 96: 96 elements of k do not divide 128, which share scales by block; the"
                " nearest legal tile_k is 64, or leave tile_k out"
            ),
        ),
        (
            "tile_n=48 warps_n=2",
            (
                "warps_n = 2 with tile_n = 48: 24 columns of a warp do not divide 128, which share"
                " scales by block; the nearest legal warps_n is 3, or leave warps_n out"
            ),
        ),
        (
            "tensor_cores=off",
            (
                "tensor_cores = off: only CUDA cores would do, but e4m3 operands are not widened to"
                " fp32; leave tensor_cores out"
            ),
        ),
    ],
)
def test_the_tree_refuses(words: str, message: str) -> None:
    spec = GemmSpec.from_text(line_of(f"m=512 n=512 k=512 {words}", "sm_120"))
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch(spec.arch))
    assert str(caught.value) == message


@pytest.mark.parametrize("letter", ["a", "b"])
def test_the_verdict_names_scales_that_were_left_out(letter: str) -> None:
    program = program_of(line_of(CASES["a slice a block"][0], "sm_89"), WHOLE)
    kind = "rows" if letter == "a" else "columns"
    source = re.sub(rf"= of_{kind}\[.*\];", "= 1.0f;", source_of(program))
    verdict = judge(device_of(program, source), program, Settings(effort=0.3))
    assert f"scale_{letter} was left out" in "\n".join(format_verdict(verdict))


TAILS, RUN_TIME = "two slices a block, tails", "a batch at sizes at run time"

MUTANTS: list[tuple[str, str, str, str]] = [
    ("A's scales dropped", TAILS, r"= of_rows\[.*\];", "= 1.0f;"),
    ("B's scales dropped", TAILS, r"= of_columns\[.*\];", "= 1.0f;"),
    ("the first block's for all", TAILS, r"const int block = .*;", "const int block = 0;"),
    ("a block a slice", TAILS, r"slice\) / \(128 / TILE_K\)", "slice)"),
    ("the next block's", "a slice a block", r"const int block = slice;",
     "const int block = min(slice + 1, SLICES - 1);"),
    ("the slice's before", "a slice a block", r"ask\(min\(slice \+ 1", "ask(min(slice"),
    ("factors a step late", TAILS, r"if \(step == 0\) scale_by", "if (step == 1) scale_by"),
    ("scaled twice", TAILS, r"__fmaf_rn\(sum\[e\], (by.*?/ 2\])", r"__fmaf_rn(sum[e] * \1, \1"),
    ("the sum is scaled, too", TAILS, r"__fmaf_rn\(sum\[e\], (by.*?/ 2\]), (acc\S+)\)",
     r"__fmul_rn(\1, __fadd_rn(sum[e], \2))"),
    ("products on their way", TAILS, r"sums\[1 - on_way\]", "sums[on_way]"),
    ("upper and lower rows swapped", TAILS, r"by\[e / 2\]", "by[1 - e / 2]"),
    ("rows as if they lay along k", "columns contiguous", r"lane / 4 \* 2;", "lane / 4;"),
    ("lower rows eight on", "columns contiguous", r"half \* 1;", "half * 8;"),
    ("the first warp's rows", TAILS, r"(scaled_row = m0) \+ warp_m \* WARP_M", r"\1"),
    ("the first warp's columns", "a whole block of columns a warp",
     r"(min\(n0) \+ warp_n \* WARP_N", r"\1"),
    ("lines as long as m", TAILS, r"LDSCALE_A = \d+", "LDSCALE_A = M"),
    ("lines as long as m at run time", "sizes at run time", r"ldscale_a = .*;", "ldscale_a = m;"),
    ("lines of slices", RUN_TIME, r"ldscale_b = .*;", "ldscale_b = (k + TILE_K - 1) / TILE_K;"),
    ("past the last row", "a slice a block", r"if \(scaled_row \+ down < M\)", "if (true)"),
    ("past the last block of columns", "warps past n", r"min\((n0 .*), N - 1\)", r"\1"),
    ("past the last slice", "a slice a block", r"ask\(min\(slice \+ 1, SLICES - 1\)\)",
     "ask(slice + 1)"),
    ("the first half's for both of a pair", "halves of a pair",
     r"factor\[j / \(FRAGMENTS_N / 2\)\]", "factor[0]"),
    ("B's second half begins a block early", "halves of a pair",
     r"of_columns\[N / 128 \* ", "of_columns[(N / 128 - 1) * "),
    ("columns of both halves", "halves of a pair, wide",
     r"(?<=scaled_column = n0 \+ )warp_n \* WARP_D\b", "warp_n * WARP_N"),
    ("the first product's rows for all", "a batch", r"scale_a \+= .*;", ""),
    ("the first product's columns for all", "a batch", r"scale_b \+= .*;", ""),
    ("a line a slice", "a batch", r"(scale_a \+= batch \* \()\(\(K \+ 127\) / 128\)", r"\1SLICES"),
    ("blocks of columns as if none were short", "a batch", r"\(N \+ 127\) / 128", "N / 128"),
    ("a product's columns where the lines are dense", RUN_TIME,
     r"127\) / 128 \* ldscale_b", "127) / 128 * ((k + 127) / 128)"),
    ("every part begins at the first slice", "parts of k that begin within blocks",
     r"block = \(first_slice \+ slice\)", "block = (slice)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "pattern", "replacement"),
    [
        pytest.param(*mutant[1:], id=mutant[0], marks=[pytest.mark.full] * (i % 2))
        for i, mutant in enumerate(MUTANTS)
    ],
)
def test_a_mutant_fails(case: str, pattern: str, replacement: str) -> None:
    text, choice = CASES[case]
    program = program_of(line_of(text, ARCHES[len(case) % 2]), choice)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count
    assert_wrong(program, source, effort=0.3)
