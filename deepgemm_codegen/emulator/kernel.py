"""The public face: a kernel translated once, a launch, a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import instructions
from deepgemm_codegen.emulator.context import Context
from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.findings import Actor, Collector, Finding, Place, StopEmulation
from deepgemm_codegen.emulator.machine import Machine
from deepgemm_codegen.emulator.memory import GlobalBuffer, GlobalMemory, Pointer
from deepgemm_codegen.emulator.parameters import pack
from deepgemm_codegen.emulator.program import link
from deepgemm_codegen.emulator.races import RaceListener
from deepgemm_codegen.emulator.shared import SharedMemory
from deepgemm_codegen.emulator.tensorcore import arithmetic as find_arithmetic
from deepgemm_codegen.emulator.translate import translate

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.listeners import Listener
    from deepgemm_codegen.emulator.nodes import Module

__all__ = ["Checks", "Kernel", "Launch", "Report", "Statistics", "run"]

Dim3 = tuple[int, int, int]
Parameter = int | float | bytes | np.generic | GlobalBuffer | Pointer

instructions.load()


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is launched.

    Attributes:
        grid: blocks in x, y, z: the real grid, also where only some blocks run.
        block: threads in x, y, z.
        shared_bytes: dynamic shared memory.
        params: one for each kernel parameter, in order: integers, floats, buffers or pointers
            into them, bytes for a structure.
    """

    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
    params: Sequence[Parameter] = ()


@dataclass(frozen=True, slots=True)
class Checks:
    """What is checked. Bounds, alignment, barriers and deadlock always are.

    Attributes:
        races: races, uninitialised reads and bytes in flight in shared memory.
        step_limit: basic blocks after which a batch of thread blocks counts as endless.
        lanes: threads to run at once; more blocks are batched up to it.
    """

    races: bool = True
    step_limit: int = 5_000_000
    lanes: int = 512


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a run did.

    Attributes:
        blocks: thread blocks run.
        instructions: warp instructions (32 lanes are one).
    """

    blocks: int = 0
    instructions: int = 0


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
        self.translation = translate(self.program)
        self._contexts: dict[tuple[int, Dim3], Context] = {}

    def context(self, blocks: int, shape: Dim3) -> Context:
        """State for a batch of blocks, made once for each size."""
        key = (blocks, shape)
        found = self._contexts.get(key)
        if found is None:
            found = Context(self.translation, blocks, shape)
            exec(self.translation.code, found.namespace)  # noqa: S102  our own generated source
            found.arithmetic = self.arithmetic
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
    nothing but global memory.

    Raises:
        LaunchError: parameters or shapes that do not fit the kernel, a block outside the grid.
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
    collector = Collector(max_findings, fail_fast=fail_fast)
    memory = GlobalMemory(collector)
    image = pack(kernel.program, launch.params, memory)
    at_once = max(1, checks.lanes // (-(-threads // 32) * 32))
    done = warp_instructions = 0
    try:
        for start in range(0, len(blocks), at_once):
            batch = list(blocks[start : start + at_once])
            context = kernel.context(len(batch), launch.block)
            collector.lookup = _Lookup(kernel, batch, context.threads)
            warp_instructions += _batch(
                kernel, context, launch, batch, checks, collector, memory, image
            )
            done += len(batch)
    except StopEmulation:
        pass
    return Report(collector.findings(), Statistics(done, warp_instructions))


def _batch(
    kernel: Kernel,
    context: Context,
    launch: Launch,
    batch: list[Dim3],
    checks: Checks,
    collector: Collector,
    memory: GlobalMemory,
    image: bytes,
) -> int:
    program = kernel.program
    size = program.static_shared
    if any(s.space == "shared" and not s.size for s in program.symbols.values()):
        size = program.dynamic_base
    size += launch.shared_bytes
    context.collector = collector
    context.memory = memory
    context.parameters = image
    context.shared = SharedMemory(size, len(batch), context.threads, collector)
    listeners: list[Listener] = []
    if checks.races:
        listeners.append(
            RaceListener(
                len(batch) * context.shared.stride,
                context.shared.stride,
                kernel.translation.cell,
                len(batch),
                context.threads,
                collector,
            )
        )
    context.shared.listeners = listeners
    context.special["s_dynamic_smem_size"][...] = launch.shared_bytes
    context.place(np.array(batch, np.uint32), launch.grid)
    context.reset()
    machine = Machine(context, checks.step_limit)
    with np.errstate(all="ignore"):
        machine.run()
    for listener in listeners:
        listener.finish()
    counts = np.array([b.count for b in kernel.translation.blocks], np.int64)
    return int((machine.executed * counts).sum()) // 32
