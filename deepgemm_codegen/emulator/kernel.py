"""The public face: a kernel translated once, a launch, a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from deepgemm_codegen.emulator import instructions
from deepgemm_codegen.emulator.context import Context
from deepgemm_codegen.emulator.costs import CostListener, GlobalCost, SharedCost
from deepgemm_codegen.emulator.dependent import EarlyAccesses
from deepgemm_codegen.emulator.ending import finish
from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.findings import Actor, Collector, Finding, Place, StopEmulation
from deepgemm_codegen.emulator.generations import arithmetic as find_arithmetic
from deepgemm_codegen.emulator.globalraces import GlobalRaces
from deepgemm_codegen.emulator.instructions.approximate import Tolerance, tolerance
from deepgemm_codegen.emulator.joins import joins_of
from deepgemm_codegen.emulator.machine import Machine
from deepgemm_codegen.emulator.memory import GlobalBuffer, GlobalMemory, Pointer
from deepgemm_codegen.emulator.ordering import OrderListener
from deepgemm_codegen.emulator.parameters import pack
from deepgemm_codegen.emulator.program import link
from deepgemm_codegen.emulator.races import RaceListener
from deepgemm_codegen.emulator.shared import SharedMemory
from deepgemm_codegen.emulator.tensormap import TensorMap
from deepgemm_codegen.emulator.translate import translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.emulator.nodes import Module

__all__ = ["Checks", "Kernel", "Launch", "Report", "Statistics", "run"]

Dim3 = tuple[int, int, int]
Parameter = int | float | bytes | np.generic | GlobalBuffer | Pointer | TensorMap

instructions.load()


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched.

    Attributes:
        grid: blocks in x, y, z: the real grid, also where only some blocks run.
        block: threads in x, y, z.
        shared_bytes: dynamic shared memory.
        params: one for each kernel parameter, in order: integers, floats, buffers or pointers
            into them, tensor maps, bytes for a structure.
        cluster: blocks of a cluster in x, y, z; None for what the kernel was compiled for.
        dependent: whether the kernel before may still run (programmatic dependent launch): no
            thread may touch global memory before its ``griddepcontrol.wait``.
    """

    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
    params: Sequence[Parameter] = ()
    cluster: Dim3 | None = None
    dependent: bool = False


@dataclass(frozen=True, slots=True)
class Checks:
    """What is checked. Bounds, alignment, barriers and deadlock always are.

    Attributes:
        races: races in shared and global memory; uninitialised reads and bytes in flight in
            shared memory.
        costs: bank conflicts and global sectors by instruction, in the report's statistics.
        step_limit: basic blocks after which a batch of thread blocks counts as endless.
        lanes: threads to run at once; more blocks are batched up to it.
    """

    races: bool = True
    costs: bool = False
    step_limit: int = 5_000_000
    lanes: int = 512


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a run did.

    Attributes:
        blocks: thread blocks run to their end.
        instructions: warp instructions (32 lanes are one).
        steps: basic blocks that the longest batch of thread blocks took (``Checks.step_limit``).
        shared_costs, global_costs: by instruction, where ``Checks.costs`` asked for them.
    """

    blocks: int = 0
    instructions: int = 0
    steps: int = 0
    shared_costs: tuple[SharedCost, ...] = ()
    global_costs: tuple[GlobalCost, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run; no findings is a pass."""

    findings: tuple[Finding, ...]
    statistics: Statistics = field(default_factory=Statistics)

    def __str__(self) -> str:
        if not self.findings:
            return "no findings"
        return "\n".join(map(str, self.findings))


