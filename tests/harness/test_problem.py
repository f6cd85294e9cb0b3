from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.dtypes import FP16
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.matrix import Matrix
from deepgemm_codegen.harness.problem import bind
from tests.harness.support import plan_of


@pytest.mark.parametrize("transposed", [False, True])
def test_flat_and_logical_are_inverse(transposed: Any) -> None:
    matrix = Matrix("a", FP16, 3, 4, 5, 9, 2, transposed=transposed)
    seen = set()
    for batch, row, column in itertools.product(range(3), range(4), range(5)):
        flat = matrix.flat(batch, row, column)
        seen.add(flat)
        assert matrix.logical(flat) == (batch, row, column, True)
    assert len(seen) == 60
    assert max(seen) == matrix.elements - 1
    padding = set(range(matrix.elements)) - seen
    assert not any(matrix.logical(flat)[3] for flat in padding)


def test_the_buffer_ends_with_the_last_row_and_not_with_its_padding() -> None:
    assert Matrix("a", FP16, 2, 3, 4, 10, 2).elements == 30 + 2 * 10 + 4
    assert Matrix("a", FP16, 2, 0, 4, 10, 2).elements == 0
    assert Matrix("a", FP16, 1, 3, 0, 1, 2).elements == 0


def test_batches_follow_without_a_gap() -> None:
    matrix = Matrix("b", FP16, 2, 3, 4, 7, 2, transposed=True)
    assert matrix.flat(1, 0, 0) - matrix.flat(0, 0, 0) == 4 * 7


def test_bind_takes_sizes_of_dynamic_dimensions() -> None:
    plan = plan_of("m=dynamic:100 n=64 k=dynamic:50 dtype_c=fp16")
    problem = bind(plan, m=7, k=0, alpha=0.7, beta=-1.3, padding=3)
    assert problem.sizes == {"m": 7, "n": 64, "k": 0}
    assert problem.alpha == float(np.float32(0.7))
    assert problem.matrix("a").leading == 1 + 3
    assert problem.matrix("b").leading == 64
    assert problem.matrix("d").elements == 7 * 64
    assert str(problem) == "m=7 n=64 k=0 alpha=0.7 beta=-1.3"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"m": 101}, "m = 101: the kernel's m is dynamic up to 100"),
        ({"m": -1}, "m = -1: the kernel's m is dynamic up to 100"),
        ({"n": 63}, "n = 63: the kernel's n is fixed at 64"),
    ],
)
def test_bind_refuses_sizes_the_kernel_was_not_made_for(sizes: Any, message: Any) -> None:
    plan = plan_of("m=dynamic:100 n=64 k=dynamic:50 dtype_c=fp16")
    with pytest.raises(InputError) as raised:
        bind(plan, **sizes)
    assert str(raised.value) == message


def test_without_c_there_is_no_beta() -> None:
    assert bind(plan_of("m=64 n=64 k=64"), beta=2.0).beta == 0.0


def test_a_zero_size_has_an_empty_grid() -> None:
    plan = plan_of("m=dynamic:100 n=64 k=64 batch=3")
    assert bind(plan, m=0).grid == 0
    assert bind(plan, m=65).grid == 2 * 3
