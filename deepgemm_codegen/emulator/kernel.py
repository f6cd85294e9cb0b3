"""The public face: a kernel translated once, a launch, a run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from numbers import Integral
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from deepgemm_codegen.emulator import instructions
from deepgemm_codegen.emulator.buffers import GlobalBuffer
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
from deepgemm_codegen.emulator.launch import Dim3, Launch, check_launch, check_shared
from deepgemm_codegen.emulator.machine import Machine
from deepgemm_codegen.emulator.memory import GlobalMemory
from deepgemm_codegen.emulator.ordering import OrderListener
from deepgemm_codegen.emulator.parameters import pack
from deepgemm_codegen.emulator.parser import parse
from deepgemm_codegen.emulator.program import link
from deepgemm_codegen.emulator.races import RaceListener
from deepgemm_codegen.emulator.shared import SharedMemory
from deepgemm_codegen.emulator.stuck import report_deadlock
from deepgemm_codegen.emulator.translate import translate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.emulator.nodes import Module

__all__ = ["Checks", "Kernel", "Launch", "Report", "Statistics", "run"]

instructions.load()


@dataclass(frozen=True, slots=True)
class Checks:
    """What is checked. Bounds, alignment, barriers and deadlock always are.

    Attributes:
        races: races in shared and global memory; uninitialised reads and bytes in flight in
            shared memory.
        costs: bank conflicts and global sectors by instruction, in the report's statistics.
        step_limit: basic blocks after which a batch of thread blocks counts as endless.
        lanes: threads to run at once; more blocks are batched up to it.

    Raises:
        LaunchError: a limit that is no whole number above zero.
    """

    races: bool = True
    costs: bool = False
    step_limit: int = 2_000_000
    lanes: int = 512

    def __post_init__(self) -> None:
        for name in ("step_limit", "lanes"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise LaunchError(f"Checks.{name} = {value!r}: give a whole number of 1 or more")


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
        self.running = Lock()

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
    kernel: Kernel | str,
    launch: Launch,
    blocks: Sequence[Dim3] | None = None,
    checks: Checks | None = None,
    *,
    fail_fast: bool = False,
    max_findings: int = 20,
) -> Report:
    """Run some thread blocks of a launch (None: all) and report what went wrong.

    Instead of a kernel, the PTX of a module that has one will do; it is translated anew each time.

    Buffers are written in place. Blocks run in the order given, several at a time; they share
    nothing but global memory. The blocks of a cluster run together, at the place of the first.
    Threads may share a kernel, which then runs for one after the other.

    A kernel that never ends is stopped, and reported: when all its threads wait for memory that
    nobody is left to write, or by ``Checks.step_limit``.

    Raises:
        LaunchError: parameters or shapes that do not fit the kernel, no block at all, a block
            outside the grid, a part of a cluster, more shared memory than the GPU has.
        PtxSyntaxError, UnsupportedError, TypeError: see `parse` and `Kernel`, for a text.
    """
    checks = checks or Checks()
    if not isinstance(kernel, Kernel):
        module = parse(kernel)
        names = module.entries()
        if len(names) != 1:
            found = ", ".join(names) or "none"
            raise LaunchError(f"a text with one kernel was expected; it has: {found}")
        kernel = Kernel(module, names[0])
    chosen, cluster = check_launch(kernel.program, launch, blocks)
    size = prod(cluster)
    threads = prod(launch.block)
    session = _Session(kernel, launch, checks, Collector(max_findings, fail_fast=fail_fast))
    session.cluster = cluster
    at_once = max(1, checks.lanes // (-(-threads // 32) * 32) // size) * size
    with kernel.running, suppress(StopEmulation):
        for start in range(0, len(chosen), at_once):
            session.batch(chosen[start : start + at_once])
    return session.report()


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
        check_shared(kernel.program, kernel.arithmetic.name, size, launch.shared_bytes)

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
                    machine.barriers.finish()
                    finish(context)
                elif not machine.endless:
                    report_deadlock(machine)
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
