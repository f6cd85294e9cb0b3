"""A kernel to judge, how it is judged, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.checks import DEFAULT_CHECKS, Requirement, check_judging

if TYPE_CHECKING:
    from deepgemm_codegen.harness import Verdict
    from deepgemm_codegen.harness.memory_costs import MemoryCosts
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.verification.judging import Judge

__all__ = ["Job", "Options", "Outcome", "Status"]

Status = Literal["passed", "failed", "error", "unjudged"]


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to judge.

    Attributes:
        spec: what it is.
        file, line, column: where it is asked for; empty and 0 for the command line.
        require: what is demanded beside right values.
    """

    spec: GemmSpec
    file: str = ""
    line: int = 0
    column: int = 0
    require: tuple[Requirement, ...] = ()

    @property
    def where(self) -> str:
        """``file:line``, or empty."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, slots=True)
class Options:
    """How kernels are judged.

    Attributes:
        on: ``auto`` is the GPU where there is one that runs the kernel, else the emulator.
        seed: of the random inputs, the sampled blocks and the sampled kernels.
        effort: factor on the number of blocks that the emulator runs.
        checks: kinds of check, see `deepgemm_codegen.checks.CHECKS`.
        costs: whether memory accesses are counted for a report.
        deadline: time (``time.monotonic``) after which nothing is begun.
        jobs: processes that share the launches of one kernel.

    Raises:
        InputError: see `deepgemm_codegen.checks.check_judging`.
    """

    on: Judge = "auto"
    seed: int = 0
    effort: float = 1.0
    checks: frozenset[str] = DEFAULT_CHECKS
    costs: bool = False
    deadline: float = inf
    jobs: int = 1

    def __post_init__(self) -> None:
        check_judging(self.seed, self.effort, self.checks)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job.

    Attributes:
        job: which.
        name: of the kernel.
        status: ``error`` is a kernel that could not be judged, ``unjudged`` one for which the time
            did not suffice.
        verdict: None where there is none.
        message, exit_code: of an error.
        lack: whether that is something the machine lacks for every kernel.
        costs: of memory accesses, where they were counted.
        reported: whether the costs were asked for, beside what is required.
        source: the generated text that lines of the costs are of.
        seconds: that it took.
    """

    job: Job
    name: str
    status: Status
    verdict: Verdict | None = None
    message: str = ""
    exit_code: int = 0
    lack: bool = False
    costs: MemoryCosts | None = None
    reported: bool = False
    source: str = ""
    seconds: float = 0.0
