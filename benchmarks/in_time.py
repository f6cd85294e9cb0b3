"""Many jobs in processes until a time is over: what is finished counts, the rest is named."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.parallel import one_thread_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["in_time"]

LONGEST = 1e6
"""Seconds, eleven days: a clock takes no infinity."""

Job = TypeVar("Job")
Result = TypeVar("Result")


def in_time(
    function: Callable[[Job], Result], jobs: Sequence[Job], processes: int, seconds: float
) -> tuple[dict[int, Result], list[int]]:
    """The results of the jobs that end in time, and the jobs that were running when it was over.

    Jobs start in their order. A job that hangs costs its process, not the run: what still runs
    when the time is over is killed.

    Returns:
        results by the job's index; indices of the jobs that were begun and killed.
    """
    end = time.monotonic() + min(max(seconds, 0.0), LONGEST)
    results: dict[int, Result] = {}
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=one_thread_each
    )
    futures = {pool.submit(function, job): index for index, job in enumerate(jobs)}
    try:
        for future in as_completed(futures, timeout=end - time.monotonic()):
            results[futures[future]] = future.result()
    except TimeoutError:
        begun = [index for future, index in futures.items() if future.running()]
        workers = list((pool._processes or {}).values())  # noqa: SLF001  no public way to end them
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        return results, sorted(index for index in begun if index not in results)
    pool.shutdown()
    return results, []
