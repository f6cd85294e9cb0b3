"""Order that threads make through memory: releases, acquires and fences around strong accesses.

A release by one thread and an acquire by another that reads what it wrote order all that lies
before the one before all that lies after the other (PTX ISA, "Memory Consistency Model"). A fence
makes a release out of a later relaxed write, and an acquire out of an earlier relaxed read. So
each location keeps what was released through it: a strong store starts anew, with what its own
thread released there before; an atomic operation adds to it.

A scope that ends at the block reaches no other block. Every wider scope is one here, for shared
memory reaches no further than a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot, merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.listeners import Order, Strong

__all__ = ["Clockwork", "Locations"]

Array = np.ndarray[Any, np.dtype[Any]]


class Clockwork(Protocol):
    """The clocks of a race checker."""

    def release(self, lanes: Array) -> Snapshot:
        """All that these threads know and did."""
        ...

    def rows(self, lanes: Array) -> Snapshot:
        """The same of each of these threads, one a row."""
        ...

    def acquire(self, lanes: Array, snapshot: Snapshot) -> None:
        """These threads learn what others released."""
        ...


@dataclass(slots=True)
class _Place:
    """What was released through a location: within each block, and beyond it.

    ``own`` is what each lane released there itself: a later strong write of its own carries it
    again.
    """

    block: dict[int, Snapshot] = field(default_factory=dict)
    wide: Snapshot | None = None
    own: dict[int, tuple[Snapshot, Snapshot | None]] = field(default_factory=dict)
    # Accesses that learnt all there is: a spinning thread learns it once. (lane, acquire, wide)
    seen: set[tuple[int, bool, bool]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fence of some threads: what each knew (a row each), and a lane's row."""

    known: Snapshot
    row: int

    def snapshot(self) -> Snapshot:
        return Snapshot(self.known.known[self.row], self.known.fenced[self.row])


class Locations:
    """Synchronisation through memory in one batch.

    Args:
        clocks: of the race checker.
        threads: of a block.
        alone: whether blocks never meet, so that every scope ends at the block.

    Attributes:
        earlier: gives what was left at a global address before this batch; None for nothing.
    """

    def __init__(self, clocks: Clockwork, threads: int, *, alone: bool = False) -> None:
        self.clocks, self.threads, self.alone = clocks, threads, alone
        self.earlier: Callable[[int], Snapshot | None] | None = None
        self.places: dict[tuple[str, int], _Place] = {}
        # By lane: its last fence within the block and beyond; what it read since, likewise.
        self.fences: tuple[dict[int, _Fence], dict[int, _Fence]] = ({}, {})
        self.read: tuple[dict[int, Snapshot], dict[int, Snapshot]] = ({}, {})

    def fence(self, lanes: Array, order: Order) -> None:
        """Threads execute a fence."""
        reach = 1 if order.wide and not self.alone else 0
        numbers = lanes.tolist()
        if order.acquire:
            for lane in numbers:
                learnt = self.read[reach].pop(lane, None)
                if learnt is not None:
                    self.clocks.acquire(np.array([lane]), learnt)
        if order.release:
            known = self.clocks.rows(lanes)
            made = {lane: _Fence(known, row) for row, lane in enumerate(numbers)}
            self.fences[0].update(made)
            if reach:
                self.fences[1].update(made)

    def access(self, what: Strong) -> None:
        """Threads access locations, one after the other."""
        order = what.order
        if not (order.acquire or order.release or self.places or self.earlier):
            fenced = self.fences[0]
            if not what.writes or not fenced or fenced.keys().isdisjoint(what.lanes.tolist()):
                return
        wide = order.wide and not self.alone
        for place, lane in zip(what.places.tolist(), what.lanes.tolist(), strict=True):
            key = (what.space, place)
            entry = self.places.get(key)
            if entry is None and self.earlier is not None and what.space == "global":
                entry = self.places[key] = _Place(wide=self.earlier(place))
            if what.reads and entry is not None:
                self._learn(entry, lane, acquire=order.acquire, wide=wide)
            if what.writes:
                if entry is None or not what.reads:
                    entry = _Place(own={} if entry is None else entry.own)
                self._publish(entry, lane, release=order.release, wide=wide)
                if entry.block or entry.wide or entry.own:
                    self.places[key] = entry
                else:
                    self.places.pop(key, None)

    def _learn(self, entry: _Place, lane: int, *, acquire: bool, wide: bool) -> None:
        if (lane, acquire, wide) in entry.seen:
            return
        entry.seen.add((lane, acquire, wide))
        near = entry.block.get(lane // self.threads)
        far = near
        if wide and entry.wide is not None:
            far = merge(near, entry.wide)
        if acquire:
            if far is not None:
                self.clocks.acquire(np.array([lane]), far)
            return
        for read, snapshot in zip(self.read, (near, far), strict=True):
            if snapshot is not None:
                read[lane] = merge(read.get(lane), snapshot)

    def _publish(self, entry: _Place, lane: int, *, release: bool, wide: bool) -> None:
        near: Snapshot | None
        far: Snapshot | None
        if release:
            near = far = self.clocks.release(np.array([lane]))
            entry.own[lane] = (near, far if wide else None)
        else:
            near, far = (f[lane].snapshot() if lane in f else None for f in self.fences)
            if lane in entry.own:
                near = merge(near, entry.own[lane][0])
                mine = entry.own[lane][1]
                far = far if mine is None else merge(far, mine)
        block = lane // self.threads
        if near is not None:
            entry.seen.clear()
            entry.block[block] = merge(entry.block.get(block), near)
        if wide and far is not None:
            entry.wide = merge(entry.wide, far)
