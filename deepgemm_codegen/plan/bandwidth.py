"""The body of kernels bound by memory: one side of D is short, so one operand is read once.

D's short side (up to 32 rows or columns) fits the 16 rows of one ``mma.sync``, or of two; its long
side lies along the instruction's 8 columns. The operand along the long side (the *long* one, a
layer's weights) streams from memory straight into fragments: no element of it is used twice, so
shared memory would only delay it. The other one, the *short* one, is small and comes from the
caches.

Where registers cannot hold enough of what is on its way, a ring in shared memory does: each warp
has slots of its own, so that no barrier of the block is needed, copies whole lines, and asks for a
slot again as soon as it has been multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.plan.tiles import WARP, MatrixOperand

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tiles import Extent

__all__ = [
    "FRAGMENT_LONG",
    "MN_RUN",
    "WARP_K",
    "Bandwidth",
    "LaneOperand",
    "RingPlace",
    "shared_bytes",
]

RingPlace = Literal["registers", "shared"]
"""What holds the slices that a warp has on their way or in use."""

SECTOR = 32
"""Bytes that the caches move at least."""

FRAGMENT_LONG = 8
"""Rows or columns of D's long side that one ``mma.sync`` covers: its n."""

WARP_K: dict[Literal["k", "mn"], int] = {"k": 64, "mn": 32}
"""Elements of k in a warp's part of a slice, by the long operand's contiguous dimension: a 128-byte
line of 16-bit elements where that is k, else two instructions' k."""

MN_RUN = 8
"""Consecutive k of a lane where k is not contiguous: its rows of two instructions' k."""


