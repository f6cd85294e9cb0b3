"""``bench``: times kernels beside cuBLAS on the GPU of this machine."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.checks import MOST_SEED
from deepgemm_codegen.cli.flags import (
    Command,
    SectionedOption,
    files_argument,
    level_flags,
    spec_flags,
    take_console,
)
from deepgemm_codegen.cli.progress import Progress
from deepgemm_codegen.cli.ranges import Number, Whole
from deepgemm_codegen.cli.request import requests_for, take_flags
from deepgemm_codegen.cli.streams import deliver, print_data
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.parallel import in_processes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.cli.request import Request
    from deepgemm_codegen.cli.streams import Console
    from deepgemm_codegen.harness.bench_data import Entry, Report, Row

__all__ = ["COMMAND"]


def _bench(
    *,
    files: tuple[str, ...],
    against: str | None,
    min_ratio: float | None,
    seed: int,
    jobs: int | None,
    plot: str | None,
    as_json: bool,
    **values: Any,
) -> int:
    console = take_console(values)
    if min_ratio is not None and against == "none":
        raise click.UsageError("--min-ratio compares with cuBLAS; it excludes --against none")
    requests = requests_for(files, take_flags(values), os.environ, console)
    if plot is not None:
        from deepgemm_codegen.harness.bench_roofline import require_matplotlib  # noqa: PLC0415

        require_matplotlib()
    from deepgemm_codegen.harness.bench import run_bench  # noqa: PLC0415  imports numpy
    from deepgemm_codegen.harness.bench_gpu import find_bench_gpu  # noqa: PLC0415

    device = find_bench_gpu(seed)
    against = against or "cublas"
    here, jobs = device.machine.arch, jobs or os.cpu_count() or 1
    entries = _built(requests, here, jobs, beside=against != "none")
    progress = Progress(len(entries), console)

    def finished(row: Row) -> None:
        progress.step()
        console.detail(_line(row))
        if row.message:
            progress.done()
            place = f"{row.where}: " if row.where else ""
            console.problem(f"error: {place}{row.name}: {row.message}")

    report = run_bench(entries, device, against=against, progress=finished)
    progress.done()
    code = _conclude(report, min_ratio, console)
    _print(report, as_json, {"exit_code": code, "min_ratio": min_ratio, "seed": seed})
    if plot is not None:
        from deepgemm_codegen.harness.bench_roofline import draw, roofline  # noqa: PLC0415

        deliver(draw(roofline(report)), plot)
    return code


def _conclude(report: Report, min_ratio: float | None, console: Console) -> int:
    """The exit code; what is too slow is named on stderr."""
    from deepgemm_codegen.harness.bench_data import CUBLAS  # noqa: PLC0415

    code = max((row.exit_code for row in report.rows), default=0)
    if min_ratio is None:
        return code
    for row in report.slower(min_ratio):
        console.problem(
            f"slower: {row.name}: {row.ratio(CUBLAS):.3f} of {CUBLAS}'s speed, less than"
            f" {min_ratio:g}"
        )
        code = max(code, 1)
    uncompared = [
        row.name for row in report.rows if row.timing is not None and row.ratio(CUBLAS) is None
    ]
    if uncompared:
        names = ", ".join(uncompared[:3]) + (" ..." if len(uncompared) > 3 else "")
        console.problem(f"error: no {CUBLAS} figure to hold --min-ratio against: {names}")
        code = max(code, EnvironmentLackError.exit_code)
    return code


def _line(row: Row) -> str:
    """One finished kernel, for ``-v``: a long run is then not silent."""
    if row.timing is None:
        return f"{row.name}: {row.message}"
    ratios = ", ".join(
        f"{rival.name} {row.ratio(rival.name):.3f}" for rival in row.rivals if rival.timing
    )
    return f"{row.name}: {row.timing.median_us:.2f} us; {ratios or 'no rival'}"


def _print(report: Report, as_json: bool, fields: dict[str, Any]) -> None:
    from deepgemm_codegen.harness import bench_table  # noqa: PLC0415

    if as_json:
        print_data(bench_table.as_json(report, **fields))
        return
    print_data(_coloured(report) or bench_table.plain(report))


def _coloured(report: Report) -> str:
    """The report for a terminal, by rich; empty where stdout is none, or too narrow, or no rich."""
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return ""
    try:
        from deepgemm_codegen.harness.bench_rich import render  # noqa: PLC0415  optional
    except ImportError:
        return ""
    return render(report)


def _built(requests: Sequence[Request], here: str, jobs: int, *, beside: bool) -> list[Entry | Row]:
    """Every kernel built for the device, by several processes, before anything is timed.

    Args:
        requests: the kernels.
        here: the device's architecture.
        jobs: most processes.
        beside: whether a kernel with steps has its plain product built, too.

    Raises:
        EnvironmentLackError: there is no compiler, or a process died.
    """
    from deepgemm_codegen.batch.bench_entry import build_entry  # noqa: PLC0415
    from deepgemm_codegen.harness.bench_data import Row  # noqa: PLC0415

    tasks = [(str(request.spec), request.where, here, beside) for request in requests]
    made: list[Entry | Row] = []
    for request, result in zip(requests, in_processes(build_entry, tasks, jobs), strict=True):
        if isinstance(result, EnvironmentLackError):
            raise result  # the next kernel would lack the same
        if isinstance(result, Row):
            made.append(replace(result, where=request.place_of(result.message)))
        else:
            made.append(result)
    return made


_SECTION = "Measure"

COMMAND = Command(
    "bench",
    params=[
        files_argument(required=False),
        SectionedOption(
            ["--against"],
            type=click.Choice(("cublas", "none")),
            help="what to compare with: cuBLAS's default algorithm, the best of cublasLt's top"
            " eight and, of a kernel with epilogue steps, our own without them; or nothing"
            "  [default: cublas]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--min-ratio"],
            type=Number(0.01, 100.0),
            metavar="RATIO",
            help="exit with 1 when a kernel reaches less than this share of cuBLAS's speed, such as"
            " 0.95",
            section=_SECTION,
        ),
        SectionedOption(
            ["--seed"],
            type=Whole(0, MOST_SEED),
            default=0,
            metavar="NUMBER",
            help="seed of the random operands and of the rows that are checked  [default: 0]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--jobs"],
            type=Whole(1, 256),
            metavar="NUMBER",
            help="processes that build, before anything is timed  [default: one per processor]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--json", "as_json"],
            is_flag=True,
            help="print the report as JSON on stdout",
            section="Output",
        ),
        SectionedOption(
            ["--plot"],
            metavar="FILE",
            help="also draw a roofline as PNG (needs matplotlib: the extra 'plot')",
            section="Output",
        ),
        *spec_flags(),
        *level_flags(),
    ],
    callback=_bench,
    help="Times the kernel that the flags describe, or every kernel of FILES, beside cuBLAS on"
    " this machine's GPU. Each kernel is checked first; a wrong one is not timed and gives exit"
    " code 1.",
    examples=(
        "deepgemm_codegen bench --m=4096 --n=4096 --k=4096 --layout=nt --arch=sm_90",
        "deepgemm_codegen bench configs/bench/hopper.yaml --against=cublas --min-ratio=0.95",
        "deepgemm_codegen bench configs/kernels/gpt2_small.yaml --json --plot=roofline.png",
    ),
)
