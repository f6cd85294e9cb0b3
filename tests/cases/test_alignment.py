"""Cases of kind alignment: odd leading dimensions, bases aligned as the element alone.

On the emulator every base has exactly the promised alignment, and a misaligned access is a
finding; the faults planted here are vectors that the promise does not cover.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepgemm_codegen.decide.operands import strided
from deepgemm_codegen.plan.mma_sync import MmaSync
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.batching import SHARED
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import assert_right, plan_of


@planted(faults.wider_copies(4))
def test_a01_odd_leading_dimensions() -> None:
    """Fault seen: copies of two elements where a leading dimension is three."""
    common = "layout=tt layout_d=t"
    assert_right(f"m=2 n=4 k=3 lda=2 ldb=3 ldd=2 {common}")
    assert_right(f"m=3 n=4 k=2 lda=3 ldb=2 ldd=3 {common}")


@planted(faults.wider_copies(4))
def test_a03_ragged_sizes_with_bias_and_relu() -> None:
    """Fault seen: copies of two elements where a row has 105."""
    assert_right("m=1 n=105 k=107 epilogue=bias,relu")


@planted(faults.wider_copies(16))
def test_a05_a_multiple_of_four_but_not_of_eight() -> None:
    """Fault seen: copies of eight elements where a row of B has 36."""
    assert_right("m=36 n=36 k=64 batch=512")


@planted(faults.wider_copies(4))
def test_a06_two_byte_alignment_takes_no_asynchronous_copy() -> None:
    """Fault seen: asynchronous copies of four bytes from an address that is even and no more."""
    text = "m=64 n=64 k=63 lda=63 align_a=2 align_b=2 arch=sm_80"
    body = plan_of(text).body
    assert isinstance(body, MmaSync)
    assert body.a.mechanism == "registers"
    assert_right(text)


@planted(faults.wider_copies(4))
def test_a06_an_even_leading_dimension_does_not_mend_the_base() -> None:
    """Fault seen: the same where only the base is odd."""
    assert_right("m=64 n=64 k=64 lda=64 align_a=2 align_b=2 arch=sm_80")


@planted(faults.wider_stores(4))
def test_a08_an_aligned_base_does_not_mend_the_rows() -> None:
    """Fault seen: stores of four elements where ldd is odd."""
    assert_right("m=8 n=1184 k=64 ldd=1185")


@planted(faults.wider_stores(4))
def test_a08_the_base_of_d_counts_too() -> None:
    """Fault seen: stores of four elements at an even address."""
    assert_right("m=8 n=1184 k=64 align_d=2")


def test_a15_dimensions_of_one() -> None:
    """Fault seen: a spec that demands a leading dimension above the row's length refuses these."""
    for text in ("m=1 n=8 k=64 lda=64", "m=8 n=1 k=8 ldb=1", "m=1 n=1 k=1 lda=1 ldb=1 ldd=1"):
        assert str(GemmSpec.from_text(text)).startswith("m=")
        assert_right(text)


@pytest.mark.parametrize(
    "text",
    [
        "m=1 n=64 k=dynamic:64 batch=3 family=mma_sync",
        "m=64 n=dynamic:64 k=1 batch=3 family=mma_sync",
        "m=1 n=64 k=dynamic:64 batch=3 layout=nt repack=on",
    ],
)
def test_the_only_row_of_each_product_starts_as_its_leading_dimension_says(text: str) -> None:
    """Fault seen: copies of 16 bytes, as if a single row had no leading dimension to mind."""
    spec = GemmSpec.from_text(text)
    assert [strided(spec, letter) for letter in "ab"] == [True, True]
    assert not strided(replace(spec, stride_a=SHARED), "a") or spec.m.size > 1
    assert_right(text, None)
