"""Numbered barriers with a thread count, in vector clocks: who meets, who only arrives.

Such a barrier may change hands. Those who come new must know that its last use is over: otherwise
they may arrive while others still gather, and complete that barrier instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot, merge

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.clocks import Clocks
    from deepgemm_codegen.emulator.findings import Collector

__all__ = ["NamedBarriers"]

Array = np.ndarray[Any, np.dtype[Any]]


class NamedBarriers:
    """The numbered barriers of one batch.

    Args:
        clocks: of its threads.
        collector: where findings go.
    """

    def __init__(self, clocks: Clocks, collector: Collector) -> None:
        self.clocks, self.collector = clocks, collector
        self._last: dict[tuple[int, int], tuple[Array, int]] = {}  # who waited, and when
        self._arrived: dict[tuple[int, int], Snapshot] = {}

    def complete(self, block: int, number: int, lanes: Array, site: int) -> None:
        """Those who waited meet, and know what those did who only arrived."""
        self._check(block, number, lanes, site)
        self.clocks.join(lanes)
        arrived = self._arrived.pop((block, number), None)
        if arrived is not None:
            self.clocks.acquire(lanes, arrived)
        self._last[block, number] = (lanes, self.clocks.now - 1)

    def arrive(self, block: int, number: int, lanes: Array, site: int) -> None:
        """Those who wait at the barrier will know what these threads did."""
        self._check(block, number, lanes, site)
        arrived = merge(self._arrived.get((block, number)), self.clocks.release(lanes))
        self._arrived[block, number] = arrived

    def _check(self, block: int, number: int, lanes: Array, site: int) -> None:
        before = self._last.get((block, number))
        if before is None:
            return
        others, time = before
        new = np.setdiff1d(lanes, others)
        late = new[self.clocks.known[new, int(others[0])] < time]
        if late.size:
            self.collector.add(
                "divergent-barrier",
                f"other threads used barrier {number} before, with no order between",
                site,
                int(late[0]),
                other=(site, int(others[0])),
                count=int(late.size),
            )
