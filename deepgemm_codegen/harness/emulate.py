"""Running a program's PTX on the emulator, whole or by the thread blocks of some tiles."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import Checks, Kernel, Launch, Report, parse, run
from deepgemm_codegen.harness.blocks import blocks_for, regions_of
from deepgemm_codegen.harness.device import Outcome, Written
from deepgemm_codegen.harness.memory import HUGE, fill, fill_regions, untouched
from deepgemm_codegen.harness.numbers import bits_dtype, poison
from deepgemm_codegen.harness.operands import LaunchMemory
from deepgemm_codegen.harness.sums import prefix_sums
from deepgemm_codegen.harness.teams import emulated_grid
from deepgemm_codegen.plan import as_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.emulator import Statistics
    from deepgemm_codegen.emulator.nodes import Module
    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.sums import PrefixSums
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["EmulatorDevice"]

MOST_FINDINGS = 3
"""Distinct findings after which a launch is cut short."""


class EmulatorDevice:
    """One program on the CPU.

    Args:
        plan: the program's plan, or that of a kernel that is one.
        ptx: its PTX, as text or parsed.
        arithmetic: the architecture whose tensor cores to imitate; empty for the plan's target.
        races: whether races, and uninitialised reads in shared memory, are looked for.
        costs: whether bank conflicts and sectors are counted.
        aligned: whether operands start where an allocation would, instead of at the worst address
            that the spec promises.
        most_findings: distinct findings after which a launch is cut short.
        known: kernels of it that are translated already, by name.

    Attributes:
        checks: what a launch looks for, and how long it may take.
        kernels: the program's kernels by name, translated.
    """

    def __init__(
        self,
        plan: Program | KernelPlan,
        ptx: str | Module,
        arithmetic: str = "",
        *,
        races: bool = True,
        costs: bool = False,
        aligned: bool = False,
        most_findings: int = MOST_FINDINGS,
        known: Mapping[str, Kernel] = MappingProxyType({}),
    ) -> None:
        program = as_program(plan)
        self._arithmetic = arithmetic or program.target
        module = parse(ptx) if isinstance(ptx, str) else ptx
        self.kernels = {
            kernel.name: known.get(kernel.name)
            or Kernel(module, kernel.name, arithmetic=self._arithmetic)
            for kernel in program.kernels
        }
        self.checks = Checks(races=races, costs=costs)
        self._aligned = aligned
        self._most_findings = most_findings

    where = "emulator"

    @property
    def arithmetic(self) -> str:
        """See `Device`."""
        return self._arithmetic

    @property
    def xp(self) -> Any:
        """See `Device`."""
        return np

    @property
    def samples(self) -> bool:
        """See `Device`."""
        return True

    @property
    def prefix_sums(self) -> PrefixSums:
        """See `Device`."""
        return prefix_sums

    def launch(
        self,
        problem: Problem,
        inputs: Inputs,
        blocks: tuple[int, ...] | None,
        *,
        in_place: bool = False,
    ) -> Outcome:
        """See `Device`."""
        outputs = {name: _blank(problem, name) for name in problem.outputs}
        if in_place:
            regions = regions_of(problem, blocks)
            fill_regions(problem.matrix("c"), inputs, regions, outputs["d"].bits, np)
        if problem.grid == 0 or blocks == ():
            return Outcome(outputs)
        bits = {name: output.bits for name, output in outputs.items()}
        memory = LaunchMemory(
            problem, inputs, bits,
            in_place=in_place, aligned=self._aligned, whole=blocks is None,
        )  # fmt: skip
        faults: list[str] = []
        statistics: list[Statistics] = []
        for kernel in problem.program.kernels:
            most = self._most_findings - len(faults)
            report = self._run(problem, kernel, memory, blocks, most)
            prefix = f"{kernel.body.role}: " if len(self.kernels) > 1 else ""
            faults += [f"{prefix}{finding}" for finding in report.findings]
            statistics.append(report.statistics)
            if len(faults) == self._most_findings:
                break
        complete = len(faults) < self._most_findings
        return Outcome(outputs, tuple(faults), complete, tuple(statistics))

    def _run(
        self,
        problem: Problem,
        kernel: KernelPlan,
        memory: LaunchMemory,
        tiles: tuple[int, ...] | None,
        most: int,
    ) -> Report:
        """Launches one kernel, or its blocks that have a part in some tiles."""
        grid = emulated_grid(problem, kernel)
        launch = Launch(
            grid=(grid, 1, 1),
            block=(kernel.threads, 1, 1),
            shared_bytes=kernel.shared_bytes,
            params=[memory.argument(kernel, parameter) for parameter in kernel.kernel_parameters],
            dependent=kernel.dependent,
        )
        blocks = blocks_for(problem, kernel, tiles)
        some = None
        if blocks is not None:
            some = [(block, 0, 0) for block in sorted({block % grid for block in blocks})]
        if some is not None and not some:
            return Report(())
        entry = self.kernels[kernel.name]
        return run(entry, launch, some, checks=self.checks, max_findings=most)


def _blank(problem: Problem, name: str) -> Written:
    """A matrix that nobody has written yet: all poison, or zero where it is too big to fill."""
    matrix = problem.matrix(name)
    bits = untouched(matrix.elements, bits_dtype(matrix.dtype), f"{problem}: {name}")
    if matrix.elements > HUGE:
        return Written(bits, 0)
    fill(matrix, None, bits, np)
    return Written(bits, poison(matrix.dtype))
