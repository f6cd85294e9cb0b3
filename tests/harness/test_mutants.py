"""The harness against itself: kernels with one thing broken must fail, the unbroken must pass.

Each mutant is the generated text with one place changed. A mutant whose text is not found is an
error, so that a change of the templates cannot empty this file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from tests.harness.support import Choice, assert_wrong, device_of, plan_of, source_of

TAILS = (
    "m=150 n=132 k=200 dtype_c=fp16 epilogue=bias,relu ldd=140 ldc=136",
    MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8),
)
"""Sixteen-byte asynchronous copies with zero fill, one fragment buffer or two."""

ODD = ("m=67 n=69 k=99 layout=tn", MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8))
"""Two-byte copies through registers."""

PANELS = ("m=64 n=64 k=256 layout=nt", MmaSyncChoice(64, 64, 128, 2, 2, 2, 1, 8))
"""Slices of two panels."""

BATCH = ("m=64 n=64 k=96 layout=nt batch=2", MmaSyncChoice(64, 64, 32, 2, 2, 4, 2, 8))
"""Aligned everything, fewer slices than stages, two products."""

TURING = ("m=70 n=64 k=80 arch=sm_75 dtype_c=fp16", MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8))
"""No cp.async; m16n8k8."""

RELU6 = ("m=70 n=66 k=40 epilogue=bias,relu6", MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8))
"""A step that most of the sums saturate."""

STEPS = (
    "m=70 n=68 k=40 dtype_d=fp32 epilogue=scale,scale:row,gelu,residual,clamp:hi=3 layout_d=t",
    MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
)
"""Steps with numbers, vectors and a matrix, and one that is approximate."""

ACTIVATIONS = (
    "m=70 n=68 k=40 epilogue=silu,store:fp32,gelu_tanh,clamp:lo=-0.1",
    MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
)
"""Approximate steps one after the other."""

ANY_K = ("m=70 n=68 k=dynamic:100 layout=nt", MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8))
"""Only the launch tells which slot the last slice is in: a barrier stands before the slabs."""

GATED = (
    "m=70 n=68 k=40 layout=nt epilogue=bias,swiglu,bias dtype_d=fp32",
    MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
)
"""Pairs of B's columns, with a step before them and one behind."""

RASTER = ("m=320 n=192 k=32", MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 4))
"""Five tile rows in groups of four."""

CARRY = (
    "m=256 n=256 k=320 layout=nt arch=sm_90a",
    WgmmaChoice(128, 128, 2, 1, 2, 1, 1, 8),
)
"""Persistent blocks: each computes two tiles of five slices, through two slots."""

MAPPED_BATCH = (
    "m=100 n=64 k=72 batch=3 layout=nt dtype_c=fp16 epilogue=residual arch=sm_90a",
    WgmmaChoice(64, 64, 2, 2, 3, 1, 1, 8),
)
"""A batch behind maps of three dimensions, by consumers in turn; what is read like D follows."""

ABREAST = (
    "m=30 n=30 k=96 batch=5 layout=nt dtype_c=fp16",
    MmaSyncChoice(32, 32, 32, 2, 1, 2, 1, 8, abreast=4),
)
"""Four tiles a block, of which the last block has one."""

COLUMNS = (
    "m=256 n=248 k=200 layout=nt epilogue=bias,scale:column arch=sm_90a",
    WgmmaChoice(128, 128, 2, 2, 2, 1, 1, 8),
)
"""Vectors by columns in shared memory, over tiles that one block computes in turn."""

NARROW = ("m=100 n=72 k=40 layout=nt arch=sm_90a", WgmmaChoice(64, 64, 1, 1, 2, 1, 1, 8))
"""Rows of k that end inside a step of wgmma, which reads zeros behind them."""

NARROW_N = ("m=100 n=40 k=200 layout=nn arch=sm_90a", WgmmaChoice(64, 64, 1, 1, 2, 1, 1, 8))
"""Rows of B that end inside a panel."""

RAGGED = (
    "m=200 n=224 k=200 batch=2 layout=nn arch=sm_90a",
    WgmmaChoice(128, 112, 2, 1, 2, 1, 1, 8),
)
"""Tiles of B that end inside a panel of 64 columns, behind maps of three dimensions."""

LONG_SLICES = (
    "m=200 n=136 k=400 layout=nt arch=sm_90a",
    WgmmaChoice(64, 64, 1, 1, 3, 1, 1, 8, tile_k=128),
)
"""Slices of two rows of k, each in a panel of its own."""

