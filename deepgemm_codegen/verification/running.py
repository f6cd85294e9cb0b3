"""Many jobs: in order, by several processes, within a time."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.parallel import in_processes
from deepgemm_codegen.verification.job import Job, Options, Outcome, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from deepgemm_codegen.harness.verify import Progress

__all__ = ["FAILED", "OUT_OF_TIME", "exit_code", "sample", "verify_all"]

FAILED = 1
"""Exit code: a kernel is wrong, or does not meet what is required of it."""

OUT_OF_TIME = 4
"""Exit code: what was judged passed, and something was not judged for want of time."""


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
