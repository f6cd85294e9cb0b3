"""What a benchmark is about: kernels, rivals, rows, the report. Frozen values, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness.bench_stats import Ceilings, Timing, Work, geometric_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deepgemm_codegen.harness.bench_stats import Unit
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = [
    "CUBLAS",
    "CUBLASLT",
    "FUSED",
    "LIBRARIES",
    "PLAIN",
    "WRITING",
    "Entry",
    "Group",
    "Machine",
    "Report",
    "Rival",
    "RivalTime",
    "Row",
    "Side",
]

CUBLAS = "cuBLAS"
"""The library's default algorithm: the column that ratios and ``--min-ratio`` mean."""

CUBLASLT = "cuBLASLt"
"""The best of cublasLt's top eight heuristics."""

FUSED = "cuBLASLt fused"
"""The same with the epilogue that cublasLt fuses, of kernels whose steps it can: it computes what
the kernel does, the other columns the plain product."""

PLAIN = "own plain"
"""Our own kernel of the plain product, of kernels with steps: see `bench_plain`. Its ratio is the
part of the kernel's time that the product alone takes; the steps take the rest."""

WRITING = "writing D"
"""No library: a kernel that writes as many bytes as D has and nothing else, where they are most of
what is moved. Its ratio is the part of that ceiling which the kernel reaches."""

LIBRARIES = (CUBLAS, CUBLASLT, FUSED)
"""The rivals that a kernel is to be faster than; a ratio to another one is a part of something."""

_NOTHING = Work(0.0, 0.0)

Side = Any
"""A function that launches once on an operand set, given by its index."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What the benchmark ran on, for the report's head."""

    gpu: str
    arch: str
    sms: int
    memory_mib: int
    software: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel to be timed.

    Attributes:
        program: its kernels, launched one after the other and timed as one.
        cubin: their machine code.
        built_for: the architecture of the cubin.
        where: the kernel file's place, or empty.
        registers: registers a thread of the kernel that multiplies.
        spilled: bytes spilled by all of them.
        plain: the kernel of the plain product, or why there is none to be timed; empty where the
            kernel has no steps beside a product, or is timed alone.
    """

    program: Program
    cubin: bytes
    built_for: str
    where: str = ""
    registers: int = 0
    spilled: int = 0
    plain: Entry | str = ""

    @property
    def plan(self) -> KernelPlan:
        """The kernel that multiplies."""
        return self.program.product


@dataclass(frozen=True, slots=True)
class Rival:
    """The other side: how to launch it, or why it cannot be.

    Attributes:
        name: `CUBLAS`, `CUBLASLT`, `FUSED`, `PLAIN` or `WRITING`.
        side: launches it on an operand set; None where it cannot be timed.
        note: what it computes, which algorithm or plan, or why it is missing.
    """

    name: str
    side: Side | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class RivalTime:
    """A rival's figures; without a timing the note says why."""

    name: str
    timing: Timing | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel's line of the report.

    Attributes:
        name: the kernel's.
        spec: its spec, as `GemmSpec.from_text` reads it.
        where: the kernel file's place, or empty.
        label, shape, kind, choice: as the table prints them.
        steps: the epilogue's, as a spec writes them.
        group: what its ratio is averaged with.
        built_for: the architecture of the cubin that ran; empty where none did.
        unit: the matrix instruction.
        work: FLOP and bytes.
        timing: None unless it was right.
        rivals: the other sides.
        message: why there is no timing.
        exit_code: 0; 1 for a wrong kernel; another for a kernel that could not be made.
        notes: remarks that belong to the figures.
        launches, sets: of a graph.
        resources: (registers a thread, bytes spilled).
    """

    name: str
    spec: str
    where: str
    label: str
    shape: str
    kind: str
    group: str
    choice: str = ""
    steps: str = ""
    built_for: str = ""
    unit: Unit = "mma.sync"
    work: Work = _NOTHING
    timing: Timing | None = None
    rivals: tuple[RivalTime, ...] = ()
    message: str = ""
    exit_code: int = 0
    notes: tuple[str, ...] = ()
    launches: int = 0
    sets: int = 0
    resources: tuple[int, int] = (0, 0)

    @property
    def steps_group(self) -> str:
        """What its ratios to rivals that its steps are about are averaged with."""
        return f"{self.steps}, {self.kind.split()[0]}"

    def ratio(self, name: str) -> float | None:
        """Times faster than a rival: its time over the kernel's."""
        for rival in self.rivals:
            if rival.name == name and rival.timing is not None and self.timing is not None:
                return rival.timing.median_us / self.timing.median_us
        return None