KINDS: dict[str, tuple[str, Choice | None]] = {
    "long slices": LONG_SLICES,
    "narrow": NARROW,
    "narrow n": NARROW_N,
    "ragged": RAGGED,
    "tails": TAILS,
    "odd": ODD,
    "panels": PANELS,
    "batch": BATCH,
    "turing": TURING,
    "raster": RASTER,
    "relu6": RELU6,
    "steps": STEPS,
    "activations": ACTIVATIONS,
    "carry": CARRY,
    "any k": ANY_K,
    "gated": GATED,
    "mapped batch": MAPPED_BATCH,
    "abreast": ABREAST,
    "columns": COLUMNS,
}


@dataclass(frozen=True)
class Mutant:
    """One change of a generated text.

    Attributes:
        kind: which kernel of `KINDS`.
        pattern: what is changed, a regular expression.
        replacement: what stands there instead.
        which: the match that is changed; None for all.
        seen: a word that the verdict must hold, where the cause should be named.
    """

    kind: str
    pattern: str
    replacement: str
    which: int | None = None
    seen: str = ""

    def apply(self, source: str) -> str:
        """The mutated text."""
        found = list(re.finditer(self.pattern, source))
        assert found, f"nothing in the kernel matches {self.pattern!r}"
        chosen = found if self.which is None else [found[self.which]]
        for match in reversed(chosen):
            source = (
                source[: match.start()] + match.expand(self.replacement) + source[match.end() :]
            )
        return source


BARRIER = r"__syncthreads\(\);"

