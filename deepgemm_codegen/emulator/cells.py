"""Cells of shared memory: what accesses cover, for the race checkers, which keep notes by cell.

A cell is as wide as the narrowest shared access of the kernel; as accesses are aligned, each covers
whole cells, and the result is the same as with bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.listeners import Access

__all__ = ["Copy", "by_access", "cells_of"]

Array = np.ndarray[Any, np.dtype[Any]]


class Copy(NamedTuple):
    """Asynchronous accesses under way: cells, who and which instruction, and cells of each."""

    cells: Array
    ids: Array
    per_access: int

    def part(self, where: Array | None) -> tuple[Array, Array]:
        """Cells and identities of some of the accesses (bool); None for all."""
        if where is None:
            return self.cells, self.ids
        if self.per_access > 1:
            where = np.repeat(where, self.per_access)
        return self.cells[where], self.ids[where]


def cells_of(access: Access, shift: int) -> Copy:
    """The cells of accesses, one after the other, each with its access's identity.

    Args:
        access: in any number; wider than a cell, each has several.
        shift: of an address to the number of its cell.
    """
    cells = access.address >> shift
    per = access.width >> shift
    if per <= 1:
        return Copy(cells, access.ids, 1)
    wide = (cells[:, None] + np.arange(per)).reshape(-1)
    return Copy(wide, np.repeat(access.ids, per), per)


def by_access(poison: Array | None, per_access: int) -> Array | None:
    """Which accesses touch a cell without data (bool), from which cells are without."""
    if poison is None or per_access == 1:
        return poison
    return np.asarray(poison.reshape(-1, per_access).any(axis=1))
