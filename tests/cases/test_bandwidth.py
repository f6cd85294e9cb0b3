"""Cases of kinds tails, alignment and overflow_grid with a short side, by the bandwidth family."""

from __future__ import annotations

import pytest

from deepgemm_codegen.plan import Bandwidth
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import assert_right, plan_of

BY = "family=bandwidth"


def right(text: str, effort: float = 0.5) -> None:
    """Judges what the tree makes of a spec within the family."""
    plan = plan_of(f"{text} {BY}", None)
    assert isinstance(plan.body, Bandwidth)
    assert_right(f"{text} {BY}", None, effort)


@planted(faults.text(r"k_of\(e\) \+ (\w)_VECTOR > left", r"k_of(e) >= left"))
def test_t01_lanes_beyond_k_hold_zeros() -> None:
    """Fault seen: lanes masked on load, but not given a zero."""
    for k in (1001, 1000):
        right(f"m=10 n=99 k={k} layout=nt lda=1008 ldb=1008")


@planted(faults.text(r"(?s)if \(alpha != 0\.0f\) \{.*?\n    \}\n", "return;\n"))
def test_t09_k_of_zero_still_applies_beta_and_the_bias() -> None:
    """Fault seen: an early return where there is nothing to sum."""
    right("m=3 n=3 k=0 dtype_c=fp32")
    right("m=2 n=3 k=0 epilogue=bias dtype_c=fp16")


@planted(faults.text(r"left > 1 \? source\[stride\] : 0", "source[stride]"))
def test_t21_padding_is_not_multiplied() -> None:
    """Fault seen: zeros multiplied by what follows a row, which may be NaN."""
    right("m=4 n=4 k=121 layout=nt lda=136 ldb=136")


def test_t25_the_last_columns_have_a_block() -> None:
    """Fault seen: a grid rounded down loses narrow or ragged columns."""
    for n in (5, 32, 50, 96):
        right(f"m=1 n={n} k=1024", 0.25)


@planted(faults.text(r"item % TILE_N", "item % TILE_N / 4 * 4"))
def test_t27_two_columns() -> None:
    """Fault seen: a store of four elements where a row has two."""
    right("m=1 n=2 k=768 dtype_c=fp16")


@planted(faults.text(r"min\(row \* 8 \+ lane / 4, M - 1\)", "(row * 8 + lane / 4)"))
def test_t29_any_few_rows() -> None:
    """Fault seen: rows had to be a multiple of four."""
    for m in (1, 2, 3, 5, 7):
        right(f"m={m} n=64 k=256 layout=nt", 0.25)


@planted(faults.text(r"if \(\w+ >= N\) continue;", ""))
def test_t20_the_overhang_of_n_is_not_stored() -> None:
    """Fault seen: the overhang of a tile of n overwrites the next row."""
    right("m=4 n=33 k=64")


def test_a01_odd_leading_dimensions() -> None:
    """Fault seen: vectors of two elements where a leading dimension is three."""
    right("m=2 n=4 k=3 lda=3 ldb=5 ldd=7")
    right("m=3 n=4 k=2 layout=tt layout_d=t lda=3 ldb=3 ldd=3")


def test_a03_ragged_sizes_with_bias_and_relu() -> None:
    """Fault seen: sizes that are no multiples of eight fail with steps."""
    right("m=1 n=105 k=107 epilogue=bias,relu")


def test_a06_two_byte_alignment() -> None:
    """Fault seen: vectors of four bytes from an address that is even and no more."""
    right("m=5 n=64 k=63 layout=nt align_a=2 align_b=2")
    right("m=5 n=64 k=64 align_a=2 align_b=2 align_d=2")


@pytest.mark.parametrize(
    "text", ["m=1 n=1 k=64 lda=64 ldb=1", "m=1 n=1 k=1", "m=1 n=64 k=64 layout=tn lda=1"]
)
def test_a15_a_leading_dimension_of_one(text: str) -> None:
    """Fault seen: a size of one has a leading dimension of one, which other checks call illegal."""
    right(text)


@planted(faults.text(r"place \* LDA", "static_cast<int>(place * LDA)"))
def test_o05_rows_far_apart() -> None:
    """Fault seen: row * ld wraps on the matrix-vector path."""
    right("m=20000 n=1 k=512 lda=131072")


@planted(faults.text(r"place \* LDA", "static_cast<int>(place * LDA)"), full=True)
def test_o05_rows_times_leading_dimension_beyond_32_bits() -> None:
    """Fault seen: row * ld wraps on the matrix-vector path."""
    right("m=12347 n=1 k=174000")


@planted(faults.text(r"batch \* \((\w+) \* LD(\w)\)", r"batch * static_cast<int>(\1 * LD\2 * 64)"))
def test_o09_batches_beyond_a_grid_s_height() -> None:
    """Fault seen: the batch in a grid dimension that holds 65,535."""
    for batch in (65535, 65536, 65537):
        right(f"m=16 n=16 k=8 batch={batch}", 0.25)


def test_o12_tiles_beyond_a_grid_s_height() -> None:
    """Fault seen: tiles along n in a grid dimension that holds 65,535; beta applied twice."""
    right(f"m=16 n={65536 * 8 + 1} k=16 dtype_c=fp16", 0.25)
