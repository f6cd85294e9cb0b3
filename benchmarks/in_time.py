"""Many jobs in processes until a time is over, none of them longer than a limit."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.parallel import one_thread_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.process import BaseProcess

__all__ = ["Outcome", "in_time"]

LONGEST = 1e6
"""Seconds, eleven days: a clock takes no infinity."""

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass
class Outcome(Generic[Result]):
    """What became of some jobs, by index; of those not named here nothing began.

    Attributes:
        results: of those that ended.
        stuck: what went beyond the limit, or took its process along.
        running: what was still at work when the time was over.
    """

    results: dict[int, Result] = field(default_factory=dict)
    stuck: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Any
    gpu: int
    job: int
    end: float


def in_time(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    processes: int,
    seconds: float,
    *,
    gpus: int = 1,
    limit: float = LONGEST,
) -> Outcome[Result]:
    """Does jobs in their order, and kills what runs beyond its limit or the time for all.

    A kernel that never ends hangs its process for good; here it costs that process, and the job is
    named.

    Args:
        function: a module's; it, the jobs and the results travel between processes.
        jobs: what to do.
        processes: how many at a time. Those of one GPU take turns at it, a few milliseconds each,
            and wait for their turn at every synchronisation: few are faster.
        seconds: for all.
        gpus: over how many of the visible ones the processes are spread.
        limit: seconds for one job, a process's start included.
    """
    over = time.monotonic() + min(max(seconds, 0.0), LONGEST)
    outcome: Outcome[Result] = Outcome()
    waiting = iter(range(len(jobs)))
    workers: list[_Worker] = []
    try:
        for number in range(min(processes, len(jobs))):
            _begin(workers, function, jobs, waiting, number % gpus, limit)
        while workers and (now := time.monotonic()) < over:
            soonest = min(over, *(worker.end for worker in workers))
            ready = connection.wait([w.pipe for w in workers], timeout=max(soonest - now, 0.0))
            for worker in [w for w in workers if w.pipe in ready or w.end <= time.monotonic()]:
                if worker.pipe in ready and _took(worker, outcome):
                    _next(workers, worker, jobs, waiting, limit)
                    continue
                outcome.stuck.append(worker.job)
                _end(workers, worker)
                _begin(workers, function, jobs, waiting, worker.gpu, limit)
        outcome.running = sorted(worker.job for worker in workers)
    finally:
        for worker in workers:
            _end(workers, worker)
    return outcome


def _begin(
    workers: list[_Worker],
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    waiting: Iterator[int],
    gpu: int,
    limit: float,
) -> None:
    """Another process, with the next job; none where no job waits."""
    # A fork would copy a GPU's context, which cannot be used twice.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(function, theirs, _visible(gpu)), daemon=True)
    worker = _Worker(process, ours, gpu, -1, 0.0)
    workers.append(worker)
    if _next(workers, worker, jobs, waiting, limit):
        process.start()
        theirs.close()


def _next(
    workers: list[_Worker],
    worker: _Worker,
    jobs: Sequence[Job],
    waiting: Iterator[int],
    limit: float,
) -> bool:
    """Gives a process the next job; where there is none it ends."""
    index = next(waiting, None)
    if index is None:
        _end(workers, worker)
        return False
    worker.job, worker.end = index, time.monotonic() + limit
    worker.pipe.send(jobs[index])
    return True


def _took(worker: _Worker, outcome: Outcome[Any]) -> bool:
    """Takes a result; False where the process died instead."""
    try:
        outcome.results[worker.job] = worker.pipe.recv()
    except (EOFError, OSError):
        return False
    return True


def _end(workers: list[_Worker], worker: _Worker) -> None:
    workers.remove(worker)
    if worker.process.pid is not None:
        worker.process.kill()
        worker.process.join()
    worker.pipe.close()


def _visible(gpu: int) -> str:
    """What CUDA_VISIBLE_DEVICES says for the process that has this one of the visible GPUs."""
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return names[gpu] if gpu < len(names) else str(gpu)


def _work(function: Callable[[Any], Any], pipe: Any, gpu: str) -> None:
    """What a process does until it is killed."""
    one_thread_each()
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    try:
        while True:
            pipe.send(function(pipe.recv()))
    except (EOFError, BrokenPipeError):
        return  # who started it has ended
