"""Programs of a column-major D that is computed by rows, and turned."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import (
    BandwidthChoice,
    Copies,
    RepackChoice,
    SimtChoice,
    WgmmaChoice,
    decide,
)
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.turn import rows_spec
from deepgemm_codegen.errors import InputError, InternalError
from deepgemm_codegen.harness.blocks import blocks_for, written_by
from deepgemm_codegen.harness.cases import cases_of
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.memory import read_region
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Program, Turn
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import (
    SMALL,
    Choice,
    assert_right,
    assert_wrong,
    device_of,
    program_of,
    source_of,
)

CUT = replace(SMALL, split_k=3)
BYTES = replace(SMALL, tile_k=64)
NARROW = BandwidthChoice(8, 1, 4, 2, 2)
CORES = SimtChoice(32, 32, 8, 1, 1, 2, 1, 1)
WGMMA = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8)
WIDE = WgmmaChoice(64, 128, 2, 2, 4, 2, 1, 8)
COPIED = RepackChoice(SMALL, Copies(("a", "b")))
WGMMA_BYTES = replace(WGMMA, tile_k=128)
NORM = "residual:fp32,store,rms_norm"
BLOCKS = "dtype=e4m3 scale_a=1x128 scale_b=128x128"
APART = "stride_c=pointers stride_d=pointers align_d=4"
BESIDE = "stride_c=shared stride_d=40 ldd=130"
HOPPER = "arch=sm_90a layout=nt"

CASES: list[tuple[str, Choice | None]] = [
    # Norms: of every family that keeps sums, and by a warp that holds whole rows.
    (f"m=130 n=70 k=64 dtype_c=fp16 epilogue={NORM}", SMALL),
    ("m=67 n=97 k=99 layout=tn dtype=bf16 ldd=70 epilogue=bias:row,layer_norm,store:fp32", CUT),
    (f"m=70 n=72 k=40 batch=3 ldc=71 dtype_c=fp32 epilogue=scale:column,{NORM},residual", SMALL),
    ("m=dynamic:90 n=dynamic:75 k=dynamic:99 dtype_c=fp16 epilogue=residual,layer_norm", SMALL),
    ("m=33 n=40 k=24 dtype=fp32 dtype_c=fp32 epilogue=residual,layer_norm", CORES),
    ("m=70 n=48 k=96 dtype=int8 dtype_d=fp16 layout=nt epilogue=scale:row,rms_norm", BYTES),
    ("m=70 n=48 k=96 dtype=uint8 zero_point_a=per_token dtype_d=bf16 epilogue=layer_norm", BYTES),
    (f"m=130 n=72 k=128 {HOPPER} dtype_c=bf16 ldc=136 align_c=8 epilogue={NORM}", WGMMA),
    (f"m=70 n=64 k=520 {HOPPER} launch=dependent epilogue={NORM}", replace(WGMMA, split_k=2)),
    ("m=200 n=64 k=64 epilogue=bias,layer_norm family=mma_sync warps_n=1 tile_n=64", None),
    # Pairs, fused as they are by rows.
    ("m=130 n=36 k=64 epilogue=bias,swiglu,residual,store:fp32", SMALL),
    ("m=70 n=33 k=64 arch=sm_75 epilogue=geglu:gate=second,scale:row", SMALL),
    ("m=33 n=40 k=24 dtype=fp32 epilogue=geglu,residual", None),
    (f"m=150 n=128 k=192 {HOPPER} epilogue=swiglu,bias", WIDE),
    (f"m=dynamic:150 n=64 k=72 {HOPPER} dtype=bf16 launch=dependent epilogue=swiglu", WGMMA),
    (f"m=70 n=64 k=144 {HOPPER} dtype=e4m3 epilogue=geglu,quantize:e4m3:per_token", WGMMA_BYTES),
    ("m=70 n=dynamic:45 k=101 batch=2 layout=nt epilogue=swiglu", COPIED),
    # Computed scales, alone and behind the others.
    ("m=70 n=132 k=72 dtype_c=fp32 epilogue=bias,residual,quantize:int8:dynamic", SMALL),
    ("m=40 n=72 k=200 batch=2 stride_d=pointers epilogue=gelu,quantize:int8:dynamic", CUT),
    ("m=3 n=1030 k=64 layout=nt epilogue=store,quantize:e4m3:dynamic ldd=7 align_d=1", NARROW),
    ("m=dynamic:90 n=72 k=64 arch=sm_90 epilogue=rms_norm,quantize:e5m2:dynamic", SMALL),
    (f"m=100 n=72 k=128 {HOPPER} epilogue=swiglu,store,quantize:int8:dynamic", WGMMA),
    # Scales by block.
    (
        f"m=130 n=136 k=256 {HOPPER} {BLOCKS} dtype_c=bf16 epilogue=bias",
        WGMMA_BYTES,
    ),
    (
        f"m=dynamic:130 n=136 k=512 {HOPPER} {BLOCKS} epilogue=layer_norm",
        replace(WGMMA_BYTES, split_k=2),
    ),
    # Every product somewhere else.
    (
        f"m=70 n=72 k=40 batch=3 dtype_c=fp16 {APART} epilogue=rms_norm,quantize:int8",
        SMALL,
    ),
    (f"m=40 n=24 k=40 batch=3 dtype_c=fp16 {BESIDE} epilogue=layer_norm", SMALL),
    # Short sides.
    ("m=1 n=33 k=40 epilogue=layer_norm", SMALL),
    ("m=130 n=1 k=40 epilogue=swiglu", SMALL),
    # Without a product: from either layout to either.
    ("op=epilogue m=130 n=72 epilogue=gelu,residual", None),
    ("op=epilogue m=130 n=70 layout=tn epilogue=residual,store,rms_norm", None),
    ("op=epilogue m=dynamic:130 n=dynamic:70 layout=tn dtype=bf16 epilogue=layer_norm", None),
    ("op=epilogue m=70 n=65 layout=tn dtype=fp32 lda=72 epilogue=quantize:int8:dynamic", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "choice"), CASES)
def test_a_column_major_d_is_right(text: str, choice: Choice | None) -> None:
    program = program_of(f"{text} layout_d=t", choice)
    assert isinstance(program.kernels[-1].body, Turn)
    assert_right(f"{text} layout_d=t", choice, effort=0.3)


@pytest.mark.parametrize(
    "text",
    [
        "m=130 n=72 epilogue=bias,scale:row,gelu,residual,store:fp32",
        "m=dynamic:130 n=dynamic:70 dtype=bf16 arch=sm_90 epilogue=bias:row:fp32,relu",
        "m=2100 n=9 dtype=fp32 lda=2101 ldd=2112 epilogue=bias,quantize:int8:per_token",
    ],
)
def test_columns_are_computed_like_rows_where_no_step_minds(text: str) -> None:
    text = f"op=epilogue {text} layout=tn layout_d=t"
    (kernel,) = program_of(text, None).kernels
    assert kernel.transposed
    assert (kernel.m.name, kernel.n.name) == ("N", "M")
    assert_right(text, None, effort=0.3)


@pytest.mark.parametrize("more", ["", " epilogue=bias,rms_norm", " epilogue=quantize:int8:dynamic"])
def test_a_column_major_a_is_turned_for_a_row_major_d(more: str) -> None:
    """The kernel that writes D is then the last, and takes no leading dimension of A's."""
    text = f"op=epilogue m=dynamic:130 n=70 layout=tn arch=sm_90{more}"
    program = program_of(text, None)
    assert [kernel.body.role for kernel in program.kernels][:2] == ["turn_in", "rows"]
    assert program.spec == GemmSpec.from_text(text)
    names = [parameter.name for parameter in program.kernels[1].kernel_parameters]
    assert "a_turned" in names
    assert "lda" not in names
    assert_right(text, None, effort=0.3)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("m=70 n=66 k=72 epilogue=bias,layer_norm", SMALL),
        ("m=70 n=34 k=72 epilogue=swiglu", SMALL),
        ("m=70 n=66 k=72 epilogue=gelu,quantize:int8:dynamic", SMALL),
        (f"m=70 n=66 k=256 {HOPPER} {BLOCKS}", WGMMA_BYTES),
    ],
)
def test_a_turned_d_has_the_bits_of_a_row_major_one(text: str, choice: Choice) -> None:
    found = []
    for letter in "nt":
        program = program_of(f"{text} layout_d={letter}", choice)
        problem = bind(program)
        inputs = next(case.inputs for case in cases_of(program, 1) if case.check == "random")
        outcome = device_of(program).launch(problem, inputs, None)
        assert outcome.faults == ()
        whole = Region(0, 0, problem.m, 0, problem.n)
        bits = outcome.outputs["d"].bits
        found.append(read_region(problem.matrix("d"), bits, whole, np))
    assert np.array_equal(*found)


