"""Races in global memory, within a block and between the blocks of a launch.

Blocks of a launch run in any order, or at once: nothing orders what they do but what they tell
each other through memory. Each cell of a writable buffer remembers who touched it
(:mod:`globalshadow`), and an access must be ordered after all earlier ones that conflict with it.
Two strong accesses (atomic operations and their kin) do not conflict, and so do not follow each
other either: where a strong access takes another event's place, that one stays remembered beside
it.

Among the blocks that run together, the clocks of shared memory's race checker tell what is ordered
(`Order`); with blocks of earlier batches, what these left at the locations they released
(:mod:`between`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deepgemm_codegen.emulator.between import Between
from deepgemm_codegen.emulator.globalshadow import Events, GlobalShadow
from deepgemm_codegen.emulator.listeners import LANE_MASK, SITE_SHIFT, split_id

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.clocks import Clocks
    from deepgemm_codegen.emulator.findings import Collector, Lookup
    from deepgemm_codegen.emulator.listeners import Touch
    from deepgemm_codegen.emulator.locations import Locations

__all__ = ["GlobalRaces", "Order"]

Array = np.ndarray[Any, np.dtype[Any]]

_IN_FLIGHT = 1 << 40
"""The time of a bulk store that its thread has not waited for: later than any clock."""


class Order(Protocol):
    """What the threads of a batch know of each other."""

    @property
    def now(self) -> int:
        """The time of what happens now; it grows at every synchronisation."""
        ...

    def ordered(self, lanes: Array, others: Array, times: Array) -> Array:
        """Whether ``lanes`` know what ``others`` did at ``times`` (bool)."""
        ...


class _Records:
    """Batch and time of events, numbered from 1; a group of bulk stores has one of its own."""

    def __init__(self) -> None:
        self._batch = 0
        self._table = np.zeros((64, 2), np.int64)
        self._count = 1
        self._latest = (0, 0)  # time and number
        self._groups: dict[int, dict[int, int]] = {}  # by lane and group

    def begin(self, batch: int) -> None:
        """Another batch begins."""
        self._batch = batch
        self._latest = (0, 0)
        self._groups = {}

    def at(self, time: int) -> int:
        """The record of a time of this batch."""
        if self._latest[0] != time:
            self._latest = (time, self._add(time))
        return self._latest[1]

    def flight(self, lane: int, group: int) -> int:
        """The record of bulk stores of a thread that it has not waited for."""
        groups = self._groups.setdefault(lane, {})
        if group not in groups:
            groups[group] = self._add(_IN_FLIGHT)
        return groups[group]

    def land(self, lane: int, group: int, time: int) -> None:
        """The thread's bulk stores up to a group are its own writes, made at a time."""
        groups = self._groups.get(lane, {})
        for each in [g for g in groups if g <= group]:
            self._table[groups.pop(each), 1] = time

    def look(self, numbers: Array) -> tuple[Array, Array]:
        """Batches and times."""
        found = self._table[numbers]
        return found[:, 0], found[:, 1]

    def _add(self, time: int) -> int:
        if self._count == len(self._table):
            self._table = np.concatenate([self._table, np.zeros_like(self._table)])
        self._table[self._count] = self._batch, time
        self._count += 1
        return self._count - 1


