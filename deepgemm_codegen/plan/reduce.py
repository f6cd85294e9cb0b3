"""How a tile of D is made of partial sums, where k is cut and the parts meet in memory."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Reduce"]


@dataclass(frozen=True, slots=True)
class Reduce:
    """A tile of D made of partial sums: added up in one order, then the epilogue.

    A thread owns a vector of D (`Output.vector` columns of one row) and adds the parts of k of
    its group; groups meet in shared memory.

    Attributes:
        tile_m, tile_n: rows and columns of the tile.
        parts: partial sums an element.
        groups: threads that share the parts of one vector.
        vector: columns of a thread's vector.
        leading: elements from row to row of the partial sums; None when known at run time.
        halves: sums that make an element of D: of a gated pair one of each half of B.
    """

    tile_m: int
    tile_n: int
    parts: int
    groups: int
    vector: int
    leading: int | None
    halves: int = 1

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "reduce"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/reduce.cu.j2"

    @property
    def leading_symbol(self) -> str:
        """What holds the leading dimension of the partial sums: ``LDP``, or ``ldp``."""
        return "ldp" if self.leading is None else "LDP"

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.tile_m * self.tile_n // self.vector * self.groups

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: the vectors of each thread but those of group 0."""
        return self.tile_m * self.tile_n * self.halves * (self.groups - 1) * 4
