"""Running a plan's PTX on the emulator, whole or by some of its thread blocks."""

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
from deepgemm_codegen.harness.blocks import regions_of
from deepgemm_codegen.harness.device import Outcome
from deepgemm_codegen.harness.memory import HUGE, Paged, fill, fill_regions
from deepgemm_codegen.harness.numbers import bits_dtype, poison
from deepgemm_codegen.harness.oracle import prefix_sums
from deepgemm_codegen.plan import Persistent

if TYPE_CHECKING:
    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.oracle import PrefixSums
    from deepgemm_codegen.harness.problem import Matrix, Problem
    from deepgemm_codegen.plan import KernelPlan

__all__ = ["EmulatorDevice"]

SMALL = 1 << 17
"""Operands up to this many elements are computed whole."""

MOST_FINDINGS = 3
"""Distinct findings after which a launch is cut short."""

ADDRESS_STEP = 4096
"""A buffer's address misses a multiple of this by its promised alignment (the emulator's rule)."""


class EmulatorDevice:
    """One kernel on the CPU.

    Args:
        plan: the kernel's plan.
        ptx: its PTX.
        arithmetic: the architecture whose tensor cores to imitate; empty for the plan's target.
        races: whether races and uninitialised reads in shared memory are looked for.
    """

    def __init__(
        self, plan: KernelPlan, ptx: str, arithmetic: str = "", *, races: bool = True
    ) -> None:
        self._arithmetic = arithmetic or plan.target
        self._kernel = Kernel(parse(ptx), plan.name, arithmetic=self._arithmetic)
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
        plan = problem.plan
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
        d_buffer = _place(target, d, writable=True)
        params = _params(problem, inputs, d_buffer, in_place=in_place)
        faults: list[str] = []
        for grid, chosen in _launches(problem, blocks):
            launch = Launch(
                grid=(grid, 1, 1),
                block=(plan.body.threads, 1, 1),
                shared_bytes=plan.body.shared_bytes,
                params=params,
            )
            some = None if chosen is None else [(block, 0, 0) for block in chosen]
            most = MOST_FINDINGS - len(faults)
            report = run(self._kernel, launch, some, self._checks, max_findings=most)
            faults.extend(str(finding) for finding in report.findings)
            if len(faults) == MOST_FINDINGS:
                break
        return Outcome(d, background, tuple(faults), complete=len(faults) < MOST_FINDINGS)


def _launches(
    problem: Problem, blocks: tuple[int, ...] | None
) -> list[tuple[int, tuple[int, ...] | None]]:
    """Grids to launch, and the blocks of each that run (None: all).

    A persistent block computes the tiles that lie a grid apart, and what it carries from one to
    the next must be judged. So a whole problem runs on two blocks (or clusters); of some of its
    tiles, the first and the last go to one block, by a grid that is one tile short.
    """
    plan, grid = problem.plan, problem.grid
    if not isinstance(plan.schedule, Persistent):
        return [(grid, blocks)]
    cluster = plan.m.cluster * plan.n.cluster
    if blocks is None:
        return [(min(grid, 2 * cluster), None)]
    first, last = range(cluster), range(grid - cluster, grid)
    if grid == cluster or not {*first, *last} <= set(blocks):
        return [(grid, blocks)]
    rest = tuple(block for block in blocks if block not in first and block not in last)
    both = [(grid - cluster, tuple(first))]
    return [*both, (grid, rest)] if rest else [*both]


def _params(
    problem: Problem, inputs: Inputs, d_buffer: GlobalBuffer, *, in_place: bool
) -> list[Any]:
    """The kernel's arguments in order."""
    params: list[Any] = []
    for parameter in problem.plan.kernel_parameters:
        if parameter.role == "map":
            params.append(_tensor_map(problem, inputs, parameter.name, d_buffer))
        elif not parameter.pointer:
            params.append(problem.scalar(parameter))
        elif parameter.written or (parameter.role == "c" and in_place):
            params.append(d_buffer)
        elif parameter.name not in inputs.values:
            params.append(0)
        else:
            params.append(_operand(problem, inputs, parameter.name))
    return params


def _tensor_map(problem: Problem, inputs: Inputs, name: str, d_buffer: GlobalBuffer) -> TensorMap:
    """A tensor map as the host would encode it.

    It cannot describe a null pointer: an operand that may not be read is there, all poison.
    """
    described = next(m for m in problem.plan.tensor_maps if m.name == name)
    matrix = problem.matrix(described.pointer)
    if described.pointer == "d":
        buffer = d_buffer
    elif described.pointer in inputs.values:
        buffer = _operand(problem, inputs, described.pointer)
    else:
        buffer = _place(matrix, _Poison(matrix.elements * matrix.dtype.bytes))
    sizes = {**problem.sizes, **{f"ld{m.name}": m.leading for m in problem.matrices}}
    return TensorMap(
        buffer=buffer,
        element_bytes=matrix.dtype.bytes,
        # A dimension of zero is no map; such a kernel copies nothing, so one serves.
        sizes=(
            max(described.inner.evaluate(sizes), 1),
            max(described.outer.evaluate(sizes), 1),
        ),
        strides_bytes=(described.stride.evaluate(sizes) * matrix.dtype.bytes,),
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
