"""Programs that compute the scales of rows: values, then scales and D, and how both are judged."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice, MmaSyncChoice, WgmmaChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.blocks import tile_of
from deepgemm_codegen.harness.inputs import Given, Inputs, Nans
from deepgemm_codegen.harness.numbers import decode
from deepgemm_codegen.harness.problem import Problem, bind
from deepgemm_codegen.harness.teams import choose_blocks, team_of
from deepgemm_codegen.plan.row_scales import RowScales
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import (
    NAN,
    SMALL,
    Choice,
    assert_right,
    assert_wrong,
    device_of,
    program_of,
    source_of,
    values,
)

INF = float("inf")
LEAST = 2.0**-126

CUT = replace(SMALL, split_k=3)
NARROW = BandwidthChoice(8, 1, 4, 2, 2)
WGMMA = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8)

CASES: list[tuple[str, Choice | None]] = [
    ("m=70 n=132 k=72 epilogue=bias,quantize:int8:dynamic", SMALL),
    ("m=67 n=97 k=99 layout=tn epilogue=bias:row,store:fp32,quantize:e4m3:dynamic", SMALL),
    ("m=70 n=64 k=40 arch=sm_75 dtype_c=fp16 epilogue=quantize:e5m2:dynamic", SMALL),
    ("m=40 n=72 k=200 layout=nt batch=2 epilogue=gelu,quantize:int8:dynamic", CUT),
    ("m=dynamic:90 n=72 k=dynamic:99 epilogue=residual,quantize:int8:dynamic", SMALL),
    ("m=70 n=68 k=40 layout=nt epilogue=bias,swiglu,quantize:int8:dynamic", SMALL),
    ("m=64 n=48 k=96 dtype=int8 layout=tn epilogue=scale:row,quantize:int8:dynamic", SMALL),
    (
        "m=3 n=1030 k=64 epilogue=bias,quantize:int8:dynamic ldd=1032",
        NARROW,
    ),
    ("m=33 n=40 k=24 dtype=fp32 epilogue=store,quantize:int8:dynamic", None),
    ("m=100 n=136 k=128 layout=nt arch=sm_90a epilogue=silu,quantize:e4m3:dynamic", WGMMA),
    (
        "m=150 n=128 k=192 layout=nt arch=sm_90a epilogue=swiglu,store,quantize:int8:dynamic",
        WgmmaChoice(64, 128, 2, 2, 4, 2, 1, 8),
    ),
    ("m=40 n=72 k=64 epilogue=bias,rms_norm,quantize:int8:dynamic", None),
    ("op=epilogue m=40 n=73 epilogue=residual,store,layer_norm,quantize:e4m3:dynamic", None),
    ("op=epilogue m=dynamic:40 n=512 dtype=bf16 epilogue=quantize:int8:dynamic arch=sm_90", None),
    ("op=epilogue m=2 n=65536 epilogue=quantize:e4m3:dynamic arch=sm_89", None),  # read again
    ("op=epilogue m=dynamic:3 n=40963 epilogue=gelu,quantize:int8:dynamic arch=sm_75", None),
    (
        "m=70 n=72 k=256 layout=nt arch=sm_90a launch=dependent epilogue=quantize:int8:dynamic",
        replace(WGMMA, split_k=2),
    ),
]


@pytest.mark.parametrize(("text", "choice"), CASES)
def test_computed_scales_are_right(text: str, choice: Choice | None) -> None:
    verdict = assert_right(text, choice)
    assert {check.name for check in verdict.checks} == {"exact", "random", "hostile"}


EVERYWHERE = "bias,store:fp32,quantize:int8:per_token:zero_point=per_token"


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (f"m=70 n=68 k=72 epilogue={EVERYWHERE}", SMALL),
        (f"m=40 n=68 k=200 epilogue={EVERYWHERE}", CUT),
        (f"m=3 n=72 k=64 epilogue={EVERYWHERE}", NARROW),
        (f"m=33 n=40 k=24 dtype=fp32 epilogue={EVERYWHERE}", None),
        (f"m=70 n=72 k=64 layout=nt arch=sm_90a epilogue={EVERYWHERE}", WGMMA),
        (
            f"m=70 n=72 k=256 layout=nt arch=sm_90a epilogue={EVERYWHERE}",
            replace(WGMMA, split_k=2),
        ),
    ],
)
def test_the_unquantised_value_beside_the_quantised_one_in_every_family(
    text: str, choice: Choice | None
) -> None:
    """Several outputs: `store` before `quantize`, scales and zero points given a token."""
    program = program_of(text, choice)
    assert bind(program).outputs == ("d", "store1")
    assert_right(text, choice)


# -- literal rows ---------------------------------------------------------------------------------


def quantized(rows: list[list[float]], to: str = "int8", arch: str = "sm_80") -> tuple[Any, Any]:
    """D and the scales of literal rows of fp32, which come through C."""
    m, n = len(rows), len(rows[0])
    text = f"m={m} n={n} k=0 dtype_c=fp32 epilogue=quantize:{to}:dynamic arch={arch}"
    program = program_of(text)
    problem = bind(program, alpha=0.0, beta=1.0)
    return launched(program, problem, c=rows)


def launched(program: Any, problem: Problem, **operands: Any) -> tuple[Any, Any]:
    inputs = Inputs("literal", {name: values(source) for name, source in operands.items()})
    outcome = device_of(program).launch(problem, inputs, None)
    assert outcome.faults == ()
    (name,) = (name for name in outcome.outputs if name.startswith("scale"))
    d, scales = problem.matrix("d"), problem.matrix(name)
    found = decode(outcome.outputs["d"].bits, d.dtype, np).reshape(-1, d.columns)
    return found, decode(outcome.outputs[name].bits, scales.dtype, np)


def test_q12_a_row_of_zeros() -> None:
    """Q12: it becomes zeros, and its scale is finite and above 0."""
    rows = [[1.0, -2.0] * 32, [0.5] * 64, [0.0, -0.0] * 32, [3.0] * 64]
    for to in ("int8", "e4m3", "e5m2"):
        d, scales = quantized(rows, to)
        assert (d[2] == 0).all()
        assert scales[2] == LEAST
        assert (scales > 0).all()
        assert np.isfinite(scales).all()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_nan_and_infinity(arch: str) -> None:
    """They make the scale what they are; so whatever is made of the row again is NaN."""
    rows = [[1.0, NAN, 2.0, -3.0], [1.0, INF, 2.0, 0.0], [-INF, NAN, INF, 1.0], [127.0, 1, 0, -127]]
    d, scales = quantized(rows, "int8", arch)
    assert np.isnan(scales[0])
    assert scales[1] == INF
    assert np.isnan(scales[2])
    assert scales[3] == 1
    assert d.tolist() == [[0] * 4, [0] * 4, [0] * 4, [127, 1, 0, -127]]
    d, scales = quantized(rows, "e4m3", arch)
    assert np.isnan(scales[[0, 2]]).all()
    assert np.isnan(d[[0, 2]]).all()
    assert np.array_equal(d[1], [0, NAN, 0, 0], equal_nan=True)


def test_the_largest_magnitude_is_the_largest_number() -> None:
    """Positive or negative; and a half goes to the even number."""
    d, scales = quantized([[254.0, 1.0, 3.0, 5.0], [-254.0, -1.0, -3.0, 253.0]])
    assert scales.tolist() == [2.0, 2.0]
    assert d.tolist() == [[127, 0, 2, 2], [-127, 0, -2, 126]]
    d, scales = quantized([[896.0, -896.0, 2.0, 34.0]], "e4m3")
    assert scales.tolist() == [2.0]
    assert d.tolist() == [[448, -448, 1, 16]]


def test_rows_too_small_for_a_scale_of_their_own() -> None:
    """The scale stops at the least normal number; what is below half of it becomes zero."""
    rows = [
        [LEAST, -LEAST / 2, LEAST / 4, 0.0],
        [2.0**-149, 0.0, 0.0, 0.0],
        [3.4e38, -3.4e38, 0, 1],
    ]
    d, scales = quantized(rows)
    assert scales[:2].tolist() == [LEAST, LEAST]
    assert d.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [127, -127, 0, 0]]
    assert scales[2] == np.float32(3.4e38) / np.float32(127)


@pytest.mark.parametrize("place", [0, 31, 32, 516, 1026])
def test_any_column_may_hold_the_largest(place: int) -> None:
    """Each warp's share, each pass, the last column of a row that is no whole pass."""
    row = [0.25] * 1027
    row[place] = -127.0
    d, scales = quantized([row, [0.0] * 1027, row])
    assert scales.tolist() == [1.0, LEAST, 1.0]
    assert (d[[0, 2], place] == -127).all()
    assert np.count_nonzero(d) == 2


