"""One of a problem's dimensions: fixed when the kernel is written, or given at run time."""

from __future__ import annotations

from dataclasses import dataclass

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.numbers import MAX_DIMENSION, check_range, whole_number

__all__ = ["DEFAULT_DYNAMIC_MAX", "Dim"]

DEFAULT_DYNAMIC_MAX = 4096
"""A dynamic dimension without a maximum is planned for this size."""


@dataclass(frozen=True, slots=True)
class Dim:
    """One of m, n, k: fixed at generation time, or given at run time up to a maximum.

    Attributes:
        size: the fixed size, or the size that a dynamic dimension is planned for and must not
            exceed at run time.
        dynamic: whether the kernel takes the dimension as an argument.
    """

    size: int
    dynamic: bool = False

    def __str__(self) -> str:
        return f"dynamic:{self.size}" if self.dynamic else str(self.size)

    @classmethod
    def parse(cls, text: str | int, name: str) -> Dim:
        """Reads ``1024``, ``dynamic`` or ``dynamic:8192``.

        Raises:
            InputError: not a whole number, out of range, or zero for m and n. (k may be zero.)
        """
        word = str(text).strip()
        dynamic = word == "dynamic" or word.startswith("dynamic:")
        digits = word.partition(":")[2] if dynamic else word
        if word == "dynamic":
            return cls(DEFAULT_DYNAMIC_MAX, dynamic=True)
        remedy = "give a whole number, dynamic, or dynamic:MAX"
        if dynamic and not digits:
            raise InputError(f"{name} = {word}: no maximum behind the colon; {remedy}")
        size = whole_number(digits, name, remedy=remedy)
        smallest = 0 if name == "k" and not dynamic else 1
        if dynamic and size < smallest:
            raise InputError(f"{name} = {word}: too small; the smallest maximum is {smallest}")
        check_range(size, name, smallest, MAX_DIMENSION)
        return cls(size, dynamic)
