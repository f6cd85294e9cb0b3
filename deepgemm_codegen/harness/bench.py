"""A benchmark from kernels to a report: check, time against the rivals, compare with the ceilings.

The device behind `BenchDevice` does what needs a GPU (`bench_gpu.py`); everything else is here,
and is tested with a fake one. ``docs/benchmarking.md`` says how a time is taken and why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness.bench_data import Entry, Machine, Report, Rival, RivalTime, Row, Side
from deepgemm_codegen.harness.bench_stats import (
    Ceilings,
    Timing,
    group_of,
    launches_for,
    sets_for,
    work_of,
)
from deepgemm_codegen.harness.bench_words import choice_of
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Simt, Wgmma

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deepgemm_codegen.harness.bench_stats import Unit
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["BenchDevice", "Loaded", "failed_row", "run_bench", "unit_of"]

BETA = 0.5
"""Of specs with a C: a sum that is fed back into itself, as cuBLAS's in-place one is, converges."""


class Loaded(Protocol):
    """One kernel on the device with its operand sets."""

    @property
    def kernel(self) -> Side:
        """Launches the kernel."""
        ...

    def check(self) -> str:
        """Runs the kernel once and compares a few rows with float64; empty when right."""
        ...

    def rivals(self) -> tuple[Rival, ...]:
        """The other sides; those that launch were checked against float64, too."""
        ...

    def time(self, sides: Sequence[Side], launches: int) -> list[list[float]]:
        """Microseconds a launch of each side and replay, the sides interleaved."""
        ...


class BenchDevice(Protocol):
    """The GPU as the benchmark sees it."""

    @property
    def machine(self) -> Machine:
        """What it is."""
        ...

    @property
    def free_bytes(self) -> int:
        """Memory that operand sets may take."""
        ...

    def ceilings(self) -> Ceilings:
        """Measures, in a second or so, what can be measured."""
        ...

    def load(self, entry: Entry, problem: Problem, sets: int, against: str) -> Loaded:
        """Puts a kernel and its operands on the device; frees the one before."""
        ...


def unit_of(plan: KernelPlan) -> Unit:
    """The instruction that a plan multiplies with, whose ceiling it stands under."""
    units: dict[type, Unit] = {Wgmma: "wgmma", Simt: "fp32 FMA"}
    return units.get(type(plan.body), "mma.sync")


def _steps(spec: GemmSpec) -> str:
    """The epilogue's steps as a flag writes them."""
    return ",".join(map(str, spec.epilogue))


def _blank(spec: GemmSpec, name: str, where: str) -> Row:
    """A row with what the spec alone tells."""
    batch = f"{spec.batch}*" if spec.batch > 1 else ""
    types = str(spec.dtype_a) if spec.dtype_a == spec.dtype_b else f"{spec.dtype_a}*{spec.dtype_b}"
    if spec.dtype_d != spec.dtype_a:
        types += f"->{spec.dtype_d}"
    letters = spec.layout + ("" if spec.layout_d == "n" else f"->{spec.layout_d}")
    return Row(
        name=name,
        spec=str(spec),
        where=where,
        label=spec.label,
        shape=f"{batch}{spec.m.size}x{spec.n.size}x{spec.k.size}",
        kind=" ".join([types, letters, *(["by block"] if spec.block_scaled else [])]),
        group=group_of(spec),
        steps=_steps(spec),
    )


def failed_row(spec: GemmSpec, name: str, where: str, error: CodegenError) -> Row:
    """The row of a kernel that could not be made."""
    return replace(_blank(spec, name, where), message=str(error), exit_code=error.exit_code)


def run_bench(
    entries: Sequence[Entry | Row],
    device: BenchDevice,
    *,
    against: str = "cublas",
    progress: Callable[[Row], None] | None = None,
) -> Report:
    """Times kernels, one after the other.

    Args:
        entries: kernels, or the rows of those that could not be made.
        device: where.
        against: ``cublas``, or ``none`` for the kernels alone.
        progress: called with each row as it is finished.
    """
    ceilings = device.ceilings()
    rows: list[Row] = []
    lost = ""
    for entry in entries:
        if isinstance(entry, Row):
            row = entry
        elif lost:
            row = replace(_row(entry), message=f"not run: {lost}", exit_code=1)
        else:
            try:
                row = _timed(entry, device, ceilings, against)
            except LaunchFailedError as error:
                # The driver refuses all further work of a process after a fault on the device.
                lost = f"an earlier kernel's launch failed ({entry.program.name})"
                row = replace(_row(entry), message=str(error), exit_code=error.exit_code)
            except CodegenError as error:
                row = replace(_row(entry), message=str(error), exit_code=error.exit_code)
        rows.append(row)
        if progress:
            progress(row)
    if not lost:
        ceilings = ceilings.best_of(device.ceilings())
    return Report(device.machine, ceilings, tuple(rows), against)


def _row(entry: Entry) -> Row:
    """A row with what is known before anything runs."""
    plan = entry.plan
    spec = plan.spec
    notes = []
    if entry.built_for != plan.target:
        notes.append(f"planned for {plan.target}, built for {entry.built_for} from the same source")
    dynamic = [
        name for name, dim in zip("mnk", (spec.m, spec.n, spec.k), strict=True) if dim.dynamic
    ]
    if dynamic:
        notes.append(f"dynamic {', '.join(dynamic)} at the planned size")
    if spec.epilogue:
        notes.append(f"the kernel adds {_steps(spec)}; cuBLAS computes the plain product")
    return replace(
        _blank(spec, entry.program.name, entry.where),
        choice=choice_of(plan),
        built_for=entry.built_for,
        unit=unit_of(plan),
        notes=tuple(notes),
        resources=(entry.registers, entry.spilled),
    )


def _timed(entry: Entry, device: BenchDevice, ceilings: Ceilings, against: str) -> Row:
    row = _row(entry)
    if entry.spilled:
        row = replace(row, notes=(*row.notes, f"{entry.spilled} bytes spilled"))
    problem = bind(entry.program, beta=BETA)
    work = work_of(problem)
    row = replace(row, work=work)
    set_bytes = sum(m.elements * m.dtype.bytes for m in problem.matrices)
    shared_bytes = entry.program.workspace.bytes.evaluate(problem.sizes)
    free = device.free_bytes - shared_bytes
    if set_bytes > free:
        raise EnvironmentLackError(
            f"{entry.program.name} needs {(set_bytes + shared_bytes) / 1e9:.1f} GB of GPU memory;"
            f" {device.free_bytes / 1e9:.1f} GB are free"
        )
    sets = sets_for(set_bytes, free)
    launches = launches_for(sets, ceilings.roof_us(work, row.unit))
    loaded = device.load(entry, problem, sets, against)
    fault = loaded.check()
    if fault:
        return replace(row, message=f"wrong, not timed: {fault}", exit_code=1)
    rivals = loaded.rivals()
    sides = [loaded.kernel, *(rival.side for rival in rivals if rival.side is not None)]
    taken = [Timing.of(samples) for samples in loaded.time(sides, launches)]
    others = iter(taken[1:])
    times = tuple(
        RivalTime(rival.name, None if rival.side is None else next(others), rival.note)
        for rival in rivals
    )
    return replace(row, timing=taken[0], rivals=times, launches=launches, sets=sets)
