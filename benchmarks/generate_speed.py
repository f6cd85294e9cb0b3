"""How long a batch of a thousand kernels takes: made anew, checked, and made again unchanged.

    python benchmarks/generate_speed.py [--kernels 1000] [--rounds 5]

Every run is a process of its own with its templates in the cache, as in daily work; the median of
the rounds counts. Computing is processor time of all processes together, which other work on the
machine stretches less than the time by the clock. Where more runs beside the benchmark than there
are cores, times are shown and not judged. Memory is the largest resident set of any
process of a run, times their number, which is at most what the run takes. Writes
``results/generate_speed.json`` and ``.md``, and ends with 1 when a figure is over its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).parent / "results"

SIZES = (64, 77, 128, 256, 320, 512, 640, 768, 1024, 1280, 2048, 2560, 3072, 4096, 5120)
ARCHS = ("sm_80", "sm_90", "sm_90a", "sm_120")
MEMORY_MB = 300


@dataclass(frozen=True, slots=True)
class Side:
    """One kind of run.

    Attributes:
        name: as the table calls it.
        flags: beside files and folder.
        fresh: whether the folder is emptied first.
        code: the exit code that it must end with.
        processes: that make kernels, the one that writes included.
        limit: seconds it may take, or 0.
    """

    name: str
    flags: tuple[str, ...]
    fresh: bool
    code: int = 0
    processes: int = 1
    limit: float = 0.0


SIDES = (
    Side("generate", (), fresh=True, processes=3, limit=4.0),
    Side("generate --check", ("--check",), fresh=False, processes=3, limit=3.0),
    Side("generate, nothing changed", (), fresh=False, processes=3),
    Side("generate --jobs=1", ("--jobs=1",), fresh=True),
    Side("generate --check --jobs=1", ("--check", "--jobs=1"), fresh=False),
)


def kernels(count: int) -> str:
    """A kernel file of so many distinct kernels, sizes and operands as in models."""
    lines = ["kernels:"]
    for number in range(count):
        m = SIZES[number % len(SIZES)] if number % 5 else f"dynamic:{64 << number % 7}"
        n = SIZES[number // 7 % len(SIZES)] + number // (7 * len(SIZES)) * 8
        k = SIZES[number // 3 % len(SIZES)]
        steps = ("[]", "[bias]", "[bias, relu]")[number % 3]
        lines.append(
            f"  - {{name: k{number}, m: {m}, n: {n}, k: {k}, layout: {('nt', 'nn')[number % 2]},"
            f" arch: {ARCHS[number % len(ARCHS)]}, epilogue: {steps}}}"
        )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Run:
    """What one process and those it started took.

    Attributes:
        seconds: from start to end.
        cpu: seconds that all of them computed.
        resident: bytes of the largest of them.
        code: exit code.
    """

    seconds: float
    cpu: float
    resident: int
    code: int


def run(words: list[str], env: dict[str, str]) -> Run:
    """Runs a command without its output."""
    nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    begin = time.perf_counter()
    child = os.posix_spawn(words[0], words, env, file_actions=[nowhere])
    _, status, usage = os.wait4(child, 0)
    return Run(
        time.perf_counter() - begin,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024,
        os.waitstatus_to_exitcode(status),
    )


def stamps(folder: Path) -> dict[str, int]:
    """When each file was last written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def measure(work: Path, count: int, rounds: int) -> list[dict[str, object]]:
    """A row a side."""
    source, out = work / "kernels.yaml", work / "out"
    source.write_text(kernels(count), encoding="utf-8")
    env = {**os.environ, "DGEMM_CACHE_DIR": str(work / "cache"), "PYTHONPATH": str(REPOSITORY)}
    base = [sys.executable, "-m", "deepgemm_codegen", "generate", str(source), "-o", str(out), "-q"]
    run(base, env)  # compiles the templates
    written = len(stamps(out))
    rows: list[dict[str, object]] = []
    for side in SIDES:
        found: list[Run] = []
        for _ in range(rounds):
            if side.fresh:
                shutil.rmtree(out)
            before = {} if side.fresh else stamps(out)
            found.append(run([*base, *side.flags], env))
            if found[-1].code != side.code or len(stamps(out)) != written:
                raise SystemExit(f"{side.name} ended with {found[-1].code}")
            if not side.fresh and stamps(out) != before:
                raise SystemExit(f"{side.name} touched a file")
        rows.append(
            {
                "run": side.name,
                "median_s": round(statistics.median(each.seconds for each in found), 2),
                "least_s": round(min(each.seconds for each in found), 2),
                "cpu_s": round(statistics.median(each.cpu for each in found), 2),
                "limit_s": side.limit or None,
                "memory_mb": round(max(each.resident for each in found) * side.processes / 1e6),
            }
        )
    return rows


def main() -> int:
    """Measures, prints and writes the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    busy = load > (os.cpu_count() or 1)
    work = Path(tempfile.mkdtemp(prefix="generate_speed-"))
    try:
        rows = measure(work, options.kernels, options.rounds)
        size = sum(path.stat().st_size for path in (work / "out").iterdir())
    finally:
        shutil.rmtree(work)
    lines = [
        (
            f"| {options.kernels} kernels | median, s | least, s | computing, s | limit, s"
            " | memory, MB |"
        ),
        "| --- | --: | --: | --: | --: | --: |",
    ]
    lines.extend(
        f"| `{row['run']}` | {row['median_s']} | {row['least_s']} | {row['cpu_s']} |"
        f" {row['limit_s'] or ''} | {row['memory_mb']} |"
        for row in rows
    )
    where = f"Load {load:.1f} on {os.cpu_count()} cores before the first run"
    judged = "the machine was busy, and times are not judged" if busy else "medians are judged"
    lines += ["", f"{where}: {judged}."]
    table = "\n".join(lines) + "\n"
    print(table, end="")
    record = {
        "benchmark": "generate_speed",
        "kernels": options.kernels,
        "rounds": options.rounds,
        "bytes_written": size,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_before": round(load, 1),
        "times_judged": not busy,
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "generate_speed.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "generate_speed.md").write_text(table)
    over = [
        str(row["run"])
        for row in rows
        if not busy and row["limit_s"] and float(str(row["median_s"])) > float(str(row["limit_s"]))
    ]
    over += [f"memory of {row['run']}" for row in rows if int(str(row["memory_mb"])) > MEMORY_MB]
    print(f"over the limit: {', '.join(over)}" if over else f"{judged}; nothing is over its limit")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
