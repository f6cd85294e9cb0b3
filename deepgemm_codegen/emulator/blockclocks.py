"""Clocks of threads that mostly meet at full barriers, block by block.

Time is a counter that grows at each synchronisation. An event of thread u at time c is known to
thread t when t is u, when c is at most the *floor* of the block (the time of its last full
barrier), or when c is at most ``known[t, u]``, t's vector clock, which exists once threads have
met in smaller groups (``bar.warp.sync``) or through memory. A kernel with full barriers only never
leaves the first two rules: a check is then one gather and one comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot

__all__ = ["BlockClocks"]

Array = np.ndarray[Any, np.dtype[Any]]

_NONE: Array = np.zeros(0, np.int64)


class BlockClocks:
    """Clocks of one batch; no block knows of another.

    Args:
        blocks, threads: of the batch; lanes are block * threads + thread.

    Attributes:
        now: the current time.
        floors: int64, shape (blocks,): time of each block's last full barrier.
    """

    def __init__(self, blocks: int, threads: int) -> None:
        self.blocks, self.threads = blocks, threads
        self.now = 1
        self.floors = np.zeros(blocks, np.int64)
        self._known: Array | None = None

    def ordered(self, times: Array, lanes: Array, others: Array) -> Array:
        """Whether events of lanes ``others`` at ``times`` are known to ``lanes``."""
        ordered = (lanes == others) | (times <= self.floors[lanes // self.threads])
        if self._known is not None:
            ordered |= times <= self._known[lanes, others % self.threads]
        result: Array = ordered
        return result

    def barrier(self, blocks: Array | None) -> None:
        """All threads of some blocks meet (None: of all blocks)."""
        if blocks is None:
            self.floors[...] = self.now
        else:
            self.floors[blocks] = self.now
        self.now += 1

    def meet(self, lanes: Array) -> None:
        """Each group's members know what any of them knew, and each other up to now."""
        known = self.known()
        merged = known[lanes].max(axis=1)  # (groups, threads)
        groups = np.arange(lanes.shape[0])[:, None]
        merged[groups, lanes % self.threads] = self.now
        known[lanes] = merged[:, None, :]
        self.now += 1

    def known(self) -> Array:
        """The vector clocks, int64 (lanes, threads), made at the first call."""
        if self._known is None:
            self._known = np.zeros((self.blocks * self.threads, self.threads), np.int64)
        return self._known

    def release(self, lanes: Array) -> Snapshot:
        """All that these threads of one block know and did."""
        known = self.known()[lanes].max(axis=0)
        known[lanes % self.threads] = self.now
        self.now += 1
        return Snapshot(known, _NONE)

    def rows(self, lanes: Array) -> Snapshot:
        """What `release` gives, for each of these threads by itself: one a row."""
        known = self.known()[lanes]
        known[np.arange(lanes.size), lanes % self.threads] = self.now
        self.now += 1
        return Snapshot(known, np.zeros((lanes.size, 0), np.int64))

    def acquire(self, lanes: Array, snapshot: Snapshot) -> None:
        """These threads learn what others of their block released."""
        known = self.known()
        known[lanes] = np.maximum(known[lanes], snapshot.known)
