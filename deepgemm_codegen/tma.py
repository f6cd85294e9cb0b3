"""What TMA needs to know: operands that it loads, and the descriptors that describe them.

A descriptor (a tensor map) is built on the host from run-time pointers. `TensorMap` says how, once,
for the C launcher, the GPU harness and the emulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.expressions import Expression
    from deepgemm_codegen.tiles import Extent

__all__ = ["PANEL_BYTES", "TMA_ALIGNMENT", "TensorMap", "TmaOperand"]

PANEL_BYTES = 128
"""Width of a panel in shared memory: the widest swizzle pattern, and one K-major row of a stage."""

TMA_ALIGNMENT = 16
"""Bytes that a descriptor's base address and row stride are multiples of (CUDA driver API)."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A two-dimensional tensor map.

    Attributes:
        name: the kernel's argument.
        pointer: the caller's pointer that it describes.
        dtype: element type.
        inner, outer: extents in elements, contiguous first, over the dynamic dimensions' names.
        stride: elements from row to row.
        box_inner, box_outer: elements that one copy moves.
    """

    name: str
    pointer: str
    dtype: DType
    inner: Expression
    outer: Expression
    stride: Expression
    box_inner: int
    box_outer: int


@dataclass(frozen=True, slots=True)
class TmaOperand:
    """How A or B travels by TMA: boxes of one panel, 128-byte swizzled.

    Attributes:
        name: ``a`` or ``b``, its role in the plan.
        source: the caller's operand that plays the role.
        dtype: element type.
        major: ``k`` when k is contiguous in memory, ``mn`` when m or n is.
        leading: leading dimension in elements; None when it is a run-time argument.
        rows: the extent across the rows of the stored matrix.
        columns: the contiguous extent.
        sharers: blocks of a cluster that read the same tile; each loads its part of the rows for
            all of them (TMA multicast).
    """

    name: Literal["a", "b"]
    source: Literal["a", "b"]
    dtype: DType
    major: Literal["k", "mn"]
    leading: int | None
    rows: Extent
    columns: Extent
    sharers: int

    @property
    def role(self) -> str:
        """``A`` or ``B``: the prefix of the operand's generated constants."""
        return self.name.upper()

    @property
    def k_major(self) -> bool:
        """Whether k is contiguous."""
        return self.major == "k"

    @property
    def bytes(self) -> int:
        """Bytes of one stage's tile."""
        return self.rows.tile * self.columns.tile * self.dtype.bytes

    @property
    def panel_columns(self) -> int:
        """Elements of a row that a panel holds."""
        return PANEL_BYTES // self.dtype.bytes

    @property
    def panels(self) -> int:
        """Panels that a tile's row is cut into; each is one copy."""
        return self.columns.tile // self.panel_columns

    @property
    def panel_bytes(self) -> int:
        """Bytes of one panel."""
        return self.rows.tile * PANEL_BYTES

    @property
    def box_rows(self) -> int:
        """Rows that one copy moves."""
        return self.rows.tile // self.sharers

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
    def fragment_bytes(self) -> int:
        """Bytes from one fragment of 64 rows of m to the next."""
        return 64 * PANEL_BYTES if self.k_major else self.panel_bytes

    @property
    def slot_offset(self) -> str:
        """C expression of where the tile starts in a slot, to be added."""
        return "" if self.name == "a" else " + A_BYTES"
