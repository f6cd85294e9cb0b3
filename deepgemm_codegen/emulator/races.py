"""Races, uninitialised reads and bytes in flight, in shared memory.

Lock-step execution hides a missing barrier: the numbers come out right. So each cell of shared
memory (:mod:`cells`) remembers its last writer and its readers, with the time of the access, and
each access is checked for being ordered after them.

Time and who knows what are those of :mod:`blockclocks`.

Strong accesses (atomic operations, and loads and stores of an order or scope) race with ordinary
ones, and not with each other; they are remembered beside the ordinary reads. Through
:mod:`locations` they may also order threads.

An asynchronous copy owns its cells from issue to the issuing thread's wait: its write happens at
the wait, but conflicting accesses must be ordered before the issue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.blockclocks import BlockClocks
from deepgemm_codegen.emulator.cells import Copy, by_access, cells_of
from deepgemm_codegen.emulator.clocks import Snapshot, merge
from deepgemm_codegen.emulator.listeners import (
    LANE_MASK,
    SITE_SHIFT,
    Access,
    Listener,
    Order,
    Strong,
)
from deepgemm_codegen.emulator.locations import Locations
from deepgemm_codegen.emulator.pairs import meetings, report_pairs

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.shared import SharedMemory

__all__ = ["RaceListener"]

Array = np.ndarray[Any, np.dtype[Any]]

# A cell's writer: time above, identity (instruction and lane) below.
_TIME_SHIFT = 2 * SITE_SHIFT
_ID_MASK = (1 << _TIME_SHIFT) - 1
# Times that no clock reaches: later than every floor, so that one comparison finds them too.
_IN_FLIGHT = 1 << 22
_UNWRITTEN = _IN_FLIGHT + 1

# Kinds of finding, each with its sentence.
_TWO_WRITES = ("race", "two writes with no order between them")
_UNINITIALISED = ("uninitialised-read", "shared bytes that nobody wrote")
_FLIGHT_READ = (
    "in-flight-read",
    "shared bytes of an asynchronous copy that its thread has not waited for",
)
_READ_RACE = ("race", "read of bytes that another thread wrote, with no barrier between")
_FLIGHT_WRITE = ("in-flight-write", "write to shared bytes of an asynchronous copy still in flight")
_WRITE_RACE = ("race", "write to bytes that another thread wrote, with no barrier between")
_OVERWRITE_RACE = ("race", "write to bytes that another thread read, with no barrier between")
_UNSURE_READ = (
    "race",
    "read of bytes that another thread updates atomically, with no barrier between",
)
_UNSURE_WRITE = (
    "race",
    "write to bytes that another thread accesses atomically, with no barrier between",
)
_STRONG_AFTER_WRITE = (
    "race",
    "atomic access to bytes that another thread wrote, with no barrier between",
)
_STRONG_AFTER_READ = (
    "race",
    "atomic update of bytes that another thread read, with no barrier between",
)


class _Reads(NamedTuple):
    """Accesses since the last barrier, of one instruction."""

    cells: Array
    ids: Array
    time: int


class RaceListener(Listener):
    """Happens-before checking of shared memory.

    Args:
        shared: the memory of the batch.
        cell: bytes of a cell.
        blocks, threads: of the batch; lanes are block * threads + thread.
        collector: where findings go.
    """

    def __init__(
        self, shared: SharedMemory, cell: int, blocks: int, threads: int, collector: Collector
    ) -> None:
        self.cell = cell
        self.shift = cell.bit_length() - 1
        self.threads = threads
        self.blocks = blocks
        self.stride = shared.stride
        self.collector = collector
        cells = blocks * shared.stride >> self.shift
        self.writer = np.full(cells, _UNWRITTEN << _TIME_SHIFT, np.int64)
        # Reads since the last barrier of all blocks. Marks say which cells they cover; they are
        # brought up to date only when somebody writes, which good kernels do seldom.
        self.reads: list[_Reads] = []
        self.marked = 0
        self.mark = np.zeros(cells, np.int32)
        self.epoch = 1
        self.slot = np.full(cells, -1, np.int64)
        # Strong accesses likewise, those that write and those that only read.
        self.updates: list[_Reads] = []
        self.looks: list[_Reads] = []
        self.clocks = BlockClocks(blocks, threads)
        self.locations = Locations(self.clocks, threads, alone=True)
        self.arrived: dict[tuple[int, int], Snapshot] = {}
        self.limit = 1 << _TIME_SHIFT  # first packed value above the lowest floor

    # -- events --

    def read(self, access: Access) -> Array | None:
        """Check against the last writer; remember the read."""
        cells, ids, per = cells_of(access, self.shift)
        writer = self.writer.take(cells)
        poison: Array | None = None
        if writer.max(initial=0) >= self.limit:
            poison = self._check_read(cells, ids, writer)
        if self.updates:
            self._check_pairs(cells, ids, self.updates, _UNSURE_READ)
        self.reads.append(_Reads(cells, ids, self.clocks.now))
        return by_access(poison, per)

    def strong(self, access: Access, *, reads: bool, writes: bool) -> Array | None:
        """Check against ordinary accesses only; remember it beside them."""
        cells, ids, per = cells_of(access, self.shift)
        writer = self.writer.take(cells)
        if not reads:
            # Whatever the bytes held does not matter, and from now on they are written.
            fresh = cells[writer == _UNWRITTEN << _TIME_SHIFT]
            self.writer[fresh] = 0
            writer = self.writer.take(cells)
        poison: Array | None = None
        if writer.max(initial=0) >= self.limit:
            poison = self._check_read(cells, ids, writer, _STRONG_AFTER_WRITE)
        if writes and self.reads:
            self._check_pairs(cells, ids, self.reads, _STRONG_AFTER_READ)
        entry = _Reads(cells, ids, self.clocks.now)
        (self.updates if writes else self.looks).append(entry)
        return by_access(poison, per)

    def synchronise(self, what: Strong) -> None:
        """See `Locations`."""
        self.locations.access(what)

    def fence_memory(self, lanes: Array, order: Order) -> None:
        """See `Locations`."""
        self.locations.fence(lanes, order)

    def write(self, access: Access) -> None:
        """Check against the last writer and the readers; become the writer."""
        cells, ids, _ = cells_of(access, self.shift)
        self._check_write(cells, ids)
        self._become(cells, ids, self.clocks.now)

    def issue(self, access: Access) -> object:
        """The copy conflicts from now on; the cells are in flight."""
        copy = cells_of(access, self.shift)
        self._check_write(copy.cells, copy.ids)
        self._become(copy.cells, copy.ids, _IN_FLIGHT)
        return copy

    def complete(self, token: object, where: Array | None) -> None:
        """The issuing threads wrote just now."""
        if not isinstance(token, Copy):
            return
        cells, ids = token.part(where)
        self.writer[cells] = ids + (self.clocks.now << _TIME_SHIFT)

    def barrier(self, blocks: Array | None) -> None:
        """Everything that these blocks did so far is known to all their threads."""
        self.clocks.barrier(blocks)
        self.limit = (int(self.clocks.floors.min()) + 1) << _TIME_SHIFT
        self.marked = 0
        self.epoch += 1
        done = np.full(self.blocks, blocks is None)
        if blocks is not None:
            done[blocks] = True
        for entries in (self.reads, self.updates, self.looks):
            entries[:] = [] if blocks is None else self._left(entries, done)

    def _left(self, entries: list[_Reads], done: Array) -> list[_Reads]:
        """The accesses of blocks that are not done."""
        kept = []
        for entry in entries:
            keep = ~done[(entry.ids & LANE_MASK) // self.threads]
            if keep.any():
                kept.append(_Reads(entry.cells[keep], entry.ids[keep], entry.time))
        return kept

    def meet(self, lanes: Array) -> None:
        """Each group's members know what any of them knew, and each other up to now."""
        self.clocks.meet(lanes)

    # -- order, for races in global memory --

    @property
    def now(self) -> int:
        """See `globalraces.Order`."""
        return self.clocks.now

    def ordered(self, lanes: Array, others: Array, times: Array) -> Array:
        """See `globalraces.Order`; blocks know nothing of each other."""
        block = lanes // self.threads
        known = self.clocks.ordered(times, lanes, others)
        result: Array = known & (block == others // self.threads)
        return result

    def named(self, block: int, number: int, lanes: Array, site: int) -> None:  # noqa: ARG002
        """They meet, and know what those did who only arrived."""
        self.clocks.meet(lanes[None, :])
        arrived = self.arrived.pop((block, number), None)
        if arrived is not None:
            self.clocks.acquire(lanes, arrived)

    def arrive_named(
        self,
        block: int,
        number: int,
        lanes: Array,
        site: int,  # noqa: ARG002
    ) -> None:
        """Those who wait at the barrier will know what these threads did."""
        arrived = merge(self.arrived.get((block, number)), self.clocks.release(lanes))
        self.arrived[block, number] = arrived

    # -- inside --

    def _become(self, cells: Array, ids: Array, time: int) -> None:
        packed = ids + (time << _TIME_SHIFT)
        self.writer[cells] = packed
        lost = self.writer.take(cells) != packed
        if lost.any():
            # Two accesses of this very batch hit one cell, and the later one won.
            mine = np.flatnonzero(lost)
            other = self.writer.take(cells[mine]) & _ID_MASK
            if time == _IN_FLIGHT:
                # One thread may not overwrite its own copy in flight either.
                self._report(_FLIGHT_WRITE, (cells, ids), mine, other)
                return
            differs = ((other ^ ids[mine]) & LANE_MASK) != 0
            mine, other = mine[differs], other[differs]
            if mine.size:
                self._report(_TWO_WRITES, (cells, ids), mine, other)

    def _check_read(
        self, cells: Array, ids: Array, writer: Array, race: tuple[str, str] = _READ_RACE
    ) -> Array | None:
        late = np.flatnonzero(writer >= self.limit)
        times = writer[late] >> _TIME_SHIFT
        others = writer[late] & _ID_MASK
        never = times == _UNWRITTEN
        flight = times == _IN_FLIGHT
        poison = None
        if never.any():
            self._report(_UNINITIALISED, (cells, ids), late[never])
        if flight.any():
            self._report(
                _FLIGHT_READ,
                (cells, ids),
                late[flight],
                others[flight],
            )
        bad = never | flight
        if bad.any():
            poison = np.zeros(cells.size, bool)
            poison[late[bad]] = True
        racy = ~bad & ~self.clocks.ordered(times, ids[late] & LANE_MASK, others & LANE_MASK)
        if racy.any():
            self._report(
                race,
                (cells, ids),
                late[racy],
                others[racy],
            )
        return poison

    def _check_write(self, cells: Array, ids: Array) -> None:
        writer = self.writer.take(cells)
        if writer.max(initial=0) >= self.limit:
            late = np.flatnonzero((writer >= self.limit) & (writer < _UNWRITTEN << _TIME_SHIFT))
            times = writer[late] >> _TIME_SHIFT
            others = writer[late] & _ID_MASK
            flight = times == _IN_FLIGHT
            if flight.any():
                self._report(
                    _FLIGHT_WRITE,
                    (cells, ids),
                    late[flight],
                    others[flight],
                )
            racy = ~flight & ~self.clocks.ordered(times, ids[late] & LANE_MASK, others & LANE_MASK)
            if racy.any():
                self._report(
                    _WRITE_RACE,
                    (cells, ids),
                    late[racy],
                    others[racy],
                )
        if self.reads:
            for entry in self.reads[self.marked :]:
                self.mark[entry.cells] = self.epoch
            self.marked = len(self.reads)
            hit = np.flatnonzero(self.mark.take(cells) == self.epoch)
            if hit.size:
                self._check_earlier(cells, ids, hit, self.reads, _OVERWRITE_RACE)
        if self.updates or self.looks:
            every = np.arange(cells.size)
            self._check_earlier(cells, ids, every, self.updates + self.looks, _UNSURE_WRITE)

    def _check_earlier(
        self,
        cells: Array,
        ids: Array,
        hit: Array,
        entries: list[_Reads],
        race: tuple[str, str],
    ) -> None:
        """Compare writes, one a cell, with earlier accesses since the last full barrier."""
        self.slot[cells[hit]] = hit
        for entry in entries:
            slots = self.slot.take(entry.cells)
            which = np.flatnonzero(slots >= 0)
            if not which.size:
                continue
            mine = slots[which]
            times = np.full(which.size, entry.time)
            others = entry.ids[which]
            racy = ~self.clocks.ordered(times, ids[mine] & LANE_MASK, others & LANE_MASK)
            if racy.any():
                self._report(
                    race,
                    (cells, ids),
                    mine[racy],
                    others[racy],
                )
        self.slot[cells[hit]] = -1

    def _check_pairs(
        self, cells: Array, ids: Array, entries: list[_Reads], race: tuple[str, str]
    ) -> None:
        """The same for accesses of which many may meet at a cell: each against each."""
        for entry in entries:
            mine, theirs = meetings(cells, entry.cells)
            others = entry.ids[theirs]
            times = np.full(mine.size, entry.time)
            racy = ~self.clocks.ordered(times, ids[mine] & LANE_MASK, others & LANE_MASK)
            if racy.any():
                self._report(race, (cells, ids), mine[racy], others[racy])

    def _report(
        self,
        what: tuple[str, str],
        accesses: tuple[Array, Array],
        where: Array,
        others: Array | None = None,
    ) -> None:
        report_pairs(
            self.collector, what, *accesses, where, others, shift=self.shift, stride=self.stride
        )
