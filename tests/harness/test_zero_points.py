"""Zero points of int8 operands: folded in exactly, whatever layout, family and parts of k."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.inputs import Integers
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import read
from tests.harness.support import (
    SMALL,
    Choice,
    assert_right,
    assert_wrong,
    launch,
    program_of,
    source_of,
)

if TYPE_CHECKING:
    from pathlib import Path

BYTES = MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8)
CUT = replace(BYTES, split_k=3)
WGMMA = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, tile_k=128)
BOTH = "zero_point_a=per_token zero_point_b=per_channel"
PAIRS = "dtype_d=fp16 epilogue=scale:column,swiglu,bias"

CASES: list[tuple[str, Choice | None]] = [
    *((f"m=70 n=68 k=72 dtype=int8 layout={layout} {BOTH}", BYTES) for layout in ("nn", "tt")),
    (f"m=70 n=68 k=72 dtype=uint8 dtype_b=int8 layout=nt {BOTH} dtype_d=fp32", BYTES),
    (f"m=40 n=67 k=99 dtype=int8 dtype_b=uint8 layout=tn {BOTH} dtype_c=int32", BYTES),
    (f"m=70 n=40 k=96 dtype=int8 layout=nt layout_d=t {BOTH}", BYTES),
    (f"m=33 n=72 k=200 dtype=uint8 layout=tn layout_d=t {BOTH}", CUT),
    (
        f"m=dynamic:70 n=dynamic:70 k=dynamic:99 dtype=int8 {BOTH} epilogue=relu dtype_d=fp16",
        BYTES,
    ),
    ("m=70 n=64 k=80 dtype=int8 layout=nt arch=sm_75 zero_point_a=per_tensor", BYTES),
    ("m=70 n=64 k=80 dtype=uint8 layout=nn zero_point_b=128", BYTES),
    ("m=70 n=64 k=80 dtype=int8 layout=tt zero_point_a=-3 zero_point_b=per_tensor", BYTES),
    (f"m=70 n=64 k=80 dtype=int8 layout=nn {BOTH} epilogue=scale:row,quantize:int8:dynamic", BYTES),
    (f"m=64 n=64 k=0 dtype=int8 {BOTH}", BYTES),
    (f"m=100 n=72 k=272 dtype=int8 layout=nt arch=sm_90a {BOTH}", WGMMA),
    (
        f"m=200 n=136 k=272 dtype=uint8 layout=nt arch=sm_90a {BOTH} dtype_d=bf16 epilogue=bias",
        WgmmaChoice(128, 64, 2, 1, 4, 2, 1, 8, tile_k=128),
    ),
    (
        f"m=200 n=128 k=144 dtype=int8 layout=nt arch=sm_90a {BOTH} epilogue=quantize:int8",
        WgmmaChoice(64, 64, 2, 2, 4, 1, 1, 8, tile_k=128),
    ),
    (
        f"m=100 n=64 k=528 dtype=int8 layout=nt arch=sm_90a launch=dependent layout_d=t {BOTH}",
        replace(WGMMA, split_k=2),
    ),
    (
        f"m=120 n=64 k=400 dtype=int8 layout=nt arch=sm_90a {BOTH}",
        WgmmaChoice(128, 64, 2, 1, 4, 1, 1, 8, tile_k=128, split_k=2, cluster_k=2),
    ),
    (f"m=64 n=80 k=144 dtype=int8 layout=tn arch=sm_90a repack=on family=wgmma {BOTH}", None),
    (f"m=3 n=16 k=256 dtype=int8 layout=nt abreast=4 {BOTH}", None),  # zeros have their own blocks
    (f"m=70 n=52 k=72 dtype=int8 layout=nn {BOTH} {PAIRS}", BYTES),
    (f"m=50 n=dynamic:40 k=99 dtype=uint8 dtype_b=int8 layout=nt {BOTH} {PAIRS}", BYTES),
    (f"m=100 n=40 k=272 dtype=int8 layout=nt arch=sm_90a {BOTH} {PAIRS}", WGMMA),
    (f"m=70 n=64 k=64 dtype=int8 layout=nt arch=sm_75 zero_point_a=3 {PAIRS}", BYTES),
    (f"m=40 n=37 k=72 batch=3 dtype=int8 layout=nt stride_b=shared lda=80 {BOTH} {PAIRS}", BYTES),
    (f"m=40 n=37 k=72 batch=2 dtype=int8 layout=nn stride_a=shared {BOTH} {PAIRS}", BYTES),
    # Batches: each product has zero points of its own, and what is shared has them once.
    (f"m=70 n=68 k=72 batch=3 dtype=int8 layout=nt {BOTH}", BYTES),
    (f"m=40 n=67 k=99 batch=3 dtype=int8 layout=nn stride_a=shared {BOTH} dtype_c=int32", BYTES),
    (
        ("m=dynamic:70 n=40 k=96 batch=2 dtype=uint8 layout=tt stride_b=shared stride_a=pointers"
        f" {BOTH} layout_d=t"),
        BYTES,
    ),
    (
        ("m=33 n=72 k=200 batch=3 dtype=int8 layout=nt lda=208 stride_a=7000 stride_b=pointers"
        f" {BOTH} dtype_d=fp32 epilogue=residual"),
        CUT,
    ),
    (f"m=100 n=72 k=272 batch=3 dtype=int8 layout=nt arch=sm_90a {BOTH}", WGMMA),
    (
        f"m=100 n=64 k=528 batch=2 dtype=int8 layout=nt arch=sm_90a layout_d=t {BOTH}",
        replace(WGMMA, split_k=2),
    ),
    ("m=30 n=40 k=64 batch=2 dtype=int8 layout=nt zero_point_a=per_tensor zero_point_b=7", BYTES),
    (f"m=30 n=40 k=64 batch=3 dtype=int8 layout=nt stride_b=shared {BOTH}", None),  # folded
    (
        ("m=30 n=40 k=64 batch=3 dtype=int8 layout=nt zero_point_b=per_channel"
        " epilogue=scale:column,rms_norm,quantize:int8:dynamic"),
        BYTES,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "choice"), CASES)
def test_zero_points_are_folded_in_exactly(text: str, choice: Choice | None) -> None:
    verdict = assert_right(text, choice)
    assert {check.name for check in verdict.checks} >= {"exact", "hostile"}


def test_the_extremes_of_both_types() -> None:
    """Every sum is that of the differences, which have nine bits."""
    rows = [[-128.0] * 40, [127.0] * 40]
    text = f"m=2 n=3 k=40 dtype=int8 dtype_b=uint8 {BOTH}"
    zeros: dict[str, Any] = {"zero_point_a": [[127.0, -128.0]], "zero_point_b": [[0.0, 255.0, 7.0]]}
    d = launch(program_of(text, BYTES), a=rows, b=255, **zeros).d[0]
    assert d.tolist() == [
        [-255 * 255 * 40, 0, -255 * 248 * 40],
        [255 * 255 * 40, 0, 255 * 248 * 40],
    ]


def test_sums_that_wrap_on_the_way_and_come_back() -> None:
    """-128 * -128 * 131072 is 2^31, beyond int32; with -128 taken from B nothing is left."""
    program = program_of("m=8 n=8 k=131072 dtype=int8 zero_point_b=-128", None)
    assert (launch(program, a=-128, b=-128).d[0] == 0).all()


def test_alpha_zero_reads_no_operand() -> None:
    program = program_of(f"m=8 n=8 k=32 dtype=int8 {BOTH} dtype_c=int32", BYTES)
    problem = bind(program, alpha=0.0, beta=1.0)
    d = launch(program, problem, c=9, zero_point_a=3, zero_point_b=5).d[0]
    assert (d == 9).all()


def test_vectors_have_the_operands_types_and_lengths() -> None:
    program = program_of(f"m=5 n=7 k=32 dtype=uint8 dtype_b=int8 {BOTH}", BYTES)
    problem = bind(program)
    a, b = problem.matrix("zero_point_a"), problem.matrix("zero_point_b")
    assert (a.elements, a.dtype.name, b.elements, b.dtype.name) == (5, "uint8", 7, "int8")
    assert [region.name for region in program.workspace.regions] == ["a_zeros", "b_zeros"]
    assert [kernel.body.role for kernel in program.kernels] == ["zeros", "product"]


def test_each_product_has_zero_points_of_its_own() -> None:
    text = f"m=5 n=7 k=32 batch=3 dtype=int8 stride_b=shared layout_d=t {BOTH}"
    program = program_of(text, BYTES)
    problem = bind(program)
    a, b = problem.matrix("zero_point_a"), problem.matrix("zero_point_b")
    assert (list(a.starts), list(b.starts)) == ([0, 5, 10], [0])
    assert [problem.region_bytes(name) for name in ("a_zeros", "b_zeros")] == [3 * 5 * 8, 7 * 8]


def test_more_blocks_than_a_grid_has() -> None:
    spec = GemmSpec.from_text(f"m=1 n=1 k=1 batch=1073741824 dtype=int8 {BOTH}")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch("sm_80"))
    assert str(caught.value) == (
        "batch = 1073741824: zero points take 2147483648 blocks that sum 32 rows or columns each,"
        " more than the 2147483647 that a grid has; give a smaller batch"
    )
    assert decide(replace(spec, stride_b=0), load_arch("sm_80")).kernels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dtype=fp16 zero_point_a=3", "zero_point_a = 3: fp16 has none; leave it out"),
        (
            "dtype=int8 zero_point_a=128",
            (
                "zero_point_a = 128: give per_tensor or per_token, or a whole number from -128 to"
                " 127"
            ),
        ),
        (
            "dtype=uint8 zero_point_b=-1",
            ("zero_point_b = -1: give per_tensor or per_channel, or a whole number from 0 to 255"),
        ),
        (
            "dtype=int8 zero_point_b=2.5",
            (
                "zero_point_b = 2.5: give per_tensor or per_channel, or a whole number from -128"
                " to 127"
            ),
        ),
        (
            "dtype=int8 zero_point_a=per_tokn",
            (
                "zero_point_a = per_tokn: give per_tensor or per_token, or a whole number from"
                " -128 to 127 (did you mean 'per_token'?)"
            ),
        ),
        (
            "dtype=int8 zero_point_a=per_channel",
            (
                "zero_point_a = per_channel: along k, over which is summed, it would not be one"
                " number of a sum; give per_tensor or per_token, or a number"
            ),
        ),
        (
            "dtype=int8 zero_point_b=row",
            (
                "zero_point_b = row: along k, over which is summed, it would not be one number of"
                " a sum; give per_tensor or per_channel, or a number"
            ),
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_text(f"m=64 n=64 k=64 {text}")
    assert str(caught.value) == message


def test_the_text_form_round_trips() -> None:
    spec = GemmSpec.from_text("m=8 n=8 k=8 dtype=int8 zero_point_a=row zero_point_b=+07")
    assert (spec.zero_point_a, spec.zero_point_b) == ("per_token", "7")
    assert GemmSpec.from_text(str(spec)) == spec


def test_a_kernel_file_says_it_naturally(tmp_path: Path) -> None:
    file = tmp_path / "kernels.yaml"
    file.write_text(
        "defaults: {arch: sm_80, dtype: int8, layout: nt}\n"
        "kernels:\n"
        "  - {name: one, m: 8, n: 8, k: 8, zero_point: {a: per_token, b: -3}}\n"
        "  - {name: two, m: 8, n: 8, k: 8, zero_point_b: column}\n"
    )
    one, two = (entry.spec for entry in read(file))
    assert (one.zero_point_a, one.zero_point_b) == ("per_token", "-3")
    assert (two.zero_point_a, two.zero_point_b) == ("", "per_channel")


def test_the_tree_says_who_sums_the_operands() -> None:
    arch = load_arch("sm_80")
    plain = GemmSpec.from_text("m=512 n=512 k=512 dtype=int8 layout=nt")
    spec = replace(plain, zero_point_a="per_token")
    last = decide(spec, arch).decisions[-1]
    assert (last.question, last.choice) == ("zero points", "a kernel before the product")
    assert re.fullmatch(
        r"sums B's columns once, in [0-9.]+ us as predicted; folded in exactly", last.reason
    )
    told = explain(spec, arch)
    assert told.decisions[-1] == last
    assert told.prediction.us > explain(plain, arch).prediction.us


def test_zero_points_by_hand_of_random_operands() -> None:
    a, b = Integers(1, -128, 127), Integers(2, -128, 127)
    m, n, k = 37, 41, 100
    text = f"m={m} n={n} k={k} dtype=int8 layout=tn {BOTH}"
    left = a.at(0, np.arange(m)[:, None], np.arange(k)[None, :], np).astype(np.int64)
    right = b.at(0, np.arange(k)[:, None], np.arange(n)[None, :], np).astype(np.int64)
    za, zb = np.arange(m) - 20, 100 - 3 * np.arange(n)
    d = launch(
        program_of(text, BYTES), a=a, b=b, zero_point_a=[za.tolist()], zero_point_b=[zb.tolist()]
    ).d[0]
    assert (d == (left - za[:, None]) @ (right - zb[None, :])).all()


def test_columns_of_both_halves_of_a_pair_have_zero_points() -> None:
    """With zero points taken away the gate sums to 40, and each value to 40 times its own."""
    program = program_of(f"m=3 n=8 k=40 dtype=int8 {BOTH} dtype_d=fp32 epilogue=swiglu", BYTES)
    zeros = [float(column) for column in range(8)]
    given: dict[str, Any] = {"zero_point_a": -1, "zero_point_b": [[-1.0] * 8 + zeros]}
    problem = bind(program)
    assert problem.matrix("zero_point_b").elements == 16
    d = launch(program, problem, a=0, b=0, **given).d[0]  # gate 40, value 40 * -zero
    assert d.tolist() == [[40.0 * 40.0 * -zero for zero in zeros]] * 3


def test_zero_points_by_hand_of_a_batch() -> None:
    a, b = Integers(1, -128, 127), Integers(2, -128, 127)
    m, n, k = 37, 41, 100
    text = f"m={m} n={n} k={k} batch=3 stride_b=shared dtype=int8 layout=nt {BOTH}"
    right = b.at(0, np.arange(k)[:, None], np.arange(n)[None, :], np).astype(np.int64)
    za, zb = Integers(3, -128, 127), 100 - 3 * np.arange(n)
    found = launch(program_of(text, BYTES), a=a, b=b, zero_point_a=za, zero_point_b=[zb.tolist()]).d
    assert len(found) == 3
    for product, d in enumerate(found):
        left = a.at(product, np.arange(m)[:, None], np.arange(k)[None, :], np).astype(np.int64)
        own = za.at(product, 0, np.arange(m), np).astype(np.int64)
        assert (d == (left - own[:, None]) @ (right - zb[None, :])).all()


KIND = f"m=70 n=68 k=72 dtype=int8 layout=nn {BOTH}"
MANY = f"m=70 n=67 k=72 batch=3 dtype=int8 layout=nt {BOTH}"
PARTS = f"m=40 n=40 k=200 dtype=int8 layout=nt {BOTH}"

MUTANTS: list[tuple[str, str, Choice, str, str]] = [
    ("the product of both zero points left out", KIND, BYTES,
     r"sum - static_cast<u32>\(zero\) \* static_cast<u32>\(elements\)", "sum"),
    ("added instead of taken away", KIND, BYTES, r"\) - both", ") + both"),
    ("rows' zero points left out", KIND, BYTES, r"\+ static_cast<u32>\(column\.x\)[^;]*;", ";"),
    ("columns' zero points left out", KIND, BYTES,
     r"static_cast<u32>\(row\.x\) \* static_cast<u32>\(column\.y\)", "0u"),
    ("a warp's share left out", KIND, BYTES, r"other = 1; other < W", "other = 2; other < W"),
    ("no barrier before warps meet", KIND, BYTES,
     r"(sums\[warp\]\[lane\] = sum;)\s*__syncthreads\(\);", r"\1"),
    ("a step of the shuffles left out", KIND, BYTES, r"apart = 16;", "apart = 8;"),
    ("the last element left out", KIND, BYTES, r"k0 < K;", "k0 < K - 1;"),
    ("the last block left out", KIND, BYTES, r"a_tiles = \(M \+ ROWS - 1\)", "a_tiles = (M)"),
    ("upper and lower rows swapped", KIND, BYTES, r"half \* 8", "(1 - half) * 8"),
    ("columns of a pair swapped", KIND, BYTES, r"e \* 2 \+ j % 2", "(1 - e) * 2 + j % 2"),
    ("both halves of a pair have the first's", f"{KIND} {PAIRS}", BYTES,
     r" \+ \(j == in_half \? 0 : N\)", ""),
    ("the second half is taken for the first", f"{KIND} {PAIRS}", BYTES,
     r"j % \(FRAGMENTS_N / 2\)", "j"),
    ("half as many columns are summed", f"{KIND} {PAIRS}", BYTES,
     r"row < 2 \* N", "row < N"),
    ("the first product's rows for all", MANY, BYTES, r"a_zeros \+= batch[^;]*;", ""),
    ("the first product's columns for all", MANY, BYTES, r"b_zeros \+= batch[^;]*;", ""),
    ("every product's rows to the first", MANY, BYTES,
     r"(\(a_zeros\)) \+ batch \* M", r"\1"),
    ("the first product's A is summed", MANY, BYTES,
     r"source = a \+ batch \* M", "source = a + 0 * M"),
    ("the first product's zero points", MANY, BYTES, r"zero_point_b\[batch \* N \+ row\]",
     "zero_point_b[row]"),
    ("blocks of a product as if none were short", MANY, BYTES,
     r"b_tiles = \(N \+ ROWS - 1\)", "b_tiles = (N)"),
    ("the first product's rows for all, of wgmma", MANY.replace("k=72", "k=144 arch=sm_90a"), WGMMA,
     r"a_zeros = a_zeros_first[^;]*;", ""),
    ("every part is less by them", PARTS, CUT, r"if \(part == 0\)", "if (true)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "choice", "pattern", "replacement"), MUTANTS)
def test_a_mutant_fails(
    name: str, text: str, choice: Choice, pattern: str, replacement: str
) -> None:
    program = program_of(text, choice)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count, name
    assert_wrong(program, source)


def test_small_tiles_have_them_too() -> None:
    assert_right(f"m=20 n=24 k=40 dtype=int8 layout=nt {BOTH} arch=sm_89", SMALL)