# -- the plan -------------------------------------------------------------------------------------


def roles_of(text: str) -> list[str]:
    return [kernel.body.role for kernel in program_of(text, None).kernels]


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("m=70 n=72 k=64 epilogue=gelu,residual", ["mma_sync"]),  # D^T = B^T A^T, as ever
        ("m=70 n=72 k=64 epilogue=swiglu", ["product", "turn"]),
        ("m=70 n=72 k=64 epilogue=swiglu,residual", ["turn_in", "product", "turn"]),
        ("m=70 n=72 k=64 epilogue=swiglu,store", ["product", "turn"]),
        ("m=4096 n=4096 k=64 epilogue=rms_norm", ["product", "rows", "turn"]),
        ("m=70 n=72 k=64 epilogue=quantize:int8:dynamic", ["product", "scales", "turn"]),
        ("op=epilogue m=70 n=72 epilogue=gelu", ["rows", "turn"]),
        ("op=epilogue m=70 n=72 layout=tn epilogue=gelu", ["rows"]),  # its rows are columns
        ("op=epilogue m=70 n=72 layout=tn epilogue=layer_norm", ["turn_in", "rows", "turn"]),
    ],
)
def test_what_is_turned_and_when(text: str, roles: list[str]) -> None:
    found = roles_of(f"{text} layout_d=t")
    assert found == roles or (roles == ["mma_sync"] and len(found) == 1)