@dataclass(frozen=True, slots=True)
class Group:
    """Geometric means of some rows' ratios, by rival; NaN where no row has one.

    Attributes:
        name: what the rows have in common.
        count: rows.
        ratios: the means.
        rival: of an epilogue the rival that matters, `FUSED` or `PLAIN`; else empty.
        least: the least ratio to that one.
    """

    name: str
    count: int
    ratios: tuple[tuple[str, float], ...]
    rival: str = ""
    least: float = nan


@dataclass(frozen=True, slots=True)
class Report:
    """All of a run.

    Attributes:
        machine: what it ran on.
        ceilings: measured before and after the kernels; the higher figure counts.
        rows: one a kernel, in the order asked for.
        against: ``cublas`` or ``none``.
    """

    machine: Machine
    ceilings: Ceilings
    rows: tuple[Row, ...]
    against: str = "cublas"

    @property
    def rivals(self) -> tuple[str, ...]:
        """The names of the columns beside the kernel's own."""
        if self.against == "none":
            return ()
        found = {rival.name for row in self.rows for rival in row.rivals}
        return (CUBLAS, CUBLASLT, *(name for name in (FUSED, PLAIN, WRITING) if name in found))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups in the order of their first rows, then all rows where there are several.

        Behind them a group for each epilogue that cublasLt fuses too, and one for each epilogue
        beside our own plain product: see `Group.rival`.
        """
        timed = [row for row in self.rows if row.timing is not None]
        names = list(dict.fromkeys(row.group for row in timed))
        parts = [(name, [row for row in timed if row.group == name]) for name in names]
        if len(parts) > 1:
            parts.append(("all", timed))
        libraries = [name for name in self.rivals if name in LIBRARIES]
        return (
            *(Group(name, len(rows), _means(rows, libraries)) for name, rows in parts),
            *_by_steps(timed, FUSED, libraries),
            *_by_steps(timed, PLAIN, [PLAIN]),
        )

    def slower(self, min_ratio: float) -> tuple[Row, ...]:
        """The rows whose ratio to cuBLAS's default algorithm is less."""
        return tuple(
            row for row in self.rows if (r := row.ratio(CUBLAS)) is not None and r < min_ratio
        )

    def fraction(self, row: Row) -> float | None:
        """A row's share of the ceiling above it."""
        if row.timing is None:
            return None
        return self.ceilings.fraction(row.timing, row.work, row.unit)


def _ratios(rows: Sequence[Row], rival: str) -> list[float]:
    return [ratio for row in rows if (ratio := row.ratio(rival)) is not None]


def _means(rows: Sequence[Row], names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    return tuple((name, geometric_mean(_ratios(rows, name))) for name in names)


def _by_steps(timed: Sequence[Row], rival: str, names: Sequence[str]) -> Iterator[Group]:
    """The rows that have a ratio to a rival, a group an epilogue, with the means of some rivals."""
    beside = [row for row in timed if row.ratio(rival) is not None]
    for name in dict.fromkeys(row.steps_group for row in beside):
        rows = [row for row in beside if row.steps_group == name]
        yield Group(name, len(rows), _means(rows, names), rival, min(_ratios(rows, rival)))
