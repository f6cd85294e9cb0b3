"""SIGKILL at any moment leaves only whole files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deepgemm_codegen

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(deepgemm_codegen.__file__).parents[1]


@pytest.mark.parametrize("rounds", [10, pytest.param(50, marks=pytest.mark.full)])
def test_kills_at_random_moments_leave_whole_files(rounds: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.batch.killing", str(tmp_path / "out"), str(rounds)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > rounds // 4, "the kills came too late to show anything"


def _children(of: int) -> list[int]:
    """The processes that a process has started, by Linux's own list."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == of and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    source = tmp_path / "k.yaml"
    source.write_text(f"kernels: [{{n: 8, k: 8, sweep: {{m: {list(range(1, 3000))}}}}}]\n")
    words = [sys.executable, "-m", "deepgemm_codegen", "generate", str(source)]
    words += ["-o", str(tmp_path / "out"), "--jobs=2", "-q"]
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as run:
        assert _until(lambda: any((tmp_path / "out").glob("*.cu")))
        workers = _children(run.pid)
        run.send_signal(signal.SIGKILL)
    assert workers

    def gone(worker: int) -> bool:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    assert _until(lambda: all(map(gone, workers)))
