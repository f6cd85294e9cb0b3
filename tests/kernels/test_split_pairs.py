"""Gated pairs of a product whose k is cut: each half of B has sums, which meet at last."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice, decide
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import Choice, assert_right, assert_wrong, program_of, source_of

MMA = MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8, 3)
BYTES = MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8, 3)
HOPPER = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, split_k=2)

CASES: dict[str, Choice] = {
    "m=40 n=40 k=256 layout=nt epilogue=swiglu": MMA,
    "m=40 n=37 k=250 epilogue=bias,swiglu,bias dtype_d=fp32 ldd=43": MMA,
    "m=dynamic:70 n=dynamic:37 k=dynamic:256 batch=2 layout=nt epilogue=geglu:gate=second": MMA,
    "m=70 n=37 k=200 dtype=int8 zero_point_a=per_token zero_point_b=per_channel"
    " epilogue=scale:column,swiglu dtype_d=fp16": BYTES,
    "m=3 n=20 k=4096 layout=nt epilogue=swiglu,residual": replace(MMA, split_k=9),
    "m=70 n=72 k=256 layout=nt epilogue=geglu,store,quantize:int8 arch=sm_90a": HOPPER,
    "m=70 n=128 k=512 dtype=e4m3 layout=nt scale_a=1x128 scale_b=128x128 arch=sm_90a"
    " epilogue=swiglu,quantize:e4m3:dynamic": replace(HOPPER, tile_k=128),
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_both_halves_of_all_parts_meet(text: str) -> None:
    assert_right(text, CASES[text])


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"if \(j != in_half\) place \+= M \* LDP;", ""),
        (r"unit \* \(2 \* M", "unit * (M"),
        (r"2 \* part \+ half", "part + half"),
        (r"total\[D_VECTOR \+ v\]", "total[v]"),
        (r"in_half = j % \(FRAGMENTS_N / 2\)", "in_half = j"),
    ],
)
def test_a_mutant_fails(pattern: str, replacement: str) -> None:
    program = program_of("m=40 n=40 k=256 layout=nt epilogue=swiglu", MMA)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count
    assert_wrong(program, source)


def test_the_tree_cuts_k_where_pairs_leave_multiprocessors_idle() -> None:
    text = "m=32 n=1408 k=4096 layout=nt epilogue=swiglu arch=sm_90a gpu=H200"
    program = decide(GemmSpec.from_text(text), load_arch("sm_90a", "H200"))
    assert [kernel.body.role for kernel in program.kernels] == ["product", "reduce"]
    assert program.product.k.split > 1
