"""A report made by hand, and a device that times by the script, for the benchmark's tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness.bench_data import (
    CUBLAS,
    CUBLASLT,
    PLAIN,
    Entry,
    Machine,
    Report,
    Rival,
    RivalTime,
    Row,
)
from deepgemm_codegen.harness.bench_stats import Ceilings, Timing, Work
from tests.harness.support import SMALL, program_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.decide import MmaSyncChoice
    from deepgemm_codegen.harness.problem import Problem

MACHINE = Machine("Paper GPU", "sm_90", 132, 143771, (("cupy", "14.0"), ("cuBLAS", "130002")))
CEILINGS = Ceilings(
    4500.0,
    {"mma.sync": 610.0, "wgmma": 820.0},
    ("memory", "wgmma"),
    (("mma.sync", "no compiler"),),
)


def timing(us: float) -> Timing:
    """A median with one per cent of spread."""
    return Timing(us, us * 0.995, us * 1.005)


def report() -> Report:
    """Two kernels of one group, a wrong one, and one without cublasLt."""
    cube = Row(
        name="gemm_fp16",
        spec="m=4096 n=4096 k=4096",
        where="some.yaml:3",
        label="cube",
        shape="4096x4096x4096",
        kind="fp16 nt",
        group="aligned, fp16",
        choice="128x256x64 3st",
        built_for="sm_90a",
        unit="wgmma",
        work=Work(2.0 * 4096**3, 6.0 * 4096**2),
        timing=timing(180.0),
        rivals=(
            RivalTime(CUBLAS, timing(189.0)),
            RivalTime(CUBLASLT, timing(181.8), "heuristic 2 of 8"),
        ),
        launches=20,
        sets=3,
        resources=(168, 0),
    )
    second = Row(
        name="gemm_bf16",
        spec="m=1 n=4096 k=4096",
        where="some.yaml:4",
        label="",
        shape="1x4096x4096",
        kind="bf16 nt",
        group="decode (m <= 16), bf16",
        choice="16x64x128 6st",
        built_for="sm_90",
        work=Work(2.0 * 4096**2, 2.0 * 4096**2),
        timing=timing(10.0),
        rivals=(
            RivalTime(CUBLAS, timing(9.0)),
            RivalTime(CUBLASLT, None, "cublasLtMatmulAlgoGetHeuristic: not supported"),
        ),
        notes=("planned for sm_80, built for sm_90 from the same source",),
        launches=60,
        sets=8,
    )
    wrong = Row(
        name="gemm_wrong",
        spec="m=64 n=64 k=64",
        where="",
        label="",
        shape="64x64x64",
        kind="fp16 nn",
        group="short k (k < 512), fp16",
        choice="64x64x32 4st",
        built_for="sm_90",
        message="wrong, not timed: 3 of 1024 sampled elements of D",
        exit_code=1,
    )
    return Report(MACHINE, CEILINGS, (cube, second, wrong))


def with_own_plain() -> Report:
    """Three kernels of two epilogues, beside their plain products of 174.6, 171 and 190.8 us."""
    whole = report()
    cube, *others = whole.rows
    rows = [
        replace(cube, steps=steps, rivals=(*cube.rivals, RivalTime(PLAIN, timing(us), note)))
        for steps, us, note in (
            ("bias:fp16,gelu", 174.6, "128x256x64 3st"),
            ("bias:fp16,gelu", 171.0, "128x192x64 4st"),
            ("quantize:int8", 190.8, "128x256x64 3st, D in fp16"),
        )
    ]
    return replace(whole, rows=(*rows, *others))


def entry_of(text: str, choice: MmaSyncChoice | None = SMALL, **fields: Any) -> Entry:
    """A kernel whose machine code nobody looks at."""
    program = program_of(text, choice)
    return Entry(program, b"cubin", fields.pop("built_for", program.target), **fields)


@dataclass
class ScriptedLoaded:
    """Launches nothing and takes the times that it is told."""

    device: ScriptedDevice
    entry: Entry
    kernel: Any = "kernel"

    def check(self) -> str:
        problem = self.device.faults.get(self.entry.plan.name, "")
        if isinstance(problem, Exception):
            raise problem
        return str(problem)

    def rivals(self) -> tuple[Rival, ...]:
        return self.device.rivals

    def time(self, sides: Sequence[Any], launches: int) -> list[list[float]]:
        self.device.timed.append((self.entry.plan.name, tuple(sides), launches))
        return [self.device.times[side] for side in sides]


@dataclass
class ScriptedDevice:
    """See `BenchDevice`."""

    machine: Machine = MACHINE
    free_bytes: int = 1 << 36
    rivals: tuple[Rival, ...] = (Rival(CUBLAS, "cublas"), Rival(CUBLASLT, "lt", "heuristic 1 of 8"))
    times: dict[str, list[float]] = field(
        default_factory=lambda: {"kernel": [10.0, 12.0, 11.0], "cublas": [22.0], "lt": [5.5]}
    )
    faults: dict[str, Any] = field(default_factory=dict)
    measured: list[Ceilings] = field(default_factory=lambda: [CEILINGS, CEILINGS])
    loads: list[tuple[Problem, int, str]] = field(default_factory=list)
    timed: list[tuple[str, tuple[Any, ...], int]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def ceilings(self) -> Ceilings:
        return self.measured.pop(0)

    def load(self, entry: Entry, problem: Problem, sets: int, against: str) -> ScriptedLoaded:
        self.loads.append((problem, sets, against))
        self.entries.append(entry)
        return ScriptedLoaded(self, entry)
