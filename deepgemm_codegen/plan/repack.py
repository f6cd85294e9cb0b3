"""A body that multiplies nothing: it copies operands into the workspace, their rows on whole lines.

TMA and wide vectors want rows that start on 16 bytes, and wgmma reads 1-byte operands along k only.
An operand that lies otherwise is copied once, turned where need be, at nearly the speed of memory,
and the product reads the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.plan.expressions import Maximum, Number, ceildiv, plus, times
from deepgemm_codegen.plan.tiles import first_of
from deepgemm_codegen.spec.batching import DENSE, POINTERS

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.plan.expressions import Expression
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec.batching import Stride

__all__ = ["PACKED", "PASSES", "THREADS", "TURN", "VECTOR_BYTES", "Packed", "Repack"]

VECTOR_BYTES = 16
"""Bytes that a thread copies at a time."""

THREADS = 256
"""Threads of a block."""

PASSES = 4
"""Vectors of a thread, one below the other, all on their way at a time."""

TURN = 64
"""Rows and columns of a tile that is turned, in bytes: a vector a thread, in and out."""

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
        batch: matrices.
        leading: its elements from row to row; None when they are the argument ``ld<source>``.
        pitch: those of the copy, whose rows start on whole lines.
        align: bytes on which the caller's pointer starts, at least.
        turned: whether the copy's rows are the source's columns; of 1-byte elements.
        stride: how far apart the matrices lie, see `batching`; their copies follow each other.
        filled: whether something is written behind each row of the copy, up to the next one.
    """

    source: Literal["a", "b"]
    dtype: DType
    rows: Extent
    columns: Extent
    batch: int
    leading: int | None
    pitch: int
    align: int
    turned: bool = False
    stride: Stride = DENSE
    filled: bool = False

    @property
    def scattered(self) -> bool:
        """Whether the source is an array of pointers."""
        return self.stride == POINTERS

    @property
    def singly(self) -> bool:
        """Whether tiles are those of one matrix each, not of one tall one."""
        return self.batch > 1 and (self.turned or self.stride != DENSE)

    @property
    def begins_apart(self) -> bool:
        """Whether it may start off 16 bytes, so that its first aligned vector begins before it."""
        return self.align < VECTOR_BYTES or (self.singly and not self.scattered)

    @property
    def first(self) -> str:
        """C expression of where the matrix of the product ``batch`` begins."""
        return first_of(self.source, self.stride, f"{self.rows.symbol} * {self.leading_symbol}")

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
    def written(self) -> Expression:
        """Elements that are written of a row of the copy, where it is not turned."""
        return Number(self.pitch) if self.filled else self.columns.expression

    @property
    def written_symbol(self) -> str:
        """How the kernel's code names them."""
        return self.pitch_symbol if self.filled else self.columns.symbol

    @property
    def elements(self) -> Expression:
        """Elements of the copy."""
        rows = self.columns if self.turned else self.rows
        return times(times(rows.expression, Number(self.batch)), Number(self.pitch))


@dataclass(frozen=True, slots=True)
class Repack:
    """Copies matrices, a tile a block: a thread copies a vector of each of some rows.

    The source is read in aligned vectors, and what a vector of the copy needs of two of them is
    shifted together; reads and writes are as wide as they can be whatever the rows start on. What
    is to be turned goes through shared memory, a square of bytes a block.

    Attributes:
        matrices: what is copied.
        row_threads: threads that copy neighbouring vectors of a row.
        min_blocks: resident blocks a multiprocessor that the compiler is to plan for; 0 leaves
            their number to it.
    """

    matrices: tuple[Packed, ...]
    row_threads: int
    min_blocks: int = 0

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
    def turn(self) -> int:
        """Rows, and columns, of a tile that is turned."""
        return TURN

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block; what is turned goes through static memory."""
        return 0

    @property
    def copies(self) -> bool:
        """Whether some matrix is copied as it lies."""
        return not all(matrix.turned for matrix in self.matrices)

    @property
    def fills(self) -> bool:
        """Whether something follows the rows of some copy."""
        return any(matrix.filled for matrix in self.matrices)

    @property
    def turns(self) -> bool:
        """Whether some matrix is turned."""
        return any(matrix.turned for matrix in self.matrices)

    @property
    def begins_apart(self) -> bool:
        """Whether some matrix may start off 16 bytes."""
        return any(matrix.begins_apart for matrix in self.matrices)

    def tile_of(self, matrix: Packed) -> tuple[int, int]:
        """(rows, columns) of a matrix's tile."""
        if matrix.turned:
            return TURN, TURN
        return THREADS // self.row_threads * PASSES, self.row_threads * self.vector

    def tiles_of(self, matrix: Packed) -> tuple[Expression, Expression]:
        """(tiles along the rows of the whole batch, tiles across them) of a matrix.

        The batch is one tall matrix, but where tiles stay in their own.
        """
        tile_rows, tile_columns = self.tile_of(matrix)
        rows, batch = matrix.rows.expression, Number(matrix.batch)
        along = (
            times(ceildiv(rows, tile_rows), batch)
            if matrix.singly
            else ceildiv(times(rows, batch), tile_rows)
        )
        across = matrix.columns.expression if matrix.turned else matrix.written
        return along, ceildiv(across, tile_columns)

    @property
    def blocks(self) -> Expression:
        """Blocks of the grid: a tile each, and one where there is nothing to copy."""
        tiles: Expression = Number(0)
        for matrix in self.matrices:
            tiles = plus(tiles, times(*self.tiles_of(matrix)))
        return tiles if isinstance(tiles, Number) else Maximum(tiles, 1)
