"""The 8-bit floating types: e4m3 (no infinity, one NaN of each sign) and e5m2 (as IEEE 754 has it).

Facts by table: a type has 256 patterns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

__all__ = ["FLOAT8", "round_to_float8", "to_f16"]

Array = np.ndarray[Any, np.dtype[Any]]

# Exponent bits, fraction bits, bias, largest finite value (OCP 8-bit floating point, revision 1.0).
FLOAT8 = {"e4m3": (4, 3, 7, 448.0), "e5m2": (5, 2, 15, 57344.0)}
_NAN8 = np.uint8(0x7F)


@cache
def _halves(kind: str) -> Array:
    """fp16 bits of every pattern; NaN is 0x7fff."""
    exponent_bits, fraction_bits, bias, _ = FLOAT8[kind]
    bits = np.arange(256)
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    significand = np.where(exponent > 0, fraction | 1 << fraction_bits, fraction)
    power = np.maximum(exponent, 1) - bias - fraction_bits
    value = np.ldexp(significand.astype(np.float64), power)
    top = exponent == (1 << exponent_bits) - 1
    if kind == "e4m3":
        value[top & (fraction == 7)] = np.nan
    else:
        value[top] = np.where(fraction[top] == 0, np.inf, np.nan)
    halves: Array = value.astype(np.float16).view(np.uint16)
    halves |= (bits >> 7 << 15).astype(np.uint16)
    halves[np.isnan(value)] = 0x7FFF
    halves.flags.writeable = False
    return halves


def to_f16(bits: Array, kind: str) -> Array:
    """Patterns (uint8) to fp16 bits (uint16), exact."""
    result: Array = _halves(kind).take(bits)
    return result


def round_to_float8(values: Array, kind: str) -> Array:
    """fp32 to patterns (uint8), nearest even; what is too large becomes the largest, NaN 0x7f."""
    exponent_bits, fraction_bits, bias, largest = FLOAT8[kind]
    magnitude = np.minimum(np.abs(values.astype(np.float64)), largest)
    nan = np.isnan(magnitude)
    magnitude[nan] = 0
    _, exponent = np.frexp(magnitude)  # magnitude < 2^exponent, and 0 for zero
    exponent = np.maximum(np.where(magnitude > 0, exponent - 1, -bias), 1 - bias)
    units = np.rint(np.ldexp(magnitude, fraction_bits - exponent)).astype(np.int64)
    # A significand that reaches 2^(fraction + 1) carries into the exponent by itself; a subnormal
    # one lacks the hidden bit, which its exponent field of 0 does not add.
    pattern = units + ((exponent + bias - 1) << fraction_bits)
    pattern = np.minimum(pattern, (1 << exponent_bits + fraction_bits) - 1)
    result: Array = (pattern | np.signbit(values).astype(np.int64) << 7).astype(np.uint8)
    result[nan] = _NAN8
    return result