MUTANTS = {
    # -- synchronisation: values may come out right; the emulator's listeners tell --
    "first barrier removed": Mutant("tails", BARRIER, "", which=0, seen="race"),
    "loop barrier removed": Mutant("tails", BARRIER, "", which=-1, seen="race"),
    "barrier before the slabs removed": Mutant("any k", BARRIER, "", which=-1, seen="race"),
    "slabs over the last slice": Mutant(
        "tails",
        "SLABS_OFFSET = [^,]*",
        "SLABS_OFFSET = (SLICES - 1) % STAGES * STAGE_BYTES",
        seen="race",
    ),
    "barrier removed, register copies": Mutant("odd", BARRIER, "", which=-1, seen="race"),
    "the slot behind the last slice read": Mutant(
        "tails", r"if \(slice \+ 1 < SLICES\)", "", seen="race"
    ),
    "slab barrier removed": Mutant("tails", r"__syncwarp\(\);", "", which=-1, seen="race"),
    "slab reuse barrier removed": Mutant("tails", r"if \(i > 0\) __syncwarp\(\);", "", seen="race"),
    "wait loosened by one": Mutant(
        "tails", r"cp_async_wait<STAGES - 2>", "cp_async_wait<STAGES - 1>"
    ),
    "waits removed": Mutant("batch", r"cp_async_wait<STAGES - 2>\(\);", ""),
    "prologue commits nothing": Mutant("tails", r"cp_async_commit\(\);", "", which=0),
    "slot overwritten too early": Mutant(
        "tails", r"const int next = slice \+ STAGES - 1;", "const int next = slice + STAGES - 2;"
    ),
    # -- the products of a batch, where TMA finds them --
    "every product reads the first A": Mutant("mapped batch", r"(&map_a, .*), batch,", r"\1, 0,"),
    "every product writes the first D": Mutant("mapped batch", r"m0, batch, panel", "m0, 0, panel"),
    "the next product's B": Mutant("mapped batch", r"(&map_b, .*), batch,", r"\1, batch + 1,"),
    "every product adds the first C": Mutant(
        "mapped batch", r"c_first \+ batch \*", "c_first + 0 *"
    ),
    "products as far apart as C's are long": Mutant(
        "mapped batch", r"(residual0_first \+ batch \*) \(M \*", r"\1 (64 *"
    ),
    # -- tiles abreast --
    "all tiles of a block in one's memory": Mutant(
        "abreast", r"threadIdx\.x / THREADS \* AREA_BYTES", "0", seen="race"
    ),
    "spare slots store": Mutant("abreast", r"if \(idle\) return;", ""),
    "all tiles of a block are the first": Mutant(
        "abreast", r"blockIdx\.x \* ABREAST \+ threadIdx\.x / THREADS;", "blockIdx.x * ABREAST;"
    ),
    "the last tile is not there": Mutant(
        "abreast", r"own_block > last_block", "own_block >= last_block"
    ),
    # -- the shared-memory layout --
    "behind a narrow row the wrong bytes are cleared": Mutant(
        "narrow", r"chunk = 5 \^ row % 8", "chunk = 5", which=0, seen="uninit"
    ),
    "behind narrow rows of b nothing is cleared": Mutant(
        "narrow", r"(at < STAGES \* )64(; at \+= THREADS\) \{)", r"\g<1>0\2", which=1, seen="uninit"
    ),
    "behind narrow rows along n too little is cleared": Mutant(
        "narrow n", r"\(5 \+ at / 8 % 3\)", "(5 + at / 8 % 2)", seen="uninit"
    ),
    "the panel that a tile ends in left out": Mutant("ragged", r"panel < 2; ", "panel < 1; "),
    "every panel of a ragged tile from the first": Mutant("ragged", r"n0 \+ panel \* 64", "n0"),
    "every panel of a ragged tile to the first": Mutant(
        "ragged", r"panel \* \(TILE_K \* 128\)", "0"
    ),
    "a step of wgmma less": Mutant("narrow", r"STEPS = 3,", "STEPS = 2,"),
    "a slot waits for bytes that do not come": Mutant(
        "narrow", r"LANDED_BYTES = \d+,", "LANDED_BYTES = STAGE_BYTES,", seen="deadlock"
    ),
    "swizzle broken where a is read": Mutant(
        "batch",
        r"tile_offset<A_SWIZZLE, A_PANEL_BYTES>\(warp_m \* WARP_M \+ lane % 16,",
        "tile_offset<A_SWIZZLE, A_PANEL_BYTES>((warp_m * WARP_M + lane % 16) ^ 1,",
    ),
    "swizzle broken where b is written": Mutant(
        "batch",
        r"(b_target = A_BYTES \+ )tile_offset<B_SWIZZLE, B_PANEL_BYTES>\(b_row, b_byte\)",
        r"\1b_row * B_SWIZZLE + b_byte",
    ),
    "halves of a's fragment swapped": Mutant(
        "batch", r"step \* 32 \+ lane / 16 \* 16\)", "step * 32 + (1 - lane / 16) * 16)"
    ),
    "every pass of a copy from the first row": Mutant(
        "tails", r"first \+ pass \* A_PASS_ROWS", "first + 0 * A_PASS_ROWS"
    ),
    "a slice's second row of k a copy of the first": Mutant("long slices", r" \+ panel \* 64", ""),
    "a slice's second row of k over the first": Mutant(
        "long slices", r"\+ panel \* B_PANEL", "+ 0 * B_PANEL"
    ),
    "steps of a slice's first row of k twice": Mutant(
        "long slices", r"step / 4 \* A_PANEL", "0 * A_PANEL"
    ),
    "steps of the other row of k": Mutant(
        "long slices", r"step / 4 \* B_PANEL", "(1 - step / 4) * B_PANEL"
    ),
    "every panel of a copy from the first": Mutant("panels", r"panel \* \(A_SWIZZLE / 2\)", "0"),
    "a fragment of A left out on the way back": Mutant(
        "tails", r"FRAGMENTS_M - 1 - turn", "FRAGMENTS_M - 1"
    ),
    "slab rows swapped": Mutant(
        "tails", r"slab_index\(lane / 4 \+ 8, column\)", "slab_index(lane / 4 + 7, column)"
    ),
    # -- k --
    "last slice skipped": Mutant(
        "tails",
        r"(for \(int slice = 0; slice < SLICES)(; \+\+slice\) \{\n\s+(?:cp|const))",
        r"\1 - 1\2",
        seen="left out",
    ),
    "k not filled with zeros, a": Mutant(
        "tails", r"row < M \? K - column : 0", "row < M ? 8 : 0", seen="NaN"
    ),
    "k not filled with zeros, registers": Mutant(
        "odd", r"row < K \? N - column : 0", "N - column", seen="out-of-bounds-read"
    ),
    "one product less": Mutant(
        "tails", r"row < M \? K - column : 0", "row < M ? K - 1 - column : 0"
    ),
    # -- boundaries --
    "rows of a unguarded": Mutant(
        "tails", r"row < M \? K - column : 0", "K - column", seen="out-of-bounds-read"
    ),
    "store beyond n": Mutant(
        "tails", r"row >= M \|\| column >= N", "row >= M", seen="out-of-bounds"
    ),
    "store beyond m": Mutant(
        "tails", r"row >= M \|\| column >= N", "column >= N", seen="out-of-bounds-write"
    ),
    "last row not stored": Mutant(
        "tails", r"row >= M \|\|", "row >= M - 1 ||", seen="boundary in m"
    ),
    "last column not stored": Mutant(
        "odd", r"column >= N\)", "column >= N - 1)", seen="boundary in n"
    ),
    "ragged raster group": Mutant(
        "raster",
        r"min\(static_cast<int>\(RASTER_GROUP\), TILES_M - group \* RASTER_GROUP\)",
        "static_cast<int>(RASTER_GROUP)",
    ),
    "batch stride of one row less": Mutant("batch", r"(a \+= [^;]*?)\bM\b", r"\1(M - 1)"),
    "c read with d's stride": Mutant("tails", r"row \* LDC \+ column", "row * LDD + column"),
    "d written with c's stride": Mutant("tails", r"row \* LDD \+ column", "row * LDC + column"),
    # -- alpha, beta, epilogue --
    "alpha ignored": Mutant("batch", r"__fmul_rn\(alpha, value\[v\]\)", "value[v]", seen="alpha"),
    "beta ignored": Mutant("tails", r"__fmaf_rn\(beta, old", "__fmaf_rn(1.0f, old", seen="beta"),
    "c read at beta 0": Mutant("tails", r"if \(beta != 0\.0f\)", "if (true)", seen="NaN"),
    "a and b read at alpha 0": Mutant("tails", r"if \(alpha != 0\.0f\)", "if (true)"),
    "bias not scaled alone": Mutant(
        "tails",
        r"add_bias\(value\[v\], ([^;]*)\);",
        r"add_bias(value[v], alpha * (\1));",
        seen="scaled by alpha",
    ),
    "bias left out": Mutant("tails", r"__fadd_rn\(x, bias\)", "x", seen="left out"),
    "bias along rows": Mutant("tails", r"bias0\[column \+ v\]", "bias0[row]"),
    "relu swallows nan": Mutant(
        "tails", r"x < 0\.0f \? 0\.0f : x", "fmaxf(x, 0.0f)", seen="swallows it"
    ),
    "relu left out": Mutant("tails", r"x < 0\.0f \? 0\.0f : x", "x", seen="relu was left out"),
    "relu6 swallows nan": Mutant(
        "relu6",
        r"x < 0\.0f \? 0\.0f : x > 6\.0f \? 6\.0f : x",
        "fminf(fmaxf(x, 0.0f), 6.0f)",
        seen="swallows it",
    ),
    "relu6 left open above": Mutant("relu6", r"x > 6\.0f \? 6\.0f : x", "x"),
    "relu6 left out": Mutant(
        "relu6", r"return x < 0\.0f[^;]*;", "return x;", seen="relu6 was left out"
    ),
    "relu6 before the bias": Mutant(
        "relu6", r"add_bias\(value\[v\], ([^;]*)\);", r"add_bias(relu6(value[v]), \1);"
    ),
    "scale left out": Mutant("steps", r"scale\(value\[v\], scale0\)", "value[v]", seen="left out"),
    "scale along the other axis": Mutant("steps", r"scale1\[column \+ v\]", "scale1[row]"),
    "residual left out": Mutant(
        "steps", r"add_residual\(value\[v\], [^)]*\)", "value[v]", seen="residual:fp32 was left out"
    ),
    "residual read with another stride": Mutant(
        "steps", r"row \* LDRESIDUAL3 \+ column", "row * (LDRESIDUAL3 - 1) + column"
    ),
    "clamp from the other side": Mutant("steps", r"at_most\(value", "at_least(value"),
    "gelu with a wrong coefficient": Mutant("steps", r"0\.008507982f", "0.0085f"),
    "gelu swallows nan": Mutant(
        "steps", r"at_least\(x, 0\.0f\)", "fmaxf(x, 0.0f)", seen="swallows it"
    ),
    "silu without its exponent": Mutant("activations", r"-1\.442695f", "-1.4f"),
    "gelu_tanh without its cube": Mutant("activations", r"-0\.10294324f", "0.0f"),
    "gelu_tanh left out": Mutant(
        "activations", r"gelu_tanh\(value\[v\]\)", "value[v]", seen="gelu_tanh was left out"
    ),
    "stored after the next step": Mutant(
        "activations",
        r"( *)(store_fp32\([^;]*;)([^;]*;[^;]*;[^;]*gelu_tanh[^;]*;)",
        r"\3\1\2",
        seen="store1, tile",
    ),
    "stored with another stride": Mutant(
        "activations", r"row \* LDSTORE1 \+ column", "row * (LDSTORE1 - 1) + column"
    ),
    "stored beyond m": Mutant(
        "activations",
        r"store1 \+ \(row \* LDSTORE1 \+ column\)",
        "store1 + ((row + (row == M - 1)) * LDSTORE1 + column)",
    ),
    "clamp from below left out": Mutant(
        "activations", r"at_least\(value\[v\], [^)]*\)", "value[v]", seen="clamp:lo=-0.1 was"
    ),
    # -- what a persistent block carries from tile to tile --
    "panels reused while the tile before leaves them": Mutant(
        "carry", r"tma_store_wait_read<[^;]*;  //", ";  //", seen="in-flight-write"
    ),
    "consumer's ring starts anew for each tile": Mutant(
        "carry", r"int previous = 0;", "int previous = 0; slot = 0, parity = 0;"
    ),
    "producer's ring starts anew for each tile": Mutant(
        "carry", r"(for \(int slice = started)", r"slot = 0, parity = 1; \1"
    ),
    "last slot of a tile not given back": Mutant(
        "carry", r"(if \(slices_to_sum > 0\)\s+if \(thread == 0\))[^;]*;", r"\1;", seen="deadlock"
    ),
    # With alpha 0 no wgmma holds the warps together, and a GPU hangs (tests/gpu/test_hangs.py).
    "the turn handed over by one thread": Mutant(
        "columns",
        r"(mbarrier_init\(turn \+ waiting \* 8, )4([^$]*?)__syncwarp\(\);\s+if \(lane == 0\) "
        r"(mbarrier_arrive\(consumer == 0 \? turn)",
        r"\g<1>1\g<2>if (thread == 0) \g<3>",
        seen="missed-phase",
    ),
    "a tile's bytes announced before its slot is free": Mutant(
        "carry",
        r"(mbarrier_wait\(empty[^;]*;)([^$]*?)(mbarrier_arrive_expect\(barrier, STAGE_BYTES\);)",
        r"\2\3\1",
        seen="counts at an mbarrier",
    ),
    "gate and value swapped": Mutant(
        "gated", r"swiglu\(left\[v\], right\[v\]\)", "swiglu(right[v], left[v])"
    ),
    "both halves from the first": Mutant("gated", r"within / WARP_D \* half", "0 * half"),
    "halves of a warp mixed": Mutant(
        "gated", r"within % WARP_D \+ within / WARP_D", "within / 2 + within % 2"
    ),
    "the second half's bias from the first": Mutant(
        "gated", r"bias0\[column \+ N \+ v\]", "bias0[column + v]"
    ),
    "the bias behind the pair as wide as B": Mutant(
        "gated", r"bias2\[column \+ v\]", "bias2[(column + v) / 2]"
    ),
    "the pair's alpha once": Mutant("gated", r"right\[v\] = __fmul_rn\(alpha, right\[v\]\);", ""),
    # -- what steps read by columns --
    "columns read before all are there": Mutant(
        "columns",
        r"(scale1_asked\[part\];\s+\})\s+named_barrier\(1 \+ consumer\);",
        r"\1",
        seen="race",
    ),
    "a consumer's columns over the other's": Mutant(
        "columns", r"\+ consumer \* COLUMN_VECTORS \* TILE_N", "", seen="race"
    ),
    "columns of a fragment's halves swapped": Mutant(
        "columns", r"column / 8 % 2 \* 2", "(1 - column / 8 % 2) * 2"
    ),
    "columns of the tile before": Mutant("columns", r"n0 \+ part \* 128", "part * 128"),
    "columns read beyond n": Mutant(
        "columns", r"min\((n0 \+ part \* 128 \+ thread), N - 1\)", r"\1", seen="out-of-bounds-read"
    ),
    "alpha ignored by all sums but one": Mutant(
        "columns", r"if \(alpha != 1\.0f\)", "if (alpha == 1.0f)", seen="alpha"
    ),
    # -- the architecture's own paths --
    "half of k8 dropped": Mutant("turing", r"mma_m16n8k8\([^;]*;", "", which=-1),
}


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


def test_what_is_right_or_not_told_is_no_mutant() -> None:
    plan = plan_of(*KINDS["relu6"])
    with pytest.raises(AssertionError, match=r"^PASS  "):
        assert_wrong(plan, source_of(plan))
    left_open = MUTANTS["relu6 left open above"].apply(source_of(plan))
    with pytest.raises(AssertionError, match=r"^'a race' is not told of:\nFAIL  "):
        assert_wrong(plan, left_open, seen="a race")
