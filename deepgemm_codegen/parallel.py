"""Work spread over processes, its results in order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from deepgemm_codegen.errors import EnvironmentLackError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

__all__ = ["cores", "in_processes", "one_thread_each"]

_FLYING = 3
"""Items in flight for each process, so that none waits and few results are held."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_processes(
    work: Callable[[_Item], _Result], items: Sequence[_Item], jobs: int
) -> Generator[_Result, None, None]:
    """``map(work, items)`` by ``jobs`` processes; by this one where there is one job or item.

    Args:
        work: a module's function; it and the items travel between processes.
        items: what to work on. A message costs as much as half a millisecond of work.
        jobs: processes, at most.

    Raises:
        EnvironmentLackError: a process died.
    """
    if jobs <= 1 or len(items) < 2:
        yield from map(work, items)
        return
    from collections import deque  # noqa: PLC0415  only several processes need these
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor  # noqa: PLC0415
    from itertools import islice  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    # A fork would copy the locks of the caller's threads, and a GPU's context, which cannot be
    # used twice; a fresh process starts clean everywhere.
    jobs = min(jobs, len(items))
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin)
    try:
        waiting: Iterable[_Item] = iter(items)
        flying = deque(pool.submit(work, item) for item in islice(waiting, jobs * _FLYING))
        while flying:
            yield flying.popleft().result()
            flying.extend(pool.submit(work, item) for item in islice(waiting, 1))
    except BrokenExecutor as error:
        raise EnvironmentLackError("a worker process died; try again with --jobs=1") from error
    finally:
        pool.shutdown(cancel_futures=True)


def one_thread_each() -> None:
    """Leaves numpy's products to one thread, in a process that has not imported it yet.

    Its libraries would start a thread a core, which wait for each other longer than a product of
    the emulator takes: a verdict costs twice the processor time.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def _begin() -> None:
    """What a worker does before its first item."""
    one_thread_each()
    _die_with_parent()


def _die_with_parent() -> None:
    """Ends this worker when the process that started it is killed; it would wait for ever."""
    import threading  # noqa: PLC0415  only a worker runs this
    from multiprocessing import connection, parent_process  # noqa: PLC0415

    parent = parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