def test_scales_of_a_batch_are_a_batch() -> None:
    program = program_of("m=5 n=8 k=16 batch=3 epilogue=quantize:int8:dynamic")
    problem = bind(program)
    assert problem.matrix("scale0").elements == 15
    a = Given(tuple((float(i + 1),) for i in range(5)))
    _, scales = launched(program, problem, a=a, b=1)
    assert scales.tolist() == [np.float32(16 * (i + 1)) / np.float32(127) for i in range(5)] * 3


def test_a_nan_of_a_stays_in_its_row() -> None:
    program = program_of("m=5 n=8 k=16 epilogue=quantize:e4m3:dynamic")
    d, scales = launched(program, bind(program), a=Nans(values(1), rows=(3, 0)), b=1)
    assert np.flatnonzero(np.isnan(scales)).tolist() == [3]
    assert np.flatnonzero(np.isnan(d).any(axis=1)).tolist() == [3]


# -- the plan -------------------------------------------------------------------------------------


def body_of(text: str) -> RowScales:
    body = program_of(text, None).kernels[-1].body
    assert isinstance(body, RowScales)
    return body


@pytest.mark.parametrize(
    ("n", "rows", "row_threads", "passes"),
    [(1, 8, 32, 1), (128, 8, 32, 1), (512, 8, 32, 4), (516, 4, 64, 3), (4096, 1, 256, 4),
     (16384, 1, 1024, 4), (65536, 1, 1024, 16), (65535, 1, 1024, 64)],
)  # fmt: skip
def test_threads_of_a_row(n: int, rows: int, row_threads: int, passes: int) -> None:
    body = body_of(f"m=64 n={n} k=64 epilogue=quantize:int8:dynamic")
    assert (body.tile_m, body.row_threads, body.passes) == (rows, row_threads, passes)
    assert body.tile_n >= n
    assert body.threads <= 1024


