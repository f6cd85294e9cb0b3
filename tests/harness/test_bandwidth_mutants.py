"""Kernels of the bandwidth family with one thing broken must fail, the unbroken must pass."""

from __future__ import annotations

import pytest

from deepgemm_codegen.decide import BandwidthChoice
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from tests.harness.support import assert_wrong, device_of, plan_of, source_of
from tests.harness.test_mutants import Mutant

KINDS = {
    # Rows of B in whole vectors, a tail in n and in k, sixteen rows of A, C and steps.
    "tails": (
        "m=13 n=70 k=200 layout=nt lda=208 ldb=200 dtype_c=fp16 ldd=75 ldc=80 epilogue=bias,relu",
        BandwidthChoice(2, 1, 2, 2, 1),
    ),
    # One row, whole slices, four of them under way, eight warps along k.
    "whole": ("m=1 n=32 k=4096 layout=nt arch=sm_90", BandwidthChoice(2, 1, 8, 3, 1)),
    # Columns of B in vectors, an odd k, two products.
    "columns": ("m=4 n=96 k=75 batch=2 arch=sm_90", BandwidthChoice(4, 1, 2, 2, 1)),
    # D's short side is n: odd strides, one element at a time, two warps along m.
    "odd": ("m=69 n=3 k=99 layout=tn lda=71", BandwidthChoice(2, 2, 2, 2, 1)),
    "turing": ("m=7 n=40 k=130 layout=nt arch=sm_75", BandwidthChoice(1, 2, 2, 3, 1)),
    # More rows than one instruction has, in registers and in shared memory.
    "two": (
        "m=27 n=70 k=200 layout=nt lda=208 ldb=200 epilogue=bias:row",
        BandwidthChoice(2, 1, 2, 2, 1),
    ),
    "two across k": ("m=32 n=64 k=75 batch=2 arch=sm_90", BandwidthChoice(4, 1, 2, 1, 1)),
    "two, turing": ("m=40 n=20 k=130 layout=tn arch=sm_75", BandwidthChoice(2, 2, 2, 1, 1)),
    "two in shared": (
        "m=20 n=72 k=512 layout=nt arch=sm_90",
        BandwidthChoice(3, 1, 4, 2, 1, ring="shared"),
    ),
    "pairs": (
        "m=3 n=37 k=200 layout=nt ldb=208 epilogue=swiglu",
        BandwidthChoice(2, 1, 2, 2, 1),
    ),
    "dynamic": (
        "m=dynamic:9 n=dynamic:50 k=dynamic:300 layout=nt",
        BandwidthChoice(1, 2, 2, 2, 1),
    ),
}

BARRIER = r"__syncthreads\(\);"