class Kernel:
    """A kernel of a module, translated to Python once.

    Args:
        module: from ``parse``.
        entry: the kernel's name.
        arithmetic: whose tensor cores to imitate, ``sm_80``; independent of ``.target``.

    Raises:
        LaunchError: no such entry, or no arithmetic known for that architecture.
        UnsupportedError: an instruction with no semantics.
    """

    def __init__(self, module: Module, entry: str, arithmetic: str = "sm_90") -> None:
        self.program = link(module, entry)
        self.arithmetic = find_arithmetic(arithmetic)
        self.translation = translate(self.program, self.arithmetic)
        self._contexts: dict[tuple[int, Dim3, Dim3], Context] = {}

    def approximations(self) -> tuple[tuple[Place, Tolerance], ...]:
        """The instructions whose results differ from a GPU's, and by how much at most."""
        found = ((i, tolerance(ins)) for i, ins in enumerate(self.program.instructions))
        return tuple((self.program.place(i), bound) for i, bound in found if bound is not None)

    def context(self, blocks: int, shape: Dim3, cluster: Dim3) -> Context:
        """State for a batch of blocks, made once for each size."""
        key = (blocks, shape, cluster)
        found = self._contexts.get(key)
        if found is None:
            found = Context(self.translation, blocks, shape, cluster)
            exec(self.translation.code, found.namespace)  # noqa: S102  our own generated source
            self._contexts[key] = found
        return found


