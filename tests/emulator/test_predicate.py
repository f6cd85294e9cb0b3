from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tests.emulator.support import execute

Array = np.ndarray[Any, np.dtype[Any]]
_NAN = np.float32(np.nan)
_FLOATS = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3.5, -2.25], np.float32)
_COMPARE = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _pairs(values: Array) -> tuple[Array, Array]:
    return np.repeat(values, values.size), np.tile(values, values.size)


@pytest.mark.parametrize("name", list(_COMPARE))
@pytest.mark.parametrize("unordered", [False, True])
def test_float_comparison_with_nan(name: str, unordered: bool) -> None:
    a, b = _pairs(_FLOATS)
    got = execute(
        f"setp.{name}{'u' if unordered else ''}.f32 %p1, %r1, %r2;", [a, b], "%p1", np.uint32
    )
    want = [
        unordered if (x != x or y != y) else _COMPARE[name](x, y)  # noqa: PLR0124
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(got, want)


def test_num_and_nan() -> None:
    a, b = _pairs(_FLOATS)
    nan = np.isnan(a) | np.isnan(b)
    for name, want in (("nan", nan), ("num", ~nan)):
        got = execute(f"setp.{name}.f32 %p1, %r1, %r2;", [a, b], "%p1", np.uint32)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["s32", "u32"])
@pytest.mark.parametrize("name", list(_COMPARE))
def test_integer_comparison_knows_signs(kind: str, name: str) -> None:
    raw = np.array([0, 1, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], np.uint32)
    a, b = _pairs(raw.view(np.int32) if kind == "s32" else raw)
    got = execute(f"setp.{name}.{kind} %p1, %r1, %r2;", [a, b], "%p1", np.uint32)
    want = [_COMPARE[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_array_equal(got, want)


def test_unsigned_comparison_words() -> None:
    a, b = _pairs(np.array([0, 1, 0x80000000, 0xFFFFFFFF], np.uint32))
    for name, twin in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        got = execute(f"setp.{name}.u32 %p1, %r1, %r2;", [a, b], "%p1", np.uint32)
        want = [_COMPARE[twin](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("combine", ["and", "or", "xor"])
@pytest.mark.parametrize("which", [1, 2])
def test_setp_combines_and_gives_both_sides(combine: str, which: int) -> None:
    a, b = _pairs(np.array([0, 1, 2, 3], np.int32))
    body = f"""
        setp.gt.s32 %p5, %r2, 1;
        setp.lt.{combine}.s32 %p1|%p2, %r1, %r2, %p5;
    """
    got = execute(body, [a, b], f"%p{which}", np.uint32)
    compare = a < b if which == 1 else ~(a < b)
    other = b > 1
    want = {"and": compare & other, "or": compare | other, "xor": compare ^ other}[combine]
    np.testing.assert_array_equal(got, want)


def test_setp_takes_a_negated_predicate() -> None:
    a = np.arange(8, dtype=np.int32)
    body = "setp.gt.s32 %p5, %r1, 3; setp.lt.and.s32 %p1, %r1, 6, !%p5;"
    np.testing.assert_array_equal(execute(body, [a], "%p1", np.uint32), (a < 6) & (a <= 3))


def test_predicate_logic_and_selection() -> None:
    a = np.arange(8, dtype=np.int32)
    body = """
        setp.gt.s32 %p1, %r1, 2;
        setp.lt.s32 %p2, %r1, 6;
        and.pred %p3, %p1, %p2;
        or.pred %p4, %p1, %p2;
        xor.pred %p5, %p3, %p4;
        not.pred %p6, %p5;
        selp.b32 %r40, %r1, -1, %p6;
    """
    inside = (a > 2) & (a < 6)
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.int32), np.where(inside, a, -1))


def test_a_guard_keeps_the_other_lanes() -> None:
    a = np.arange(40, dtype=np.int32)
    body = """
        mov.u32 %r40, 7;
        setp.gt.s32 %p1, %r1, 20;
        @%p1 add.s32 %r40, %r1, 100;
        @!%p1 mul.lo.s32 %r40, %r1, 2;
    """
    np.testing.assert_array_equal(
        execute(body, [a], "%r40", np.int32), np.where(a > 20, a + 100, a * 2)
    )