MUTANTS = {
    # -- the meeting of the warps' sums --
    "barrier before the sums meet removed": Mutant("whole", BARRIER, "", seen="race"),
    "barrier removed, short side n": Mutant("odd", BARRIER, "", seen="race"),
    "one warp's sums left out": Mutant("whole", r"part < WARPS_K;", "part < WARPS_K - 1;"),
    "the first warp's sums left out": Mutant(
        "whole", r"value\[D_VECTOR\] = \{ sum\[0\] \};", "value[D_VECTOR] = { 0.0f };"
    ),
    "one warp's sums twice": Mutant("whole", r"sum\[part \* SLAB\]", "sum[(part / 2 * 2) * SLAB]"),
    "slabs overlap": Mutant("whole", r"warp_k \* SLAB;", "warp_k * (SLAB - 32);", seen="race"),
    "sums of other rows": Mutant(
        "tails", r"\(row \* 8 \+ lane / 4, place\)", "(row * 8 + lane % 8, place)"
    ),
    "fragment columns swapped": Mutant("columns", r"within % GROUP", "(within + 1) % GROUP"),
    "sums of the other instruction's rows": Mutant(
        "two", r"acc\[row / 2 \* FRAGMENTS", "acc[(row / 2 ^ 1) * FRAGMENTS"
    ),
    "the second instruction has the first one's rows": Mutant(
        "two", r"upper = rows\[two \* 2\]", "upper = rows[0]"
    ),
    "the second adds to the first one's sums": Mutant(
        "two in shared", r"acc\[two \* FRAGMENTS \+ j\]", "acc[j]"
    ),
    "rows that are not there are read": Mutant(
        "two in shared", r"if \(eight \* 8 \+ lane / 4 >= M\) continue;", "", seen="uninit"
    ),
    # -- gated pairs: which half of B is whose --
    "both halves are the first": Mutant("pairs", r"within / TILE_D \* N", "0"),
    "the second half begins a column early": Mutant(
        "pairs", r"within / TILE_D \* N", "within / TILE_D * (N - 1)"
    ),
    "columns run over both halves": Mutant("pairs", r"n0 \+ within % TILE_D", "n0 + within"),
    "the gate's sums for the values": Mutant(
        "pairs", r"TILE_D \+ item % TILE_D", "item % TILE_D"
    ),
    "one warp's values left out": Mutant(
        "pairs", r"right\[0\] = __fadd_rn\(right\[0\], other\[part \* SLAB\]\);", ""
    ),
    # -- fragments: which element is multiplied by which --
    "another order of k on one side": Mutant(
        "whole",
        r"(load_a\([^{]*\{[^{]*\{[^;]*lane\[row\] \+ \(k \+ )k_of\(e\)",
        r"\1(k_of(e) ^ A_VECTOR)",
    ),
    "halves of a pair swapped": Mutant("columns", r"0x7632 : 0x5410", "0x5410 : 0x7632"),
    "a pair of other rows of k": Mutant(
        "columns", r"columns\[4 \* step \+ 2 \* pair \+ 1\]", "columns[4 * step + 2 * pair]"
    ),
    "half of k8 dropped": Mutant("turing", r"mma_m16n8k8\([^;]*;", "", which=-1),
    "runs shorter than vectors": Mutant("tails", r"RUN = 8,", "RUN = 4,"),
    # -- slots --
    "a slot loaded ahead of its use": Mutant(
        "whole",
        r"(#pragma unroll\n.*\n.*\n *multiply\(slot\);\n)(#pragma unroll\n.*\n.*\n *load.*;\n)",
        r"\2\1",
    ),
    "a slice skipped": Mutant(
        "whole", r"load\(slot, first \+ slot \+ STAGES\)", "load(slot, first + slot + STAGES + 1)"
    ),
    "a slot multiplied twice": Mutant("whole", r"multiply\(slot\);", "multiply(0);"),
    "prologue one slot short": Mutant(
        "whole", r"slot < STAGES; \+\+slot\)\n(\s+)if \(slot < SLICES\)",
        r"slot < STAGES - 1; ++slot)\n\1if (slot < SLICES)",
    ),
    # -- k's end --
    "tail left out": Mutant("tails", r"load\(0, turns - 1, [^;]*;", "load(0, turns - 1, 0);"),
    "tail one element short": Mutant(
        "tails", r"\(turns - 1\) \* TILE_K - k_lane\)", "(turns - 1) * TILE_K - k_lane - 1)"
    ),
    "tail not cleared": Mutant(
        "tails", r"\(turns - 1\) \* TILE_K - k_lane\)", "(turns - 1) * TILE_K)", seen="NaN"
    ),
    "tail read beyond the rows": Mutant(
        "odd", r"k_of\(e\) < left \? 2 : 0", "2", seen="out-of-bounds-read"
    ),
    "tail of a dynamic k": Mutant("dynamic", r"left > 1 \?", "left > 0 ?"),
    "rows taken to start on vectors": Mutant(
        "dynamic", r"b_whole = ldb % 8 == 0;", "b_whole = true;", seen="misaligned"
    ),
    # -- boundaries --
    "rows beyond n read": Mutant(
        "tails", r"place = min\(place, N - GROUP\);", "", seen="out-of-bounds-read"
    ),
    "rows beyond m read": Mutant(
        "tails", r"min\(row \* 8 \+ lane / 4, M - 1\)", "row * 8 + lane / 4",
        seen="out-of-bounds-read",
    ),
    "the row before the last stands in": Mutant(
        "tails", r"min\(place, N - GROUP\)", "min(place, N - GROUP - 1)", seen="boundary in n"
    ),
    "store beyond n": Mutant("tails", r"if \(column >= N\) continue;", "", seen="out-of-bounds"),
    "last column not stored": Mutant(
        "tails", r"column >= N\)", "column >= N - 1)", seen="boundary in n"
    ),
    "last row not stored": Mutant(
        "tails", r"item < M \*", "item < (M - 1) *", seen="boundary in m"
    ),
    "batch stride of one row less": Mutant("columns", r"(b \+= [^;]*?)\bK\b", r"\1(K - 1)"),
    "d written with c's stride": Mutant("tails", r"row \* LDD \+ column", "row * LDC + column"),
    # -- alpha, beta --
    "a and b read at alpha 0": Mutant("tails", r"if \(alpha != 0\.0f\)", "if (true)"),
    "c read at beta 0": Mutant("tails", r"if \(beta != 0\.0f\)", "if (true)", seen="NaN"),
    "alpha on one warp's sums only": Mutant(
        "whole",
        r"value\[0\] = __fadd_rn\(value\[0\], sum",
        "value[0] = __fadd_rn(__fmul_rn(alpha, value[0]), sum",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_unbroken_kernels_pass(kind: str) -> None:
    plan = plan_of(*KINDS[kind])
    verdict = judge(device_of(plan), plan)
    assert verdict.passed, "\n".join(format_verdict(verdict))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.full] * (i % 2)) for i, name in enumerate(MUTANTS)],
)
def test_a_mutant_fails(name: str) -> None:
    mutant = MUTANTS[name]
    plan = plan_of(*KINDS[mutant.kind])
    assert_wrong(plan, mutant.apply(source_of(plan)), seen=mutant.seen)
