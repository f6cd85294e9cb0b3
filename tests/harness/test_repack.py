"""Programs that first copy operands whose rows start off 16 bytes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import Copies, RepackChoice, WgmmaChoice
from deepgemm_codegen.harness.blocks import blocks_for
from deepgemm_codegen.harness.cases import cases_of
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan import Program, Repack
from tests.harness.support import (
    SMALL,
    assert_right,
    assert_wrong,
    device_of,
    program_of,
    source_of,
)

WGMMA = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8)
BOTH = Copies(("a", "b"))

WGMMA_BYTES = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, tile_k=128)
TURNED = Copies(("a", "b"), turned=("a", "b"))
A_TURNED = Copies(("a", "b"), turned=("a",))
B_TURNED = Copies(("a", "b"), turned=("b",))
HOPPER = "arch=sm_90a"

CASES = [
    ("m=100 n=72 k=101 layout=nt", SMALL, BOTH),
    ("m=67 n=45 k=99 layout=tn batch=3 dtype_c=fp16 epilogue=bias,relu", SMALL, BOTH),
    ("m=70 n=33 k=1 layout=tt layout_d=t", SMALL, BOTH),  # rows shorter than a vector
    ("m=5 n=700 k=64", SMALL, Copies(("b",))),  # one operand, as its rows allow
    ("m=64 n=64 k=64 lda=65 align_a=2 align_b=2 ldb=71", SMALL, BOTH),
    ("m=64 n=64 k=64 align_a=2 align_b=4", SMALL, BOTH),  # only the base is off
    ("m=80 n=64 k=77 dtype=int8 layout=nt align_a=1 align_b=1", SMALL, BOTH),
    ("m=80 n=67 k=77 dtype=uint8 layout=tn align_a=1 arch=sm_75 dtype_d=fp32", SMALL, BOTH),
    ("m=dynamic:90 n=dynamic:75 k=dynamic:101 layout=tn batch=2", SMALL, BOTH),
    ("m=70 n=64 k=333 epilogue=bias launch=dependent arch=sm_90", replace(SMALL, split_k=3), BOTH),
    ("m=100 n=91 k=101 layout=nt arch=sm_90a", WGMMA, BOTH),
    ("m=100 n=91 k=101 layout=tn dtype=bf16 epilogue=bias,gelu arch=sm_90a", WGMMA, BOTH),
    ("m=130 n=67 k=200 layout=nn align_a=2 layout_d=t arch=sm_90a", WGMMA, BOTH),
    ("m=dynamic:90 n=dynamic:75 k=dynamic:101 layout=tt ldd=77 arch=sm_90a", WGMMA, BOTH),
    # 1-byte operands that lie across k, turned for wgmma.
    (f"m=100 n=91 k=101 dtype=int8 layout=tn {HOPPER}", WGMMA_BYTES, TURNED),
    (f"m=300 n=200 k=130 dtype=e4m3 layout=tt align_b=1 {HOPPER}", WGMMA_BYTES, A_TURNED),
    (f"m=70 n=200 k=70 dtype=uint8 layout=nn lda=71 {HOPPER}", WGMMA_BYTES, B_TURNED),
    (
        f"m=dynamic:90 n=dynamic:75 k=dynamic:101 dtype=e5m2 layout=tn {HOPPER}",
        WGMMA_BYTES,
        TURNED,
    ),
    (f"m=64 n=65 k=900 dtype=e4m3 layout=nn {HOPPER}", replace(WGMMA_BYTES, split_k=3), B_TURNED),
    ("m=64 n=65 k=600 arch=sm_90a launch=dependent", replace(WGMMA, split_k=3), Copies(("b",))),
    # B of two halves, in one copy.
    ("m=100 n=75 k=71 layout=nt epilogue=bias,swiglu arch=sm_90a", WGMMA, BOTH),
    ("m=70 n=33 k=71 epilogue=geglu arch=sm_90", SMALL, BOTH),
    ("m=70 n=dynamic:45 k=101 batch=2 layout=nt epilogue=swiglu", SMALL, BOTH),
    (f"m=70 n=45 k=72 dtype=e4m3 epilogue=swiglu {HOPPER}", WGMMA_BYTES, B_TURNED),
    (
        f"m=70 n=dynamic:50 k=72 dtype=int8 dtype_d=fp16 epilogue=geglu {HOPPER}",
        WGMMA_BYTES,
        B_TURNED,
    ),
]


@pytest.mark.parametrize(
    ("text", "choice", "copied"),
    [pytest.param(*case, marks=[pytest.mark.full] * (i % 2)) for i, case in enumerate(CASES)],
)
def test_copies_are_multiplied_right(text: str, choice: WgmmaChoice, copied: Copies) -> None:
    assert_right(text, RepackChoice(choice, copied))


def _first(program: Program) -> Repack:
    body = program.kernels[0].body
    assert isinstance(body, Repack)
    return body


def test_the_copies_of_a_tile_run_and_no_others() -> None:
    """Of K-major operands whole rows, of others a stripe of all rows."""
    program = program_of("m=300 n=1000 k=777 layout=nn", RepackChoice(SMALL, BOTH))
    problem = bind(program)
    body = _first(program)
    assert body.tile_of(body.matrices[0]) == (32, 256)
    # A, 300 rows of 777: 10 x 4 tiles. B, 777 rows of 1000: 25 x 4.
    assert problem.blocks_of(program.kernels[0]) == 10 * 4 + 25 * 4
    found = blocks_for(problem, program.kernels[0], (0,))
    assert found is not None
    assert found == (*range(8), *(40 + 4 * row for row in range(25)))


def test_short_rows_share_a_warp() -> None:
    program = program_of("m=300 n=200 k=37 layout=nt", RepackChoice(SMALL, BOTH))
    assert _first(program).row_threads == 8
    assert _first(program).tile_of(_first(program).matrices[0])[0] == 128


def test_rows_of_a_copy_start_on_lines() -> None:
    program = program_of("m=300 n=dynamic:131 k=1023", RepackChoice(SMALL, BOTH))
    a, b = _first(program).matrices
    assert (a.pitch, b.pitch) == (1024, 192)
    assert [region.name for region in program.workspace.regions] == ["a_packed", "b_packed"]
    assert [region.offset.evaluate({}) for region in program.workspace.regions] == [0, 614400]
    assert program.workspace.bytes.evaluate({}) == 614400 + 392832 + 128  # on 256 bytes


def test_the_squares_of_a_tile_are_turned_and_no_others() -> None:
    text = "m=300 n=1000 k=777 dtype=int8 layout=tt arch=sm_90a"
    program = program_of(text, RepackChoice(WGMMA_BYTES, A_TURNED))
    problem, body = bind(program), _first(program)
    a, b = body.matrices
    assert (body.tile_of(a), a.pitch, b.pitch) == ((64, 64), 896, 896)
    # A, 777 rows of 300: 13 x 5 squares. B, 1000 rows of 777: 32 x 2 tiles.
    assert problem.blocks_of(program.kernels[0]) == 13 * 5 + 32 * 2
    found = blocks_for(problem, program.kernels[0], (0,))
    assert found == (*range(0, 65, 5), *range(65, 69))


def test_boxes_at_the_edge_of_d_read_up_to_the_next_row_of_a_copy() -> None:
    """Rows of 96 are copied on lines of 128, and a box of the last tile reads all of them."""
    text = "m=96 n=32 k=9 batch=3 dtype=bf16 layout=tt lda=97 arch=sm_90a"
    choice = RepackChoice(WgmmaChoice(64, 32, 1, 1, 2, 1, 1, 1), BOTH)
    program = program_of(text, choice)
    problem, body = bind(program), _first(program)
    a, _ = body.matrices
    assert (a.filled, a.pitch, body.tile_of(a)) == (True, 128, (512, 16))
    # A, 3 x 9 rows: 1 x 8 tiles, of which the second tile of D needs the columns from 64 on.
    assert (blocks_for(problem, program.kernels[0], (1,)) or ())[:4] == (4, 5, 6, 7)
    assert_right(text, choice, effort=0.2)
    assert_right(
        "m=96 n=23 k=1 batch=5 dtype=bf16 layout=tt ldb=65 align_a=8 epilogue=swiglu"
        " arch=sm_90a tiles_at_once=1",
        None,
    )


def test_sampled_tiles_of_a_large_program_pass() -> None:
    text = "m=520 n=523 k=519 layout=nn arch=sm_90a"
    choice = RepackChoice(WgmmaChoice(128, 128, 2, 1, 4, 2, 1, 8), BOTH)
    verdict = assert_right(text, choice, effort=0.2)
    assert verdict.sampled < verdict.grid == 30


MUTANTS: list[tuple[str, str, str]] = [
    ("the tail of a row is forgotten", r"\(column >= columns\)", "(column + VECTOR > columns)"),
    ("the last rows are forgotten", r"i64\{2\} \* M \+ TILE_ROWS - 1", "i64{2} * M"),
    ("the second vector is not read", r"if \(skipped != 0\) load_16", "if (false) load_16"),
    ("nothing is shifted by 8", r"bytes & 8 \?", "false ?"),
    ("nothing is shifted by 4", r"bytes & 4 \?", "false ?"),
    ("nothing is shifted by 2", r"bytes % 4 \* 8", "0"),
    ("what lies before the matrix is read", r"from < begin \|\| ", ""),
    ("what lies behind it is read", r" \|\| from \+ \(skipped == 0 \? 16 : 32\) > end", ""),
    ("its end is read with what follows", r"min\(static_cast<int>\(VECTOR\), c", "max(8, c"),
    ("B is copied as A", r"tile -= a_tiles;", ""),
    ("B's copy has A's rows", r"LDB_PACKED, b", "LDA_PACKED, b"),
    ("the second product's operands are not copied", r"i64\{2\} \* K, ", "K, "),
    ("null pointers are followed", r"if \(alpha == 0.0f\) return;", ""),
    ("rows overlap", r"row \* pitch", "row * (pitch - 8)"),
]  # fmt: skip


def test_no_byte_of_a_copy_is_read_that_was_not_written() -> None:
    """Of a row's last vector the rest is padding, which nobody writes in the last row."""
    text = "m=100 n=72 k=101 layout=nt dtype=int8"  # no NaN tells
    program = program_of(text, RepackChoice(SMALL, BOTH))
    source = source_of(program)
    wider = r"\1, row < 72 ? 16 : bytes"
    whole, count = re.subn(r"(partial\(target, source), bytes", wider, source)
    assert count == 2
    verdict = judge(device_of(program, whole), program, Settings(effort=0.5))
    assert any("poison-read" in fault for check in verdict.checks for fault in check.faults)