def slot_bytes(short_tile: int, fragments: int) -> int:
    """Bytes that a warp's part of a slice takes in a ring in shared memory, rows along k."""
    return (short_tile // 8 + fragments) * FRAGMENT_LONG * WARP_K["k"] * 2


def shared_bytes(
    short_tile: int, fragments: int, warps_long: int, warps_k: int, stages: int, ring: RingPlace
) -> int:
    """Dynamic shared memory of a block: a slab of fp32 sums for each of the warps along k.

    A ring that lies there has gone when the sums meet. The arguments are as in `Bandwidth`.
    """
    slabs = warps_k * short_tile * fragments * warps_long * FRAGMENT_LONG * 4
    if ring == "registers":
        return slabs
    return max(slabs, warps_long * warps_k * stages * slot_bytes(short_tile, fragments))


@dataclass(frozen=True, slots=True)
class LaneOperand(MatrixOperand):
    """How A or B gets from global memory straight into a lane's registers.

    Attributes:
        side: ``long`` or ``short``, the side of D that it lies along.
        vector: elements that a lane loads at a time.
        checked: whether rows start on vectors only if the leading dimension, an argument, is a
            multiple of them; else the kernel loads one element at a time.
    """

    side: Literal["long", "short"]
    vector: int
    checked: bool = False

    @property
    def vector_bytes(self) -> int:
        """Bytes of one load: what the base pointer and every row start on."""
        return self.vector * self.dtype.bytes

    @property
    def streams(self) -> bool:
        """Whether its loads pass the L1 by: whole sectors, each wanted by one load only.

        Four lanes read neighbours where k is contiguous, else eight do.
        """
        if self.side == "short" or self.leading is None:
            return False
        together = (4 if self.k_major else 8) * self.vector_bytes
        return together % SECTOR == 0 and self.leading * self.dtype.bytes % SECTOR == 0

    @property
    def extent(self) -> Extent:
        """The extent that is not k."""
        return self.rows if self.k_major else self.columns

    @property
    def mechanism(self) -> str:
        """Stem of the template below ``templates/copies/`` that prints its loads."""
        if self.side == "long" and not self.k_major:
            return "lane_columns" if self.vector > 1 else "lane_single_columns"
        return "lane_vectors" if self.vector > 1 else "lane_elements"

    @property
    def load(self) -> str:
        """The primitive that loads one vector."""
        return f"{'stream' if self.streams else 'load'}_{self.vector_bytes}"

    @property
    def words(self) -> str:
        """Dimensions in C of the registers that a slice of it takes: pairs of elements."""
        if self.side == "short":
            return "[SHORT_ROWS][WORDS]"
        return "[FRAGMENTS][WORDS]" if self.k_major else "[ELEMENTS][FRAGMENTS / 2]"

    @property
    def load_arguments(self) -> str:
        """What its load function is told beside k: elements from one k to the next, the check."""
        text = f", {self.name}_whole" if self.checked else ""
        if self.mechanism == "lane_vectors":
            return text
        return f", {'1' if self.k_major else self.leading_symbol}{text}"

    def offset(self, place: str, k: str) -> str:
        """C expression of where an element lies, by its place along m or n and its k."""
        row, column = (place, k) if self.k_major else (k, place)
        return f"{row} * {self.leading_symbol} + {column}"


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """A block tile whose long operand streams once, k split over the block's warps.

    Each of ``warps_long * warps_k`` warps multiplies ``fragments`` fragments of eight along the
    long side by the whole short side, over its part of every slice; the warps' sums meet in shared
    memory, where they are added in the order of k.

    Attributes:
        short: the plan's extent that is short.
        short_tile: rows of one instruction that the short side takes, 8 or 16, or of two, 32.
        fragments: fragments of eight along the long side that a warp computes.
        warps_long: warps along the long side.
        warps_k: warps that share a slice of k.
        stages: slices that a warp has on their way or in use.
        ring: what holds those slices.
        min_blocks: resident blocks a multiprocessor that the register cap allows for.
        mma_k: k of the instruction.
        a, b: the operands by role.
    """

    short: Literal["m", "n"]
    short_tile: int
    fragments: int
    warps_long: int
    warps_k: int
    stages: int
    ring: RingPlace
    min_blocks: int
    mma_k: int
    a: LaneOperand
    b: LaneOperand

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "product"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/bandwidth.cu.j2"

    @property
    def operands(self) -> tuple[LaneOperand, LaneOperand]:
        """Both operands, A first."""
        return (self.a, self.b)

    @property
    def long_operand(self) -> LaneOperand:
        """The operand that is read once."""
        return self.b if self.short == "m" else self.a

    @property
    def short_operand(self) -> LaneOperand:
        """The operand that every warp along the long side reads."""
        return self.a if self.short == "m" else self.b

    @property
    def warp_long(self) -> int:
        """Rows or columns of D's long side that a warp computes."""
        return self.fragments * FRAGMENT_LONG

    @property
    def long_tile(self) -> int:
        """Rows or columns of D's long side that a block computes."""
        return self.warp_long * self.warps_long

    @property
    def tile_m(self) -> int:
        """Rows of the block tile."""
        return self.short_tile if self.short == "m" else self.long_tile

    @property
    def tile_n(self) -> int:
        """Columns of the block tile."""
        return self.long_tile if self.short == "m" else self.short_tile

    @property
    def warp_k(self) -> int:
        """Elements of k in a warp's part of a slice."""
        return WARP_K[self.long_operand.major]

    @property
    def tile_k(self) -> int:
        """Elements of k in a slice: all warps' parts."""
        return self.warp_k * self.warps_k

    @property
    def run(self) -> int:
        """Consecutive k of a lane; four lanes' runs lie side by side, then come their next ones.

        Any order of k will do, as long as both operands have it: this one gives each lane whole
        vectors.
        """
        return max(self.long_operand.vector, 2) if self.long_operand.k_major else MN_RUN

    @property
    def group(self) -> int:
        """Neighbours along D's long side that a lane has of as many fragments.

        A lane loads vectors along that side where k is not contiguous; fragment j of a group then
        holds each lane's j-th.
        """
        return 1 if self.long_operand.k_major else self.long_operand.vector

    @property
    def slab_columns(self) -> str:
        """The generated constant that holds the columns of a slab: D's long side of the tile."""
        return self.long_operand.extent.tile_constant

    @property
    def slab_vector(self) -> int:
        """Sums that a lane stores at a time: neighbours along D's long side."""
        return min(4, 2 * self.group)

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return WARP * self.warps_long * self.warps_k

    @property
    def shared_bytes(self) -> int:
        """See `shared_bytes`."""
        shape = self.short_tile, self.fragments, self.warps_long, self.warps_k
        return shared_bytes(*shape, self.stages, self.ring)
