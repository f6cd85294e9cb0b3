"""Element types as bits, and rounding to them, in numpy or cupy alike.

Buffers hold unsigned integers of the element's width, so that NaN payloads survive and bf16
needs no array type of its own. ``xp`` is the module (numpy or cupy) whose arrays are passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import InternalError

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType

__all__ = ["bits_dtype", "decode", "encode", "poison", "quantum", "quiet", "round_to"]

_POISON = {"fp16": 0x7DA5, "bf16": 0x7FA5, "fp32": 0x7FA5A5A5}
_EXPONENT = {"fp16": (-14, 15), "bf16": (-126, 127), "fp32": (-126, 127)}
"""Exponent of the smallest normal and of the largest finite number."""


def bits_dtype(dtype: DType) -> str:
    """Name of the unsigned integer type that holds an element."""
    return f"uint{dtype.bits}"


def poison(dtype: DType) -> int:
    """The bits that stand where nobody may read or write: a NaN that no arithmetic produces."""
    return _POISON[dtype.name]


def encode(values: Any, dtype: DType, xp: Any) -> Any:
    """fp32 values as bits of ``dtype``, rounded to nearest even."""
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
    raise InternalError(f"the harness has no encoding of {dtype}")


def decode(bits: Any, dtype: DType, xp: Any) -> Any:
    """Bits of ``dtype`` as float64 values, exact."""
    if dtype.name == "fp32":
        narrow = bits.view(xp.float32)
    elif dtype.name == "fp16":
        narrow = bits.view(xp.float16)
    elif dtype.name == "bf16":
        narrow = (bits.astype(xp.uint32) << xp.uint32(16)).view(xp.float32)
    else:
        raise InternalError(f"the harness has no decoding of {dtype}")
    with quiet():  # a signalling NaN raises a flag when it is widened
        return narrow.astype(xp.float64)


def round_to(values: Any, dtype: DType, xp: Any) -> Any:
    """float64 values rounded once to ``dtype`` (nearest even), still as float64.

    Subnormals are kept; what is too large becomes infinity, as the kernels' conversions do.
    """
    _, largest = _EXPONENT[dtype.name]
    finite = xp.isfinite(values)
    safe = xp.where(finite, values, 0.0)
    step = quantum(safe, dtype, xp)
    rounded = xp.rint(safe / step) * step
    limit = float(2.0**largest) * (2.0 - 2.0**-dtype.mantissa_bits)
    rounded = xp.where(xp.abs(rounded) > limit, xp.copysign(xp.inf, safe), rounded)
    return xp.where(finite, rounded, values)


def quantum(values: Any, dtype: DType, xp: Any) -> Any:
    """Distance between neighbouring numbers of ``dtype`` in the binade of each value."""
    least, _ = _EXPONENT[dtype.name]
    _, exponent = xp.frexp(values)  # |values| = fraction * 2^exponent, fraction in [0.5, 1)
    return xp.ldexp(xp.ones_like(values), xp.maximum(exponent - 1, least) - dtype.mantissa_bits)


def quiet() -> np.errstate:
    """Numpy warns of an overflow that is meant, and of signalling NaNs; cupy does neither."""
    return np.errstate(over="ignore", invalid="ignore")
