"""Cases about int8 operands: sums that are whole numbers, whatever becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.harness.inputs import Integers
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import MmaSync
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import SMALL, assert_right, launch, plan_of, program_of

DEEP = MmaSyncChoice(64, 64, 256, 2, 2, 2, 1, 8)


def product(m: int, n: int, k: int, high: int = 9) -> Any:
    """What `Integers` of seeds 1 and 2 from 0 on give."""
    rows, columns, along = np.arange(m), np.arange(n), np.arange(k)
    a = Integers(1, 0, high).at(0, rows[:, None], along[None, :], np)
    b = Integers(2, 0, high).at(0, along[:, None], columns[None, :], np)
    return a.astype(np.float64) @ b.astype(np.float64)


DIGITS: dict[str, Any] = {"a": Integers(1, 0, 9), "b": Integers(2, 0, 9)}


@planted(faults.ROWS_BEYOND_K)
def test_t21_a_slice_longer_than_k() -> None:
    """Fault seen: the slice's rest multiplied by what lies behind the rows."""
    for layout in ("nn", "tt"):
        plan = plan_of(f"m=4 n=4 k=128 dtype=int8 lda=200 ldb=200 layout={layout}", DEEP)
        assert (launch(plan, **DIGITS).d[0] == product(4, 4, 128)).all()


def test_t24_an_inner_size_that_no_vector_divides() -> None:
    """k = 10: exact, and never zeros with success."""
    plan = plan_of("m=96 n=80 k=10 dtype=int8", None)
    found = launch(plan, **DIGITS).d[0]
    assert (found == product(96, 80, 10)).all()
    assert found.any()


def test_t30_one_row_with_a_scale_a_token() -> None:
    """m = 1 is no size apart."""
    plan = plan_of("m=1 n=96 k=1024 dtype=int8 dtype_d=bf16 epilogue=scale:row:fp32", None)
    sums = product(1, 96, 1024)
    found = launch(plan, **DIGITS, scale0=[[0.5]]).d[0]
    assert (np.abs(found - sums * 0.5) <= np.abs(sums) * 2.0**-9).all()


def test_a04_rows_shorter_than_a_vector() -> None:
    """8-byte rows: one is copied as a vector cut short, several 8 bytes at a time."""
    for m, vector_bytes in ((1, 16), (3, 8)):
        plan = plan_of(f"m={m} n=16 k=8 dtype=int8", None)
        assert isinstance(plan.body, MmaSync)
        assert plan.body.a.vector_bytes == vector_bytes
        assert (launch(plan, **DIGITS).d[0] == product(m, 16, 8)).all()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_b11_a_float_result_is_not_cut_to_whole_numbers(arch: str) -> None:
    """58 * 0.1 is 5.8 in every architecture's epilogue."""
    plan = plan_of(f"m=16 n=16 k=29 dtype=int8 dtype_d=fp32 epilogue=relu arch={arch}", SMALL)
    found = launch(plan, bind(plan, alpha=0.1), a=1, b=2).d[0]
    assert (found == np.float64(np.float32(58) * np.float32(0.1))).all()


@pytest.mark.parametrize(("k", "total"), [(131071, 2147467264.0), (131072, -2147483648.0)])
def test_q16_sums_beyond_32_bits_wrap(k: int, total: float) -> None:
    """-128 * -128 summed 2^17 times is 2^31, which is -2^31."""
    plan = plan_of(f"m=1 n=1 k={k} dtype=int8 layout=nt", MmaSyncChoice(16, 32, 256, 1, 1, 2, 1, 1))
    assert launch(plan, a=-128, b=-128).d[0].tolist() == [[total]]


@planted(faults.text(r"(static_cast<u32>\(sum\) - both)", r"((\1) & 255)"))
def test_x18_a_zero_point_is_not_taken_in_an_unsigned_type() -> None:
    """0 - 1 is -1, and at the far ends of both types nothing wraps. Fault seen: 255."""
    for zero in ("1", "per_tensor", "per_token"):
        program = program_of(f"m=1 n=1 k=1 dtype=uint8 dtype_b=int8 zero_point_a={zero}")
        problem = bind(program, scalars={"zero_point_a": 1} if zero == "per_tensor" else None)
        vector: dict[str, Any] = {"zero_point_a": 1} if zero == "per_token" else {}
        assert launch(program, problem, a=0, b=1, **vector).d[0].tolist() == [[-1.0]]
    ends = "dtype=uint8 dtype_b=int8 zero_point_a=255 zero_point_b=127"
    program = program_of(f"m=3 n=3 k=5 {ends}")
    assert (launch(program, a=0, b=-128).d[0] == 5 * -255 * -255).all()


def test_sums_add_c_as_integers() -> None:
    """2^24 + 1 has no place in fp32."""
    plan = plan_of("m=16 n=16 k=64 dtype=int8 dtype_c=int32")
    c = Integers(3, 2**24 - 8, 2**24)
    at = c.at(0, np.arange(16)[:, None], np.arange(16)[None, :], np).astype(np.float64)
    found = launch(plan, bind(plan, beta=1.0), a=1, b=1, c=c).d[0]
    assert (found == at + 64).all()
    assert (launch(plan, bind(plan), a=1, b=1).d[0] == 64).all()


@pytest.mark.parametrize("dtypes", ["uint8 dtype_b=int8", "int8 dtype_b=uint8", "uint8"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_signs_and_layouts(dtypes: str, layout: str) -> None:
    """Each operand has its own sign: products of the whole range of both."""
    assert_right(f"m=70 n=50 k=72 dtype={dtypes} layout={layout}", SMALL, effort=0.2)
