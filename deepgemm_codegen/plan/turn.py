"""A body that multiplies nothing: it copies matrices like D from columns to rows, or back.

What a step needs whole rows of, or pairs of columns, is computed with all of D's like row-major, in
the workspace. Where the caller's are column-major, a kernel before the others turns what they read,
and one behind them what they have written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType

__all__ = ["TILE", "Turn", "Turned", "turned_name"]

TILE = 64
"""Rows, and columns, of a tile."""

THREADS = 256
"""Threads of a block."""

VECTOR_BYTES = 16
"""Bytes that a thread moves at a time at most."""

WORD_BYTES = 4
"""Of an element in shared memory, whatever its type, so that no two share a bank's word."""


def turned_name(argument: str) -> str:
    """The region of the workspace that holds a matrix by rows."""
    return f"{argument}_turned"


@dataclass(frozen=True, slots=True)
class Turned:
    """One of the caller's column-major matrices, and its place by rows in the workspace.

    Attributes:
        name: the caller's argument.
        dtype: element type.
        leading: elements from column to column of the caller's; None when they are an argument.
        pitch: those from row to row of the other, whose rows start on 16 bytes.
        vector: elements that a thread moves at a time of the caller's: what every column starts on.
        asked: C condition under which the matrix may be read; empty for always.
    """

    name: str
    dtype: DType
    leading: int | None
    pitch: int
    vector: int
    asked: str = ""

    @property
    def region(self) -> str:
        """The region of the workspace."""
        return turned_name(self.name)

    @property
    def row_vector(self) -> int:
        """Elements that a thread moves at a time of the workspace's."""
        return VECTOR_BYTES // self.dtype.bytes

    @property
    def leading_symbol(self) -> str:
        """What holds the caller's leading dimension: ``LDD`` or ``ldd``."""
        name = f"ld{self.name}"
        return name if self.leading is None else name.upper()

    @property
    def pitch_symbol(self) -> str:
        """The constant that holds the pitch, such as ``LDD_TURNED``."""
        return f"LD{self.region.upper()}"


@dataclass(frozen=True, slots=True)
class Turn:
    """Copies a tile of every matrix a block, through shared memory.

    Attributes:
        matrices: what is copied.
        way: ``in`` from the caller's columns to rows, ``out`` from rows to the caller's columns.
        min_blocks: resident blocks a multiprocessor that the compiler is to plan for; 0 leaves
            their number to it.
    """

    matrices: tuple[Turned, ...]
    way: Literal["in", "out"]
    min_blocks: int = 0

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "turn_in" if self.way == "in" else "turn"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/turn.cu.j2"

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return THREADS

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: a word an element, and what keeps them apart.

        Element (line, place) is word line * (TILE + 1) + line / 32 + place + place / 32: 32 of a
        line lie in as many banks, as do 32 of a place, and those that the vectors of a warp begin
        with, of lines two apart.
        """
        return (TILE * (TILE + 1) + 2) * WORD_BYTES
