"""Scalar arithmetic as the GPU does it, on numpy arrays; results go through raw bits.

NaN results are the GPU's canonical NaN: 0x7fffffff in fp32, 0x7fff in fp16 and bf16. Subnormals are
kept. Each function is exact: one rounding where the instruction has one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "canonical",
    "flush",
    "fma32",
    "maximum32",
    "minimum32",
    "narrow_to_bf16",
    "odd_sum",
    "round_to_bf16",
    "round_to_f16",
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
    total = x + y
    # Knuth's two-sum: the exact error of that addition.
    z = total - x
    error = (x - (total - z)) + (y - z)
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
