"""One kernel from its spec to an outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.checks import DEFAULT_CHECKS, Requirement, check_judging
from deepgemm_codegen.errors import (
    CodegenError,
    EnvironmentLackError,
    InternalError,
    KernelLackError,
)
from deepgemm_codegen.naming import kernel_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.harness import Verdict
    from deepgemm_codegen.harness.memory_costs import MemoryCosts
    from deepgemm_codegen.harness.verify import Progress
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.toolchain import BuiltCubin
    from deepgemm_codegen.verification.judging import Judge

__all__ = ["Job", "Options", "Outcome", "judge"]

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


def judge(job: Job, options: Options, progress: Progress | None = None) -> Outcome:
    """Builds and judges a kernel; what goes wrong with it is an outcome, too.

    Args:
        job: the kernel.
        options: how.
        progress: told of every launch that is done.
    """
    name = kernel_name(job.spec)
    begun = time.monotonic()
    if begun > options.deadline:
        return Outcome(job, name, "unjudged")
    try:
        outcome = _judged(job, name, options, progress)
    except CodegenError as error:
        message = str(error) or type(error).__name__
        lack = isinstance(error, EnvironmentLackError) and not isinstance(error, KernelLackError)
        outcome = Outcome(job, name, "error", message=message, exit_code=error.exit_code, lack=lack)
    except MemoryError as error:
        message = (
            f"{job.spec}: the machine's memory does not hold it ({error}); verify smaller sizes"
        )
        outcome = Outcome(job, name, "error", message=message, exit_code=KernelLackError.exit_code)
    except Exception as error:  # noqa: BLE001  a fault of ours in one kernel spares the others
        message = f"internal error: {type(error).__name__}: {error}"
        outcome = Outcome(job, name, "error", message=message, exit_code=InternalError.exit_code)
    return replace(outcome, seconds=time.monotonic() - begun)


def _judged(job: Job, name: str, options: Options, progress: Progress | None) -> Outcome:
    from deepgemm_codegen.arch import load_arch  # noqa: PLC0415  a batch that is skipped needs none
    from deepgemm_codegen.decide import decide  # noqa: PLC0415
    from deepgemm_codegen.render import render_program  # noqa: PLC0415
    from deepgemm_codegen.toolchain import build_cubin  # noqa: PLC0415

    spec = job.spec
    program = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    source = render_program(program)

    @cache
    def build(target: str) -> BuiltCubin:
        return build_cubin(source, name=program.name, arch=target, line_info=True)

    from deepgemm_codegen.verification.demands import counted, demands_of  # noqa: PLC0415  numpy

    verdict = _verdict(program, build, options, progress)
    needs_costs = options.costs or counted(job.require, options.checks)
    costs: MemoryCosts | None = None
    if needs_costs:
        from deepgemm_codegen.harness.memory_costs import memory_costs  # noqa: PLC0415

        ptx = build(program.target).ptx
        costs = memory_costs(program, ptx, seed=options.seed, effort=options.effort)
    demands = demands_of(job, program, build(program.target), costs, options)
    verdict = replace(verdict, demands=demands)
    status: Status = "failed"
    if verdict.passed:
        status = "passed"
    elif verdict.unjudged and not verdict.failed:
        status = "unjudged"
    return Outcome(
        job, name, status, verdict, costs=costs, reported=options.costs,
        source=source if options.costs else "",
    )  # fmt: skip


def _verdict(
    program: Program,
    build: Callable[[str], BuiltCubin],
    options: Options,
    progress: Progress | None,
) -> Verdict:
    """The harness's verdict, or an empty one where no launch is asked for."""
    from deepgemm_codegen.harness import Verdict  # noqa: PLC0415  imports numpy
    from deepgemm_codegen.harness.trials import VALUES, Settings  # noqa: PLC0415
    from deepgemm_codegen.verification.judging import verdict_of  # noqa: PLC0415

    if not options.checks & (VALUES | {"races", "emulator"}):
        return Verdict(program.name, "not run", ())
    settings = Settings(
        options.seed, options.effort, options.checks, options.deadline, options.jobs
    )
    return verdict_of(program, build, on=options.on, settings=settings, progress=progress)
