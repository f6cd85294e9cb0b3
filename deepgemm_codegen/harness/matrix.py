"""Where the elements of an operand lie in its buffer, and parts of D.

In the caller's terms, as `Problem` is. `Matrix` knows an element's offset; nothing else computes
offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType

__all__ = ["Matrix", "Region"]


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of one batch of D: rows ``[row, row_end)``, columns ``[column, column_end)``."""

    batch: int
    row: int
    row_end: int
    column: int
    column_end: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.row_end - self.row, self.column_end - self.column

    def indices(self, xp: Any) -> tuple[int, Any, Any]:
        """(batch, rows as a column, columns as a row): broadcasting int64 index arrays."""
        rows = xp.arange(self.row, self.row_end, dtype=xp.int64)[:, None]
        columns = xp.arange(self.column, self.column_end, dtype=xp.int64)[None, :]
        return self.batch, rows, columns

    @property
    def empty(self) -> bool:
        """Whether it holds no element."""
        return self.row >= self.row_end or self.column >= self.column_end


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where the elements of an operand lie in its buffer.

    A vector (an epilogue step's operand) is a matrix of one row.

    Attributes:
        name: the kernel's parameter, such as ``a`` or ``bias0``.
        dtype: element type.
        batch: matrices; one where all products share it.
        rows, columns: logical size.
        leading: elements from one stored row to the next.
        align: alignment of the base pointer in bytes, promised to the kernel.
        transposed: whether the matrix is stored transposed.
        apart: elements from one matrix of the batch to the next; None where they follow without
            a gap, 0 where there is one for all products. Less than a matrix is long where they lie
            side by side in the rows of a larger one.
    """

    name: str
    dtype: DType
    batch: int
    rows: int
    columns: int
    leading: int
    align: int
    transposed: bool = False
    apart: int | None = None

    @property
    def stored_rows(self) -> int:
        """Rows as stored."""
        return self.columns if self.transposed else self.rows

    @property
    def stored_columns(self) -> int:
        """Contiguous elements of a stored row."""
        return self.rows if self.transposed else self.columns

    @property
    def starts(self) -> range:
        """Where each matrix begins, elements from the base."""
        return range(0, self.batch * self.stride, self.stride) if self.stride else range(1)

    @property
    def stride(self) -> int:
        """Elements from one matrix of the batch to the next."""
        return self.stored_rows * self.leading if self.apart is None else self.apart

    @property
    def gapless(self) -> bool:
        """Whether every element of the buffer is one of a matrix."""
        dense = self.batch == 1 or self.stride == self.stored_rows * self.leading
        return dense and self.leading == self.stored_columns

    @property
    def side_by_side(self) -> bool:
        """Whether a row of the buffer holds a row of every matrix."""
        return self.batch > 1 and self.stored_rows > 1 and self.stride < self.leading

    @property
    def elements(self) -> int:
        """Elements from the base to the end of the last row: the least a caller must own.

        The padding after the last row is not part of it.
        """
        if not (self.batch and self.stored_rows and self.stored_columns):
            return 0
        last_row = (self.stored_rows - 1) * self.leading + self.stored_columns
        return (self.batch - 1) * self.stride + last_row

    def flat(self, batch: Any, row: Any, column: Any) -> Any:
        """Index of an element from the base; takes integers or broadcasting int64 arrays."""
        if self.transposed:
            row, column = column, row
        return batch * self.stride + row * self.leading + column

    def lies_like(self, other: Matrix) -> bool:
        """Whether every element lies where the other's does, in as many bytes."""
        mine = (self.dtype, self.batch, self.leading, self.stride)
        return mine == (other.dtype, other.batch, other.leading, other.stride)

    def owner(self, batch: Any) -> Any:
        """The number of the matrix that a product reads."""
        return batch * 0 if self.batch == 1 else batch

    def logical(self, flat: Any) -> tuple[Any, Any, Any, Any]:
        """(batch, row, column, whether it is an element and not padding) of flat indices."""
        if self.side_by_side:
            row, within = flat // self.leading, flat % self.leading
            batch, column = within // self.stride, within % self.stride
        else:
            batch, within = flat // max(self.stride, 1), flat % max(self.stride, 1)
            if self.batch == 1:
                batch, within = flat * 0, flat
            row, column = within // self.leading, within % self.leading
        inside = (column < self.stored_columns) & (row < self.stored_rows) & (batch < self.batch)
        return (batch, column, row, inside) if self.transposed else (batch, row, column, inside)