class _Lookup:
    def __init__(self, kernel: Kernel, blocks: list[Dim3], threads: int) -> None:
        self.kernel = kernel
        self.blocks = blocks
        self.threads = threads

    def place(self, site: int) -> Place:
        return self.kernel.program.place(site)

    def actor(self, lane: int) -> Actor:
        thread = lane % self.threads
        return Actor(self.blocks[lane // self.threads], thread // 32, thread)


def run(
    kernel: Kernel,
    launch: Launch,
    blocks: Sequence[Dim3] | None = None,
    checks: Checks | None = None,
    *,
    fail_fast: bool = False,
    max_findings: int = 20,
) -> Report:
    """Run some thread blocks of a launch (None: all) and report what went wrong.

    Buffers are written in place. Blocks run in the order given, several at a time; they share
    nothing but global memory. The blocks of a cluster run together, at the place of the first.

    Raises:
        LaunchError: parameters or shapes that do not fit the kernel, a block outside the grid, a
            part of a cluster.
    """
    checks = checks or Checks()
    gx, gy, gz = launch.grid
    if blocks is None:
        blocks = [(x, y, z) for z in range(gz) for y in range(gy) for x in range(gx)]
    for x, y, z in blocks:
        if not (0 <= x < gx and 0 <= y < gy and 0 <= z < gz):
            raise LaunchError(f"block {(x, y, z)} lies outside the grid {launch.grid}")
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if not 0 < threads <= 1024:
        raise LaunchError(f"{threads} threads in a block; a block has 1 to 1024")
    if 0 < kernel.program.max_threads < threads:
        raise LaunchError(
            f"{threads} threads in a block; {kernel.program.name} allows "
            f"{kernel.program.max_threads}"
        )
    cluster = kernel.program.cluster if launch.cluster is None else launch.cluster
    size = prod(cluster)
    blocks = whole_clusters(list(blocks), launch.grid, cluster)
    session = _Session(kernel, launch, checks, Collector(max_findings, fail_fast=fail_fast))
    session.cluster = cluster
    at_once = max(1, checks.lanes // (-(-threads // 32) * 32) // size) * size
    try:
        for start in range(0, len(blocks), at_once):
            session.batch(list(blocks[start : start + at_once]))
    except StopEmulation:
        pass
    return session.report()


def whole_clusters(blocks: list[Dim3], grid: Dim3, cluster: Dim3) -> list[Dim3]:
    """The blocks, cluster by cluster in order of first appearance, each in order of rank.

    Raises:
        LaunchError: a grid that is no whole number of clusters, or a part of a cluster.
    """
    if cluster == (1, 1, 1):
        return blocks
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(f"grid {grid} is no whole number of clusters {cluster}")
    cx, cy, cz = cluster
    chosen = set(blocks)
    result: dict[Dim3, None] = {}
    for x, y, z in blocks:
        first = (x // cx * cx, y // cy * cy, z // cz * cz)
        for k in range(cz):
            for j in range(cy):
                for i in range(cx):
                    block = (first[0] + i, first[1] + j, first[2] + k)
                    if block not in chosen:
                        raise LaunchError(
                            f"block {block} is missing: it shares a cluster with {(x, y, z)}"
                        )
                    result[block] = None
    return list(result)


class _Session:
    """One run: its memory, findings and counts."""

    def __init__(
        self, kernel: Kernel, launch: Launch, checks: Checks, collector: Collector
    ) -> None:
        self.kernel, self.launch, self.checks, self.collector = kernel, launch, checks, collector
        self.memory = GlobalMemory(collector)
        self.held: list[GlobalBuffer] = []
        for variable in kernel.program.variables:
            data = np.frombuffer(variable.data, np.uint8).copy()
            held = GlobalBuffer(variable.name, data, writable=variable.writable)
            self.memory.address(held.at(0))
            self.held.append(held)
        self.image, self.maps = pack(kernel.program, launch.params, self.memory)
        self.cluster: Dim3 = (1, 1, 1)
        self.costs = CostListener(joins_of(kernel.program)) if checks.costs else None
        self.races = GlobalRaces(collector) if checks.races else None
        self.early = EarlyAccesses(collector) if launch.dependent else None
        self.done = self.instructions = self.steps = 0
        self.counts = np.array([b.count for b in kernel.translation.blocks], np.int64)
        if self.costs is not None:
            self.memory.listeners.append(self.costs)
        if self.early is not None:
            self.memory.listeners.append(self.early)
        if self.races is not None:
            self.memory.watchers.append(self.races)
        size = kernel.program.static_shared
        if any(s.space == "shared" and not s.size for s in kernel.program.symbols.values()):
            size = kernel.program.dynamic_base
        self.shared_bytes = size + launch.shared_bytes

    def batch(self, blocks: list[Dim3]) -> None:
        """Run some blocks together."""
        context = self.kernel.context(len(blocks), self.launch.block, self.cluster)
        lookup = _Lookup(self.kernel, blocks, context.threads)
        self.collector.lookup = lookup
        shared = SharedMemory(self.shared_bytes, len(blocks), context.threads, self.collector)
        context.collector = self.collector
        context.memory = self.memory
        context.parameters = self.image
        context.tensor_maps = self.maps
        context.shared = shared
        if self.races is not None:
            translation = self.kernel.translation
            size = (len(blocks), context.threads, self.collector)
            if translation.asynchronous:
                order = OrderListener(shared, translation.cell, *size)
                shared.listeners.append(order)
                self.races.begin(order, lookup, order.clocks, order.locations)
            else:
                plain = RaceListener(shared, translation.cell, *size)
                shared.listeners.append(plain)
                self.races.begin(plain, lookup)
        if self.early is not None:
            self.early.begin(context.lanes)
            shared.listeners.append(self.early)
        if self.costs is not None:
            shared.listeners.append(self.costs)
        context.special["s_dynamic_smem_size"][...] = self.launch.shared_bytes
        context.place(np.array(blocks, np.uint32), self.launch.grid)
        context.reset()
        machine = Machine(context, self.checks.step_limit)
        try:
            with np.errstate(all="ignore"):
                if machine.run():
                    finish(context)
        finally:
            self.instructions += int((machine.executed * self.counts).sum()) // 32
            self.steps = max(self.steps, machine.steps)
        self.done += len(blocks)

    def report(self) -> Report:
        """What the run came to."""
        place = self.kernel.program.place
        costs = self.costs
        statistics = Statistics(
            self.done,
            self.instructions,
            self.steps,
            () if costs is None else costs.shared_costs(place),
            () if costs is None else costs.global_costs(place),
        )
        return Report(self.collector.findings(), statistics)
