"""Who waits at which barrier of a block, warp or cluster, and who may go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.lexer import whole_number
from deepgemm_codegen.emulator.nodes import Immediate

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.nodes import Operand

__all__ = ["BARRIERS", "CLUSTER", "GOING", "GROUP", "WARP", "BarrierForm", "Barriers", "Vote"]

Array = np.ndarray[Any, np.dtype[Any]]

# What a lane waits at, beside the block's barriers by number: nothing, a warp's barrier, a
# cluster's, the rest of its warpgroup.
GOING, WARP, CLUSTER, GROUP = -1, -2, -3, -4
BARRIERS = 16  # of a block


@dataclass(frozen=True, slots=True)
class Vote:
    """What a barrier with a reduction computes.

    Attributes:
        operation: ``popc``, ``and`` or ``or``.
        predicate: row of what each thread contributes; negated inverts it.
        bank, row: where the result goes.
    """

    operation: str
    predicate: int
    negated: bool
    bank: str
    row: int


@dataclass(frozen=True, slots=True)
class BarrierForm:
    """One barrier instruction of a block.

    Attributes:
        number: which barrier.
        count: how many threads complete it; None for all of the block.
        arrives: whether the threads go on at once.
        aligned: whether whole warps execute it together.
        vote: a reduction, or None.
    """

    number: Operand
    count: Operand | None = None
    arrives: bool = False
    aligned: bool = True
    vote: Vote | None = None

    @property
    def simple(self) -> bool:
        """Whether it is nothing but a meeting of the whole block, at a barrier known beforehand."""
        return self.count is None and self.vote is None and isinstance(self.number, Immediate)


@dataclass(slots=True)
class _Arrivals:
    """Threads that arrived at a barrier and went on.

    Attributes:
        count: how many.
        expected: how many threads complete the barrier.
        lane, site: the last of them, and where.
    """

    count: int = 0
    expected: int = 0
    lane: int = 0
    site: int = 0


class Barriers:
    """The barriers of one batch.

    Attributes:
        waiting: int64 a lane: what it waits at.
        site: int64 a lane: the instruction where it waits.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        lanes = context.lanes
        self.waiting = np.full(lanes, GOING, np.int64)
        self.site = np.zeros(lanes, np.int64)
        self._expected = np.zeros(lanes, np.int64)
        self._member = np.zeros(lanes, np.int64)
        self._held = np.zeros(lanes, bool)
        self._arrivals: dict[tuple[int, int], _Arrivals] = {}

    # -- coming --

    def enter(self, form: BarrierForm, site: int, mask: Array) -> None:
        """Lanes reach a barrier of their block."""
        numbers = self.operand(form.number)[mask]
        counts = np.zeros(numbers.size, np.int64)
        if form.count is not None:
            counts = self.operand(form.count)[mask]
        if form.aligned:
            self.check_whole_warps(site, mask)
        self._check_numbers(numbers, counts, site, mask)
        numbers = numbers % BARRIERS
        if form.arrives:
            self._arrive(np.flatnonzero(mask), numbers, counts, site)
            return
        if form.vote is not None:
            predicate = self.context.banks["p"][form.vote.predicate][mask]
            self._held[mask] = ~predicate if form.vote.negated else predicate
        self.waiting[mask] = numbers
        self._expected[mask] = counts
        self.site[mask] = site

    def _check_numbers(self, numbers: Array, counts: Array, site: int, mask: Array) -> None:
        """A block has 16 barriers, and whole warps complete one."""
        fault = ""
        if (numbers >= BARRIERS).any():
            fault = f"barrier {int(numbers.max())} of a block that has {BARRIERS}"
        elif (counts % 32).any():
            fault = f"{int(counts[counts % 32 > 0][0])} threads: no whole number of warps"
        if fault:
            lane = int(np.flatnonzero(mask)[0])
            self.context.collector.add("bad-barrier", fault, site, lane)

    def _arrive(self, lanes: Array, numbers: Array, counts: Array, site: int) -> None:
        keys = (lanes // self.context.threads << 8) + numbers
        for key in np.unique(keys).tolist():
            here = lanes[keys == key]
            block, number = key >> 8, key & 0xFF
            entry = self._arrivals.setdefault((block, number), _Arrivals())
            entry.count += here.size
            entry.expected = int(counts[keys == key][0])
            entry.lane, entry.site = int(here[0]), site
            if entry.count >= entry.expected:  # a GPU's barrier is complete, and orders nothing
                self.context.collector.add(
                    "divergent-barrier",
                    f"{entry.count} arrivals at barrier {number}, which {entry.expected} threads"
                    " complete: none is left to wait there",
                    site,
                    entry.lane,
                )
            for listener in self.context.shared.listeners:
                listener.arrive_named(block, number, here, site)

    def enter_warp(self, members: Array, site: int, mask: Array) -> None:
        """Lanes reach a barrier of their warp; each names its members in a mask."""
        self.waiting[mask] = WARP
        self._member[mask] = members[mask] if members.size > 1 else members[0]
        self.site[mask] = site
        lanes = np.flatnonzero(mask)
        outside = lanes[(self._member[lanes] >> (lanes % 32)) & 1 == 0]
        if outside.size:
            self.context.collector.add(
                "divergent-barrier",
                "a barrier of a warp by a thread that its member mask leaves out",
                site,
                int(outside[0]),
                count=int(outside.size),
            )
            self.waiting[outside] = GOING  # nobody waits for it

    def enter_cluster(self, site: int, mask: Array, *, aligned: bool) -> None:
        """Lanes wait for their cluster."""
        if aligned:
            self.check_whole_warps(site, mask)
        self.waiting[mask] = CLUSTER
        self.site[mask] = site

    def operand(self, operand: Any) -> Array:
        """Value of a register or a constant, one a lane."""
        register = self.context.translation.program.registers.get(operand.text)
        if register is not None:
            value: Array = self.context.banks[register.bank][register.row].astype(np.int64)
            return value
        constant = whole_number(operand.text) & 0xFFFFFFFF
        return np.full(self.context.lanes, constant, np.int64)

    def check_whole_warps(self, site: int, mask: Array) -> None:
        """An aligned instruction: a warp's live threads execute it together."""
        warps = mask.reshape(-1, 32)
        partial = warps.any(axis=1) & (warps != self.context.alive.reshape(-1, 32)).any(axis=1)
        if partial.any():
            warp = int(np.flatnonzero(partial)[0])
            lane = warp * 32 + int(np.flatnonzero(warps[warp])[0])
            self.context.collector.add(
                "divergent-barrier",
                "a barrier that only a part of a warp's live threads reached",
                site,
                lane,
                count=int(partial.sum()),
            )

    def finish(self) -> None:
        """The blocks end: who arrived somewhere was waited for."""
        for (_, number), left in self._arrivals.items():
            self.context.collector.add(
                "divergent-barrier",
                f"the block ends with nobody having waited at barrier {number}, where {left.count}"
                " threads arrived",
                left.site,
                left.lane,
            )

    # -- going --

    def release(self) -> None:
        """Let go all lanes whose barrier is complete."""
        if (self.waiting == GOING).all():
            return
        self._release_clusters()
        self._release_blocks()
        self._release_warps()

    def _release_blocks(self) -> None:
        context = self.context
        shape = (context.blocks, context.threads)
        waiting, alive = self.waiting.reshape(shape), context.alive.reshape(shape)
        for block in range(context.blocks):
            here = waiting[block]
            for number in np.unique(here[(here >= 0) & alive[block]]).tolist():
                members = np.flatnonzero((here == number) & alive[block])
                lanes = members + block * context.threads
                arrived = self._arrivals.get((block, number), _Arrivals())
                expected = max(int(self._expected[lanes].max()), arrived.expected)
                total = members.size + arrived.count
                if total < (expected or int(np.count_nonzero(alive[block]))):
                    continue
                self._complete(block, number, lanes, total, expected)

    def _complete(self, block: int, number: int, lanes: Array, total: int, expected: int) -> None:
        """A barrier of a block is complete: check who met, and let them go."""
        add = self.context.collector.add
        sites = np.unique(self.site[lanes])
        first = int(sites[0])
        if sites.size > 1 and not expected:
            add(
                "divergent-barrier",
                "threads of one block meet at different barrier instructions",
                first,
                int(lanes[0]),
                other=(int(sites[1]), int(lanes[self.site[lanes] == sites[1]][0])),
            )
        if expected and total > expected:
            add(
                "divergent-barrier",
                f"{total} threads at once at barrier {number}, which {expected} complete",
                first,
                int(lanes[0]),
            )
        self.waiting[lanes] = GOING
        self._arrivals.pop((block, number), None)
        for listener in self.context.shared.listeners:
            if expected:
                listener.named(block, number, lanes, first)
            else:
                listener.barrier(np.array([block]))
        self._vote(lanes, sites)

    def _vote(self, lanes: Array, sites: Array) -> None:
        """Deliver the results of a barrier with a reduction."""
        held = self._held[lanes]
        values = {"popc": held.sum(), "and": held.all(), "or": held.any()}
        for site in sites.tolist():
            form = self.context.translation.forms[site]
            if form.vote is not None:
                row = self.context.banks[form.vote.bank][form.vote.row]
                row[lanes[self.site[lanes] == site]] = values[form.vote.operation]

    def _release_warps(self) -> None:
        at = (self.waiting == WARP) & self.context.alive
        if not at.any():
            return
        groups = at.reshape(-1, 32)
        alive = self.context.alive.reshape(-1, 32)
        member = self._member.reshape(-1, 32)
        bits = np.arange(32)
        for warp in np.flatnonzero(groups.any(axis=1)).tolist():
            for mask in np.unique(member[warp][groups[warp]]).tolist():
                named = ((mask >> bits) & 1).astype(bool) & alive[warp]
                here = groups[warp] & (member[warp] == mask)
                if (here >= named).all():
                    lanes = np.flatnonzero(here) + warp * 32
                    self.waiting[lanes] = GOING
                    for listener in self.context.shared.listeners:
                        listener.meet(lanes[None, :])

    def _release_clusters(self) -> None:
        state = self.context.state
        state.complete_clusters(self.context.alive, self.context.shared)
        at = (self.waiting == CLUSTER) & self.context.alive
        if not at.any():
            return
        for cluster, phase in enumerate(state.completed.tolist()):
            part = state.cluster_lanes(cluster)
            lanes = np.flatnonzero(at[part] & (state.arrived[part] <= phase)) + part.start
            if lanes.size:
                self.waiting[lanes] = GOING
                for listener in self.context.shared.listeners:
                    listener.cluster_wait(cluster, lanes)
