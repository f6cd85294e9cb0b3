"""Work spread over processes."""

from __future__ import annotations

import multiprocessing
import os
import time
from contextlib import closing

import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.parallel import cores, in_processes


def square(number: int) -> int:
    """A worker of uneven pace."""
    time.sleep(0.02 * (number % 3 == 0))
    return number * number


def failing(number: int) -> int:
    """A worker that cannot do its seventh item."""
    if number == 7:
        raise ValueError("seven")
    return number


def dying(number: int) -> int:
    """A worker that is killed by its second item."""
    if number == 1:
        os._exit(9)
    return number


def test_results_come_in_order() -> None:
    assert list(in_processes(square, range(20), 2)) == [n * n for n in range(20)]


def test_one_job_or_one_item_stays_here() -> None:
    here = list(in_processes(lambda _: os.getpid(), [1, 2], 1))
    assert here == [os.getpid()] * 2
    assert list(in_processes(lambda _: os.getpid(), [1], 8)) == [os.getpid()]
    assert list(in_processes(square, [], 8)) == []


def test_an_error_is_the_callers() -> None:
    with closing(in_processes(failing, range(20), 2)) as results:
        assert [next(results) for _ in range(7)] == list(range(7))
        with pytest.raises(ValueError, match="seven"):
            next(results)


def test_a_worker_that_dies_is_named() -> None:
    with pytest.raises(EnvironmentLackError) as caught:
        list(in_processes(dying, range(20), 2))
    assert str(caught.value) == "a worker process died; try again with --jobs=1"


def test_leaving_early_leaves_no_process() -> None:
    with closing(in_processes(square, range(1000), 2)) as results:
        assert next(results) == 0
        assert multiprocessing.active_children()
    assert multiprocessing.active_children() == []


def test_there_is_a_core() -> None:
    assert cores() >= 1
