"""Waits that may sleep through their phase.

A parity names every other phase of an mbarrier. A thread that comes to its wait when the next phase
is complete already finds the parity of that one, and sleeps until the phase behind it ends: for
ever, where that needs the thread. So every wait must lie before the arrivals that complete the next
phase, whatever the order in which the emulator ran them.

wgmma needs all four warps of its warpgroup: whoever waited for its group knows that they came
there, and that their waits before it are over.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.clocks import Clocks, Snapshot
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.mbarrier import Mbarrier

__all__ = ["Waits"]

Array = np.ndarray[Any, np.dtype[Any]]

KEPT_GROUPS = 64
"""Groups of wgmma, of each warpgroup, that are remembered: a wait is judged a phase later."""

WARPGROUP = 128


class Waits:
    """The last wait of each thread at each mbarrier of a batch.

    Args:
        clocks: of its threads.
        threads: of a block.
        collector: where findings go.
    """

    def __init__(self, clocks: Clocks, threads: int, collector: Collector) -> None:
        self.clocks, self.threads, self.collector = clocks, threads, collector
        # For each mbarrier: of a block's threads, the phase seen complete (-1: none), when, where.
        self._seen: dict[int, tuple[Array, Array, Array]] = {}
        self._issued: dict[int, dict[int, int]] = {}  # warpgroup: group, its last instruction
        self._over: dict[int, deque[tuple[int, int]]] = {}  # warpgroup: issued, waited for

    def pass_by(self, barrier: Mbarrier, lanes: Array, phases: Array, site: int) -> None:
        """Threads found complete the first so many phases of an mbarrier, by a parity."""
        seen = self._seen.get(barrier.number)
        if seen is None:
            count, time, where = (np.full(self.threads, -1) for _ in range(3))
            seen = self._seen[barrier.number] = (count, time, where)
        at = lanes - barrier.block * self.threads
        for mine, value in zip(seen, (phases, self.clocks.now, site), strict=True):
            mine[at] = value

    def end_phase(
        self, barrier: Mbarrier, arrived: Snapshot | None, last: tuple[int, int] | None
    ) -> None:
        """The phase that is now complete ends no wait for the one before it.

        Args:
            barrier: whose phase.
            arrived: what those knew who arrived in it and before; None where nobody did.
            last: site and thread of the last arrival.
        """
        seen = self._seen.get(barrier.number)
        if seen is None or arrived is None:
            return
        counts, times, sites = seen
        at = np.flatnonzero(counts == barrier.phase - 1)
        if not at.size:
            return
        lanes = at + barrier.block * self.threads
        late = arrived.known[lanes] < times[at]
        groups = at // WARPGROUP
        for group in np.unique(groups[late]).tolist():
            start = barrier.block * self.threads + group * WARPGROUP
            late &= (groups != group) | (times[at] > self._last_wgmma(start, arrived))
        if late.any():
            first = int(at[late][0])
            self.collector.add(
                "missed-phase",
                "a wait that nothing orders before the end of the next phase: come later, the "
                "thread finds the parity of that one, and sleeps on",
                int(sites[first]),
                first + barrier.block * self.threads,
                other=last,
                address=barrier.address,
                count=int(late.sum()),
            )
        counts[at] = -1

    def issue(self, start: int, group: int) -> None:
        """All threads of a warpgroup came to a wgmma of its group of that number."""
        self._issued.setdefault(start, {})[group] = self.clocks.tick()

    def settle(self, start: int, group: int) -> None:
        """A warpgroup's threads waited for a group of wgmma, and those before it."""
        issued = self._issued.get(start, {})
        done = [number for number in issued if number <= group]
        if done:
            over = self._over.setdefault(start, deque(maxlen=KEPT_GROUPS))
            over.append((max(issued.pop(number) for number in done), self.clocks.tick()))

    def _last_wgmma(self, start: int, arrived: Snapshot) -> int:
        """When a warpgroup last came to a wgmma that those who arrived know to be over, or -1."""
        known = int(arrived.known[start : start + WARPGROUP].max())
        return max((i for i, over in self._over.get(start, ()) if over <= known), default=-1)
