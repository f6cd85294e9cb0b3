"""Races in kernels with asynchronous copies, mbarriers and wgmma: vector clocks for each cell.

An access must know all earlier ones that conflict with it (:mod:`shadow` remembers them), in the
sense of :mod:`clocks`:

- An ordinary access is an event of its thread at the current time.
- A bulk load's write is an event of its mbarrier, at the phase that its bytes count in: whoever
  waited for that phase knows it. It must be ordered after conflicting accesses when it is issued.
- A cp.async that arrives at an mbarrier is one likewise (:mod:`handed`).
- A read by wgmma or by a bulk store is an event of the warpgroup's or the thread's agent, at the
  number of its group: whoever waited for that group knows it. It must be ordered after the write
  when it is issued, and after a proxy fence by the writer where that was an ordinary write.

So an asynchronous access owns its bytes from issue to completion, whenever the emulator moves
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot, merge
from deepgemm_codegen.emulator.handed import HandedCopies
from deepgemm_codegen.emulator.listeners import (
    LANE_MASK,
    SITE_SHIFT,
    Access,
    Agent,
    Listener,
    Order,
    Region,
    Strong,
)
from deepgemm_codegen.emulator.locations import Locations
from deepgemm_codegen.emulator.named import NamedBarriers
from deepgemm_codegen.emulator.shadow import (
    BARRIER,
    COPYING,
    FLIGHT_WRITE,
    TWO_WRITES,
    Known,
    Shadow,
)
from deepgemm_codegen.emulator.waits import Waits

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.shared import SharedMemory

__all__ = ["OrderListener"]

Array = np.ndarray[Any, np.dtype[Any]]

KEPT_PHASES = 4
"""Complete phases of an mbarrier whose releases are kept for those who wait for an old one."""


class _Copy(NamedTuple):
    cells: Array
    ids: Array
    per_access: int

    def part(self, where: Array | None) -> tuple[Array, Array]:
        """Cells and identities of some of the accesses (bool); None for all."""
        if where is None:
            return self.cells, self.ids
        where = np.repeat(where, self.per_access)
        return self.cells[where], self.ids[where]


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
        self.threads, self.blocks = threads, blocks
        self.collector = collector
        self.shadow = Shadow(shared, cell, blocks, blocks * threads, collector)
        self.clocks = self.shadow.clocks
        self.locations = Locations(self.clocks, threads)
        self.barriers: dict[int, tuple[int, int]] = {}  # column and time of initialisation
        self.pending: dict[int, Snapshot] = {}
        self.done: dict[int, dict[int, Snapshot]] = {}
        self.meeting: dict[int, Snapshot] = {}
        self.met: dict[int, Snapshot] = {}
        self.names = NamedBarriers(self.clocks, collector)
        self.waits = Waits(self.clocks, threads, collector)
        self.arrived: dict[int, tuple[int, int]] = {}  # site and thread of the last arrival
        self.remote: dict[tuple[int, int], tuple[int, int]] = {}  # (lane, block) to time, site
        self.landing: dict[int, tuple[Mbarrier, int, int, int]] = {}
        self.handed = HandedCopies(self.shadow)

    # -- ordinary accesses --

    def read(self, access: Access) -> Array | None:
        """Check against the last writer; remember the read."""
        cells, ids, per = self.shadow.cells(access)
        lanes = ids & LANE_MASK
        known = Known(self.clocks.known, lanes)
        poison = self.shadow.after_writes(cells, ids, known, read=True)
        self.shadow.after_strong(cells, ids, known, writes=False)
        self.shadow.read(lanes >> 5, cells, self.clocks.now, ids)
        if poison is not None and per > 1:
            poison = np.asarray(poison.reshape(-1, per).any(axis=1))
        return poison

    def write(self, access: Access) -> None:
        """Check against the last writer and the readers; become the writer."""
        cells, ids, _ = self.shadow.cells(access)
        lanes = ids & LANE_MASK
        known = Known(self.clocks.known, lanes)
        self._after_all(cells, ids, known)
        self.shadow.become(cells, ids, self.clocks.now, lanes)
        lost = np.flatnonzero(self.shadow.ids[cells] != ids)
        if lost.size:
            # Two accesses of this very batch hit one cell, and the later one won.
            other = self.shadow.ids[cells[lost]]
            differs = ((other ^ ids[lost]) & LANE_MASK) != 0
            if differs.any():
                self.shadow.report(TWO_WRITES, cells, ids, lost[differs], other[differs])

    def _after_all(self, cells: Array, ids: Array, known: Known) -> None:
        """A write must know all that happened to its cells."""
        self.shadow.after_writes(cells, ids, known, read=False)
        self.shadow.after_reads(cells, ids, known)
        self.shadow.after_strong(cells, ids, known, writes=True)

    def strong(self, access: Access, *, reads: bool, writes: bool) -> Array | None:
        """Check against ordinary accesses only; remember it beside them."""
        cells, ids, per = self.shadow.cells(access)
        known = Known(self.clocks.known, ids & LANE_MASK)
        if not reads:
            self.shadow.begin(cells)
        poison = self.shadow.after_writes(cells, ids, known, read=True, strong=True)
        if writes:
            self.shadow.after_reads(cells, ids, known, strong=True)
        self.shadow.note_strong(cells, ids, self.clocks.now, writes=writes)
        if poison is not None and per > 1:
            poison = np.asarray(poison.reshape(-1, per).any(axis=1))
        return poison

    def synchronise(self, what: Strong) -> None:
        """See `Locations`."""
        self.locations.access(what)

    def fence_memory(self, lanes: Array, order: Order) -> None:
        """See `Locations`."""
        self.locations.fence(lanes, order)

    def issue(self, access: Access) -> object:
        """A cp.async conflicts from now on; its cells are in flight."""
        cells, ids, per = self.shadow.cells(access)
        self._after_all(cells, ids, Known(self.clocks.known, ids & LANE_MASK))
        self.shadow.become(cells, ids, COPYING, -1)
        lost = np.flatnonzero(self.shadow.ids[cells] != ids)
        if lost.size:
            self.shadow.report(FLIGHT_WRITE, cells, ids, lost, self.shadow.ids[cells[lost]])
        return _Copy(cells, ids, per)

    def complete(self, token: object, where: Array | None) -> None:
        """The threads that issued a cp.async wrote just now."""
        if not isinstance(token, _Copy):
            return
        cells, ids = token.part(where)
        self.shadow.become(cells, ids, self.clocks.now, ids & LANE_MASK)

    def barrier(self, blocks: Array | None) -> None:
        """All live threads of some blocks met."""
        for block in range(self.blocks) if blocks is None else blocks.tolist():
            self.clocks.join(np.arange(block * self.threads, (block + 1) * self.threads))

    def meet(self, lanes: Array) -> None:
        """Groups of threads met."""
        for group in lanes:
            self.clocks.join(group)

    def named(self, block: int, number: int, lanes: Array, site: int) -> None:
        """See `NamedBarriers`."""
        self.names.complete(block, number, lanes, site)

    def arrive_named(self, block: int, number: int, lanes: Array, site: int) -> None:
        """See `NamedBarriers`."""
        self.names.arrive(block, number, lanes, site)

    # -- mbarriers --

    def initialise(self, barrier: Mbarrier) -> None:
        """From now on the bytes are the barrier's."""
        column = self.clocks.column()
        self.barriers[barrier.number] = (column, self.clocks.now)
        self.shadow.phases[column] = 0
        first = (barrier.block * self.shadow.stride + barrier.address) >> self.shadow.shift
        cells = np.arange(first, first + max(1, 8 >> self.shadow.shift))
        ids = np.full(cells.size, (barrier.site << SITE_SHIFT) + barrier.lane, np.int64)
        known = Known(self.clocks.known, ids & LANE_MASK)
        if not (self.shadow.time[cells] == BARRIER).all():
            self._after_all(cells, ids, known)
        self.shadow.become(cells, ids, BARRIER, -1)

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
        self.handed.let_go(barrier, lanes)
        snapshot = self.clocks.release(lanes)
        self.pending[barrier.number] = merge(self.pending.get(barrier.number), snapshot)
        self.arrived[barrier.number] = (site, int(lanes[0]))

    def attach(self, barrier: Mbarrier, lanes: Array, *, expected: bool) -> None:
        """The system's arrival says that the phases which the threads knew to be over are."""
        self.handed.attach(barrier, lanes)
        if expected:
            pending = self.pending.get(barrier.number)
            self.pending[barrier.number] = merge(pending, self._phases(lanes))

    def hand(
        self, token: object, where: Array | None, barrier: Mbarrier, *, expected: bool
    ) -> None:
        """See `HandedCopies`."""
        if isinstance(token, _Copy):
            self.handed.hand(*token.part(where), barrier, expected=expected)

    def phase(self, barrier: Mbarrier) -> None:
        """What was released is there to be acquired, and the phase's bytes have landed."""
        number = barrier.number
        column, _ = self.barriers[number]
        self.shadow.phases[column] = barrier.phase
        came = self.handed.phase(barrier)
        snapshots = self.done.setdefault(number, {})
        before, snapshot = snapshots.get(barrier.phase - 1), self.pending.pop(number, None)
        after = before if snapshot is None else merge(before, snapshot)
        if after is not None:
            snapshots[barrier.phase] = after
        sooner = after if came is None else merge(after, came)
        self.waits.end_phase(barrier, sooner, self.arrived.get(number))
        snapshots.pop(barrier.phase - KEPT_PHASES, None)

    def doubts(self, barrier: Mbarrier, lanes: Array) -> Array | None:
        """Those that neither waited for it nor know of all its arrivals."""
        column, _ = self.barriers[barrier.number]
        unsure = np.asarray(self.clocks.known[lanes, column] < barrier.phase)
        snapshot = self.done.get(barrier.number, {}).get(barrier.phase)
        if not unsure.any():
            return None
        unseen = barrier.number in self.landing or barrier.number in self.shadow.copied
        if not unseen and snapshot is not None:
            size = snapshot.known.size
            unsure &= (self.clocks.known[lanes, :size] < snapshot.known).any(axis=1)
        return unsure

    def observe(
        self, barrier: Mbarrier, lanes: Array, parity: int, phase: int | None, site: int
    ) -> None:
        """The threads acquire the first phase that may have let them pass, and those before it.

        A parity names every other phase. Whoever knows of n complete phases and waits for the next
        of a parity may have been let pass by the first of these, however many are complete by now:
        a wait that is meant for a later one proves nothing of it.
        """
        column, _ = self.barriers[barrier.number]
        if phase is None:
            known = self.clocks.known[lanes, column]
            sure = known + ((known & 1) == parity)
            self.waits.pass_by(barrier, lanes, sure, site)
        if not barrier.phase:
            return
        if phase is not None:
            sure = np.full(lanes.size, phase + 1)
        for count in np.unique(sure).tolist():
            some = lanes[sure == count]
            snapshot = self.done[barrier.number].get(count)
            if snapshot is not None:
                self.clocks.acquire(some, snapshot)
            self.clocks.learn(some, column, count)
            if barrier.number in self.shadow.copied:
                self.clocks.learn(some, self.shadow.copied[barrier.number], count)

    # -- asynchronous agents --

    def fence(self, lanes: Array) -> None:
        """What the threads did before is fenced."""
        self.clocks.fence(lanes)

    def land(self, region: Region, barrier: Mbarrier) -> None:
        """The write belongs to the barrier's current phase."""
        cells = self.shadow.chunks(region.address)
        lane = int(region.lanes[0])
        ids = np.full(cells.size, (region.site << SITE_SHIFT) + lane, np.int64)
        known = Known(self.clocks.known[lane], None)
        self.shadow.after_writes(cells, ids, known, read=False)
        self.shadow.fenced(cells, ids, self.clocks.fenced[lane])
        self.shadow.after_reads(cells, ids, known)
        self.shadow.after_strong(cells, ids, known, writes=True)
        column, _ = self.barriers[barrier.number]
        self.shadow.become(cells, ids, barrier.phase + 1, column)
        pending = self.pending.get(barrier.number)
        self.pending[barrier.number] = merge(pending, self._phases(np.array([lane])))
        self.landing[barrier.number] = (barrier, barrier.phase + 1, region.site, lane)

    def _phases(self, lanes: Array) -> Snapshot:
        """The phases that threads know to be over: when what they issue lands, they are.

        Of what threads did, a landing says nothing.
        """
        own = [column for column, _ in self.barriers.values()]
        columns = np.array([*own, *self.shadow.copied.values()])
        known = np.zeros(self.clocks.known.shape[1], np.int32)
        known[columns] = self.clocks.known[np.ix_(lanes, columns)].max(axis=0)
        return Snapshot(known, np.zeros(self.clocks.lanes, np.int32))

    def fetch(self, region: Region, agent: Agent, time: int) -> Array | None:
        """Check against the last writer; remember the read as the agent's."""
        row, _ = self.shadow.agent(agent)
        if agent.kind == "wgmma":
            self.waits.issue(agent.number, time)
        return self._fetch(region, row, time)

    def fetch_until(self, region: Region, barrier: Mbarrier) -> Array | None:
        """The same: the read is the mbarrier's, at its current phase."""
        column, _ = self.barriers[barrier.number]
        row, _ = self.shadow.agent(Agent("mbarrier", barrier.number), column)
        return self._fetch(region, row, barrier.phase + 1)

    def _fetch(self, region: Region, row: int, time: int) -> Array | None:
        cells = self.shadow.chunks(region.address)
        ids = np.full(cells.size, (region.site << SITE_SHIFT) + int(region.lanes[0]), np.int64)
        least, fenced = self.clocks.least(region.lanes)
        poison = self.shadow.after_writes(cells, ids, Known(least, None), read=True)
        self.shadow.after_strong(cells, ids, Known(least, None), writes=False)
        self.shadow.fenced(cells, ids, fenced)
        self.shadow.read(row, cells, time, ids)
        if poison is None:
            return None
        return np.asarray(poison.reshape(region.address.size, -1).any(axis=1))

    def settle(self, agent: Agent, lanes: Array, time: int) -> None:
        """The threads know the agent's reads."""
        if agent.kind == "wgmma":
            self.waits.settle(agent.number, time)
        self.clocks.learn(lanes, self.shadow.agent(agent)[1], time)

    # -- clusters --

    def reach(self, lanes: Array, blocks: Array, site: int) -> None:
        """The other block must have begun, and at the end it must still be there."""
        for block in np.unique(blocks).tolist():
            here = lanes[blocks == block]
            part = slice(block * self.threads, (block + 1) * self.threads)
            early = here[~self.clocks.known[here, part].any(axis=1)]
            if early.size:
                self.collector.add(
                    "remote-before-start",
                    "an access to another block of the cluster, which may not have begun",
                    site,
                    int(early[0]),
                    count=int(early.size),
                )
            for lane in here.tolist():
                self.remote[lane, block] = (self.clocks.now, site)

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

    # -- order, for races in global memory --

    @property
    def now(self) -> int:
        """See `globalraces.Order`."""
        return self.clocks.now

    def ordered(self, lanes: Array, others: Array, times: Array) -> Array:
        """See `globalraces.Order`."""
        result: Array = self.clocks.known[lanes, others] >= times
        return result

    # -- the end --

    def finish(self) -> None:
        """No block may end while others still reach into it, or copies into it are on the way."""
        for barrier, phase, site, lane in self.landing.values():
            column, _ = self.barriers[barrier.number]
            if int(self._block_known(barrier.block)[column]) < phase:
                self.collector.add(
                    "exit-in-flight",
                    "the block whose shared memory this copy writes ends with nobody having "
                    "waited for it",
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
