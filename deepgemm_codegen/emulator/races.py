"""Races, uninitialised reads and bytes in flight, in shared memory.

Lock-step execution hides a missing barrier: the numbers come out right. So each cell of shared
memory remembers its last writer and its readers, with the time of the access, and each access is
checked for being ordered after them.

Time is a counter that grows at each synchronisation. An event of thread u at time c is known to
thread t when t is u, when c is at most the *floor* of the block (the time of its last full
barrier), or when c is at most ``known[t, u]``, t's vector clock, which exists once threads have
met in smaller groups (``bar.warp.sync``). A kernel with full barriers only never leaves the first
two rules: a check is then one gather and one comparison.

A cell is as wide as the narrowest shared access of the kernel; as accesses are aligned, each
covers whole cells, and the result is the same as with bytes.

An asynchronous copy owns its cells from issue to the issuing thread's wait: its write happens at
the wait, but conflicting accesses must be ordered before the issue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.listeners import SITE_SHIFT, Access, Listener
from deepgemm_codegen.emulator.pairs import report_pairs

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.shared import SharedMemory

__all__ = ["RaceListener"]

Array = np.ndarray[Any, np.dtype[Any]]

# A cell's writer: time above, identity (instruction and lane) below.
_TIME_SHIFT = 2 * SITE_SHIFT
_ID_MASK = (1 << _TIME_SHIFT) - 1
_LANE_MASK = (1 << SITE_SHIFT) - 1
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


class _Reads(NamedTuple):
    cells: Array
    ids: Array
    time: int


class _Copy(NamedTuple):
    cells: Array
    ids: Array
    per_access: int


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
        self.now = 1
        self.floors = np.zeros(blocks, np.int64)
        self.limit = 1 << _TIME_SHIFT  # first packed value above the lowest floor
        self.known: Array | None = None

    # -- events --

    def read(self, access: Access) -> Array | None:
        """Check against the last writer; remember the read."""
        cells, ids, per = self._cells(access)
        writer = self.writer.take(cells)
        poison: Array | None = None
        if writer.max(initial=0) >= self.limit:
            poison = self._check_read(cells, ids, writer)
            if poison is not None and per > 1:
                poison = np.asarray(poison.reshape(-1, per).any(axis=1))
        self.reads.append(_Reads(cells, ids, self.now))
        return poison

    def write(self, access: Access) -> None:
        """Check against the last writer and the readers; become the writer."""
        cells, ids, _ = self._cells(access)
        self._check_write(cells, ids)
        self._become(cells, ids, self.now)

    def issue(self, access: Access) -> object:
        """The copy conflicts from now on; the cells are in flight."""
        cells, ids, per = self._cells(access)
        self._check_write(cells, ids)
        self._become(cells, ids, _IN_FLIGHT)
        return _Copy(cells, ids, per)

    def complete(self, token: object, where: Array | None) -> None:
        """The issuing threads wrote just now."""
        if not isinstance(token, _Copy):
            return
        cells, ids = token.cells, token.ids
        if where is not None:
            if token.per_access > 1:
                where = np.repeat(where, token.per_access)
            cells, ids = cells[where], ids[where]
        self.writer[cells] = ids + (self.now << _TIME_SHIFT)

    def barrier(self, blocks: Array | None) -> None:
        """Everything that these blocks did so far is known to all their threads."""
        if blocks is None:
            self.floors[...] = self.now
            self._forget()
        else:
            self.floors[blocks] = self.now
            kept = []
            done = np.zeros(self.blocks, bool)
            done[blocks] = True
            for entry in self.reads:
                keep = ~done[(entry.ids & _LANE_MASK) // self.threads]
                if keep.any():
                    kept.append(_Reads(entry.cells[keep], entry.ids[keep], entry.time))
            self._forget()
            self.reads = kept
        self.limit = (int(self.floors.min()) + 1) << _TIME_SHIFT
        self.now += 1

    def meet(self, lanes: Array) -> None:
        """Each group's members know what any of them knew, and each other up to now."""
        if self.known is None:
            self.known = np.zeros((self.blocks * self.threads, self.threads), np.int64)
        merged = self.known[lanes].max(axis=1)  # (groups, threads)
        groups = np.arange(lanes.shape[0])[:, None]
        merged[groups, lanes % self.threads] = self.now
        self.known[lanes] = merged[:, None, :]
        self.now += 1

    # -- inside --

    def _forget(self) -> None:
        self.reads = []
        self.marked = 0
        self.epoch += 1

    def _cells(self, access: Access) -> tuple[Array, Array, int]:
        cells = access.address >> self.shift
        per = access.width >> self.shift
        if per <= 1:
            return cells, access.ids, 1
        return (
            (cells[:, None] + np.arange(per)).reshape(-1),
            np.repeat(access.ids, per),
            per,
        )

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
            differs = ((other ^ ids[mine]) & _LANE_MASK) != 0
            mine, other = mine[differs], other[differs]
            if mine.size:
                self._report(_TWO_WRITES, (cells, ids), mine, other)

    def _ordered(self, times: Array, lanes: Array, others: Array) -> Array:
        """Whether events of lanes ``others`` at ``times`` are known to ``lanes``."""
        ordered = (lanes == others) | (times <= self.floors[lanes // self.threads])
        if self.known is not None:
            ordered |= times <= self.known[lanes, others % self.threads]
        result: Array = ordered
        return result

    def _check_read(self, cells: Array, ids: Array, writer: Array) -> Array | None:
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
        racy = ~bad & ~self._ordered(times, ids[late] & _LANE_MASK, others & _LANE_MASK)
        if racy.any():
            self._report(
                _READ_RACE,
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
            racy = ~flight & ~self._ordered(times, ids[late] & _LANE_MASK, others & _LANE_MASK)
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
                self._check_readers(cells, ids, hit)

    def _check_readers(self, cells: Array, ids: Array, hit: Array) -> None:
        """Compare writes with each read of their cells since the last full barrier."""
        self.slot[cells[hit]] = hit
        for entry in self.reads:
            slots = self.slot.take(entry.cells)
            which = np.flatnonzero(slots >= 0)
            if not which.size:
                continue
            mine = slots[which]
            times = np.full(which.size, entry.time)
            others = entry.ids[which]
            racy = ~self._ordered(times, ids[mine] & _LANE_MASK, others & _LANE_MASK)
            if racy.any():
                self._report(
                    _OVERWRITE_RACE,
                    (cells, ids),
                    mine[racy],
                    others[racy],
                )
        self.slot[cells[hit]] = -1

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
