"""What each cell of shared memory remembers, and the checks against it.

A cell remembers its last writer, and the last read since by each warp and each asynchronous agent;
of several readers within one warp, only the last. Strong accesses (atomic operations, and loads and
stores of an order or scope) are remembered beside the reads: they race with ordinary accesses, and
not with each other. Times and columns are those of :mod:`clocks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.clocks import ALWAYS, Clocks
from deepgemm_codegen.emulator.listeners import LANE_MASK, Agent
from deepgemm_codegen.emulator.pairs import report_pairs

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.listeners import Region
    from deepgemm_codegen.emulator.shared import SharedMemory

__all__ = ["BARRIER", "COPYING", "FLIGHT_WRITE", "TWO_WRITES", "Known", "Shadow"]

Array = np.ndarray[Any, np.dtype[Any]]

# Times of cells that no clock reaches.
_UNWRITTEN = ALWAYS
COPYING = ALWAYS - 1  # a cp.async not waited for
BARRIER = ALWAYS - 2  # holds an mbarrier

TWO_WRITES = ("race", "two writes with no order between them")
_UNINITIALISED = ("uninitialised-read", "shared bytes that nobody wrote")
_FLIGHT_READ = ("in-flight-read", "shared bytes of an asynchronous copy that is not complete")
_UNWAITED = (
    "in-flight-read",
    "shared bytes of an asynchronous copy whose completion this thread has not waited for",
)
_READ_RACE = ("race", "read of bytes that another thread wrote, with no order between")
FLIGHT_WRITE = ("in-flight-write", "write to shared bytes of an asynchronous copy in flight")
_WRITE_RACE = ("race", "write to bytes that another thread wrote, with no order between")
_OVERWRITE_RACE = ("race", "write to bytes that another thread read, with no order between")
_OVERTAKE = (
    "in-flight-write",
    "write to shared bytes that an asynchronous operation may still be reading",
)
_NO_FENCE = (
    "missing-fence",
    "an asynchronous access to shared bytes that a thread wrote with no fence.proxy.async after",
)
_UNSURE_READ = (
    "race",
    "read of bytes that another thread updates atomically, with no order between",
)
_UNSURE_WRITE = (
    "race",
    "write to bytes that another thread accesses atomically, with no order between",
)
_STRONG_AFTER_WRITE = (
    "race",
    "atomic access to bytes that another thread wrote, with no order between",
)
_STRONG_AFTER_READ = (
    "race",
    "atomic update of bytes that another thread read, with no order between",
)
_OPAQUE = ("barrier-access", "an access to the bytes of an mbarrier")


class Known(NamedTuple):
    """What an access may rely on: by lane of the access, or one vector for all of it."""

    known: Array
    lanes: Array | None

    def of(self, columns: Array, which: Array) -> Array:
        """Time of each column as known to the access number ``which``."""
        if self.lanes is None:
            return self.known[columns]
        result: Array = self.known[self.lanes[which], columns]
        return result


class Shadow:
    """The cells of one batch.

    Args:
        shared: the memory of the batch.
        cell: bytes of a cell.
        blocks, lanes: of the batch.
        collector: where findings go.

    Attributes:
        clocks: who knows what.
        phases: phases completed, by column of an mbarrier.
        copied: columns of mbarriers that stand for cp.async, whose writes are ordinary ones.
    """

    def __init__(
        self, shared: SharedMemory, cell: int, blocks: int, lanes: int, collector: Collector
    ) -> None:
        self.shift = cell.bit_length() - 1
        self.stride = shared.stride
        self.collector = collector
        self.clocks = Clocks(lanes)
        self.phases: dict[int, int] = {}
        self.copied: dict[int, int] = {}  # by the mbarrier's number
        cells = blocks * shared.stride >> self.shift
        self.time = np.full(cells, _UNWRITTEN, np.int32)
        self.by = np.full(cells, -1, np.int32)
        self.ids = np.zeros(cells, np.int64)
        # Rows: warps, then agents in order of appearance; zeros cost nothing until touched.
        self.rows = lanes // 32
        room = self.rows + self.rows // 4 + 8 * blocks
        self.read_time = np.zeros((room, cells), np.int32)
        self.read_ids = np.zeros((room, cells), np.int64)
        self.row_column = np.full(room, -1, np.int32)
        # Strong accesses by warp, those that write and those that only read: made when needed.
        self.strong: dict[bool, tuple[Array, Array]] = {}
        self.warps = lanes // 32
        self.agents: dict[Agent, tuple[int, int]] = {}

    def agent(self, agent: Agent, column: int | None = None) -> tuple[int, int]:
        """Row and column of an agent; a new one gets this column, or one of its own."""
        found = self.agents.get(agent)
        if found is None:
            found = (self.rows, self.clocks.column() if column is None else column)
            self.agents[agent] = found
            if self.rows == self.row_column.size:
                more = self.rows // 2
                self.read_time = np.pad(self.read_time, ((0, more), (0, 0)))
                self.read_ids = np.pad(self.read_ids, ((0, more), (0, 0)))
                self.row_column = np.pad(self.row_column, (0, more), constant_values=-1)
            self.row_column[self.rows] = found[1]
            self.rows += 1
        return found

    def chunks(self, region: Region) -> Array:
        """Cells of a region."""
        address, per = region.address, region.width >> self.shift
        cells = address >> self.shift
        return cells if per <= 1 else (cells[:, None] + np.arange(per)).reshape(-1)

    def become(self, cells: Array, ids: Array, time: int, by: Array | int) -> None:
        """The cells' last write is this one; the reads before it no longer matter."""
        self.time[cells] = time
        self.by[cells] = by
        self.ids[cells] = ids
        self.read_time[: self.rows, cells] = 0
        for times, _ in self.strong.values():
            times[:, cells] = 0

    def begin(self, cells: Array) -> None:
        """Cells that nobody wrote count as written from now on, before all else."""
        fresh = cells[self.time[cells] == _UNWRITTEN]
        self.time[fresh], self.by[fresh] = 0, 0

    def after_writes(
        self, cells: Array, ids: Array, known: Known, *, read: bool, strong: bool = False
    ) -> Array | None:
        """Check that the last writes are known; returns the cells that hold no data (bool)."""
        times, by = self.time[cells], self.by[cells]
        late = np.flatnonzero(known.of(by, np.arange(cells.size)) < times)
        if not late.size:
            return None
        times, by = times[late], by[late]
        others = self.ids[cells[late]]
        never, opaque, copying = times == _UNWRITTEN, times == BARRIER, times == COPYING
        agent = (by >= self.clocks.lanes) & ~never & ~opaque & ~copying
        flight = copying | (agent & (times > self._completed(by)))
        bad = never | flight
        if never.any() and read:
            self.report(_UNINITIALISED, cells, ids, late[never])
        for which, on_read, on_write in (
            (opaque, _OPAQUE, _OPAQUE),
            (flight, _FLIGHT_READ, FLIGHT_WRITE),
            (agent & ~flight, _UNWAITED, FLIGHT_WRITE),
            (
                ~(bad | opaque | agent),
                _STRONG_AFTER_WRITE if strong else _READ_RACE,
                _WRITE_RACE,
            ),
        ):
            if which.any():
                self.report(on_read if read else on_write, cells, ids, late[which], others[which])
        bad = bad | agent
        if not bad.any():
            return None
        poison = np.zeros(cells.size, bool)
        poison[late[bad]] = True
        return poison

    def after_all(self, cells: Array, ids: Array, known: Known) -> None:
        """Check that a write knows all that happened to its cells."""
        self.after_writes(cells, ids, known, read=False)
        self.after_reads(cells, ids, known)
        self.after_strong(cells, ids, known, writes=True)

    def read(self, rows: Array | int, cells: Array, time: int, ids: Array) -> None:
        """Remember reads."""
        self.read_time[rows, cells] = time
        self.read_ids[rows, cells] = ids

    def note_strong(self, cells: Array, ids: Array, time: int, *, writes: bool) -> None:
        """Remember strong accesses."""
        if writes not in self.strong:
            shape = (self.warps, self.time.size)
            self.strong[writes] = (np.zeros(shape, np.int32), np.zeros(shape, np.int64))
        times, who = self.strong[writes]
        rows = (ids & LANE_MASK) >> 5
        times[rows, cells] = time
        who[rows, cells] = ids

    def after_strong(self, cells: Array, ids: Array, known: Known, *, writes: bool) -> None:
        """Check that strong accesses since the last write are known; a read minds updates only."""
        for updates, (times, who) in self.strong.items():
            if updates or writes:
                what = _UNSURE_WRITE if writes else _UNSURE_READ
                self._after(times[:, cells], who, (cells, ids), known, (what, what))

    def _completed(self, columns: Array) -> Array:
        """Phases that the mbarriers of some columns have completed."""
        table = np.zeros(self.clocks.columns + 1, np.int32)
        for column, phase in self.phases.items():
            table[column] = phase
        return table[np.maximum(columns, 0)]

    def fenced(self, cells: Array, ids: Array, fenced: Array) -> None:
        """Check that ordinary writes lie before a proxy fence."""
        by = self.by[cells]
        ordinary = np.flatnonzero((by >= 0) & (by < self.clocks.lanes))
        late = ordinary[fenced[by[ordinary]] < self.time[cells[ordinary]]]
        if self.copied:  # the threads that copied have nothing to fence: they never waited
            copied = np.flatnonzero(np.isin(by, list(self.copied.values())))
            late = np.concatenate([late, copied])
        if late.size:
            self.report(_NO_FENCE, cells, ids, late, self.ids[cells[late]])
        if True in self.strong:
            times, who = self.strong[True]
            rows, which = np.nonzero(times[:, cells])
            others = who[rows, cells[which]]
            missing = fenced[others & LANE_MASK] < times[rows, cells[which]]
            if missing.any():
                self.report(_NO_FENCE, cells, ids, which[missing], others[missing])

    def after_reads(self, cells: Array, ids: Array, known: Known, *, strong: bool = False) -> None:
        """Check that the reads since the last write are known."""
        times = self.read_time[: self.rows, cells]
        if not times.any():
            return
        races = (_OVERTAKE, _STRONG_AFTER_READ if strong else _OVERWRITE_RACE)
        self._after(times, self.read_ids, (cells, ids), known, races)

    def _after(
        self,
        times: Array,
        who: Array,
        accesses: tuple[Array, Array],
        known: Known,
        races: tuple[tuple[str, str], tuple[str, str]],
    ) -> None:
        """Check accesses against remembered ones.

        Args:
            times: of the remembered ones, (rows, accesses); 0 for none.
            who: their identities, (rows, cells).
            accesses: cells and identities.
            known: what the accesses may rely on.
            races: what to report where an agent or a thread was there before.
        """
        cells, ids = accesses
        rows, which = np.nonzero(times)
        others = who[rows, cells[which]]
        columns = self.row_column[rows]
        agent = columns >= 0
        columns = np.where(agent, columns, others & LANE_MASK)
        late = known.of(columns, which) < times[rows, which]
        for part, what in ((late & agent, races[0]), (late & ~agent, races[1])):
            if part.any():
                self.report(what, cells, ids, which[part], others[part])

    def report(
        self,
        what: tuple[str, str],
        cells: Array,
        ids: Array,
        where: Array,
        others: Array | None = None,
    ) -> None:
        """See `report_pairs`."""
        report_pairs(
            self.collector, what, cells, ids, where, others, shift=self.shift, stride=self.stride
        )
