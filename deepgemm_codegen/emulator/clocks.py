"""Vector clocks of threads, for kernels whose threads meet in more ways than block barriers.

Time is one counter for all threads, which grows at each synchronisation. ``known[t, u]`` is the
time up to which thread t knows the events of thread u; its own it always knows. Further columns
belong to agents that are no threads: an mbarrier, whose clock counts its phases (bytes land
"at" a phase), or the asynchronous reads of a warpgroup or of a thread's bulk copies, whose clock
counts groups.

``fenced[t, u]`` is the time up to which u's ordinary accesses, as t knows them, lie before a proxy
fence of u's: what an asynchronous access issued by t may rely on. It travels with ``known``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["ALWAYS", "Clocks", "Snapshot"]

Array = np.ndarray[Any, np.dtype[Any]]

ALWAYS = 2**31 - 1
"""What a thread knows of itself; also a time that nobody knows."""

_SPARE = 32


class Snapshot(NamedTuple):
    """What some threads knew when they released."""

    known: Array
    fenced: Array


class Clocks:
    """Clocks of one batch.

    Attributes:
        lanes: number of threads; columns below it are theirs.
        known: int32 (lanes, columns); fenced: int32 (lanes, lanes).
        now: the current time.
        version: changes whenever a clock does.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.known: Array = np.zeros((lanes, lanes + _SPARE), np.int32)
        self.fenced: Array = np.zeros((lanes, lanes), np.int32)
        self.known[np.arange(lanes), np.arange(lanes)] = ALWAYS
        self.columns = lanes
        self.now = 1
        self.version = 0
        self._least: dict[tuple[int, int], tuple[int, Array, Array]] = {}

    def column(self) -> int:
        """A new agent's column."""
        # The last column stays free: it is what index -1 (no writer) reads.
        if self.columns + 1 == self.known.shape[1]:
            more = np.zeros((self.lanes, self.known.shape[1] // 2), np.int32)
            self.known = np.concatenate([self.known, more], axis=1)
        self.columns += 1
        self.version += 1
        return self.columns - 1

    def tick(self) -> int:
        """The time that ends now; later events are later."""
        self.now += 1
        self.version += 1
        return self.now - 1

    def release(self, lanes: Array) -> Snapshot:
        """All that these threads know and did."""
        if lanes.size == 1:
            lane = int(lanes[0])
            known, fenced = self.known[lane].copy(), self.fenced[lane].copy()
        else:
            known, fenced = self.known[lanes].max(axis=0), self.fenced[lanes].max(axis=0)
        known[lanes] = self.now
        self.tick()
        return Snapshot(known, fenced)

    def rows(self, lanes: Array) -> Snapshot:
        """What `release` gives, for each of these threads by itself: one a row."""
        known, fenced = self.known[lanes], self.fenced[lanes]
        known[np.arange(lanes.size), lanes] = self.now
        self.tick()
        return Snapshot(known, fenced)

    def acquire(self, lanes: Array, snapshot: Snapshot) -> None:
        """These threads learn what others released."""
        known = snapshot.known
        if known.size < self.known.shape[1]:
            known = np.pad(known, (0, self.known.shape[1] - known.size))
        if lanes.size == 1:
            lane = int(lanes[0])
            np.maximum(self.known[lane], known, out=self.known[lane])
            np.maximum(self.fenced[lane], snapshot.fenced, out=self.fenced[lane])
        else:
            self.known[lanes] = np.maximum(self.known[lanes], known)
            self.fenced[lanes] = np.maximum(self.fenced[lanes], snapshot.fenced)
        self.version += 1

    def join(self, lanes: Array) -> None:
        """These threads meet."""
        snapshot = self.release(lanes)
        self.known[lanes] = snapshot.known
        self.fenced[lanes] = snapshot.fenced
        self.known[lanes, lanes] = ALWAYS
        self.version += 1

    def fence(self, lanes: Array) -> None:
        """These threads execute a proxy fence: what they did is fenced."""
        self.fenced[lanes, lanes] = self.now
        self.tick()

    def learn(self, lanes: Array, column: int, time: int) -> None:
        """These threads know an agent's events up to a time."""
        self.known[lanes, column] = np.maximum(self.known[lanes, column], np.int32(time))
        self.version += 1

    def least(self, lanes: Array) -> tuple[Array, Array]:
        """What each of these threads knows: the minimum over them of ``known`` and ``fenced``."""
        key = (int(lanes[0]), lanes.size)
        cached = self._least.get(key)
        if cached is not None and cached[0] == self.version:
            return cached[1], cached[2]
        known, fenced = self.known[lanes].min(axis=0), self.fenced[lanes].min(axis=0)
        self._least[key] = (self.version, known, fenced)
        return known, fenced


def merge(first: Snapshot | None, second: Snapshot) -> Snapshot:
    """What is known from either."""
    if first is None:
        return second
    known = first.known
    if known.size < second.known.size:
        known = np.pad(known, (0, second.known.size - known.size))
    return Snapshot(np.maximum(known, second.known), np.maximum(first.fenced, second.fenced))
