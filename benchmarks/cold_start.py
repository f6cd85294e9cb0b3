"""How long the command takes from nothing, against importing the libraries that it stands on.

Every process is started afresh with its bytecode and the page cache warm; the sides take turns,
and the median of `ROUNDS` counts. A ratio compares sides of one run, so it carries to other
machines better than a time does. Run it with the interpreter that has the package installed::

    python benchmarks/cold_start.py
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 21
"""Processes a side."""

RESULTS = Path(__file__).parent / "results"

REPOSITORY = Path(__file__).parents[1]

SPEC = ("--m=1024", "--n=1024", "--k=1024", "--arch=sm_80", "--dtype=fp16")


@dataclass(frozen=True, slots=True)
class Side:
    """One command line.

    Attributes:
        name: how the table calls it.
        words: after the interpreter.
        clear: what is removed from the cache before each process: a glob.
        limit: most that it may take as a multiple of another side, or 0.
        against: that side; by default the first.
    """

    name: str
    words: tuple[str, ...]
    clear: str = ""
    limit: float = 0.0
    against: str = "import click, jinja2, yaml"


_COMMAND = ("-m", "deepgemm_codegen")

SIDES = (
    Side("import click, jinja2, yaml", ("-c", "import click, jinja2, yaml")),
    Side("import click", ("-c", "import click")),
    Side("--version", (*_COMMAND, "--version")),
    Side("--help", (*_COMMAND, "--help"), limit=2.0, against="import click"),
    Side("generate --help", (*_COMMAND, "generate", "--help"), limit=2.0, against="import click"),
    Side("--emit=cu", (*_COMMAND, *SPEC, "--emit=cu"), limit=2.5),
    Side("--emit=ptx, kernel in the cache", (*_COMMAND, *SPEC)),
    Side("--emit=ptx, no kernel in the cache", (*_COMMAND, *SPEC), "*.entry", 8.0),
    Side("--emit=cu, no compiled template in the cache", (*_COMMAND, *SPEC, "--emit=cu"),
         "templates/*"),
)  # fmt: skip


def seconds(side: Side, cache: Path) -> float:
    """Wall time of one process."""
    for path in cache.glob(side.clear) if side.clear else ():
        path.unlink()
    env = {**os.environ, "DGEMM_CACHE_DIR": str(cache)}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *side.words], check=True, stdout=subprocess.DEVNULL, env=env,
        cwd=REPOSITORY,
    )  # fmt: skip
    return time.perf_counter() - start


def main() -> int:
    """Measures, prints and writes the results; 1 when a side takes more than its limit."""
    cache = Path(tempfile.mkdtemp(prefix="cold_start-"))
    try:
        for side in SIDES:
            seconds(side, cache)
        times: dict[str, list[float]] = {side.name: [] for side in SIDES}
        for _ in range(ROUNDS):
            for side in SIDES:
                times[side.name].append(seconds(side, cache))
    finally:
        shutil.rmtree(cache)
    rows = []
    for side in SIDES:
        median = statistics.median(times[side.name])
        base = statistics.median(times[side.against])
        rows.append(
            {
                "side": side.name,
                "median_ms": round(1000 * median, 1),
                "least_ms": round(1000 * min(times[side.name]), 1),
                "against": side.against,
                "ratio": round(median / base, 2),
                "limit": side.limit or None,
            }
        )
    record = {
        "benchmark": "cold_start",
        "rounds": ROUNDS,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "rows": rows,
    }
    lines = [
        "| process | median, ms | ratio | to that of | limit |",
        "| --- | --: | --: | --- | --: |",
    ]
    lines.extend(
        f"| `{row['side']}` | {row['median_ms']} | {row['ratio']} | `{row['against']}` |"
        f" {row['limit'] or ''} |"
        for row in rows
    )
    table = "\n".join(lines) + "\n"
    print(table, end="")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cold_start.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "cold_start.md").write_text(table)
    limited = [row for row in rows if row["limit"]]
    slow = [row for row in limited if row["ratio"] > row["limit"]]
    words = ", ".join(f"{row['side']} {row['ratio']} of {row['limit']}" for row in slow or limited)
    print(f"{'over the limit' if slow else 'within the limits'}: {words}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