def test_a_row_that_no_block_holds() -> None:
    spec = GemmSpec.from_text("m=64 n=65537 k=64 epilogue=quantize:int8:dynamic")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch("sm_80"))
    assert str(caught.value) == (
        "n = 65537: a block holds rows of 65536 elements at most, of which it computes scales; give"
        " scale: per_token and the scales"
    )


def test_the_tree_says_who_computes_the_scales() -> None:
    spec = GemmSpec.from_text("m=4096 n=4096 k=4096 layout=nt epilogue=quantize:int8:dynamic")
    arch = load_arch("sm_80")
    program, told = decide(spec, arch), explain(spec, arch)
    assert [kernel.body.role for kernel in program.kernels] == ["product", "scales"]
    assert [region.name for region in program.workspace.regions] == ["value_rows"]
    assert program.spec == spec
    last = program.decisions[-1]
    assert (last.id, last.question, last.choice) == (
        "D19", "row scales", "a kernel behind, 1 row a block",
    )  # fmt: skip
    assert told.decisions[-1] == last
    assert told.spec == str(spec)
    plain = explain(replace(spec, epilogue=(), dtype_d=spec.dtype_a), arch)
    assert told.prediction.us > plain.prediction.us


def test_tiles_of_a_row_are_judged_together() -> None:
    choice = MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 4)
    problem = bind(program_of("m=640 n=200 k=32 epilogue=quantize:int8:dynamic", choice))
    blocks = choose_blocks(problem, 8, 1)
    rows = {tile_of(problem, block)[1] for block in blocks}
    assert len(blocks) == 4 * len(rows)
    assert 1 <= len(rows) <= 2
    assert len({team_of(problem, block) for block in blocks}) == len(rows)


