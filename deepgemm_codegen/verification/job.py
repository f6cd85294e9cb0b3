"""A kernel to judge, how it is judged, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.checks import Requirement, Settings

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
class Options(Settings):
    """How kernels are judged, where, and what else is told of them.

    Attributes:
        on: ``auto`` is the GPU where there is one that runs the kernel, else the emulator.
        costs: whether memory accesses are counted for a report.
    """

    on: Judge = "auto"
    costs: bool = False


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
