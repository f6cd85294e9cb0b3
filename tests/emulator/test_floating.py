from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import numeric
from tests.emulator.reference import FORMATS, decode, encode
from tests.emulator.support import execute

Array = np.ndarray[Any, np.dtype[Any]]
_F32 = FORMATS["f32"]
_CORNERS = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000,
    0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x33800000,
]  # fmt: skip
_BITS = st.one_of(st.sampled_from(_CORNERS), st.integers(0, 2**32 - 1))
_TRIPLES = st.lists(st.tuples(_BITS, _BITS, _BITS), min_size=64, max_size=64)
_NAN = 0x7FFFFFFF


def _float(bits: int) -> Any:
    return np.array(bits, np.uint32).view(np.float32)[()]


def _fma(a: int, b: int, c: int) -> int:
    """Fused multiply-add with Python integers."""
    x, y, z = (decode(v, _F32) for v in (a, b, c))
    if isinstance(x, Fraction) and isinstance(y, Fraction) and isinstance(z, Fraction):
        exact = x * y + z
        if exact == 0:
            signs = {(a ^ b) >> 31 & 1, c >> 31}
            zero_product = x == 0 or y == 0
            negative = signs == {1} and (zero_product or z == 0)
            return 0x80000000 if negative else 0
        return encode(exact, _F32)
    with np.errstate(all="ignore"):
        wide = np.float64(_float(a)) * np.float64(_float(b)) + np.float64(_float(c))
    return _NAN if np.isnan(wide) else (0xFF800000 if wide < 0 else 0x7F800000)


@settings(max_examples=60, deadline=None)
@given(_TRIPLES)
def test_fma_rounds_once(triples: list[tuple[int, int, int]]) -> None:
    a, b, c = (np.array(x, np.uint32).view(np.float32) for x in zip(*triples, strict=True))
    with np.errstate(all="ignore"):
        got = numeric.fma32(a, b, c).view(np.uint32)
    want = [_fma(*t) for t in triples]
    np.testing.assert_array_equal(got, np.array(want, np.uint32))


def test_fma_where_two_roundings_would_differ() -> None:
    # 1 + 2^-24 + 2^-60: the float64 sum drops the last term and then ties to even.
    a = np.array([2.0**-30], np.float32)
    b = np.array([2.0**-30], np.float32)
    c = np.array([0x3F800000], np.uint32).view(np.float32)
    half = np.float32(2.0**-24)
    exact = numeric.fma32(np.array([half]), np.array([1.0 + 2**-23], np.float32), c)
    assert exact.view(np.uint32)[0] == 0x3F800001
    assert numeric.fma32(a, b, c).view(np.uint32)[0] == 0x3F800000
    # A product just above half an ulp of a huge sum, of either sign.
    big = np.array([2.0**24], np.float32)
    tiny = np.array([1.0 + 2**-23], np.float32)
    one = np.array([1.0], np.float32)
    assert numeric.fma32(tiny, one, big)[0] == 2.0**24 + 2
    assert numeric.fma32(-tiny, one, -big)[0] == -(2.0**24) - 2


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_simple_operations_and_their_nan(name: str) -> None:
    bits = np.array(_CORNERS, np.uint32)
    a, b = np.repeat(bits, bits.size), np.tile(bits, bits.size)
    got = execute(f"{name}.rn.f32 %r40, %r1, %r2;", [a, b], "%r40", np.uint32)
    with np.errstate(all="ignore"):
        x, y = a.view(np.float32), b.view(np.float32)
        want = {"add": x + y, "sub": x - y, "mul": x * y}[name]
    bits_want = np.where(np.isnan(want), np.uint32(_NAN), want.view(np.uint32))
    np.testing.assert_array_equal(got, bits_want)


def test_fma_instruction_under_a_guard() -> None:
    a = np.arange(64, dtype=np.float32)
    body = """
        mov.f32 %r40, 0fBF800000;
        setp.gt.f32 %p1, %r1, 0f41200000;
        @%p1 fma.rn.f32 %r40, %r1, %r1, %r1;
    """
    want = np.where(a > 10, a * a + a, np.float32(-1))
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.float32), want)


def test_ftz_flushes_inputs_and_results() -> None:
    a = np.array([0x00000001, 0x80000001, 0x00800000, 0x3F800000], np.uint32)
    b = np.array([0x3F800000, 0x3F800000, 0x3F000000, 0x00000001], np.uint32)
    got = execute("mul.rn.ftz.f32 %r40, %r1, %r2;", [a, b], "%r40", np.uint32)
    np.testing.assert_array_equal(got, np.array([0, 0x80000000, 0, 0], np.uint32))
    kept = execute("mul.rn.f32 %r40, %r1, %r2;", [a, b], "%r40", np.uint32)
    np.testing.assert_array_equal(kept, np.array([1, 0x80000001, 0x00400000, 1], np.uint32))


