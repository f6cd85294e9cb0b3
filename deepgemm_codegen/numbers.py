"""Numbers as people write them, and the range that sizes have."""

from __future__ import annotations

import re
import struct
from math import copysign, inf

from deepgemm_codegen.errors import InputError

__all__ = [
    "DEFAULT_ALIGNMENT",
    "MAX_ALIGNMENT",
    "MAX_DIMENSION",
    "as_fp32",
    "check_range",
    "what_to_write",
    "whole_number",
]

MAX_DIMENSION = 2**31 - 1024
"""Largest m, n, k, batch or leading dimension.

Kernels index rows and columns with 32-bit integers, and an index may run up to one tile past the
end before the guard stops it.
"""

DEFAULT_ALIGNMENT = 16
"""Alignment in bytes of a base pointer when nothing else is promised; cudaMalloc gives 256."""

MAX_ALIGNMENT = 4096
"""Largest alignment in bytes that a pointer may be promised to have."""

_MOST_DIGITS = 30


def whole_number(text: str | int, name: str, remedy: str = "give a whole number") -> int:
    """`text` as an int; only plain decimal digits with an optional sign are accepted."""
    word = str(text).strip()
    if not word:
        raise InputError(f"{name} has no value; {remedy}")
    body = word[1:] if word[:1] in "+-" else word
    if isinstance(text, bool) or not (body.isascii() and body.isdigit()):
        wrong = what_to_write(word) or f"not a whole number; {remedy}"
        raise InputError(f"{name} = {text!s}: {wrong}")
    if len(body.lstrip("0")) > _MOST_DIGITS:  # Python refuses to convert thousands of digits
        limit = "small" if word[0] == "-" else f"large; the largest is {MAX_DIMENSION}"
        raise InputError(f"{name} = {word[:8]}... ({len(body)} digits): too {limit}")
    return int(word)


def what_to_write(text: str) -> str:
    """What to write in place of a whole number in a form that is not read; empty for no number."""
    if re.fullmatch(r"[-+]?0(?:x[0-9a-fA-F_]*[0-9a-fA-F]|b[01_]*[01]|o[0-7_]*[0-7])", text):
        return f"write it in decimal: {int(text.replace('_', ''), 0)}"
    if re.fullmatch(r"[1-9][0-9]*(?:[_, '][0-9]{3})+", text):
        return f"write {re.sub('[^0-9]', '', text)}, with nothing between the digits"
    try:
        value = float(text if text.isascii() else "nan")
    except ValueError:
        return ""
    exact = value.is_integer() and abs(value) < 2**53  # beyond, a float skips whole numbers
    return f"a whole number is wanted; write {int(value)}" if exact else ""


def check_range(value: int, name: str, low: int, high: int) -> None:
    """Raises `InputError` unless ``low <= value <= high``."""
    if value < low:
        raise InputError(f"{name} = {value}: too small; the smallest is {low}")
    if value > high:
        raise InputError(f"{name} = {value}: too large; the largest is {high}")


def as_fp32(text: str) -> float:
    """What fp32 makes of a decimal; an infinity where its range ends, also by rounding up."""
    value = float(text)
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return copysign(inf, value)
    return single
