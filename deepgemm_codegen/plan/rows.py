"""The body of a kernel that makes D row by row, of A or of a product's sums.

Nothing is multiplied with a matrix here. A row is held by the lanes of one warp, or by all warps of
a block, so that a step may ask for all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from deepgemm_codegen.plan.tiles import WARP

__all__ = ["SHARING", "Rows", "additions"]

SHARING = 8
"""Lanes of a warp that share a row of its slab, where a product's warp holds whole rows."""

SUMS_READ = 64
"""Partial sums of a thread up to which all are read at once; of more ptxas spills what it read
ahead."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of D, each computed by threads that hold or walk all of it.

    Attributes:
        warps_m: rows of a block, each a warp's; 1 where a row has several warps.
        warps_n: warps of a row, a power of two.
        vector: neighbouring elements that a thread takes at a time.
        held: vectors that a thread holds in registers; 0 where a row is too long for that and is
            read anew for each pass.
        min_blocks: resident blocks a multiprocessor that the register cap allows for.
        checked: whether a length or a stride known only at run time says if vectors fit; where they
            do not, elements are taken one by one.
        parts: partial sums of an element, of a product; 0 where A is read.
        leading: elements from row to row of what is read; None when known at run time.
        source: the argument that is read: A, the region that stands for it, or the partial sums.
    """

    warps_m: int
    warps_n: int
    vector: int
    held: int
    min_blocks: int
    checked: bool
    parts: int
    leading: int | None
    source: str

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "rows"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/rows.cu.j2"

    @property
    def row_threads(self) -> int:
        """Threads of a row."""
        return WARP * self.warps_n

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.warps_m * self.row_threads

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: a sum of each warp, for each of two sums of a row."""
        return 2 * 4 * self.warps_n if self.warps_n > 1 else 0

    @property
    def pairs_of_parts(self) -> bool:
        """Whether parts are read two at a time, and not all at once."""
        return self.parts * (self.held or 1) * self.vector > SUMS_READ

    @property
    def leading_symbol(self) -> str:
        """What holds the leading dimension of what is read."""
        name = "ldp" if self.parts else f"ld{self.source}"
        return name if self.leading is None else name.upper()


def additions(n: int, threads: int, vector: int) -> int:
    """Most additions that an element of a row of n goes through on its way into a sum.

    Those of its thread, with one vector more than evenly; then the halving of the threads.
    """
    return -(-n // threads) + vector + (threads - 1).bit_length()
