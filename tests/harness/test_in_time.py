"""Jobs in processes: what ends, what hangs, what dies, what runs when the time is over."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
in_time: Any = importlib.import_module("in_time").in_time


def work(job: str) -> str:
    if job == "hangs":
        time.sleep(60)
    if job == "dies":
        os._exit(3)
    return f"{job} on {os.environ['CUDA_VISIBLE_DEVICES']}"


def test_what_hangs_or_dies_is_named_and_the_rest_is_done() -> None:
    jobs = ["one", "hangs", "dies", "two", "three"]
    outcome = in_time(work, jobs, 2, 60.0, limit=3.0)
    assert {i: r.partition(" ")[0] for i, r in outcome.results.items()} == {
        0: "one",
        3: "two",
        4: "three",
    }
    assert sorted(outcome.stuck) == [1, 2]
    assert outcome.running == []


def test_what_runs_when_the_time_is_over_is_named_and_killed() -> None:
    begun = time.monotonic()
    outcome = in_time(work, ["one", "hangs", "two"], 1, 4.0)
    assert outcome.results.keys() == {0}
    assert (outcome.stuck, outcome.running) == ([], [1])
    assert time.monotonic() - begun < 20


def test_processes_are_spread_over_the_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    outcome = in_time(work, ["one", "two", "three"], 2, 60.0, gpus=2)
    assert {result.rpartition(" ")[2] for result in outcome.results.values()} <= {"3", "5"}
    assert len(outcome.results) == 3
