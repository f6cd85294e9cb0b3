"""Scalar arithmetic as the GPU does it, on numpy arrays; results go through raw bits.

NaN results are the GPU's canonical NaN: 0x7fffffff in fp32, 0x7fff in fp16 and bf16. Subnormals are
kept. Each function is exact: one rounding where the instruction has one.
"""

from __future__ import annotations

from fractions import Fraction
from math import copysign, inf, isfinite
from typing import Any

import numpy as np

__all__ = [
    "canonical",
    "directed",
    "flush",
    "fma32",
    "fma64",
    "maximum32",
    "minimum32",
    "narrow_to_bf16",
    "odd_sum",
    "round_to_bf16",
    "round_to_f16",
    "truncate_to_f16",
    "widen_bf16",
]

Array = np.ndarray[Any, np.dtype[Any]]

NAN32 = np.uint32(0x7FFFFFFF)
NAN16 = np.uint16(0x7FFF)
_SIGN32 = np.uint32(0x80000000)


def canonical(values: Array) -> Array:
    """fp32 with every NaN made canonical, in place; returns its argument."""
    # A sum of squares is NaN exactly when an element is: one BLAS call in the usual case.
    total = values.dot(values)
    if total != total:  # noqa: PLR0124  the test for NaN
        bits = values.view(np.uint32)
        bits[np.isnan(values)] = NAN32
    return values


def flush(values: Array) -> Array:
    """fp32 subnormals become zeros of their sign (the ``.ftz`` modifier)."""
    bits = values.view(np.uint32)
    tiny = (bits & np.uint32(0x7F800000)) == 0
    return np.where(tiny, bits & _SIGN32, bits).view(np.float32)


def odd_sum(x: Array, y: Array) -> Array:
    """Sum of two float64, rounded to odd.

    A value rounded to odd at 53 bits rounds a second time as the exact one would, to any format
    of at most 51 bits: the last bit stands for all that was lost.
    """
    total, error = _two_sum(x, y)
    inexact = (error != 0) & np.isfinite(total)
    if inexact.any():
        bits = total.view(np.int64)
        even = inexact & ((bits & 1) == 0)
        # Away from zero when the error has the sum's sign, toward zero otherwise; the last bit
        # becomes 1 either way.
        step = np.where((error > 0) == (total > 0), 1, -1)
        total = np.where(even, bits + step, bits).view(np.float64)
    return total


def fma32(a: Array, b: Array, c: Array) -> Array:
    """fp32 fused multiply-add, rounded once to nearest even; the product is exact in float64."""
    total = odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
    return canonical(total.astype(np.float32))


_SAFE = 2.0**300  # magnitudes between its inverse and itself neither overflow nor lose bits below


def fma64(a: Array, b: Array, c: Array) -> Array:
    """fp64 fused multiply-add, rounded once to nearest even.

    The product as a sum of two numbers, the low one added to c, and what that leaves rounded to odd
    (Boldo and Melquiond, IEEE Transactions on Computers 57, 2008); numbers at the ends of the range
    are done one by one with exact fractions.
    """
    scale = np.float64(2**27 + 1)
    high_a, high_b = scale * a - (scale * a - a), scale * b - (scale * b - b)
    low_a, low_b = a - high_a, b - high_b
    product = a * b
    rest = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    below, lost = _two_sum(c, rest)
    total, error = _two_sum(product, below)
    result: Array = total + odd_sum(lost, error)
    result = np.where(result == 0, product + c, result)
    ends = np.zeros(a.shape, bool)
    for x in (a, b, c):
        magnitude = np.abs(x)
        ends |= ~((x == 0) | ((magnitude > 1 / _SAFE) & (magnitude < _SAFE)))
    for i in np.flatnonzero(ends).tolist():
        result[i] = _exact_fma(float(a[i]), float(b[i]), float(c[i]))
    return result


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    total = x + y
    z = total - x
    return total, (x - (total - z)) + (y - z)


def _exact_fma(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        # Zeros of one sign keep it; a sum of numbers that cancel is +0.
        return copysign(1.0, a) * copysign(1.0, b) * 0.0 + c if a == 0 or b == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def directed(values: Array, mode: str) -> Array:
    """float64 to fp32 rounded toward zero (``rz``), down (``rm``) or up (``rp``); ``rn`` too.

    The values are exact, or rounded to odd.
    """
    single: Array = values.astype(np.float32)
    if mode != "rn":
        back = single.astype(np.float64)
        down = {"rz": values > 0, "rm": np.ones(values.shape, bool)}.get(mode, np.zeros(1, bool))
        down = np.broadcast_to(down, values.shape)
        single = np.where(down & (back > values), np.nextafter(single, np.float32(-np.inf)), single)
        single = np.where(~down & (back < values), np.nextafter(single, np.float32(np.inf)), single)
    return canonical(np.ascontiguousarray(single))


def narrow_to_bf16(values: Array) -> Array:
    """float64 to bf16 bits, nearest even, rounded once; uint16."""
    single = values.astype(np.float32)
    # To odd at 24 bits first: where the cast rounded, step back toward the exact value.
    back = single.astype(np.float64)
    inexact = (back != values) & np.isfinite(single) & np.isfinite(values)
    if inexact.any():
        bits = single.view(np.int32)
        away = np.abs(back) > np.abs(values)
        # Truncate, then set the last bit.
        truncated = np.where(away, bits - 1, bits)
        single = np.where(inexact, truncated | 1, bits).view(np.float32)
    return round_to_bf16(single)


def minimum32(a: Array, b: Array, *, propagate: bool = False) -> Array:
    """``min.f32``: a NaN loses against a number unless ``propagate`` (``.NaN``); -0 < +0."""
    # Equal numbers have equal bits or are zeros of two signs: OR keeps the minus.
    result = np.where(a == b, a.view(np.uint32) | b.view(np.uint32), 0).view(np.float32)
    result = np.where(a == b, result, np.fmin(a, b))
    return _nan_rule(result, a, b, propagate=propagate)


def maximum32(a: Array, b: Array, *, propagate: bool = False) -> Array:
    """``max.f32``; see :func:`minimum32`."""
    result = np.where(a == b, a.view(np.uint32) & b.view(np.uint32), 0).view(np.float32)
    result = np.where(a == b, result, np.fmax(a, b))
    return _nan_rule(result, a, b, propagate=propagate)


def _nan_rule(result: Array, a: Array, b: Array, *, propagate: bool) -> Array:
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    bad = (nan_a | nan_b) if propagate else (nan_a & nan_b)
    return np.where(bad, NAN32, result.view(np.uint32)).view(np.float32)


def round_to_f16(values: Array) -> Array:
    """fp32 (or float64 holding an exact value) to fp16 bits, nearest even; uint16."""
    with np.errstate(over="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        bits[nan] = NAN16
    return bits


def truncate_to_f16(values: Array) -> Array:
    """fp32 to fp16 bits, toward zero; uint16."""
    bits = round_to_f16(values)
    over = np.abs(bits.view(np.float16).astype(np.float32)) > np.abs(values)
    return np.where(over, bits - np.uint16(1), bits)


def round_to_bf16(values: Array) -> Array:
    """fp32 to bf16 bits, nearest even; uint16."""
    bits = values.view(np.uint32)
    # Adding half an ulp less one, plus the bit that stays, carries exactly where it must.
    rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    result = (rounded >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        result[nan] = NAN16
    return result


def widen_bf16(bits: Array) -> Array:
    """bf16 bits (uint16) to fp32, exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
