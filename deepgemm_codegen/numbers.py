"""Whole numbers as people write them, and the range that sizes have."""

from __future__ import annotations

from deepgemm_codegen.errors import InputError

__all__ = ["DEFAULT_ALIGNMENT", "MAX_DIMENSION", "check_range", "whole_number"]

MAX_DIMENSION = 2**31 - 1024
"""Largest m, n, k, batch or leading dimension.

Kernels index rows and columns with 32-bit integers, and an index may run up to one tile past the
end before the guard stops it.
"""

DEFAULT_ALIGNMENT = 16
"""Alignment in bytes of a base pointer when nothing else is promised; cudaMalloc gives 256."""

_MOST_DIGITS = 30


def whole_number(text: str | int, name: str, remedy: str = "give a whole number") -> int:
    """`text` as an int; only plain decimal digits with an optional sign are accepted."""
    word = str(text).strip()
    body = word[1:] if word[:1] in "+-" else word
    if isinstance(text, bool) or not (body.isascii() and body.isdigit()):
        raise InputError(f"{name} = {text!s}: not a whole number; {remedy}")
    if len(body.lstrip("0")) > _MOST_DIGITS:  # Python refuses to convert thousands of digits
        limit = "small" if word[0] == "-" else f"large; the largest is {MAX_DIMENSION}"
        raise InputError(f"{name} = {word[:8]}... ({len(body)} digits): too {limit}")
    return int(word)


def check_range(value: int, name: str, low: int, high: int) -> None:
    """Raises `InputError` unless ``low <= value <= high``."""
    if value < low:
        raise InputError(f"{name} = {value}: too small; the smallest is {low}")
    if value > high:
        raise InputError(f"{name} = {value}: too large; the largest is {high}")
