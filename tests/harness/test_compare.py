from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.dtypes import FP16, FP32
from deepgemm_codegen.harness.compare import compare
from deepgemm_codegen.harness.sums import Expected

INF, NAN = np.inf, np.nan


def against(got: Any, wanted: Any, error: Any, dtype: Any = FP16) -> Any:
    """Compares one element."""
    expected = Expected.around(np.array([[float(wanted)]]), np.array([[float(error)]]))
    return compare(np.array([[float(got)]]), expected, dtype, np)


@pytest.mark.parametrize(
    ("got", "wanted", "error", "right"),
    [
        (1.0, 1.0, 0.0, True),
        (0.0, -0.0, 0.0, True),  # B10: the sign of zero is nobody's fault
        (1.0 + 2**-10, 1.0, 0.0, False),
        (1.0, 1.0 + 2**-12, 0.0, True),  # rounded to D's type
        (1.0 + 2**-10, 1.0, 2**-11 * 1.01, True),  # the bound reaches the next number's interval
        (1.0 + 2**-9, 1.0, 2**-11, False),
        (NAN, 1.0, 1e9, False),  # NaN fails whatever the bound
        (NAN, NAN, 0.0, True),
        (1.0, NAN, 0.0, False),
        (INF, 70000.0, 0.0, True),  # fp16 overflows
        (65504.0, 65519.0, 1.0, True),  # at the edge both are right
        (INF, 65519.0, 2.0, True),
        (INF, 60000.0, 2.0, False),
        (-INF, INF, 0.0, False),
        (INF, INF, 0.0, True),
        (2.0**-24, 2.0**-24, 0.0, True),
        (0.0, 2.0**-24, 0.0, False),  # a flushed subnormal
        (0.0, 2.0**-26, 0.0, True),
    ],
)
def test_one_element(got: Any, wanted: Any, error: Any, right: Any) -> None:
    found = against(got, wanted, error)
    assert (found.wrong == 0) is right
    assert (found.worst <= 1) is right


def test_the_worst_is_counted_beyond_the_outputs_own_rounding() -> None:
    assert against(1.0, 1.0 + 2**-12, 1.0).worst == 0
    exact = against(1.0, 1.25, 0.5, FP32)
    assert exact.worst == pytest.approx(0.5, rel=1e-5)


def test_nan_among_many_is_found_and_placed() -> None:
    got = np.ones((3, 4))
    got[1, 2] = NAN
    found = compare(got, Expected.around(np.ones((3, 4)), np.ones((3, 4))), FP16, np)
    assert (found.wrong, found.at, found.worst) == (1, (1, 2), INF)
    assert np.argwhere(found.mask).tolist() == [[1, 2]]


def test_the_first_wrong_element_is_reported_with_what_was_allowed() -> None:
    got = np.array([[1.0, 5.0, 9.0]])
    found = compare(got, Expected.around(np.ones((1, 3)), np.full((1, 3), 0.5)), FP32, np)
    assert (found.at, found.got, found.wanted, found.low, found.high) == ((0, 1), 5, 1, 0.5, 1.5)


def test_poison_that_stands_where_nan_belongs_is_wrong() -> None:
    nan = np.full((1, 2), NAN)
    untouched = np.array([[True, False]])
    found = compare(nan, Expected.around(nan, np.zeros((1, 2))), FP16, np, untouched)
    assert found.mask.tolist() == [[True, False]]
