"""Pipes that close, disks that are full, processes that are killed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import SMALL, shell

if TYPE_CHECKING:
    from pathlib import Path

ARGS = " ".join(SMALL)


@pytest.mark.parametrize("words", [f"{ARGS} --emit=cu", "--help", "--version", "doctor", "schema"])
def test_a_full_disk(words: str) -> None:
    result = shell(f"$CLI {words} > /dev/full")
    assert result.code == 3
    assert result.err == (
        "error: cannot write to standard output: the disk is full; free some space, or write to"
        " another disk\n"
    )


def test_a_full_disk_behind_a_path() -> None:
    result = shell(f"$CLI {ARGS} --emit=cu -o /dev/full")
    assert result.code == 3
    assert result.err.startswith("error: cannot write '/dev/full': the disk is full; ")


@pytest.mark.parametrize("words", [f"{ARGS} --emit=cu", "--help", "cache info"])
def test_a_closed_stdout(words: str) -> None:
    result = shell(f"$CLI {words} >&-")
    assert result.code == 3
    assert result.err == (
        "error: cannot write to standard output: it is closed; give -o FILE or redirect it\n"
    )


def test_nothing_is_open() -> None:
    assert shell(f"$CLI {ARGS} --emit=cu <&- >&- 2>&-").code == 3
    assert shell(f"$CLI {ARGS} --emit=cu <&- 2>&-").code == 0
    assert shell("$CLI --m=0 --n=1 --k=1 2>&-").code == 2
    assert shell("$CLI --m=0 --n=1 --k=1 2>/dev/full").code == 2


@pytest.mark.parametrize("words", [ARGS, "--help"])
def test_a_broken_pipe_is_quiet(words: str) -> None:
    result = shell(f"$CLI {words} | true; exit ${{PIPESTATUS[0]}}")
    assert result.code in (0, 141)  # small outputs fit into the pipe before it closes
    assert result.err == ""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_folder_is_finished_though_the_reader_went_away(tmp_path: Path, jobs: int) -> None:
    """What came before the pipe broke used to stay without a selector and a manifest."""
    source = tmp_path / "kernels.yaml"
    source.write_text("kernels:\n" + "".join(f"  - {{m: 16, n: 16, k: {k}}}\n" for k in (16, 32)))
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "deepgemm_codegen", "generate", str(source), f"--jobs={jobs}"]
    folder = tmp_path / "out"
    done = subprocess.run(
        [*command, "-o", str(folder)], stdout=write, stderr=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stderr) == (141, b"")
    checked = subprocess.run([*command, "-o", str(folder), "--check"], check=False)
    assert checked.returncode == 0
    next(folder.glob("*.cu")).write_text("// edited\n")
    done = subprocess.run(
        [*command, "-o", str(folder), "--check"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_reports_are_written_though_the_reader_went_away(tmp_path: Path) -> None:
    """``verify ... --junit=FILE | head`` left no file."""
    source = tmp_path / "kernels.yaml"
    source.write_text("kernels:\n" + "".join(f"  - {{m: 16, n: 16, k: {k}}}\n" for k in (16, 32)))
    command = [sys.executable, "-m", "deepgemm_codegen", "verify", str(source), "--on=emulator"]
    command += ["--checks=exact", "--effort=0.01"]
    junit, report = tmp_path / "junit.xml", tmp_path / "report.json"
    for more in ([], ["--json"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [*command, *more, f"--junit={junit}", f"--json-file={report}"],
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(write)
        assert done.returncode == 141, done.stderr
        assert [each["status"] for each in json.loads(report.read_text())["kernels"]] == [
            "passed",
            "passed",
        ]
        assert junit.read_text().count("<testcase") == 2
        junit.unlink()
        report.unlink()


def test_a_broken_pipe_gives_the_shells_own_code() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "deepgemm_codegen", *SMALL, "--emit=cu"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_cubin_does_not_go_to_a_terminal() -> None:
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "deepgemm_codegen", *SMALL, "--emit=cubin"],
        stdout=follower,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2
    assert done.stderr == (
        b"error: a cubin is not text for a terminal; give -o FILE or redirect stdout\n"
    )


def test_a_killed_run_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    words = [sys.executable, "-m", "deepgemm_codegen", *SMALL, "--emit=cu", "-o", str(path)]
    subprocess.run(words, check=True)
    whole = path.read_bytes()
    for step in range(8):
        path.unlink(missing_ok=True)
        run = subprocess.Popen(words)
        time.sleep(0.03 + 0.02 * step)
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert [entry.name for entry in tmp_path.iterdir()] in ([], ["kernel.cu"])
        assert not path.exists() or path.read_bytes() == whole


def test_no_home_and_no_writable_cache() -> None:
    script = f"unset HOME DGEMM_CACHE_DIR XDG_CACHE_HOME; $CLI {ARGS} | head -c 2"
    assert shell(script).out == "//"
    result = shell(f"$CLI {ARGS}", env={"DGEMM_CACHE_DIR": "/proc/none"})
    assert (result.code, result.err) == (0, "")
