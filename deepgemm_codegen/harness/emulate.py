"""Running a program's PTX on the emulator, whole or by the thread blocks of some tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import (
    Checks,
    GlobalBuffer,
    Kernel,
    Launch,
    TensorMap,
    parse,
    run,
)
from deepgemm_codegen.harness.blocks import blocks_for, regions_of
from deepgemm_codegen.harness.device import Outcome
from deepgemm_codegen.harness.memory import HUGE, Paged, fill, fill_regions
from deepgemm_codegen.harness.numbers import bits_dtype, poison
from deepgemm_codegen.harness.oracle import prefix_sums
from deepgemm_codegen.plan import Persistent, as_program
from deepgemm_codegen.workspace import ALIGNMENT

if TYPE_CHECKING:
    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.oracle import PrefixSums
    from deepgemm_codegen.harness.problem import Matrix, Problem
    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.signature import Parameter

__all__ = ["EmulatorDevice"]

SMALL = 1 << 17
"""Operands up to this many elements are computed whole."""

MOST_FINDINGS = 3
"""Distinct findings after which a launch is cut short."""

ADDRESS_STEP = 4096
"""A buffer's address misses a multiple of this by its promised alignment (the emulator's rule)."""


class EmulatorDevice:
    """One program on the CPU.

    Args:
        plan: the program's plan, or that of a kernel that is one.
        ptx: its PTX.
        arithmetic: the architecture whose tensor cores to imitate; empty for the plan's target.
        races: whether races and uninitialised reads in shared memory are looked for.
    """

    def __init__(
        self, plan: Program | KernelPlan, ptx: str, arithmetic: str = "", *, races: bool = True
    ) -> None:
        program = as_program(plan)
        self._arithmetic = arithmetic or program.target
        module = parse(ptx)
        self._kernels = {
            kernel.name: Kernel(module, kernel.name, arithmetic=self._arithmetic)
            for kernel in program.kernels
        }
        self._checks = Checks(races=races)

    @property
    def where(self) -> str:
        """See `Device`."""
        return "emulator"

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
        target = problem.matrix("d")
        # zeros costs nothing until it is touched, which a D of gigabytes relies on
        d: np.ndarray[Any, np.dtype[Any]] = np.zeros(target.elements, bits_dtype(target.dtype))
        background = 0
        if target.elements <= HUGE:
            background = poison(target.dtype)
            fill(target, None, d, np)
        if in_place:
            fill_regions(problem.matrix("c"), inputs, regions_of(problem, blocks), d, np)
        if problem.grid == 0 or blocks == ():
            return Outcome(d, background)
        memory = _Memory(problem, inputs, _place(target, d, writable=True), in_place=in_place)
        faults: list[str] = []
        for kernel in problem.program.kernels:
            faults += self._run(problem, kernel, memory, blocks, MOST_FINDINGS - len(faults))
            if len(faults) == MOST_FINDINGS:
                break
        return Outcome(d, background, tuple(faults), complete=len(faults) < MOST_FINDINGS)

    def _run(
        self,
        problem: Problem,
        kernel: KernelPlan,
        memory: _Memory,
        tiles: tuple[int, ...] | None,
        most: int,
    ) -> list[str]:
        """Launches one kernel, or its blocks that have a part in some tiles; what was found."""
        params = [memory.argument(kernel, parameter) for parameter in kernel.kernel_parameters]
        prefix = f"{kernel.body.role}: " if len(self._kernels) > 1 else ""
        faults: list[str] = []
        for grid, chosen in _launches(problem, kernel, blocks_for(problem, kernel, tiles)):
            launch = Launch(
                grid=(grid, 1, 1),
                block=(kernel.body.threads, 1, 1),
                shared_bytes=kernel.body.shared_bytes,
                params=params,
            )
            some = None if chosen is None else [(block, 0, 0) for block in chosen]
            entry = self._kernels[kernel.name]
            report = run(entry, launch, some, checks=self._checks, max_findings=most - len(faults))
            faults += [f"{prefix}{finding}" for finding in report.findings]
            if len(faults) == most:
                break
        return faults


def _launches(
    problem: Problem, kernel: KernelPlan, blocks: tuple[int, ...] | None
) -> list[tuple[int, tuple[int, ...] | None]]:
    """Grids to launch, and the blocks of each that run (None: all).

    A persistent block computes the tiles that lie a grid apart, and what it carries from one to
    the next must be judged. So a whole problem runs on two blocks (or clusters); of some of its
    tiles, the first and the last go to one block, by a grid that is one tile short.
    """
    grid = problem.blocks_of(kernel)
    if not isinstance(kernel.schedule, Persistent):
        return [(grid, blocks)]
    cluster = kernel.m.cluster * kernel.n.cluster
    if blocks is None:
        return [(min(grid, 2 * cluster), None)]
    first, last = range(cluster), range(grid - cluster, grid)
    if grid == cluster or not {*first, *last} <= set(blocks):
        return [(grid, blocks)]
    rest = tuple(block for block in blocks if block not in first and block not in last)
    both = [(grid - cluster, tuple(first))]
    return [*both, (grid, rest)] if rest else [*both]


class _Memory:
    """Buffers of one launch of a program: its kernels meet the same ones."""

    def __init__(
        self, problem: Problem, inputs: Inputs, d: GlobalBuffer, *, in_place: bool
    ) -> None:
        self._problem, self._inputs = problem, inputs
        self._buffers: dict[str, GlobalBuffer] = {"d": d}
        if in_place:
            self._buffers["c"] = d

    def argument(self, kernel: KernelPlan, parameter: Parameter) -> Any:
        """What a kernel gets for a parameter; null for an operand that the inputs leave out."""
        if parameter.role == "map":
            return self._tensor_map(kernel, parameter.name)
        if not parameter.pointer:
            return self._problem.scalar(parameter)
        name = parameter.name
        if name not in self._buffers:
            if parameter.role == "region":
                self._buffers[name] = self._region(name)
            elif name in self._inputs.values:
                self._buffers[name] = _operand(self._problem, self._inputs, name)
            else:
                return 0
        return self._buffers[name]

    def _region(self, name: str) -> GlobalBuffer:
        """A region of the workspace, full of NaN: nothing may be read that was not written.

        As the emulator keeps its bounds, no region can reach into another.
        """
        region = self._problem.program.workspace.region(name)
        count = self._problem.region_bytes(name) // region.dtype.bytes
        # Where it is too big to fill, zeros cost nothing until they are touched.
        bits = np.zeros(count, bits_dtype(region.dtype))
        if count <= HUGE:
            bits[...] = poison(region.dtype)
        return GlobalBuffer(name, bits, writable=True, misalign=ALIGNMENT % ADDRESS_STEP)

    def _tensor_map(self, kernel: KernelPlan, name: str) -> TensorMap:
        """A tensor map as the host would encode it.

        It cannot describe a null pointer: an operand that may not be read is there, all poison.
        """
        problem = self._problem
        described = next(m for m in kernel.tensor_maps if m.name == name)
        pointer = described.pointer
        if pointer not in self._buffers:
            matrix = problem.matrix(pointer)
            if pointer in self._inputs.values:
                buffer = _operand(problem, self._inputs, pointer)
            else:
                buffer = _place(matrix, _Poison(matrix.elements * matrix.dtype.bytes))
            self._buffers[pointer] = buffer
        size = described.dtype.bytes
        sizes = {**problem.sizes, **{f"ld{m.name}": m.leading for m in problem.matrices}}
        return TensorMap(
            buffer=self._buffers[pointer],
            element_bytes=size,
            # A dimension of zero is no map; such a kernel copies nothing, so one serves.
            sizes=(
                max(described.inner.evaluate(sizes), 1),
                max(described.outer.evaluate(sizes), 1),
            ),
            strides_bytes=(described.stride.evaluate(sizes) * size,),
            box=(described.box_inner, described.box_outer),
            swizzle_bytes=described.swizzle_bytes,
        )


class _Poison:
    """Bytes that are NaN wherever they are read."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def read(self, offsets: Any, width: int) -> Any:
        """See `emulator.LazyArray`."""
        return np.full((len(offsets), width), 0xFF, dtype=np.uint8)


def _place(matrix: Matrix, data: Any, *, writable: bool = False) -> GlobalBuffer:
    """A buffer whose base has the promised alignment and no more."""
    return GlobalBuffer(matrix.name, data, writable, misalign=matrix.align % ADDRESS_STEP)


def _operand(problem: Problem, inputs: Inputs, name: str) -> GlobalBuffer:
    matrix = problem.matrix(name)
    if matrix.elements <= SMALL:
        bits = np.empty(matrix.elements, bits_dtype(matrix.dtype))
        fill(matrix, inputs, bits, np)
        return _place(matrix, bits)
    along_row = matrix.transposed == (name == "b")
    return _place(matrix, Paged(matrix, inputs, 1 if along_row else matrix.leading))
