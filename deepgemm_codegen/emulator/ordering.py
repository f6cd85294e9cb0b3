"""Races in kernels with asynchronous copies, mbarriers and wgmma: vector clocks for each cell.

Each cell of shared memory remembers its last writer and, for each warp and each asynchronous
agent, the last read since. An access must know all that conflicts with it, in the sense of
:mod:`clocks`:

- An ordinary access is an event of its thread at the current time.
- A bulk load's write is an event of its mbarrier, at the phase that its bytes count in: whoever
  waited for that phase knows it. It must be ordered after conflicting accesses when it is issued.
- A read by wgmma or by a bulk store is an event of the warpgroup's or the thread's agent, at the
  number of its group: whoever waited for that group knows it. It must be ordered after the write
  when it is issued, and after a proxy fence by the writer where that was an ordinary write.

So an asynchronous access owns its bytes from issue to completion, whenever the emulator moves
them. A cell is as wide as in :mod:`races`. Of several readers within one warp, only the last is
remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.clocks import ALWAYS, Clocks, Snapshot, merge
from deepgemm_codegen.emulator.listeners import (
    SITE_SHIFT,
    Access,
    Agent,
    Listener,
    Region,
    split_id,
)

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.shared import SharedMemory

__all__ = ["OrderListener"]

Array = np.ndarray[Any, np.dtype[Any]]

_LANE_MASK = (1 << SITE_SHIFT) - 1
# Times of cells that no clock reaches.
_UNWRITTEN = ALWAYS
_COPYING = ALWAYS - 1  # a cp.async not waited for
_BARRIER = ALWAYS - 2  # holds an mbarrier

_TWO_WRITES = ("race", "two writes with no order between them")
_UNINITIALISED = ("uninitialised-read", "shared bytes that nobody wrote")
_FLIGHT_READ = ("in-flight-read", "shared bytes of an asynchronous copy that is not complete")
_UNWAITED = (
    "in-flight-read",
    "shared bytes of an asynchronous copy whose completion this thread has not waited for",
)
_READ_RACE = ("race", "read of bytes that another thread wrote, with no order between")
_FLIGHT_WRITE = ("in-flight-write", "write to shared bytes of an asynchronous copy in flight")
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
_OPAQUE = ("barrier-access", "an access to the bytes of an mbarrier")


class _Copy(NamedTuple):
    cells: Array
    ids: Array
    per_access: int


class _Known(NamedTuple):
    """What an access may rely on: by lane of the access, or one vector for all of it."""

    known: Array
    lanes: Array | None

    def of(self, columns: Array, which: Array) -> Array:
        """Time of each column as known to the access number ``which``."""
        if self.lanes is None:
            return self.known[columns]
        result: Array = self.known[self.lanes[which], columns]
        return result


class OrderListener(Listener):
    """Happens-before checking of shared memory with agents.

    Args:
        shared: the memory of the batch.
        cell: bytes of a cell.
        blocks, threads: of the batch; lanes are block * threads + thread.
        collector: where findings go.
    """

    def __init__(
        self, shared: SharedMemory, cell: int, blocks: int, threads: int, collector: Collector
    ) -> None:
        self.shift = cell.bit_length() - 1
        self.threads, self.blocks = threads, blocks
        self.stride = shared.stride
        self.collector = collector
        lanes = blocks * threads
        self.clocks = Clocks(lanes)
        cells = blocks * shared.stride >> self.shift
        self.time = np.full(cells, _UNWRITTEN, np.int32)
        self.by = np.full(cells, -1, np.int32)
        self.ids = np.zeros(cells, np.int64)
        # Rows: warps, then agents in order of appearance; zeros cost nothing until touched.
        self.rows = lanes // 32
        spare = self.rows // 4 + 8 * blocks
        self.read_time = np.zeros((self.rows + spare, cells), np.int32)
        self.read_ids = np.zeros((self.rows + spare, cells), np.int64)
        self.agents: dict[Agent, tuple[int, int]] = {}  # row and column
        self.row_column = np.full(self.rows + spare, -1, np.int32)
        self.barriers: dict[int, tuple[int, int]] = {}  # column and time of initialisation
        self.pending: dict[int, Snapshot] = {}
        self.done: dict[int, Snapshot] = {}
        self.phases: dict[int, int] = {}  # column to phases completed
        self.meeting: dict[int, Snapshot] = {}
        self.met: dict[int, Snapshot] = {}
        self.remote: dict[tuple[int, int], tuple[int, int]] = {}  # (lane, block) to time, site
        self.landing: dict[int, tuple[Mbarrier, int, int, int]] = {}

    # -- ordinary accesses --

    def read(self, access: Access) -> Array | None:
        """Check against the last writer; remember the read."""
        cells, ids, per = self._cells(access)
        lanes = ids & _LANE_MASK
        poison = self._after_writes(cells, ids, _Known(self.clocks.known, lanes), read=True)
        rows = lanes >> 5
        self.read_time[rows, cells] = self.clocks.now
        self.read_ids[rows, cells] = ids
        if poison is not None and per > 1:
            poison = np.asarray(poison.reshape(-1, per).any(axis=1))
        return poison

    def write(self, access: Access) -> None:
        """Check against the last writer and the readers; become the writer."""
        cells, ids, _ = self._cells(access)
        lanes = ids & _LANE_MASK
        known = _Known(self.clocks.known, lanes)
        self._after_writes(cells, ids, known, read=False)
        self._after_reads(cells, ids, known)
        self._become(cells, ids, self.clocks.now, lanes)
        lost = np.flatnonzero(self.ids[cells] != ids)
        if lost.size:
            # Two accesses of this very batch hit one cell, and the later one won.
            other = self.ids[cells[lost]]
            differs = ((other ^ ids[lost]) & _LANE_MASK) != 0
            if differs.any():
                self._report(_TWO_WRITES, cells, ids, lost[differs], other[differs])

    def issue(self, access: Access) -> object:
        """A cp.async conflicts from now on; its cells are in flight."""
        cells, ids, per = self._cells(access)
        known = _Known(self.clocks.known, ids & _LANE_MASK)
        self._after_writes(cells, ids, known, read=False)
        self._after_reads(cells, ids, known)
        self._become(cells, ids, _COPYING, -1)
        lost = np.flatnonzero(self.ids[cells] != ids)
        if lost.size:
            self._report(_FLIGHT_WRITE, cells, ids, lost, self.ids[cells[lost]])
        return _Copy(cells, ids, per)

    def complete(self, token: object, where: Array | None) -> None:
        """The threads that issued a cp.async wrote just now."""
        if not isinstance(token, _Copy):
            return
        cells, ids = token.cells, token.ids
        if where is not None:
            where = np.repeat(where, token.per_access)
            cells, ids = cells[where], ids[where]
        self._become(cells, ids, self.clocks.now, ids & _LANE_MASK)

    def barrier(self, blocks: Array | None) -> None:
        """All live threads of some blocks met."""
        for block in range(self.blocks) if blocks is None else blocks.tolist():
            self.clocks.join(np.arange(block * self.threads, (block + 1) * self.threads))

    def meet(self, lanes: Array) -> None:
        """Groups of threads met."""
        for group in lanes:
            self.clocks.join(group)

    # -- mbarriers --

    def initialise(self, barrier: Mbarrier) -> None:
        """From now on the bytes are the barrier's."""
        column = self.clocks.column()
        self.barriers[barrier.number] = (column, self.clocks.now)
        self.phases[column] = 0
        first = (barrier.block * self.stride + barrier.address) >> self.shift
        cells = np.arange(first, first + max(1, 8 >> self.shift))
        ids = np.full(cells.size, (barrier.site << SITE_SHIFT) + barrier.lane, np.int64)
        known = _Known(self.clocks.known, ids & _LANE_MASK)
        if not (self.time[cells] == _BARRIER).all():
            self._after_writes(cells, ids, known, read=False)
            self._after_reads(cells, ids, known)
        self._become(cells, ids, _BARRIER, -1)

    def use(self, barrier: Mbarrier, lanes: Array, site: int, verb: str) -> None:
        """The initialisation must be known."""
        _, time = self.barriers[barrier.number]
        late = self.clocks.known[lanes, barrier.lane] < time
        if late.any():
            self.collector.add(
                "race",
                f"{verb} an mbarrier with no order after its initialisation",
                site,
                int(lanes[late][0]),
                other=(barrier.site, barrier.lane),
                address=barrier.address,
                count=int(late.sum()),
            )

    def arrive(self, barrier: Mbarrier, lanes: Array, site: int) -> None:
        """The phase gets what the threads know; a remote arrival is checked again at the end."""
        for lane in lanes[lanes // self.threads != barrier.block].tolist():
            self.remote[lane, barrier.block] = (self.clocks.now, site)
        snapshot = self.clocks.release(lanes)
        self.pending[barrier.number] = merge(self.pending.get(barrier.number), snapshot)

    def phase(self, barrier: Mbarrier) -> None:
        """What was released is there to be acquired, and the phase's bytes have landed."""
        number = barrier.number
        column, _ = self.barriers[number]
        self.phases[column] = barrier.phase
        snapshot = self.pending.pop(number, None)
        if snapshot is not None:
            self.done[number] = merge(self.done.get(number), snapshot)

    def observe(self, barrier: Mbarrier, lanes: Array) -> None:
        """The threads acquire all complete phases."""
        column, _ = self.barriers[barrier.number]
        if barrier.phase:
            snapshot = self.done.get(barrier.number)
            if snapshot is not None:
                self.clocks.acquire(lanes, snapshot)
            self.clocks.learn(lanes, column, barrier.phase)

    # -- asynchronous agents --

    def fence(self, lanes: Array) -> None:
        """What the threads did before is fenced."""
        self.clocks.fence(lanes)

    def land(self, region: Region, barrier: Mbarrier) -> None:
        """The write belongs to the barrier's current phase."""
        cells = self._chunks(region.address)
        lane = int(region.lanes[0])
        ids = np.full(cells.size, (region.site << SITE_SHIFT) + lane, np.int64)
        known = _Known(self.clocks.known[lane], None)
        self._after_writes(cells, ids, known, read=False)
        self._fenced(cells, ids, self.clocks.fenced[lane])
        self._after_reads(cells, ids, known)
        column, _ = self.barriers[barrier.number]
        self._become(cells, ids, barrier.phase + 1, column)
        self.landing[barrier.number] = (barrier, barrier.phase + 1, region.site, lane)

    def fetch(self, region: Region, agent: Agent, time: int) -> Array | None:
        """Check against the last writer; remember the read as the agent's."""
        cells = self._chunks(region.address)
        ids = np.full(cells.size, (region.site << SITE_SHIFT) + int(region.lanes[0]), np.int64)
        least, fenced = self.clocks.least(region.lanes)
        poison = self._after_writes(cells, ids, _Known(least, None), read=True)
        self._fenced(cells, ids, fenced)
        row, _ = self._agent(agent)
        self.read_time[row, cells] = time
        self.read_ids[row, cells] = ids
        return None if poison is None else poison.reshape(region.address.size, -1).any(axis=1)

    def settle(self, agent: Agent, lanes: Array, time: int) -> None:
        """The threads know the agent's reads."""
        self.clocks.learn(lanes, self._agent(agent)[1], time)

    # -- clusters --

    def cluster_arrive(self, cluster: int, lanes: Array, *, release: bool) -> None:
        """What a relaxed arrival does not release, nobody learns."""
        if release:
            snapshot = self.clocks.release(lanes)
            self.meeting[cluster] = merge(self.meeting.get(cluster), snapshot)

    def cluster_complete(self, cluster: int) -> None:
        """What was released is there to be acquired."""
        snapshot = self.meeting.pop(cluster, None)
        if snapshot is not None:
            self.met[cluster] = merge(self.met.get(cluster), snapshot)

    def cluster_wait(self, cluster: int, lanes: Array) -> None:
        """The threads acquire it."""
        snapshot = self.met.get(cluster)
        if snapshot is not None:
            self.clocks.acquire(lanes, snapshot)

    # -- the end --

    def finish(self) -> None:
        """No block may end while others still reach into it, or copies into it are on the way."""
        for barrier, phase, site, lane in self.landing.values():
            column, _ = self.barriers[barrier.number]
            if int(self._block_known(barrier.block)[column]) < phase:
                self.collector.add(
                    "exit-in-flight",
                    f"block {barrier.block} of the batch ends with nobody having waited for this "
                    "copy into its shared memory",
                    site,
                    lane,
                    address=barrier.address,
                )
        for (lane, block), (time, site) in self.remote.items():
            if int(self._block_known(block)[lane]) < time:
                self.collector.add(
                    "remote-after-exit",
                    "an access to another block of the cluster, which may have ended",
                    site,
                    lane,
                )

    def _block_known(self, block: int) -> Array:
        """All that some thread of a block knows."""
        result: Array = self.clocks.known[block * self.threads : (block + 1) * self.threads].max(0)
        return result

    # -- inside --

    def _agent(self, agent: Agent) -> tuple[int, int]:
        """Row and column of an agent."""
        found = self.agents.get(agent)
        if found is None:
            found = (self.rows, self.clocks.column())
            self.agents[agent] = found
            if self.rows == self.row_column.size:
                more = self.rows // 2
                self.read_time = np.pad(self.read_time, ((0, more), (0, 0)))
                self.read_ids = np.pad(self.read_ids, ((0, more), (0, 0)))
                self.row_column = np.pad(self.row_column, (0, more), constant_values=-1)
            self.row_column[self.rows] = found[1]
            self.rows += 1
        return found

    def _cells(self, access: Access) -> tuple[Array, Array, int]:
        cells = access.address >> self.shift
        per = access.width >> self.shift
        if per <= 1:
            return cells, access.ids, 1
        wide = (cells[:, None] + np.arange(per)).reshape(-1)
        return wide, np.repeat(access.ids, per), per

    def _chunks(self, address: Array) -> Array:
        per = 16 >> self.shift
        cells = address >> self.shift
        return cells if per <= 1 else (cells[:, None] + np.arange(per)).reshape(-1)

    def _become(self, cells: Array, ids: Array, time: int, by: Array | int) -> None:
        self.time[cells] = time
        self.by[cells] = by
        self.ids[cells] = ids
        self.read_time[: self.rows, cells] = 0

    def _after_writes(
        self, cells: Array, ids: Array, known: _Known, *, read: bool
    ) -> Array | None:
        """Check that the last writes are known; returns the cells that hold no data (bool)."""
        times, by = self.time[cells], self.by[cells]
        late = np.flatnonzero(known.of(by, np.arange(cells.size)) < times)
        if not late.size:
            return None
        times, by = times[late], by[late]
        others = self.ids[cells[late]]
        never, opaque, copying = times == _UNWRITTEN, times == _BARRIER, times == _COPYING
        agent = (by >= self.clocks.lanes) & ~never & ~opaque & ~copying
        flight = copying | (agent & (times > self._completed(by)))
        bad = never | flight
        if never.any() and read:
            self._report(_UNINITIALISED, cells, ids, late[never])
        for which, on_read, on_write in (
            (opaque, _OPAQUE, _OPAQUE),
            (flight, _FLIGHT_READ, _FLIGHT_WRITE),
            (agent & ~flight, _UNWAITED, _FLIGHT_WRITE),
            (~(bad | opaque | agent), _READ_RACE, _WRITE_RACE),
        ):
            if which.any():
                self._report(
                    on_read if read else on_write, cells, ids, late[which], others[which]
                )
        bad = bad | agent
        if not bad.any():
            return None
        poison = np.zeros(cells.size, bool)
        poison[late[bad]] = True
        return poison

    def _completed(self, columns: Array) -> Array:
        """Phases that the mbarriers of some columns have completed."""
        table = np.zeros(self.clocks.columns + 1, np.int32)
        for column, phase in self.phases.items():
            table[column] = phase
        return table[np.maximum(columns, 0)]

    def _fenced(self, cells: Array, ids: Array, fenced: Array) -> None:
        """Check that ordinary writes lie before a proxy fence."""
        by = self.by[cells]
        ordinary = np.flatnonzero((by >= 0) & (by < self.clocks.lanes))
        if not ordinary.size:
            return
        late = ordinary[fenced[by[ordinary]] < self.time[cells[ordinary]]]
        if late.size:
            self._report(_NO_FENCE, cells, ids, late, self.ids[cells[late]])

    def _after_reads(self, cells: Array, ids: Array, known: _Known) -> None:
        """Check that the reads since the last write are known."""
        times = self.read_time[: self.rows, cells]
        if not times.any():
            return
        rows, which = np.nonzero(times)
        others = self.read_ids[rows, cells[which]]
        columns = self.row_column[rows]
        agent = columns >= 0
        columns = np.where(agent, columns, others & _LANE_MASK)
        late = known.of(columns, which) < times[rows, which]
        for part, what in ((late & agent, _OVERTAKE), (late & ~agent, _OVERWRITE_RACE)):
            if part.any():
                self._report(what, cells, ids, which[part], others[part])

    def _report(
        self,
        what: tuple[str, str],
        cells: Array,
        ids: Array,
        where: Array,
        others: Array | None = None,
    ) -> None:
        """One finding for each pair of instructions among the accesses ``where``."""
        sites = ids[where] >> SITE_SHIFT
        keys = sites if others is None else (sites << SITE_SHIFT) | (others >> SITE_SHIFT)
        _, firsts, counts = np.unique(keys, return_index=True, return_counts=True)
        for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
            index = int(where[first])
            site, lane = split_id(int(ids[index]))
            self.collector.add(
                *what,
                site,
                lane,
                other=None if others is None else split_id(int(others[first])),
                address=int(cells[index] << self.shift) % self.stride,
                count=int(count),
            )
