"""What each bit pattern of a matrix operand's type means, as tables.

tf32 operands lie in 32 bits of which the low 13 are never looked at: its table has one entry for
each pattern of the other 19, so that a NaN living only in the low bits is an infinity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deepgemm_codegen.emulator.float8 import FLOAT8

__all__ = ["KINDS", "NO_EXPONENT", "Patterns", "element", "patterns"]

Array = np.ndarray[Any, np.dtype[Any]]

# Type to exponent bits, fraction bits, and bits that an element takes in a register.
KINDS: dict[str, tuple[int, int, int]] = {
    "f16": (5, 10, 16),
    "bf16": (8, 7, 16),
    "tf32": (8, 10, 32),
    "e4m3": (*FLOAT8["e4m3"][:2], 8),
    "e5m2": (*FLOAT8["e5m2"][:2], 8),
}
NO_EXPONENT = -8000
"""Exponent of a zero: never the largest, and two of them still fit int16."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """Facts about each pattern of a type; arrays have one element a pattern.

    Attributes:
        value: float32; zero for infinities and NaN.
        exponent: int16, of the significand's leading place (the minimum for subnormals); very
            small for zero.
        low: int16, exponent of the lowest set bit; very large for zero.
        special: 0 finite, 1 infinity, 2 NaN.
        zero, negative: bool.
        drop: low bits of an element that are not part of the pattern.
    """

    value: Array
    exponent: Array
    low: Array
    special: Array
    zero: Array
    negative: Array
    drop: int

    def index(self, bits: Array) -> Array:
        """Elements as they lie in registers to indices of the tables."""
        return bits >> np.uint32(self.drop) if self.drop else bits


def element(kind: str) -> np.dtype[Any]:
    """The unsigned type that an element of a type takes in a register."""
    return np.dtype(f"u{KINDS[kind][2] // 8}")


@cache
def patterns(kind: str) -> Patterns:
    """The tables of a type, made once."""
    exponent_bits, fraction_bits, _ = KINDS[kind]
    width = 1 + exponent_bits + fraction_bits
    bits = np.arange(1 << width, dtype=np.uint32)
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = ((bits >> fraction_bits) & ((1 << exponent_bits) - 1)).astype(np.int64)
    fraction = (bits & ((1 << fraction_bits) - 1)).astype(np.int64)
    top = exponent == (1 << exponent_bits) - 1
    if kind == "e4m3":
        top &= fraction == (1 << fraction_bits) - 1  # no infinity, one NaN
    significand = np.where(exponent > 0, fraction | (1 << fraction_bits), fraction)
    e = np.maximum(exponent, 1) - bias
    negative = bits >> (width - 1) != 0
    magnitude = np.ldexp(significand.astype(np.float64), e - fraction_bits)
    value = np.where(top, 0.0, np.where(negative, -magnitude, magnitude))
    zero = (significand == 0) | top
    lowest = np.log2(np.maximum(significand & -significand, 1)).astype(np.int64)
    return Patterns(
        value.astype(np.float32),
        np.where(zero, NO_EXPONENT, e).astype(np.int16),
        np.where(zero, 8000, e - fraction_bits + lowest).astype(np.int16),
        np.where(top, np.where(fraction != 0, 2, 1), 0).astype(np.int8),
        zero & ~top,
        negative,
        32 - width if kind == "tf32" else 0,
    )