class GlobalRaces:
    """Happens-before checking of a launch's writable buffers.

    A stamp is twice the number of an event's record, plus one where the access was strong.

    Args:
        collector: where findings go.
    """

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.shadow = GlobalShadow()
        self.between = Between()
        self.order: Order
        self._lookups: list[Lookup] = []
        self._records = _Records()

    def begin(
        self,
        order: Order,
        lookup: Lookup,
        clocks: Clocks | None = None,
        locations: Locations | None = None,
    ) -> None:
        """Other blocks run from now on.

        Args:
            order: of their threads.
            lookup: tells who runs in a lane.
            clocks: of these threads, where they may order blocks through memory.
            locations: likewise.
        """
        self.order = order
        self._lookups.append(lookup)
        self.between.begin(clocks, locations)
        self._records.begin(self.between.batch)

    # -- events --

    def read(self, touch: Touch) -> None:
        """Check against the last writes; remember the reads."""
        cells, ids, stamp = self._prepare(touch)
        self._after(touch, ids, self.shadow.wrote(cells), "read", "wrote")
        found = self.shadow.former(cells, plain=touch.strong)
        if found is not None:
            which, former = found
            written = which[former.writes], former.events.pick(former.writes)
            self._after(touch, ids, written, "read", "wrote")
        before = self.shadow.read(cells)
        if before is not None:
            which, events = before
            if not touch.strong:
                late = self._unordered(ids[which], events)
                which, events = which[late], events.pick(late)
            self.shadow.keep(cells[which], events, write=False)
        shared, _ = self.shadow.put_read(cells, ids, stamp)
        self._keep(cells, ids, shared, stamp, write=False)

    def write(self, touch: Touch) -> None:
        """Check against the last writes and the reads since; become the last write."""
        cells, ids, stamp = self._prepare(touch)
        for before, write in ((self.shadow.wrote(cells), True), (self.shadow.read(cells), False)):
            self._after(touch, ids, before, "write", "wrote" if write else "read")
            if touch.strong and before is not None:
                self.shadow.keep(cells[before[0]], before[1], write=write)
        found = self.shadow.former(cells, plain=touch.strong)
        if found is not None:
            which, former = found
            for write, verb in ((True, "wrote"), (False, "read")):
                part = former.writes == write
                self._after(touch, ids, (which[part], former.events.pick(part)), "write", verb)
            if not touch.strong:
                self.shadow.forget(cells)
        shared, others = self.shadow.put_write(cells, ids, stamp)
        if touch.strong:
            self._keep(cells, ids, shared, stamp, write=True)
        elif shared.size:
            same = Events(others, np.full(shared.size, stamp, np.int32))
            self._report(touch, ids, shared, same, "write", "wrote")

    def settle(self, lane: int, group: int) -> None:
        """A thread's bulk stores up to a group have written."""
        self._records.land(lane, group, self.order.now)

    # -- inside --

    def _prepare(self, touch: Touch) -> tuple[Array, Array, int]:
        """Cells of the accesses, the identity at each, and the stamp of them all."""
        cells = self.shadow.cells(
            touch.buffer, touch.nbytes, touch.address, touch.offsets, touch.width
        )
        per = cells.size // touch.ids.size
        ids = touch.ids if per == 1 else np.repeat(touch.ids, per)
        if touch.group:
            number = self._records.flight(int(touch.ids[0]) & LANE_MASK, touch.group)
        else:
            number = self._records.at(self.order.now)
        return cells, ids, 2 * number + touch.strong

    def _keep(self, cells: Array, ids: Array, which: Array, stamp: int, *, write: bool) -> None:
        if which.size:
            events = Events(ids[which], np.full(which.size, stamp, np.int32))
            self.shadow.keep(cells[which], events, write=write)

    def _unordered(self, ids: Array, events: Events) -> Array:
        """Which accesses are not ordered after an event, one event each (bool)."""
        batch, time = self._records.look(events.stamps >> 1)
        lanes, others = ids & LANE_MASK, events.ids & LANE_MASK
        late: Array = time == _IN_FLIGHT
        here = batch == self.between.batch
        now = np.flatnonzero(here & ~late)
        late[now] = ~self.order.ordered(lanes[now], others[now], time[now])
        before = np.flatnonzero(~here & ~late)
        if before.size:
            late[before] = ~self.between.ordered(
                lanes[before], batch[before], others[before], time[before]
            )
        return late

    def _after(
        self,
        touch: Touch,
        ids: Array,
        found: tuple[Array, Events] | None,
        verb: str,
        did: str,
    ) -> None:
        """Report conflicts with earlier events.

        Args:
            touch: the accesses.
            ids: their identities, one a cell.
            found: indices of cells, and an earlier event of each.
            verb: ``read`` or ``write``: what is done now.
            did: ``read`` or ``wrote``: what was done.
        """
        if found is None:
            return
        which, events = found
        if touch.strong:
            plain = (events.stamps & 1) == 0
            which, events = which[plain], events.pick(plain)
        if not which.size:
            return
        late = self._unordered(ids[which], events)
        if late.any():
            self._report(touch, ids, which[late], events.pick(late), verb, did)

    def _report(
        self, touch: Touch, ids: Array, which: Array, events: Events, verb: str, did: str
    ) -> None:
        """One finding for each pair of instructions."""
        keys = (ids[which] >> SITE_SHIFT << SITE_SHIFT) | (events.ids >> SITE_SHIFT)
        batches, _ = self._records.look(events.stamps >> 1)
        _, firsts, counts = np.unique(keys, return_index=True, return_counts=True)
        per = ids.size // touch.ids.size
        for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
            index = int(which[first])
            offset = int(touch.offsets[index // per]) + (index % per << self.shadow.shift)
            site, lane = split_id(int(ids[index]))
            other_site, other_lane = split_id(int(events.ids[first]))
            lookup = self._lookups[int(batches[first]) - 1]
            other = lookup.actor(other_lane)
            who = "thread" if other.block == self._lookups[-1].actor(lane).block else "block"
            preposition = "of" if verb == "read" else "to"
            self.collector.add(
                "race",
                f"{verb} {preposition} byte {offset} of buffer '{touch.name}', which another {who} "
                f"{did} with no order between",
                site,
                lane,
                other=(other_site, other_lane),
                other_actor=other,
                address=touch.address + offset,
                count=int(count),
            )