def test_rows_of_a_cluster_are_judged_together() -> None:
    text = "m=400 n=128 k=64 layout=nt arch=sm_90a epilogue=quantize:int8:dynamic"
    problem = bind(program_of(text, replace(WGMMA, cluster_m=2)))
    teams = {team_of(problem, block) for block in range(problem.grid)}
    assert problem.grid == 2 * 2 * 4
    assert len(teams) == 4


# -- mutants --------------------------------------------------------------------------------------

WIDE = "m=5 n=1100 k=32 layout=nt epilogue=bias,quantize:int8:dynamic"
PLAIN = "m=5 n=200 k=32 layout=nt epilogue=quantize:int8:dynamic"
"""Here alpha = 0 makes rows of zeros."""

COMPARED = r"max\(most, __float_as_uint\(value\[pass\]\[v\]\) & 0x7fffffff\)"

LONGEST = "m=8 n=65536 k=32 epilogue=quantize:int8:dynamic"

MUTANTS: list[tuple[str, str, str, str]] = [
    ("a step of the shuffles left out", WIDE, r"apart = 16;", "apart = 8;"),
    ("a warp left out", WIDE, r"warp < ROW_WARPS", "warp < ROW_WARPS - 1"),
    ("no barrier before warps meet", WIDE, r"__syncthreads\(\);(\n    const u32\* const n)", r"\1"),
    ("the sign compared", WIDE, r" & 0x7fffffff", ""),
    (
        "negative values left out",
        WIDE,
        COMPARED,
        "max(most, value[pass][v] > 0.0f ? __float_as_uint(value[pass][v]) : 0u)",
    ),
    ("NaN left out", WIDE, r"& 0x7fffffff\);", "& 0x7f7fffff);"),
    ("the scale upside down", WIDE, r"__fdiv_rn\(([^,]*), 127\.0f\)", r"__fdiv_rn(127.0f, \1)"),
    ("another range", WIDE, r"127\.0f", "128.0f"),
    ("no least scale", PLAIN, r"at_least\((__fdiv_rn\([^;]*\)), 1\.17549435e-38f\)", r"\1"),
    ("the scale of the row before", WIDE, r"scale1\[row\]", "scale1[max(row - 1, 0)]"),
    ("values of another stride", WIDE, r"LDVALUE_ROWS \+ first", "(LDVALUE_ROWS - 4) + first"),
    ("a pass left out", WIDE, r"pass = 0; pass < PASSES;", "pass = 1; pass < PASSES;"),
    ("a pass that is read again left out", LONGEST, r"pass = KEPT;", "pass = KEPT + 1;"),
    ("a pass that is read again not compared", LONGEST, r"__float_as_uint\(passing\[v\]\)", "0u"),
    ("the values' epilogue left out", WIDE, r"add_bias\(value\[v\], [^;]*\);", "value[v];"),
]


@pytest.mark.parametrize(("name", "text", "pattern", "replacement"), MUTANTS)
def test_a_mutant_fails(name: str, text: str, pattern: str, replacement: str) -> None:
    program = program_of(text)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count, name
    assert_wrong(program, source)
