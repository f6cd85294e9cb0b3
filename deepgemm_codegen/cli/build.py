"""``build``: a generated folder's kernels compiled, and what they take of a multiprocessor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.flags import PATH, Command, SectionedOption, level_flags, take_console
from deepgemm_codegen.cli.progress import Progress
from deepgemm_codegen.cli.ranges import Whole
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.cli.tables import aligned

if TYPE_CHECKING:
    from deepgemm_codegen.batch.building import BuildReport, Built
    from deepgemm_codegen.cli.streams import Console

__all__ = ["COMMAND"]

_FORMAT = "1.0"
_MOST_JOBS = 256


def _build(
    *,
    folder: str,
    out: str | None,
    cubins: bool,
    check: bool,
    jobs: int | None,
    as_json: bool,
    **values: Any,
) -> int:
    from deepgemm_codegen.batch.building import build  # noqa: PLC0415  --help needs none of it
    from deepgemm_codegen.batch.manifest import read_manifest  # noqa: PLC0415

    console = take_console(values)
    progress = Progress(len(read_manifest(folder, needed=True).kernels), console)

    def tell(built: Built) -> None:
        progress.step()
        if built.message:
            progress.done()
            console.problem(f"error: {built.name}: {built.message}")

    report = build(folder, out, cubins=cubins, check=check, jobs=jobs, progress=tell)
    progress.done()
    if as_json:
        print_data(_report_json(report))
    else:
        _tell(report, console, check=check)
    return report.exit_code


def _tell(report: BuildReport, console: Console, *, check: bool) -> None:
    """The table, what a check found, and the counts."""
    good = [built for built in report.kernels if built.facts]
    if check:
        print_data("".join(f"changed   {line}\n" for line in report.changed))
    elif console.level >= 0 and good:
        print_data(_table(good) + "\n")
    bad = len(report.kernels) - len(good)
    counts = [(len(good), "built"), (bad, "failed"), (len(report.changed), "changed")]
    line = ", ".join(f"{count} {word}" for count, word in counts if count)
    if check or console.level >= 0:
        print_data(f"{line} by {report.compiler}\n")


def _table(good: list[Built]) -> str:
    """Registers and spilled bytes a thread, shared memory a block, blocks a multiprocessor."""
    rows = [["kernel", "target", "registers", "spilled", "shared", "blocks"]]
    for built in good:
        for used in built.facts["resources"]:
            spilled = used["spill_store_bytes"] + used["spill_load_bytes"]
            numbers = (used["registers"], spilled, used["shared_bytes"], used["blocks_per_sm"])
            rows.append([used["kernel"], built.facts["target"], *map(str, numbers)])
    return aligned(rows, numbers=2)


def _report_json(report: BuildReport) -> str:
    kernels = [
        dict(built.facts) if built.facts else {"name": built.name, "error": built.message}
        for built in report.kernels
    ]
    fields = {
        "format": _FORMAT,
        "compiler": report.compiler,
        "exit_code": report.exit_code,
        "changed": list(report.changed),
        "kernels": kernels,
    }
    return json.dumps(fields, indent=2) + "\n"


COMMAND = Command(
    "build",
    params=[
        click.Argument(["folder"], type=PATH, metavar="FOLDER"),
        SectionedOption(
            ["-o", "--out"],
            type=PATH,
            metavar="FOLDER",
            help="where the cubins and build.json go  [default: the same folder]",
            section="Output",
        ),
        SectionedOption(
            ["--cubins/--no-cubins"],
            default=True,
            help="whether NAME.cubin is written for each kernel  [default: --cubins]",
            section="Output",
        ),
        SectionedOption(
            ["--check"],
            is_flag=True,
            help="write nothing; name what differs from build.json, and exit 1 if anything does",
            section="Output",
        ),
        SectionedOption(
            ["--jobs"],
            type=Whole(1, _MOST_JOBS),
            metavar="NUMBER",
            help="processes to compile with  [default: one a core]",
            section="Output",
        ),
        SectionedOption(
            ["--json", "as_json"],
            is_flag=True,
            help="the report as JSON on stdout",
            section="Output",
        ),
        *level_flags(),
    ],
    callback=_build,
    help="Compiles every kernel of a folder that generate has written, several at a time, and"
    " writes what the compiler made of them: its version and options, each cubin's hash, and the"
    " registers, spills and shared memory of each kernel. The compile cache makes a second build"
    " cheap; DGEMM_COMPILATION_TIMEOUT_MS bounds each compile.",
    examples=(
        "deepgemm_codegen build generated",
        "deepgemm_codegen build generated -o build --jobs=8",
        "deepgemm_codegen build generated --no-cubins --check",
    ),
)
