"""Order between the blocks of a cluster, for :mod:`ordering`.

A block's shared memory may be reached by others only from when it has begun until it ends. That it
has begun, a thread knows who knows of any event of the block; that a remote access is over when the
block ends, some thread of the block must know by then. The cluster's barrier, which tells of both,
comes in two halves: arrivals release, and waits acquire what all arrivals of a phase released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.clocks import Clocks, Snapshot, merge

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector

__all__ = ["Clusters"]

Array = np.ndarray[Any, np.dtype[Any]]


class Clusters:
    """The barriers of a batch's clusters, and who reached into which block.

    Args:
        clocks: of the batch's threads.
        threads: of a block.
        collector: where findings go.
    """

    def __init__(self, clocks: Clocks, threads: int, collector: Collector) -> None:
        self.clocks, self.threads, self.collector = clocks, threads, collector
        self._meeting: dict[int, Snapshot] = {}  # by cluster: released in the current phase
        self._met: dict[int, Snapshot] = {}  # by cluster: released in complete ones
        self._reached: dict[tuple[int, int], tuple[int, int]] = {}  # (lane, block): time, site

    def reach(self, lanes: Array, blocks: Array, site: int) -> None:
        """Threads access other blocks, which must have begun."""
        for block in np.unique(blocks).tolist():
            here = lanes[blocks == block]
            early = here[~self.clocks.known[here, self._threads_of(block)].any(axis=1)]
            if early.size:
                self.collector.add(
                    "remote-before-start",
                    "an access to another block of the cluster, which may not have begun",
                    site,
                    int(early[0]),
                    count=int(early.size),
                )
            self.remember(here, block, site)

    def remember(self, lanes: Array, block: int, site: int) -> None:
        """Threads reach into a block, which must still be there: `finish` looks at their last."""
        for lane in lanes.tolist():
            self._reached[lane, block] = (self.clocks.now, site)

    def arrive(self, cluster: int, lanes: Array, *, release: bool) -> None:
        """What a relaxed arrival does not release, nobody learns."""
        if release:
            released = self.clocks.release(lanes)
            self._meeting[cluster] = merge(self._meeting.get(cluster), released)

    def complete(self, cluster: int) -> None:
        """What was released is there to be acquired."""
        released = self._meeting.pop(cluster, None)
        if released is not None:
            self._met[cluster] = merge(self._met.get(cluster), released)

    def wait(self, cluster: int, lanes: Array) -> None:
        """The threads acquire it."""
        released = self._met.get(cluster)
        if released is not None:
            self.clocks.acquire(lanes, released)

    def finish(self) -> None:
        """No block may end while others still reach into it."""
        for (lane, block), (time, site) in self._reached.items():
            if int(self.clocks.known[self._threads_of(block), lane].max()) < time:
                self.collector.add(
                    "remote-after-exit",
                    "an access to another block of the cluster, which may have ended",
                    site,
                    lane,
                )

    def _threads_of(self, block: int) -> slice:
        return slice(block * self.threads, (block + 1) * self.threads)
