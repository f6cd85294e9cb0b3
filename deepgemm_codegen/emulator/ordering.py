"""Races in kernels with asynchronous copies, mbarriers and wgmma: vector clocks for each cell.

An access must know all earlier ones that conflict with it (:mod:`shadow` remembers them), in the
sense of :mod:`clocks`:

- An ordinary access is an event of its thread at the current time.
- A bulk load's write is an event of its mbarrier, at the phase that its bytes count in: whoever
  waited for that phase knows it (:mod:`phases`). It must be ordered after conflicting accesses when
  it is issued.
- A cp.async that arrives at an mbarrier is one likewise (:mod:`handed`).
- A read by wgmma or by a bulk store is an event of the warpgroup's or the thread's agent, at the
  number of its group: whoever waited for that group knows it. It must be ordered after the write
  when it is issued, and after a proxy fence by the writer where that was an ordinary write.

So an asynchronous access owns its bytes from issue to completion, whenever the emulator moves
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.cells import Copy, by_access, cells_of
from deepgemm_codegen.emulator.clusters import Clusters
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
from deepgemm_codegen.emulator.phases import Phases
from deepgemm_codegen.emulator.shadow import (
    BARRIER,
    COPYING,
    FLIGHT_WRITE,
    TWO_WRITES,
    Known,
    Shadow,
)

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.shared import SharedMemory

__all__ = ["OrderListener"]

Array = np.ndarray[Any, np.dtype[Any]]


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
        self.shadow = Shadow(shared, cell, blocks, blocks * threads, collector)
        self.clocks = self.shadow.clocks
        self.locations = Locations(self.clocks, threads)
        self.names = NamedBarriers(self.clocks, collector)
        self.phases = Phases(self.shadow, threads, collector)
        self.clusters = Clusters(self.clocks, threads, collector)

    # -- ordinary accesses --

    def read(self, access: Access) -> Array | None:
        """Check against the last writer; remember the read."""
        cells, ids, per = cells_of(access, self.shadow.shift)
        lanes = ids & LANE_MASK
        known = Known(self.clocks.known, lanes)
        poison = self.shadow.after_writes(cells, ids, known, read=True)
        self.shadow.after_strong(cells, ids, known, writes=False)
        self.shadow.read(lanes >> 5, cells, self.clocks.now, ids)
        return by_access(poison, per)

    def write(self, access: Access) -> None:
        """Check against the last writer and the readers; become the writer."""
        cells, ids, _ = cells_of(access, self.shadow.shift)
        lanes = ids & LANE_MASK
        known = Known(self.clocks.known, lanes)
        self.shadow.after_all(cells, ids, known)
        self.shadow.become(cells, ids, self.clocks.now, lanes)
        lost = np.flatnonzero(self.shadow.ids[cells] != ids)
        if lost.size:
            # Two accesses of this very batch hit one cell, and the later one won.
            other = self.shadow.ids[cells[lost]]
            differs = ((other ^ ids[lost]) & LANE_MASK) != 0
            if differs.any():
                self.shadow.report(TWO_WRITES, cells, ids, lost[differs], other[differs])

    def strong(self, access: Access, *, reads: bool, writes: bool) -> Array | None:
        """Check against ordinary accesses only; remember it beside them."""
        cells, ids, per = cells_of(access, self.shadow.shift)
        known = Known(self.clocks.known, ids & LANE_MASK)
        if not reads:
            self.shadow.begin(cells)
        poison = self.shadow.after_writes(cells, ids, known, read=True, strong=True)
        if writes:
            self.shadow.after_reads(cells, ids, known, strong=True)
        self.shadow.note_strong(cells, ids, self.clocks.now, writes=writes)
        return by_access(poison, per)

    def synchronise(self, what: Strong) -> None:
        """See `Locations`."""
        self.locations.access(what)

    def fence_memory(self, lanes: Array, order: Order) -> None:
        """See `Locations`."""
        self.locations.fence(lanes, order)

    def issue(self, access: Access) -> object:
        """A cp.async conflicts from now on; its cells are in flight."""
        copy = cells_of(access, self.shadow.shift)
        cells, ids, _ = copy
        self.shadow.after_all(cells, ids, Known(self.clocks.known, ids & LANE_MASK))
        self.shadow.become(cells, ids, COPYING, -1)
        lost = np.flatnonzero(self.shadow.ids[cells] != ids)
        if lost.size:
            self.shadow.report(FLIGHT_WRITE, cells, ids, lost, self.shadow.ids[cells[lost]])
        return copy

    def complete(self, token: object, where: Array | None) -> None:
        """The threads that issued a cp.async wrote just now."""
        if not isinstance(token, Copy):
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

    # -- mbarriers, see `Phases` --

    def initialise(self, barrier: Mbarrier) -> None:
        """From now on the bytes are the barrier's."""
        self.phases.make(barrier)
        first = (barrier.block * self.shadow.stride + barrier.address) >> self.shadow.shift
        cells = np.arange(first, first + max(1, 8 >> self.shadow.shift))
        ids = np.full(cells.size, (barrier.site << SITE_SHIFT) + barrier.lane, np.int64)
        if not (self.shadow.time[cells] == BARRIER).all():
            self.shadow.after_all(cells, ids, Known(self.clocks.known, ids & LANE_MASK))
        self.shadow.become(cells, ids, BARRIER, -1)

    def use(self, barrier: Mbarrier, lanes: Array, site: int, verb: str) -> None:
        """The initialisation must be known."""
        self.phases.use(barrier, lanes, site, verb)

    def arrive(self, barrier: Mbarrier, lanes: Array, site: int) -> None:
        """The phase gets what the threads know; a remote arrival is checked again at the end."""
        self.clusters.remember(lanes[lanes // self.threads != barrier.block], barrier.block, site)
        self.phases.arrive(barrier, lanes, site)

    def attach(self, barrier: Mbarrier, lanes: Array, *, expected: bool) -> None:
        """The phase gets what the threads' copies say by landing."""
        self.phases.attach(barrier, lanes, expected=expected)

    def hand(
        self, token: object, where: Array | None, barrier: Mbarrier, *, expected: bool
    ) -> None:
        """See `HandedCopies`."""
        if isinstance(token, Copy):
            self.phases.handed.hand(*token.part(where), barrier, expected=expected)

    def phase(self, barrier: Mbarrier) -> None:
        """What was released in it is there to be acquired."""
        self.phases.end(barrier)

    def doubts(self, barrier: Mbarrier, lanes: Array) -> Array | None:
        """Those that nothing tells of the last phase's end."""
        return self.phases.doubts(barrier, lanes)

    def observe(
        self, barrier: Mbarrier, lanes: Array, parity: int, phase: int | None, site: int
    ) -> None:
        """The threads acquire what the phase released that let them pass."""
        self.phases.observe(barrier, lanes, parity, phase, site)

    # -- asynchronous agents --

    def fence(self, lanes: Array) -> None:
        """What the threads did before is fenced."""
        self.clocks.fence(lanes)

    def land(self, region: Region, barrier: Mbarrier) -> None:
        """The write belongs to the barrier's current phase."""
        cells = self.shadow.chunks(region)
        lane = int(region.lanes[0])
        ids = np.full(cells.size, (region.site << SITE_SHIFT) + lane, np.int64)
        known = Known(self.clocks.known[lane], None)
        self.shadow.after_writes(cells, ids, known, read=False)
        if region.proxied:
            self.shadow.fenced(cells, ids, self.clocks.fenced[lane])
        self.shadow.after_reads(cells, ids, known)
        self.shadow.after_strong(cells, ids, known, writes=True)
        self.shadow.become(cells, ids, barrier.phase + 1, self.phases.column(barrier))
        self.phases.land(barrier, lane, region.site)

    def fetch(self, region: Region, agent: Agent, time: int) -> Array | None:
        """Check against the last writer; remember the read as the agent's."""
        row, _ = self.shadow.agent(agent)
        if agent.kind == "wgmma":
            self.phases.waits.issue(agent.number, time)
        return self._fetch(region, row, time)

    def fetch_until(self, region: Region, barrier: Mbarrier) -> Array | None:
        """The same: the read is the mbarrier's, at its current phase."""
        agent = Agent("mbarrier", barrier.number)
        row, _ = self.shadow.agent(agent, self.phases.column(barrier))
        return self._fetch(region, row, barrier.phase + 1)

    def _fetch(self, region: Region, row: int, time: int) -> Array | None:
        cells = self.shadow.chunks(region)
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
            self.phases.waits.settle(agent.number, time)
        known = self.shadow.agents.get(agent)
        if known is not None:  # else it read nothing yet; every thread waits for its own stores
            self.clocks.learn(lanes, known[1], time)

    # -- clusters, see `Clusters` --

    def reach(self, lanes: Array, blocks: Array, site: int) -> None:
        """The other block must have begun, and at the end it must still be there."""
        self.clusters.reach(lanes, blocks, site)

    def cluster_arrive(self, cluster: int, lanes: Array, *, release: bool) -> None:
        """What a relaxed arrival does not release, nobody learns."""
        self.clusters.arrive(cluster, lanes, release=release)

    def cluster_complete(self, cluster: int) -> None:
        """What was released is there to be acquired."""
        self.clusters.complete(cluster)

    def cluster_wait(self, cluster: int, lanes: Array) -> None:
        """The threads acquire it."""
        self.clusters.wait(cluster, lanes)

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
        self.phases.finish()
        self.clusters.finish()
