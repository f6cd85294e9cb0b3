"""Zero points of int8 operands, folded in exactly: what a kernel before the product prepares.

With zero points za of a row of A and zb of a column of B, an element of D is

    sum (a - za)(b - zb)  =  sum a b  -  zb (sum a - k za)  -  za sum b

in whole numbers, which wrap at 32 bits as sums do. The kernel sums rows of A and columns of B once,
and leaves two numbers of each in the workspace: what the other operand's zero point is multiplied
by, and its own zero point. The product takes from its sums what these come to. Zero points of rows
and columns belong to a matrix: in a batch each product's A and B have their own, and what all
products share is summed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.plan.expressions import Number, ceildiv, plus, times
from deepgemm_codegen.plan.tiles import first_of
from deepgemm_codegen.spec.batching import POINTERS

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.plan.expressions import Expression
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec.batching import Stride

__all__ = ["SUMMED_ROWS", "ZEROS", "OperandZeros", "ZeroPoints"]

ZEROS = {"a": "a_zeros", "b": "b_zeros"}
"""Regions of the workspace by operand: of each of A's rows, or of B's columns, two int32."""

SUMMED_ROWS = 32
"""Rows of A, or columns of B, of a block: one a lane where those are contiguous."""

THREADS = 256
"""Threads of a block."""


@dataclass(frozen=True, slots=True)
class OperandZeros:
    """One of the caller's operands, and what is left of it.

    Attributes:
        source: the caller's argument.
        dtype: element type.
        across: the extent of A's rows, or of B's columns.
        k: the other extent.
        k_major: whether k is contiguous.
        batch: matrices: one a product, or one for all.
        stride: from one product's matrix to the next's.
        leading: elements from stored row to row; None when they are the argument ``ld<source>``.
        zero: C expression of the zero point of ``row``; ``0`` where it has none.
        summed: whether its elements are needed: where the other operand has a zero point.
        less: whether its own zero points are taken away from its sum, k times.
    """

    source: Literal["a", "b"]
    dtype: DType
    across: Extent
    k: Extent
    k_major: bool
    batch: int
    stride: Stride
    leading: int | None
    zero: str
    summed: bool
    less: bool

    @property
    def name(self) -> str:
        """The region that is left."""
        return ZEROS[self.source]

    @property
    def what(self) -> str:
        """What the numbers belong to, for people."""
        return "A's rows" if self.source == "a" else "B's columns"

    @property
    def leading_symbol(self) -> str:
        """``LDA`` or ``lda``."""
        return f"ld{self.source}" if self.leading is None else f"LD{self.source.upper()}"

    @property
    def scattered(self) -> bool:
        """Whether the source is an array of pointers."""
        return self.stride == POINTERS

    @property
    def first(self) -> str:
        """C expression of where the matrix of the product ``batch`` begins."""
        rows = self.across if self.k_major else self.k
        return first_of(self.source, self.stride, f"{rows.symbol} * {self.leading_symbol}")

    @property
    def elements(self) -> Expression:
        """Elements of the region."""
        return times(self.across.expression, Number(2 * self.batch))

    @property
    def tiles(self) -> Expression:
        """Blocks of one of its matrices."""
        return ceildiv(self.across.expression, SUMMED_ROWS)


@dataclass(frozen=True, slots=True)
class ZeroPoints:
    """Sums rows of A and columns of B, `SUMMED_ROWS` a block: first A's blocks, then B's.

    Attributes:
        operands: A and B.
    """

    operands: tuple[OperandZeros, OperandZeros]

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "zeros"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/zero_points.cu.j2"

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return THREADS

    @property
    def rows(self) -> int:
        """See `SUMMED_ROWS`."""
        return SUMMED_ROWS

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block; warps meet in static memory."""
        return 0

    @property
    def meets(self) -> bool:
        """Whether warps share sums: of an operand whose k is not contiguous."""
        return any(operand.summed and not operand.k_major for operand in self.operands)

    @property
    def blocks(self) -> Expression:
        """Blocks of the grid."""
        total: Expression = Number(0)
        for operand in self.operands:
            total = plus(total, times(operand.tiles, Number(operand.batch)))
        return total
