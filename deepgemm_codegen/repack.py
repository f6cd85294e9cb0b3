"""A body that multiplies nothing: it copies operands into the workspace, their rows on whole lines.

TMA and wide vectors want rows that start on 16 bytes. An operand whose rows start anywhere is
copied once, at nearly the speed of memory, and the product reads the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.expressions import Maximum, Number, ceildiv, plus, times

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.expressions import Expression
    from deepgemm_codegen.tiles import Extent

__all__ = ["PACKED", "PASSES", "THREADS", "VECTOR_BYTES", "Packed", "Repack"]

VECTOR_BYTES = 16
"""Bytes that a thread copies at a time."""

THREADS = 256
"""Threads of a block."""

PASSES = 4
"""Vectors of a thread, one below the other, all on their way at a time."""

PACKED = {"a": "a_packed", "b": "b_packed"}
"""Regions of the workspace that hold copies, by the operand."""


@dataclass(frozen=True, slots=True)
class Packed:
    """One of the caller's matrices and its copy.

    Attributes:
        source: the caller's argument.
        dtype: element type.
        rows: the extent across its stored rows.
        columns: the contiguous extent.
        batch: matrices, each right behind the one before it.
        leading: its elements from row to row; None when they are the argument ``ld<source>``.
        pitch: those of the copy, whose rows start on whole lines.
    """

    source: Literal["a", "b"]
    dtype: DType
    rows: Extent
    columns: Extent
    batch: int
    leading: int | None
    pitch: int

    @property
    def name(self) -> str:
        """The region that holds the copy."""
        return PACKED[self.source]

    @property
    def leading_symbol(self) -> str:
        """What holds the leading dimension of the source: ``LDA`` or ``lda``."""
        return f"ld{self.source}" if self.leading is None else f"LD{self.source.upper()}"

    @property
    def pitch_symbol(self) -> str:
        """The constant that holds that of the copy, such as ``LDA_PACKED``."""
        return f"LD{self.name.upper()}"

    @property
    def all_rows(self) -> Expression:
        """Rows of the whole batch."""
        return times(self.rows.expression, Number(self.batch))

    @property
    def elements(self) -> Expression:
        """Elements of the copy."""
        return times(self.all_rows, Number(self.pitch))


@dataclass(frozen=True, slots=True)
class Repack:
    """Copies matrices, a tile a block: a thread copies a vector of each of some rows.

    The source is read in aligned vectors, and what a vector of the copy needs of two of them is
    shifted together; reads and writes are as wide as they can be whatever the rows start on.

    Attributes:
        matrices: what is copied.
        row_threads: threads that copy neighbouring vectors of a row.
    """

    matrices: tuple[Packed, ...]
    row_threads: int

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "repack"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/repack.cu.j2"

    @property
    def element_bytes(self) -> int:
        """Of every matrix: an instruction multiplies elements of one size."""
        return self.matrices[0].dtype.bytes

    @property
    def vector(self) -> int:
        """Elements that a thread copies at a time."""
        return VECTOR_BYTES // self.element_bytes

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return THREADS

    @property
    def passes(self) -> int:
        """Rows of which a thread copies a vector."""
        return PASSES

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return 0

    @property
    def tile_rows(self) -> int:
        """Rows of a tile."""
        return THREADS // self.row_threads * PASSES

    @property
    def tile_columns(self) -> int:
        """Columns of a tile."""
        return self.row_threads * self.vector

    def tiles_of(self, matrix: Packed) -> tuple[Expression, Expression]:
        """(tiles along the rows, tiles across them) of a matrix."""
        return (
            ceildiv(matrix.all_rows, self.tile_rows),
            ceildiv(matrix.columns.expression, self.tile_columns),
        )

    @property
    def blocks(self) -> Expression:
        """Blocks of the grid: a tile each, and one where there is nothing to copy."""
        tiles: Expression = Number(0)
        for matrix in self.matrices:
            tiles = plus(tiles, times(*self.tiles_of(matrix)))
        return tiles if isinstance(tiles, Number) else Maximum(tiles, 1)