def turns_of(program: Program) -> dict[str, dict[str, tuple[int, int, int]]]:
    """(vector, vector by rows, pitch) of each matrix of each kernel that turns."""
    return {
        kernel.body.role: {m.name: (m.vector, m.row_vector, m.pitch) for m in kernel.body.matrices}
        for kernel in program.kernels
        if isinstance(kernel.body, Turn)
    }


def test_vectors_are_as_wide_as_columns_allow() -> None:
    text = "m=68 n=70 k=64 batch=2 dtype_c=fp32 layout_d=t align_c=8 ldd=72"
    steps = "residual:ld=70,store:bf16:align=4,rms_norm,quantize:int8"
    assert turns_of(program_of(f"{text} epilogue={steps}")) == {
        "turn_in": {"c": (2, 4, 72), "residual0": (2, 8, 72)},
        "turn": {"d": (8, 16, 80), "store1": (2, 8, 72)},
    }
    dynamic = program_of("m=dynamic:64 n=70 k=64 layout_d=t epilogue=rms_norm")
    assert turns_of(dynamic) == {"turn": {"d": (1, 8, 72)}}
    single = program_of("m=67 n=1 k=64 layout_d=t epilogue=swiglu")  # a column has no next
    assert turns_of(single) == {"turn": {"d": (8, 8, 8)}}


def test_kernels_follow_each_other_early_where_they_can() -> None:
    text = "m=70 n=72 k=64 epilogue=residual,rms_norm,quantize:int8:dynamic layout_d=t"
    for arch, launch, early in (
        ("sm_80", "plain", 0),
        ("sm_90", "plain", 1),
        ("sm_90", "dependent", 1),
    ):
        kernels = program_of(f"{text} arch={arch} launch={launch}", None).kernels
        outside = launch == "dependent"
        assert [k.dependent for k in kernels] == [outside, *[bool(early)] * (len(kernels) - 1)]
        assert [k.followed for k in kernels] == [*[bool(early)] * (len(kernels) - 1), outside]


def test_the_tree_says_that_d_is_turned() -> None:
    spec = GemmSpec.from_text(
        "m=4096 n=4096 k=4096 layout=nt dtype_c=fp16 layout_d=t epilogue=store,rms_norm arch=sm_90a"
    )
    arch = load_arch("sm_90a")
    program, told = decide(spec, arch), explain(spec, arch)
    last = program.decisions[-1]
    assert (last.id, last.question) == ("D17", "columns")
    assert last.choice == "by rows, C turned before, D and store0 turned behind"
    assert last.reason.startswith("rms_norm wants whole rows; ")
    assert told.decisions[-1] == last
    assert told.spec == str(spec) == str(program.spec)
    assert told.prediction.us > explain(rows_spec(spec), arch).prediction.us
    regions = [region.name for region in program.workspace.regions]
    assert regions[:3] == ["c_turned", "d_turned", "store0_turned"]