def test_sat_clamps_and_turns_nan_to_zero() -> None:
    a = np.array([-1.0, 0.25, 2.0, np.nan], np.float32)
    zero = np.zeros_like(a)
    got = execute("add.rn.sat.f32 %r40, %r1, %r2;", [a, zero], "%r40", np.float32)
    np.testing.assert_array_equal(got, np.array([0, 0.25, 1, 0], np.float32))


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("propagate", [False, True])
def test_extremes_of_nan_and_signed_zeros(name: str, propagate: bool) -> None:
    bits = np.array(_CORNERS, np.uint32)
    a, b = np.repeat(bits, bits.size), np.tile(bits, bits.size)
    got = execute(
        f"{name}{'.NaN' if propagate else ''}.f32 %r40, %r1, %r2;", [a, b], "%r40", np.uint32
    )
    for x, y, result in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        u, v = _float(x), _float(y)
        if np.isnan(u) or np.isnan(v):
            both = np.isnan(u) and np.isnan(v)
            want = _NAN if propagate or both else (y if np.isnan(u) else x)
        else:
            # Order by value, then by sign bit: -0 below +0.
            key = lambda w: (float(_float(w)), -(w >> 31))  # noqa: E731
            want = (min if name == "min" else max)((x, y), key=key)
        assert result == want, (hex(x), hex(y), hex(result), hex(want))


def test_neg_and_abs_touch_the_sign_bit_alone_but_of_a_nan() -> None:
    bits = np.array(_CORNERS, np.uint32)
    nan = np.isnan(bits.view(np.float32))
    neg = execute("neg.f32 %r40, %r1;", [bits], "%r40", np.uint32)
    np.testing.assert_array_equal(neg, np.where(nan, _NAN, bits ^ np.uint32(0x80000000)))
    absolute = execute("abs.f32 %r40, %r1;", [bits], "%r40", np.uint32)
    np.testing.assert_array_equal(absolute, np.where(nan, _NAN, bits & np.uint32(0x7FFFFFFF)))


def test_division_and_roots_are_correctly_rounded() -> None:
    rng = np.random.default_rng(0)
    a, b = (np.exp(rng.standard_normal(96) * 20).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(
        execute("div.rn.f32 %r40, %r1, %r2;", [a, b], "%r40", np.float32), a / b
    )
    np.testing.assert_array_equal(
        execute("sqrt.rn.f32 %r40, %r1;", [a], "%r40", np.float32), np.sqrt(a)
    )


@pytest.mark.parametrize(
    ("name", "function"), [("ex2", np.exp2), ("rcp", np.reciprocal), ("tanh", np.tanh)]
)
def test_approximations_are_close(name: str, function: Any) -> None:
    a = np.linspace(-8, 8, 64, dtype=np.float32) + np.float32(0.01)
    got = execute(f"{name}.approx.f32 %r40, %r1;", [a], "%r40", np.float32)
    np.testing.assert_allclose(got, function(a.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("packed", [False, True])
def test_half_arithmetic_rounds_once(kind: str, packed: bool) -> None:
    form = FORMATS[kind]
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(0, 65536, 512).astype(np.uint16) for _ in range(3))
    # Values of like size, so that sums cancel and round.
    c = np.where(rng.random(512) < 0.5, (c & 0x83FF) | (a & 0x7C00), c).astype(np.uint16)
    if packed:
        inputs = [x.view(np.uint32) for x in (a, b, c)]
        got = execute(f"fma.rn.{kind}x2 %r40, %r1, %r2, %r3;", inputs, "%r40", np.uint32).view(
            np.uint16
        )
    else:
        got = execute(f"fma.rn.{kind} %h40, %h1, %h2, %h3;", [a, b, c], "%h40", np.uint16)
    for x, y, z, result in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        u, v, w = (decode(n, form) for n in (x, y, z))
        if isinstance(u, str) or isinstance(v, str) or isinstance(w, str):
            continue
        exact = u * v + w
        if exact != 0:
            assert result == encode(exact, form), (hex(x), hex(y), hex(z))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_half_extremes_and_signs(kind: str) -> None:
    a = np.array([0x3C00, 0x8000, 0x7FFF, 0xC000], np.uint16)
    b = np.array([0x4000, 0x0000, 0x3C00, 0xC400], np.uint16)
    got = execute(f"min.{kind} %h40, %h1, %h2;", [a, b], "%h40", np.uint16)
    np.testing.assert_array_equal(got, np.array([0x3C00, 0x8000, 0x3C00, 0xC400], np.uint16))
    got = execute(f"max.NaN.{kind} %h40, %h1, %h2;", [a, b], "%h40", np.uint16)
    np.testing.assert_array_equal(got, np.array([0x4000, 0x0000, 0x7FFF, 0xC000], np.uint16))
    got = execute(f"neg.{kind} %h40, %h1;", [a], "%h40", np.uint16)
    np.testing.assert_array_equal(got, np.where(a == 0x7FFF, a, a ^ 0x8000))
