"""Jobs to outcomes: one, or many in order, by several processes, within a time."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import (
    CodegenError,
    EnvironmentLackError,
    InternalError,
    KernelLackError,
)
from deepgemm_codegen.parallel import in_processes
from deepgemm_codegen.spec.naming import kernel_name
from deepgemm_codegen.verification.job import Job, Options, Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from deepgemm_codegen.harness import Verdict
    from deepgemm_codegen.harness.memory_costs import MemoryCosts
    from deepgemm_codegen.harness.verify import Progress
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.toolchain import BuiltCubin

__all__ = ["FAILED", "OUT_OF_TIME", "exit_code", "judge", "sample", "verify_all"]

FAILED = 1
"""Exit code: a kernel is wrong, or does not meet what is required of it."""

OUT_OF_TIME = 4
"""Exit code: what was judged passed, and something was not judged for want of time."""


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
    if not (verdict.checks or verdict.demands or verdict.unjudged):
        nothing = f"nothing was judged: of {', '.join(sorted(options.checks))} nothing applies here"
        verdict = replace(verdict, notes=(*verdict.notes, nothing))
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
    from deepgemm_codegen.harness.trials import VALUES  # noqa: PLC0415
    from deepgemm_codegen.verification.judging import verdict_of  # noqa: PLC0415

    if not options.checks & (VALUES | {"races", "emulator"}):
        return Verdict(program.name, "not run", ())
    return verdict_of(program, build, on=options.on, settings=options, progress=progress)


def sample(jobs: Sequence[Job], count: int, seed: int) -> list[Job]:
    """Some of the jobs, drawn by seed, in their order; all of them when there are no more."""
    if count >= len(jobs):
        return list(jobs)
    draw = random.Random(seed)  # noqa: S311  sampling, not secrets
    return [jobs[i] for i in sorted(draw.sample(range(len(jobs)), count))]


def verify_all(
    jobs: Sequence[Job], options: Options, processes: int = 1, progress: Progress | None = None
) -> Iterator[Outcome]:
    """The outcome of every job, in order, as it comes.

    Several kernels go to a process each; where there are fewer kernels than processes, all
    processes share the launches of one kernel after the other.

    Args:
        jobs: the kernels.
        options: how they are judged.
        processes: at most.
        progress: told of every launch of a lone kernel.

    Raises:
        EnvironmentLackError: the machine lacks what the next kernel would need, too.
    """
    if len(jobs) < max(processes, 2):
        shared = replace(options, jobs=processes)
        for job in jobs:
            yield _or_lack(judge(job, shared, progress if len(jobs) == 1 else None))
        return
    for outcome in in_processes(partial(_judge, options), jobs, processes):
        yield _or_lack(outcome)


def _judge(options: Options, job: Job) -> Outcome:
    return judge(job, options)


def _or_lack(outcome: Outcome) -> Outcome:
    if outcome.lack:
        raise EnvironmentLackError(outcome.message)
    return outcome


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """What a command ends with: 0 only where everything was judged and passed."""
    found = list(outcomes)
    errors = max((each.exit_code for each in found if each.status == "error"), default=0)
    if errors:
        return errors
    if any(each.status == "failed" for each in found):
        return FAILED
    return OUT_OF_TIME if any(each.status == "unjudged" for each in found) else 0
