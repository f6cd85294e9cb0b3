"""What asynchronous instructions keep between each other: mbarriers, groups, sleepers, clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import Agent
from deepgemm_codegen.emulator.windows import CLUSTER_SHIFT, OFFSET_MASK

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.shared import SharedMemory
    from deepgemm_codegen.emulator.warpgroup import Warpgroup

__all__ = ["AsyncState", "Bulk"]

Array = np.ndarray[Any, np.dtype[Any]]

PATIENCE = 3
"""Tries in vain after which a waiting thread counts as stuck, when nobody else can go on."""


@dataclass(slots=True)
class Bulk:
    """Bulk copies of one thread: groups committed, stores of each group not waited for."""

    committed: int = 0
    stores: list[tuple[int, int]] = field(default_factory=list)  # group, instruction


class AsyncState:
    """The state of one batch.

    Args:
        blocks, threads: of the batch; lanes are block * threads + thread.
        cluster: blocks of a cluster; clusters follow each other, each in order of rank.

    Attributes:
        mbarriers: by block and byte offset in its window.
        asleep: bool a lane: its last wait on an mbarrier failed.
        sleeping: whether any lane is asleep.
        tries: waits that failed in a row, a lane.
        recheck: whether a barrier may have completed behind the machine's back.
        arrived: arrivals at the cluster's barrier, a lane; completed: its phases, a cluster.
        warpgroups: by first lane; hot: those with accumulators in flight.
        checked: basic blocks checked already against accumulators in flight.
    """

    def __init__(self, blocks: int, threads: int, cluster: int) -> None:
        lanes = blocks * threads
        self.blocks, self.threads, self.cluster = blocks, threads, cluster
        self.mbarriers: dict[tuple[int, int], Mbarrier] = {}
        self.made = 0
        self.asleep = np.zeros(lanes, bool)
        self.sleeping = False
        self.tries = np.zeros(lanes, np.int64)
        self.wait_barrier: Array = np.full(lanes, -1, np.int64)
        self.wait_parity: Array = np.zeros(lanes, np.int64)
        self.wait_site: Array = np.zeros(lanes, np.int64)
        self.recheck = False
        self.arrived = np.zeros(lanes, np.int64)
        self.completed = np.zeros(-(-blocks // cluster), np.int64)
        self.bulk: dict[int, Bulk] = {}
        self.warpgroups: dict[int, Warpgroup] = {}
        self.hot: dict[int, Warpgroup] = {}
        self.checked: set[tuple[Any, ...]] = set()

    # -- places --

    def owner(self, lane: int, address: int) -> tuple[int, int]:
        """Block and byte offset that a shared::cluster address means to a lane; block -1: none."""
        block = lane // self.threads
        rank = (address >> CLUSTER_SHIFT) - 1
        if rank < 0:
            return block, address
        if rank >= self.cluster:
            return -1, address
        return block // self.cluster * self.cluster + rank, address & OFFSET_MASK

    def owners(self, lanes: Array, address: Array) -> tuple[Array, Array]:
        """The same for many lanes (int64 addresses): blocks, -1 for none, and byte offsets."""
        rank = (address >> CLUSTER_SHIFT) - 1
        block = lanes // self.threads
        far = block // self.cluster * self.cluster + rank
        owner = np.where(rank < 0, block, np.where(rank < self.cluster, far, -1))
        return owner, np.where(rank < 0, address, address & OFFSET_MASK)

    def cluster_lanes(self, cluster: int) -> slice:
        """The lanes of a cluster's blocks."""
        size = self.cluster * self.threads
        return slice(cluster * size, (cluster + 1) * size)

    # -- sleepers --

    def sleep(self, lanes: Array, barrier: int, parity: int, site: int) -> None:
        """These lanes found a phase incomplete."""
        self.asleep[lanes] = True
        self.sleeping = True
        self.tries[lanes] += 1
        self.wait_barrier[lanes] = barrier
        self.wait_parity[lanes] = parity
        self.wait_site[lanes] = site

    def wake(self, barrier: int) -> None:
        """A phase of this mbarrier completed."""
        if self.sleeping:
            which = self.asleep & (self.wait_barrier == barrier)
            self.asleep[which] = False
            self.tries[which] = 0
            self.sleeping = bool(self.asleep.any())

    def rouse(self, mask: Array) -> None:
        """These lanes run now."""
        self.asleep[mask] = False
        self.sleeping = bool(self.asleep.any())

    def awake(self, runnable: Array) -> Array:
        """Which of the lanes that could run should: sleepers only when nobody else can.

        A warp with a sleeper is held as a whole, as a GPU's would wait for it to reconverge.
        """
        asleep = self.asleep & runnable
        up = runnable & ~asleep
        held = np.repeat(asleep.reshape(-1, 32).any(axis=1), 32)
        first = up & ~held
        if first.any():
            return first
        if up.any():
            return up
        result: Array = asleep & (self.tries < PATIENCE)
        return result

    # -- clusters --

    def complete_clusters(self, alive: Array, shared: SharedMemory) -> None:
        """Complete the barrier of each cluster whose live lanes have all arrived."""
        for cluster in range(self.completed.size):
            part = self.cluster_lanes(cluster)
            live = alive[part]
            if live.any() and (self.arrived[part][live] > self.completed[cluster]).all():
                self.completed[cluster] += 1
                for listener in shared.listeners:
                    listener.cluster_complete(cluster)

    # -- bulk stores --

    def bulk_of(self, lane: int) -> Bulk:
        """The bulk copies of a lane."""
        return self.bulk.setdefault(lane, Bulk())

    def settle_bulk(self, lane: int, allowed: int, shared: SharedMemory) -> int:
        """The lane waits until at most ``allowed`` groups read shared memory.

        Returns:
            The newest group that does not.
        """
        bulk = self.bulk_of(lane)
        done = bulk.committed - allowed
        bulk.stores = [s for s in bulk.stores if s[0] > done]
        for listener in shared.listeners:
            listener.settle(Agent("bulk", lane), np.array([lane]), done)
        return done