TURNING: list[tuple[str, str, str]] = [
    ("nothing waits for the tile", r"__syncthreads\(\);", ""),
    ("rows of the tile overlap", r"target = tile \+ \(y \* TURN", "target = tile + (y * 48"),
    ("the skew is read differently", r"from = tile \+ \(y \* TURN", "from = tile + (y * 48"),
    ("bytes change places", r"v % 4 \* 8", "(3 - v % 4) * 8"),
    ("A's last columns are forgotten", r"\(M \+ TURN - 1\)", "M"),
    ("A's last rows are forgotten", r"\(K \+ TURN - 1\)", "K"),
    ("the square is not turned", r"i64\{column\} \* pitch \+ row", "i64{row} * pitch + column"),
    ("columns are its neighbour's", r"tile_column \* TURN \+ x;", "tile_row * TURN + x;"),
    ("unwritten bytes are read", r"if \(row \+ v < rows\) words", "words"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "replacement"), [pytest.param(*m[1:], id=m[0]) for m in TURNING]
)
def test_a_mutant_that_turns_dies(pattern: str, replacement: str) -> None:
    text = "m=135 n=70 k=333 dtype=int8 layout=tn lda=137 arch=sm_90a"
    _dies(program_of(text, RepackChoice(WGMMA_BYTES, TURNED)), pattern, replacement)


