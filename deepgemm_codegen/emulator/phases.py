"""Order that threads make through mbarriers, for :mod:`ordering`.

An arrival releases what its threads know, and the phase that it counts in keeps that. Whoever finds
the phase complete acquires it, with what the phases before it kept. In the clocks an mbarrier is a
column, whose time is its number of complete phases: the bytes of a bulk copy land at a phase, and
are known to those who know of the phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot, merge
from deepgemm_codegen.emulator.handed import HandedCopies
from deepgemm_codegen.emulator.waits import Waits

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.shadow import Shadow

__all__ = ["Phases"]

Array = np.ndarray[Any, np.dtype[Any]]

KEPT_PHASES = 4
"""Complete phases of an mbarrier whose releases are kept for those who wait for an old one."""


class Phases:
    """The mbarriers of one batch, and what passes through them.

    Args:
        shadow: of the batch, whose clocks hold the columns.
        threads: of a block.
        collector: where findings go.

    Attributes:
        handed: copies by cp.async that arrive at mbarriers.
        waits: the waits of threads, and the groups of wgmma that order them.
    """

    def __init__(self, shadow: Shadow, threads: int, collector: Collector) -> None:
        self.shadow, self.clocks = shadow, shadow.clocks
        self.threads, self.collector = threads, collector
        self.handed = HandedCopies(shadow)
        self.waits = Waits(shadow.clocks, threads, collector)
        # All by the mbarrier's number.
        self._made: dict[int, tuple[int, int]] = {}  # column and time of initialisation
        self._pending: dict[int, Snapshot] = {}  # released in the current phase
        self._done: dict[int, dict[int, Snapshot]] = {}  # by complete phase, those before included
        self._arrived: dict[int, tuple[int, int]] = {}  # site and thread of the last arrival
        # The last bulk copy: its phase, site and thread.
        self._landing: dict[int, tuple[Mbarrier, int, int, int]] = {}

    def make(self, barrier: Mbarrier) -> None:
        """An mbarrier is initialised: it gets a column, also where it had one."""
        column = self.clocks.column()
        self._made[barrier.number] = (column, self.clocks.now)
        self.shadow.phases[column] = 0

    def column(self, barrier: Mbarrier) -> int:
        """Its column of the clocks."""
        return self._made[barrier.number][0]

    def use(self, barrier: Mbarrier, lanes: Array, site: int, verb: str) -> None:
        """The initialisation must be known."""
        _, time = self._made[barrier.number]
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
        """The phase gets what the threads know."""
        self.handed.let_go(barrier, lanes)
        self._keep(barrier, self.clocks.release(lanes))
        self._arrived[barrier.number] = (site, int(lanes[0]))

    def attach(self, barrier: Mbarrier, lanes: Array, *, expected: bool) -> None:
        """The system's arrival says that the phases which the threads knew to be over are."""
        self.handed.attach(barrier, lanes)
        if expected:
            self._keep(barrier, self._phases(lanes))

    def land(self, barrier: Mbarrier, lane: int, site: int) -> None:
        """A thread's bulk copy is complete with the current phase, and says the same."""
        self._keep(barrier, self._phases(np.array([lane])))
        self._landing[barrier.number] = (barrier, barrier.phase + 1, site, lane)

    def end(self, barrier: Mbarrier) -> None:
        """What was released is there to be acquired, and the phase's bytes have landed."""
        number = barrier.number
        self.shadow.phases[self.column(barrier)] = barrier.phase
        came = self.handed.phase(barrier)
        snapshots = self._done.setdefault(number, {})
        before, snapshot = snapshots.get(barrier.phase - 1), self._pending.pop(number, None)
        after = before if snapshot is None else merge(before, snapshot)
        if after is not None:
            snapshots[barrier.phase] = after
        sooner = after if came is None else merge(after, came)
        self.waits.end_phase(barrier, sooner, self._arrived.get(number))
        snapshots.pop(barrier.phase - KEPT_PHASES, None)

    def doubts(self, barrier: Mbarrier, lanes: Array) -> Array | None:
        """Those that neither waited for it nor know of all its arrivals."""
        unsure = np.asarray(self.clocks.known[lanes, self.column(barrier)] < barrier.phase)
        snapshot = self._done.get(barrier.number, {}).get(barrier.phase)
        if not unsure.any():
            return None
        unseen = barrier.number in self._landing or barrier.number in self.shadow.copied
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
        column = self.column(barrier)
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
            snapshot = self._done[barrier.number].get(count)
            if snapshot is not None:
                self.clocks.acquire(some, snapshot)
            self.clocks.learn(some, column, count)
            if barrier.number in self.shadow.copied:
                self.clocks.learn(some, self.shadow.copied[barrier.number], count)

    def finish(self) -> None:
        """No block may end while copies into it are on the way."""
        for barrier, phase, site, lane in self._landing.values():
            block = slice(barrier.block * self.threads, (barrier.block + 1) * self.threads)
            if int(self.clocks.known[block, self.column(barrier)].max()) < phase:
                self.collector.add(
                    "exit-in-flight",
                    "the block whose shared memory this copy writes ends with nobody having "
                    "waited for it",
                    site,
                    lane,
                    address=barrier.address,
                )

    def _keep(self, barrier: Mbarrier, released: Snapshot) -> None:
        """The current phase keeps what was released in it."""
        self._pending[barrier.number] = merge(self._pending.get(barrier.number), released)

    def _phases(self, lanes: Array) -> Snapshot:
        """The phases that threads know to be over: when what they issue lands, they are.

        Of what threads did, a landing says nothing.
        """
        own = [column for column, _ in self._made.values()]
        columns = np.array([*own, *self.shadow.copied.values()])
        known = np.zeros(self.clocks.known.shape[1], np.int32)
        known[columns] = self.clocks.known[np.ix_(lanes, columns)].max(axis=0)
        return Snapshot(known, np.zeros(self.clocks.lanes, np.int32))
