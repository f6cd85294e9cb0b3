"""Where the elements of an m16n8 matrix instruction sit: lane, register and half to row and column.

With g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k8" and "m16n8k16"):

- A: register r holds row g + 8 (r & 1), k = 2t + 8 (r >> 1) in its lower half, k + 1 in its upper.
- B: register r holds column g, k = 2t + 8r in its lower half, k + 1 in its upper.
- C, D: element i has row g + 8 (i >> 1), column 2t + (i & 1). With fp32 each element is a register,
  with fp16 elements 0 and 1 share register 0, and 2 and 3 register 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["Layout", "Shape", "a_elements", "b_elements", "c_elements", "layout"]

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = frozenset({("f16", "f32"), ("f16", "f16"), ("bf16", "f32")})


@dataclass(frozen=True, slots=True)
class Shape:
    """A matrix instruction m16n8.

    Attributes:
        k: products a result.
        kind: operand type, ``f16`` or ``bf16``.
        accumulator: ``f32`` or ``f16``.
    """

    k: int
    kind: str
    accumulator: str

    @property
    def a_registers(self) -> int:
        """32-bit registers of A a lane."""
        return self.k // 4

    @property
    def b_registers(self) -> int:
        """32-bit registers of B a lane."""
        return self.k // 8

    @property
    def c_registers(self) -> int:
        """32-bit registers of C and D a lane."""
        return 4 if self.accumulator == "f32" else 2

    @staticmethod
    def find(shape: str, types: tuple[str, ...]) -> Shape | None:
        """The instruction of a shape word and the types of D, A, B, C; None if unknown."""
        if len(types) != 4 or shape not in ("m16n8k8", "m16n8k16"):
            return None
        d, a, b, c = types
        if a != b or d != c or (a, d) not in _TYPES:
            return None
        return Shape(int(shape[6:]), a, d)


def _lanes(registers: int, parts: int) -> tuple[Array, Array, Array, Array]:
    r, lane, part = np.meshgrid(
        np.arange(registers), np.arange(32), np.arange(parts), indexing="ij"
    )
    return r, lane // 4, lane % 4, part


def a_elements(k: int) -> tuple[Array, Array]:
    """Row and k of A's elements, each shaped (registers, 32, 2)."""
    r, g, t, half = _lanes(k // 4, 2)
    return g + 8 * (r & 1), 2 * t + 8 * (r >> 1) + half


def b_elements(k: int) -> tuple[Array, Array]:
    """K and column of B's elements, each shaped (registers, 32, 2)."""
    r, g, t, half = _lanes(k // 8, 2)
    return 2 * t + 8 * r + half, g


def c_elements() -> tuple[Array, Array]:
    """Row and column of C's elements, each shaped (4, 32)."""
    i, g, t, _ = _lanes(4, 1)
    return (g + 8 * (i >> 1))[:, :, 0], (2 * t + (i & 1))[:, :, 0]


class Layout:
    """Gather indices between the registers of a grid of fragments and plain matrices.

    A batch is ``groups * warps`` matrices A (m * 16 rows) and B (n * 8 columns).

    Attributes:
        a: shape (k, batch, m * 16): index of A's 16-bit halves in (groups, m, registers, lanes, 2).
        b: shape (k, batch, n * 8): likewise in (groups, n, registers, lanes, 2).
        c: shape (batch, m * 16, n * 8): index of C's elements in (groups, m, n, 4, lanes).
        d: shape (elements,): the inverse of ``c``, from the flat matrices to the registers.
    """

    def __init__(self, k: int, groups: int, m: int, n: int, warps: int) -> None:
        batch = groups * warps
        row, depth = a_elements(k)
        shape = (groups, m, k // 4, warps, 32, 2)
        a: Array = np.empty((k, groups, warps, m, 16), np.int64)
        at = np.arange(np.prod(shape)).reshape(shape).transpose(2, 4, 5, 0, 3, 1)
        a[depth, :, :, :, row] = at
        self.a: Array = a.reshape(k, batch, m * 16)
        depth, column = b_elements(k)
        shape = (groups, n, k // 8, warps, 32, 2)
        b: Array = np.empty((k, groups, warps, n, 8), np.int64)
        at = np.arange(np.prod(shape)).reshape(shape).transpose(2, 4, 5, 0, 3, 1)
        b[depth, :, :, :, column] = at
        self.b: Array = b.reshape(k, batch, n * 8)
        row, column = c_elements()
        cells = np.arange(groups * m * n * 4 * warps * 32)
        at = cells.reshape(groups, m, n, 4, warps, 32).transpose(3, 5, 0, 4, 1, 2)
        c = np.empty((groups, warps, m, 16, n, 8), np.int64)
        # The two index arrays lie apart, so numpy puts their axes first.
        c[:, :, :, row, :, column] = at
        self.c = c.reshape(batch, m * 16, n * 8)
        self.d = np.empty(cells.size, np.int64)
        self.d[self.c.reshape(-1)] = cells


@lru_cache(maxsize=64)
def layout(k: int, groups: int, m: int, n: int, warps: int) -> Layout:
    """The layout of a grid of fragments, made once."""
    return Layout(k, groups, m, n, warps)
