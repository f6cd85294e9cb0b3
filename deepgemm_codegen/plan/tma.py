"""What TMA needs to know: operands that it loads, and the descriptors that describe them.

A descriptor (a tensor map) is built on the host from run-time pointers. `TensorMap` says how, once,
for the C launcher, the GPU harness and the emulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.plan.expressions import Number, ceildiv
from deepgemm_codegen.plan.layout import CHUNK_BYTES
from deepgemm_codegen.plan.tiles import MatrixOperand

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.plan.expressions import Expression

__all__ = [
    "PANEL_BYTES",
    "SWIZZLE_ROWS",
    "TMA_ALIGNMENT",
    "TensorMap",
    "TmaOperand",
    "box_columns",
]

PANEL_BYTES = 128
"""Width of a panel in shared memory: the widest swizzle pattern, and one K-major row of a stage."""

SWIZZLE_ROWS = 8
"""Rows after which a swizzle pattern repeats."""

TMA_ALIGNMENT = 16
"""Bytes that a descriptor's base address and row stride are multiples of (CUDA driver API)."""


def box_columns(size: int, element_bytes: int) -> int:
    """Elements of a row of a matrix that one copy moves: a panel's, or all, in whole 16 bytes.

    A copy that a matrix ends in takes longer, for each row. Rows narrower than the swizzle's
    pattern lie as far apart as whole ones (CUDA programming guide, tensor memory access).
    """
    chunk = CHUNK_BYTES // element_bytes
    return min(PANEL_BYTES // element_bytes, -(-size // chunk) * chunk)


NOWHERE = Number(0)
"""How far the next matrix is where there is none."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map of one matrix, or, in a third dimension, of a batch of them.

    Or of a matrix in panels: its first dimension is a panel's columns, its second the panels, its
    third the rows, so that the rows of a box leave whole, one after the other.

    Attributes:
        name: the kernel's argument.
        pointer: the caller's pointer, or the region of the workspace, that it describes.
        dtype: element type.
        inner, outer: extents in elements, contiguous first, over the dynamic dimensions' names.
        stride: elements from row to row.
        box_inner, box_outer: elements that one copy moves, of one matrix.
        swizzle_bytes: width of the swizzle's pattern in shared memory (128, 64 or 32), to which
            narrower rows of a box are padded.
        batch: matrices.
        batch_stride: elements from matrix to matrix.
        panels: of ``box_inner`` columns that one copy moves side by side; 0 where a map has none,
            as a copy then is no wider than the swizzle's pattern.
    """

    name: str
    pointer: str
    dtype: DType
    inner: Expression
    outer: Expression
    stride: Expression
    box_inner: int
    box_outer: int
    swizzle_bytes: int
    batch: int = 1
    batch_stride: Expression = NOWHERE
    panels: int = 0

    @property
    def sizes(self) -> tuple[Expression, ...]:
        """Elements along each dimension, the contiguous one first."""
        if self.panels:
            return (Number(self.box_inner), ceildiv(self.inner, self.box_inner), self.outer)
        sizes = (self.inner, self.outer)
        return sizes if self.batch == 1 else (*sizes, Number(self.batch))

    @property
    def strides(self) -> tuple[Expression, ...]:
        """Elements from index to index along each dimension but the first."""
        if self.panels:
            return (Number(self.box_inner), self.stride)
        return (self.stride,) if self.batch == 1 else (self.stride, self.batch_stride)

    @property
    def box(self) -> tuple[int, ...]:
        """Elements that one copy moves along each dimension."""
        if self.panels:
            return (self.box_inner, self.panels, self.box_outer)
        box = (self.box_inner, self.box_outer)
        return box if self.batch == 1 else (*box, 1)


@dataclass(frozen=True, slots=True)
class TmaOperand(MatrixOperand):
    """How A or B travels by TMA: boxes of one panel, 128-byte swizzled.

    Attributes:
        sharers: blocks of a cluster that read the same tile; each loads its part of the rows for
            all of them (TMA multicast).
        batch: matrices that the descriptor holds, one a product.
        filled: whether its rows may be read up to the next one, see `repack.Packed`.
    """

    sharers: int
    batch: int = 1
    filled: bool = False

    @property
    def inner(self) -> Expression:
        """Elements of a row as the descriptor has them."""
        return Number(self.leading or 0) if self.filled else self.columns.expression

    @property
    def inner_symbol(self) -> str:
        """How the launcher's code names them."""
        return self.leading_symbol if self.filled else self.columns.symbol

    @property
    def panel_columns(self) -> int:
        """Elements of a row that a panel holds."""
        return PANEL_BYTES // self.dtype.bytes

    @property
    def panels(self) -> int:
        """Panels that hold a tile's row; each is one copy, of columns past the tile as well."""
        return -(-self.columns.tile // self.panel_columns)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the tile's panels."""
        return self.panels * PANEL_BYTES

    @property
    def ragged(self) -> bool:
        """Whether the tile ends inside its last panel."""
        return self.columns.tile % self.panel_columns != 0

    @property
    def panel_bytes(self) -> int:
        """Bytes of one panel."""
        return self.rows.tile * PANEL_BYTES

    @property
    def box_rows(self) -> int:
        """Rows that one copy moves: no more than the matrix has, in whole swizzle patterns.

        What lies outside a tensor arrives as zeros, and slowly: at 16x4096x4096 on an H200 a tile
        of 64 rows took 1.4 x the time of 64 rows that are all there.
        """
        rows = self.rows.tile // self.sharers
        if self.paired and self.k_major:  # each copy, or each sharer, brings one half
            return self.rows.tile // 2
        if self.shared or not self.k_major or self.rows.dynamic:
            return rows
        return min(rows, -(-self.rows.size // SWIZZLE_ROWS) * SWIZZLE_ROWS)

    @property
    def box_columns(self) -> int:
        """Elements of a row that one copy moves: no more than the matrix has, see `box_columns`."""
        if self.columns.dynamic or (self.paired and not self.k_major):
            return self.panel_columns
        return box_columns(self.columns.size, self.dtype.bytes)

    @property
    def box(self) -> tuple[int, int]:
        """Elements of a row, and rows, that one copy moves."""
        return self.box_columns, self.box_rows

    @property
    def idle_rows(self) -> int:
        """Rows of the tile that no copy writes; their sums are never stored."""
        whole = self.shared or (self.paired and self.k_major)
        return 0 if whole else self.rows.tile - self.box_rows

    @property
    def landed_rows(self) -> int:
        """Rows of the tile's panels that copies write, in shared memory one after the other."""
        return (self.rows.tile - self.idle_rows) * self.panels

    @property
    def landed_bytes(self) -> int:
        """Bytes that arrive in a slot."""
        return self.landed_rows * self.box_columns * self.dtype.bytes

    @property
    def shared(self) -> bool:
        """Whether the copies are multicast."""
        return self.sharers > 1

    @property
    def transposed(self) -> int:
        """The instruction's transpose bit: 1 for an MN-major operand."""
        return 0 if self.k_major else 1

    @property
    def leading_bytes(self) -> int:
        """Leading byte offset of the instruction's descriptor: panel to panel along m or n."""
        return 16 if self.k_major else self.panel_bytes

    @property
    def step_bytes(self) -> int:
        """Bytes that the start address moves for the next 16 of k."""
        return 32 if self.k_major else 16 * PANEL_BYTES

    @property
    def step_offset(self) -> str:
        """C expression of how far ``step`` is from the slice's first."""
        steps = PANEL_BYTES // self.step_bytes
        if not self.k_major or self.panels == 1:
            return f"step * {self.role}_STEP"
        return f"step / {steps} * {self.role}_PANEL + step % {steps} * {self.role}_STEP"

    @property
    def fragment_bytes(self) -> int:
        """Bytes from one fragment of 64 rows of m to the next."""
        return 64 * PANEL_BYTES if self.k_major else self.panel_bytes

    @property
    def slot_offset(self) -> str:
        """C expression of where the tile starts in a slot, to be added."""
        return "" if self.name == "a" else " + A_BYTES"
