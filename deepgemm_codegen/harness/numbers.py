"""Element types as bits, and rounding to them, in numpy or cupy alike.

Buffers hold unsigned integers of the element's width, so that NaN payloads survive and bf16
needs no array type of its own. ``xp`` is the module (numpy or cupy) whose arrays are passed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import InternalError

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType

__all__ = ["bits_dtype", "decode", "encode", "poison", "quantum", "quiet", "round_to"]

_POISON = {
    "fp16": 0x7DA5,
    "bf16": 0x7FA5,
    "fp32": 0x7FA5A5A5,
    "e4m3": 0xFF,
    "e5m2": 0xFD,
    "int8": 0xA5,
    "uint8": 0xA5,
    "int32": 0xA5A5A5A5,
}
_NAN = {"e4m3": 0x7F, "e5m2": 0x7F}
"""What conversions make of a NaN (PTX ISA, cvt)."""


def bits_dtype(dtype: DType) -> str:
    """Name of the unsigned integer type that holds an element."""
    return f"uint{dtype.bits}"


def poison(dtype: DType) -> int:
    """The bits that stand where nobody may read or write.

    A NaN that no arithmetic produces; integers have none, so a number far from zero.
    """
    return _POISON[dtype.name]


def encode(values: Any, dtype: DType, xp: Any, *, saturates: bool = True) -> Any:
    """fp32 values as bits of ``dtype``, rounded to nearest even; of integers float64 values.

    Integers saturate, and eight-bit floats where they are to; else infinity stays one in a type
    that has it, and becomes a NaN in one that has none. A NaN becomes an integer's poison.
    """
    if dtype.integer and dtype.name in _POISON:
        wide = xp.ascontiguousarray(values, dtype=xp.float64)
        nan = xp.isnan(wide)
        whole = round_to(xp.where(nan, 0.0, wide), dtype, xp).astype(xp.int64)
        return xp.where(nan, poison(dtype), whole & (2**dtype.bits - 1)).astype(bits_dtype(dtype))
    single = xp.ascontiguousarray(values, dtype=xp.float32)
    if dtype.name == "fp32":
        return single.view(xp.uint32)
    if dtype.name == "fp16":
        with quiet():
            return single.astype(xp.float16).view(xp.uint16)
    if dtype.name == "bf16":
        bits = single.view(xp.uint32)
        odd = (bits >> xp.uint32(16)) & xp.uint32(1)
        rounded = ((bits + (odd + xp.uint32(0x7FFF))) >> xp.uint32(16)).astype(xp.uint16)
        silent = ((bits >> xp.uint32(16)) | xp.uint32(0x40)).astype(xp.uint16)
        return xp.where(xp.isnan(single), silent, rounded)
    if dtype.name not in _POISON:
        raise InternalError(f"the harness has no encoding of {dtype}")
    nan = xp.isnan(single)
    wide = xp.where(nan, xp.float32(0), single).astype(xp.float64)
    rounded = round_to(wide, dtype, xp, saturates=saturates)
    beyond = xp.isinf(rounded)
    rounded = xp.where(beyond, 0.0, rounded)
    least, most = dtype.exponents
    _, exponent = xp.frexp(rounded)
    exponent = xp.where(rounded == 0, least, xp.maximum(exponent - 1, least))
    significand = xp.ldexp(xp.abs(rounded), dtype.mantissa_bits - exponent).astype(xp.int64)
    # A normal number's hidden bit adds one to the exponent field.
    magnitude = ((exponent.astype(xp.int64) - least) << dtype.mantissa_bits) + significand
    infinity = (most - least + 2) << dtype.mantissa_bits if dtype.infinite else _NAN[dtype.name]
    magnitude = xp.where(beyond, infinity, magnitude)
    bits = magnitude | (xp.signbit(wide).astype(xp.int64) << (dtype.bits - 1))
    return xp.where(nan, _NAN[dtype.name], bits).astype(bits_dtype(dtype))


def decode(bits: Any, dtype: DType, xp: Any) -> Any:
    """Bits of ``dtype`` as float64 values, exact."""
    if dtype.name == "fp32":
        narrow = bits.view(xp.float32)
    elif dtype.name == "fp16":
        narrow = bits.view(xp.float16)
    elif dtype.name == "bf16":
        narrow = (bits.astype(xp.uint32) << xp.uint32(16)).view(xp.float32)
    elif dtype.integer and dtype.name in _POISON:
        narrow = bits.view(getattr(xp, dtype.numpy_name))
    elif dtype.bits == 8 and dtype.name in _POISON:
        return xp.asarray(_eight_bits(dtype))[bits]
    else:
        raise InternalError(f"the harness has no decoding of {dtype}")
    with quiet():  # a signalling NaN raises a flag when it is widened
        return narrow.astype(xp.float64)


@cache
def _eight_bits(dtype: DType) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The value of each of the 256 patterns of an 8-bit float."""
    fraction_bits, (least, largest) = dtype.mantissa_bits, dtype.exponents
    bits = np.arange(256)
    field = (bits & 0x7F) >> fraction_bits
    fraction = bits & (2**fraction_bits - 1)
    significand = np.where(field > 0, fraction + 2**fraction_bits, fraction)
    value = np.ldexp(
        significand.astype(np.float64), np.maximum(field, 1) - 1 + least - fraction_bits
    )
    value = np.where(bits >= 128, -value, value)
    if dtype.infinite:
        top = field > largest - least + 1
        special = np.where(fraction != 0, np.nan, np.copysign(np.inf, value))
        return np.where(top, special, value)
    return np.where((bits & 0x7F) == 0x7F, np.nan, value)


def round_to(values: Any, dtype: DType, xp: Any, *, saturates: bool = True) -> Any:
    """float64 values rounded once to ``dtype`` (nearest even), still as float64.

    Subnormals are kept. What is too large becomes infinity in types of 16 bits and more, and the
    largest number in 8-bit types and integers, as the kernels' conversions do; where an 8-bit
    float is not to saturate, infinity.
    """
    finite = xp.isfinite(values)
    safe = xp.where(finite, values, 0.0)
    step = quantum(safe, dtype, xp)
    rounded = xp.rint(safe / step) * step
    if dtype.integer or (dtype.bits == 8 and saturates):
        rounded = xp.clip(rounded, dtype.least, dtype.largest)
        ends = xp.where(values > 0, dtype.largest, dtype.least)
        return xp.where(xp.isinf(values), ends, xp.where(finite, rounded, values))
    rounded = xp.where(xp.abs(rounded) > dtype.largest, xp.copysign(xp.inf, safe), rounded)
    return xp.where(finite, rounded, values)


def quantum(values: Any, dtype: DType, xp: Any) -> Any:
    """Distance between neighbouring numbers of ``dtype`` in the binade of each value."""
    if dtype.integer:
        return xp.ones_like(values)
    least, _ = dtype.exponents
    _, exponent = xp.frexp(values)  # |values| = fraction * 2^exponent, fraction in [0.5, 1)
    return xp.ldexp(xp.ones_like(values), xp.maximum(exponent - 1, least) - dtype.mantissa_bits)


def quiet() -> np.errstate:
    """Numpy warns of an overflow that is meant, and of signalling NaNs; cupy does neither."""
    return np.errstate(over="ignore", invalid="ignore")