FILLING: list[tuple[str, str, str]] = [
    ("what follows the last row follows", r"column \+ v < columns \?", "true ?"),
    ("nothing follows the last vector", r"\(column >= width\)", "(column >= columns)"),
    ("the last vectors are forgotten", r"\(LDB_PACKED \+ TILE_COLUMNS - 1\)", "(N)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "replacement"), [pytest.param(*m[1:], id=m[0]) for m in FILLING]
)
def test_a_mutant_that_fills_dies(pattern: str, replacement: str) -> None:
    text = f"m=100 n=91 k=101 layout=nn {HOPPER}"
    _dies(program_of(text, RepackChoice(WGMMA, BOTH)), pattern, replacement)


@pytest.mark.parametrize(
    ("pattern", "replacement"), [pytest.param(*m[1:], id=m[0]) for m in MUTANTS]
)
def test_a_mutant_dies(pattern: str, replacement: str) -> None:
    text = "m=67 n=300 k=77 layout=nn batch=2 align_a=2"
    _dies(program_of(text, RepackChoice(SMALL, BOTH)), pattern, replacement)


def _dies(program: Program, pattern: str, replacement: str) -> None:
    source = source_of(program)
    found = re.search(pattern, source)
    assert found, f"nothing in the file matches {pattern!r}"
    mutated = source[: found.start()] + replacement + source[found.end() :]
    cases = [case for case in cases_of(program, 0) if case.exact]
    assert_wrong(program, mutated, cases=cases)
