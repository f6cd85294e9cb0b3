"""Where the elements of an m16n8 matrix instruction sit: lane, register and part to row and column.

With g = lane / 4, t = lane % 4 and p elements a 32-bit register (PTX ISA, "Matrix Fragments for
mma.m16n8k..."; 16-bit types have p = 2, 8-bit ones 4, tf32 1):

- A: register r holds row g + 8 (r & 1), k = pt + 4p (r >> 1) in its lowest part, k + 1 above it
  and so on; with 8 rows register r has k = pt + 4pr.
- B: register r holds column g, k = pt + 4pr in its lowest part, and so on.
- C, D: element i has row g + 8 (i >> 1), column 2t + (i & 1). With 32-bit sums each element is a
  register, with fp16 elements 0 and 1 share register 0, and 2 and 3 register 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deepgemm_codegen.emulator.patterns import KINDS

__all__ = ["INTEGERS", "Layout", "Shape", "a_elements", "b_elements", "c_elements", "layout"]

Array = np.ndarray[Any, np.dtype[Any]]

INTEGERS = frozenset({"s8", "u8"})
_FLOAT8 = frozenset({"e4m3", "e5m2"})
# Operand type to the k of its shapes, and the types that it is summed in.
_SHAPES: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "f16": ((8, 16), ("f32", "f16")),
    "bf16": ((8, 16), ("f32",)),
    "tf32": ((4, 8), ("f32",)),
    **dict.fromkeys(sorted(_FLOAT8), ((16, 32), ("f32", "f16"))),
    **dict.fromkeys(sorted(INTEGERS), ((16, 32), ("s32",))),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A matrix instruction of n = 8.

    Attributes:
        k: products a result.
        kind: type of A.
        accumulator: ``f32``, ``f16`` or ``s32``.
        kind_b: type of B where it differs from A's, or empty.
        m: rows, 16 or 8.
    """

    k: int
    kind: str
    accumulator: str
    kind_b: str = ""
    m: int = 16

    @property
    def kinds(self) -> tuple[str, str]:
        """Types of A and B."""
        return self.kind, self.kind_b or self.kind

    @property
    def parts(self) -> int:
        """Operand elements a 32-bit register."""
        return 4 if self.kind in INTEGERS else 32 // KINDS[self.kind][2]

    @property
    def a_registers(self) -> int:
        """32-bit registers of A a lane."""
        return self.m // 8 * self.k // (4 * self.parts)

    @property
    def b_registers(self) -> int:
        """32-bit registers of B a lane."""
        return self.k // (4 * self.parts)

    @property
    def c_elements(self) -> int:
        """Elements of C and D a lane."""
        return self.m // 4

    @property
    def c_registers(self) -> int:
        """32-bit registers of C and D a lane."""
        return self.c_elements // (2 if self.accumulator == "f16" else 1)

    @staticmethod
    def find(shape: str, types: tuple[str, ...]) -> Shape | None:
        """The instruction of a shape word and the types of D, A, B, C; None if unknown."""
        if len(types) != 4 or types[1] not in _SHAPES or types[0] != types[3]:
            return None
        d, a, b, _ = types
        mixed = {a, b} <= INTEGERS or {a, b} <= _FLOAT8
        depths, sums = _SHAPES[a]
        if (a != b and not mixed) or d not in sums:
            return None
        second = b if b != a else ""
        if shape == "m8n8k16" and a in INTEGERS:
            return Shape(16, a, d, second, m=8)
        for k in depths:
            if shape == f"m16n8k{k}":
                return Shape(k, a, d, second)
        return None


def _lanes(registers: int, parts: int) -> tuple[Array, Array, Array, Array]:
    r, lane, part = np.meshgrid(
        np.arange(registers), np.arange(32), np.arange(parts), indexing="ij"
    )
    return r, lane // 4, lane % 4, part


def a_elements(k: int, parts: int = 2, m: int = 16) -> tuple[Array, Array]:
    """Row and k of A's elements, each shaped (registers, 32, parts)."""
    high = m // 8  # registers of one k
    r, g, t, part = _lanes(high * k // (4 * parts), parts)
    return g + 8 * (r % high), parts * t + 4 * parts * (r // high) + part


def b_elements(k: int, parts: int = 2) -> tuple[Array, Array]:
    """K and column of B's elements, each shaped (registers, 32, parts)."""
    r, g, t, part = _lanes(k // (4 * parts), parts)
    return parts * t + 4 * parts * r + part, g


def c_elements(m: int = 16) -> tuple[Array, Array]:
    """Row and column of C's elements, each shaped (m / 4, 32)."""
    i, g, t, _ = _lanes(m // 4, 1)
    return (g + 8 * (i >> 1))[:, :, 0], (2 * t + (i & 1))[:, :, 0]


class Layout:
    """Gather indices between the registers of a grid of fragments and plain matrices.

    A batch is ``groups * warps`` matrices A (m tiles of rows) and B (n tiles of 8 columns); p is
    the elements a register.

    Attributes:
        a: shape (k, batch, rows): index of A's elements in (groups, m, registers, lanes, p).
        b: shape (k, batch, n * 8): likewise in (groups, n, registers, lanes, p).
        c: shape (batch, rows, n * 8): index of C's elements in (groups, m, n, elements, lanes).
        d: shape (elements,): the inverse of ``c``, from the flat matrices to the registers.
    """

    def __init__(self, shape: Shape, groups: int, m: int, n: int, warps: int) -> None:
        batch, k, parts, tile = groups * warps, shape.k, shape.parts, shape.m
        row, depth = a_elements(k, parts, tile)
        form = (groups, m, shape.a_registers, warps, 32, parts)
        a: Array = np.empty((k, groups, warps, m, tile), np.int64)
        at = np.arange(np.prod(form)).reshape(form).transpose(2, 4, 5, 0, 3, 1)
        a[depth, :, :, :, row] = at
        self.a: Array = a.reshape(k, batch, m * tile)
        depth, column = b_elements(k, parts)
        form = (groups, n, shape.b_registers, warps, 32, parts)
        b: Array = np.empty((k, groups, warps, n, 8), np.int64)
        at = np.arange(np.prod(form)).reshape(form).transpose(2, 4, 5, 0, 3, 1)
        b[depth, :, :, :, column] = at
        self.b: Array = b.reshape(k, batch, n * 8)
        row, column = c_elements(tile)
        each = shape.c_elements
        cells = np.arange(groups * m * n * each * warps * 32)
        at = cells.reshape(groups, m, n, each, warps, 32).transpose(3, 5, 0, 4, 1, 2)
        c = np.empty((groups, warps, m, tile, n, 8), np.int64)
        # The two index arrays lie apart, so numpy puts their axes first.
        c[:, :, :, row, :, column] = at
        self.c = c.reshape(batch, m * tile, n * 8)
        self.d = np.empty(cells.size, np.int64)
        self.d[self.c.reshape(-1)] = cells


@lru_cache(maxsize=64)
def layout(shape: Shape, groups: int, m: int, n: int, warps: int) -> Layout:
    """The layout of a grid of fragments, made once."""
    return Layout(shape, groups, m, n, warps)