def test_no_family_is_given_what_it_would_compute_by_columns() -> None:
    spec = GemmSpec.from_text("m=64 n=64 k=64 layout_d=t epilogue=swiglu")
    with pytest.raises(InternalError, match="swiglu pairs columns, and no family turns D"):
        SMALL.program(spec, load_arch("sm_80"))


def test_more_tiles_than_a_grid_has_blocks() -> None:
    spec = GemmSpec.from_text("m=128 n=128 k=8 batch=1000000000 layout_d=t epilogue=rms_norm")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch("sm_80"))
    assert str(caught.value) == (
        "m = 128, n = 128, batch = 1000000000: rms_norm wants whole rows, so D is turned, in"
        " 4000000000 tiles of 64x64, and a grid has 2147483647 blocks at most; leave layout_d out,"
        " or make m smaller"
    )


def test_the_tiles_that_touch_one_of_the_product_are_turned() -> None:
    program = program_of("m=300 n=200 k=32 batch=2 layout_d=t epilogue=swiglu")
    problem = bind(program)
    assert problem.blocks_of(program.kernels[-1]) == 2 * 5 * 4
    # A tile of the product has 64 rows and 32 columns of D: tile (0, 6), the last of its row.
    last = next(
        b for b in range(problem.grid) if written_by(problem, (b,)) == (Region(0, 0, 64, 192, 200),)
    )
    assert blocks_for(problem, program.kernels[-1], (last,)) == (3,)


# -- mutants --------------------------------------------------------------------------------------

TEXT = (
    "m=135 n=70 k=40 batch=2 dtype_c=fp16 layout_d=t ldd=136 epilogue=residual,store:fp32,rms_norm"
)

MUTANTS: list[tuple[str, str, str]] = [
    ("nothing waits for the tile", r"\n    __syncthreads\(\);\n\n    constexpr", "\n    constexpr"),
    ("tiles overwrite each other", r"__syncthreads\(\);  // the tile before", "// the tile before"),
    ("lines overlap", r"return line \* \(TURN \+ 1\)", "return line * (TURN - 1)"),
    ("threads share a line", r"2 \* number / COUNT;", "0;"),
    ("a line too many", r"if \(first < left\)\n", "if (first <= left)\n"),
    ("the last lines are forgotten", r"if \(first < left\)\n", "if (first + PASS < left)\n"),
    ("a line's end is read beyond", r"if \(beside >= READ\)", "if (beside > 0)"),
    ("a line's end is forgotten", r"v < READ - 1; \+\+v\)\n +if", "v < 0; ++v)\n if"),
    ("a column's end is written beyond", r"if \(beside >= WRITE\)", "if (beside > 0)"),
    ("a column's end is forgotten", r"v < WRITE - 1; \+\+v\)\n +if", "v < 0; ++v)\n if"),
    ("a place too many", r"first >= left\) continue", "first > left) continue"),
    ("C is read where beta is 0", r"if \(beta != 0\.0f\)\n +turn_tile", "turn_tile"),
    ("C is never turned", r"if \(beta != 0\.0f\)\n +turn_tile", "if (beta == 0.0f) turn_tile"),
    ("the second product's C is the first's", r"c \+= batch \* \(N \* LDC\);", ""),
    ("the second product's D is the first's", r" d \+= batch \* \(N \* LDD\);", ""),
    ("rows of C lie further apart", r"row \* LDC_TURNED", "row * (LDC_TURNED + 8)"),
    ("a residual's tile is D's", r"N, M, n0, m0, words\);\n}", "N, M, m0, n0, words);\n}"),
    ("what is stored is not turned", r"turn_tile<u32, 4, 1>", "if (false) turn_tile<u32, 4, 1>"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "replacement"), [pytest.param(*m[1:], id=m[0]) for m in MUTANTS]
)
def test_a_mutant_dies(pattern: str, replacement: str) -> None:
    program = program_of(TEXT)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count, f"nothing in the file matches {pattern!r}"
    assert_wrong(program, source)
