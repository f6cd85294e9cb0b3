"""Scales of whole rows: the kernel that computes them, and quantises by them.

A scale is known when its whole row is. So the product leaves the values before the last step in a
region of the workspace, and this kernel reads each row once, keeps it in registers, and makes D's
row and its scale of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deepgemm_codegen.plan.tiles import WARP

__all__ = ["MOST_COLUMNS", "VALUES", "RowScales"]

VALUES = "value_rows"
"""The workspace's region of values that are not quantised yet: of each product a matrix as large as
D, fp32, row-major, its rows on 16 bytes."""

MOST_THREADS, MOST_VALUES = 1024, 64
"""Threads that share a row, and values that each of them has of it."""

ALL_KEPT, SOME_KEPT = 40, 32
"""Values up to which a thread keeps all in registers, and how many of more, the rest of which it
reads again, from the L2: a thread of 1024 has 64 registers, and with more values ptxas spills."""

MOST_COLUMNS = MOST_THREADS * MOST_VALUES
"""Columns of the longest row."""


@dataclass(frozen=True, slots=True)
class RowScales:
    """Rows of D made of values that the kernel before has left: a scale each, then 8 bits a value.

    Attributes:
        tile_m: rows of a block.
        row_threads: threads that share a row: whole warps, so that the largest magnitude travels
            by shuffles.
        passes: vectors of a row that a thread has.
        vector: columns of a vector.
        scale: the argument that the scales are written to.
        largest: the largest number of D's type, as a C float.
    """

    tile_m: int
    row_threads: int
    passes: int
    vector: int
    scale: str
    largest: str

    @property
    def kept(self) -> int:
        """Vectors of them that stay in registers; those behind are read again for D."""
        if self.passes * self.vector <= ALL_KEPT:
            return self.passes
        return SOME_KEPT // self.vector

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "scales"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/row_scales.cu.j2"

    @property
    def tile_n(self) -> int:
        """Columns that a block has room for: the row, at least."""
        return self.row_threads * self.passes * self.vector

    @property
    def row_warps(self) -> int:
        """Warps that share a row."""
        return self.row_threads // WARP

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.tile_m * self.row_threads

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block; warps that share a row meet in static memory."""
        return 0
