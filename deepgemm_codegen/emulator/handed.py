"""Copies by cp.async that arrive at an mbarrier (cp.async.mbarrier.arrive), for :mod:`ordering`.

Such a copy is an event of the mbarrier, at the phase that its arrival counts in: whoever waited for
that phase knows it. Its column of the clocks lies beside that of the mbarrier's bulk copies, for
its writes are ordinary ones: wgmma or a bulk store wants a fence after them.

An arrival that the mbarrier's count does not expect (no ``.noinc``) keeps a phase from ending, but
not from having ended before. Its copies stay in flight until a thread that knows of them arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot, merge
from deepgemm_codegen.emulator.listeners import LANE_MASK

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.shadow import Shadow

__all__ = ["HandedCopies"]

Array = np.ndarray[Any, np.dtype[Any]]


class _Held(NamedTuple):
    """Copies whose phase is not sure yet, and when they arrived."""

    cells: Array
    ids: Array
    time: int


class HandedCopies:
    """The copies of one batch that arrive at mbarriers.

    Args:
        shadow: of the batch; its ``copied`` holds the columns.
    """

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.held: dict[int, list[_Held]] = {}
        self.issued: dict[int, Snapshot] = {}

    def attach(self, barrier: Mbarrier, lanes: Array) -> None:
        """Copies of these threads arrive at this mbarrier: it needs a column."""
        issued = self.issued.get(barrier.number)
        self.issued[barrier.number] = merge(issued, self.shadow.clocks.release(lanes))
        if barrier.number not in self.shadow.copied:
            column = self.shadow.clocks.column()
            self.shadow.copied[barrier.number] = column
            self.shadow.phases[column] = barrier.phase

    def hand(self, cells: Array, ids: Array, barrier: Mbarrier, *, expected: bool) -> None:
        """The cells are the mbarrier's, at its current phase, or held until that is sure."""
        if expected:
            self._become(cells, ids, barrier)
        else:
            entry = _Held(cells, ids, self.shadow.clocks.now)
            self.held.setdefault(barrier.number, []).append(entry)

    def let_go(self, barrier: Mbarrier, lanes: Array) -> None:
        """Threads arrive: held copies that they know of are complete with this phase."""
        left = []
        for entry in self.held.pop(barrier.number, ()):
            known = self.shadow.clocks.known[np.ix_(lanes, entry.ids & LANE_MASK)].max(axis=0)
            sure = known >= entry.time
            self._become(entry.cells[sure], entry.ids[sure], barrier)
            if not sure.all():
                left.append(_Held(entry.cells[~sure], entry.ids[~sure], entry.time))
        if left:
            self.held[barrier.number] = left

    def phase(self, barrier: Mbarrier) -> Snapshot | None:
        """A phase is complete, and with it the copies that arrived in it.

        Returns:
            What lay in time, not in memory, before its end: what the threads did and knew when
            they handed the copies over. None without any.
        """
        if barrier.number in self.shadow.copied:
            self.shadow.phases[self.shadow.copied[barrier.number]] = barrier.phase
        return self.issued.pop(barrier.number, None)

    def _become(self, cells: Array, ids: Array, barrier: Mbarrier) -> None:
        column = self.shadow.copied[barrier.number]
        self.shadow.become(cells, ids, barrier.phase + 1, column)
