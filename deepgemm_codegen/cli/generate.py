"""``generate``: every kernel of some kernel files into a folder, or a check of that folder."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.flags import (
    Command,
    SectionedOption,
    files_argument,
    flag_of,
    level_flags,
    spec_flags,
    take_console,
)
from deepgemm_codegen.cli.request import environment_settings, requests_of, take_flags
from deepgemm_codegen.cli.streams import Progress, print_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deepgemm_codegen.batch_report import BatchReport, Outcome
    from deepgemm_codegen.cli.request import Setting
    from deepgemm_codegen.cli.streams import Console

__all__ = ["COMMAND"]

_FORMAT = "1.0"
_MOST_JOBS = 256


def _generate(
    *,
    files: tuple[str, ...],
    out: str,
    check: bool,
    diff: bool,
    prune: bool,
    fail_fast: bool,
    jobs: int,
    as_json: bool,
    **values: Any,
) -> int:
    from deepgemm_codegen.batch import generate  # noqa: PLC0415  --help needs none of it

    console = take_console(values)
    flags = take_flags(values)
    settings = environment_settings(os.environ, console)
    asked = requests_of(files, flags, settings, console)
    progress = Progress(len(asked), console)
    report = generate(
        [replace(entry, spec=request.spec) for entry, request in asked],
        out,
        check=check,
        diff=diff,
        jobs=jobs,
        keep_going=not fail_fast,
        prune=prune,
        progress=_teller(progress, console, quiet=as_json, check=check),
    )
    progress.done()
    report = replace(report, fix=_fix(report, flags, settings))
    if as_json:
        print_data(_report_json(report))
    else:
        _tell_end(report, console)
    return report.exit_code


def _teller(
    progress: Progress, console: Console, *, quiet: bool, check: bool
) -> Callable[[Outcome], None]:
    """Prints each outcome as it comes: a failure to stderr, what differs to stdout."""

    def tell(outcome: Outcome) -> None:
        progress.step()
        if quiet:
            return
        if outcome.status == "failed":
            progress.done()
            console.problem(f"error: {outcome.where or outcome.file}: {outcome.message}")
        elif outcome.status != "unchanged" and (check or console.level >= 0):
            progress.done()
            print_data(f"{outcome}\n{outcome.diff}")
        elif console.level > 0:
            print_data(f"{outcome}\n")

    return tell


def _tell_end(report: BatchReport, console: Console) -> None:
    lines = str(report).splitlines()
    counts = next(line for line in reversed(lines) if not line.startswith("to bring"))
    if report.check or console.level >= 0:
        print_data(f"{counts}\n")
    if report.drift and report.fix:
        console.problem(f"to bring the folder up to date: {report.fix}")


def _fix(report: BatchReport, flags: Mapping[str, str], settings: Mapping[str, Setting]) -> str:
    """The command that mends the folder, with the flags and environment of this one."""
    if not report.fix:
        return ""
    before = (setting.variable for name, setting in settings.items() if name not in flags)
    after = (f"{flag_of(name)}={value}" for name, value in flags.items())
    return " ".join((*map(shlex.quote, before), report.fix, *map(shlex.quote, after)))


def _report_json(report: BatchReport) -> str:
    outcomes = [
        {
            name: value
            for name, value in (
                ("file", outcome.file),
                ("status", outcome.status),
                ("source", outcome.where),
                ("message", outcome.message),
            )
            if value
        }
        for outcome in report.outcomes
    ]
    fields = {
        "format": _FORMAT,
        "check": report.check,
        "exit_code": report.exit_code,
        "files": outcomes,
        "fix": report.fix if report.drift else "",
    }
    return json.dumps(fields, indent=2) + "\n"


_OPTIONS: list[click.Parameter] = [
    files_argument(required=True),
    SectionedOption(
        ["-o", "--out", "out"],
        required=True,
        metavar="FOLDER",
        help="where the .cu files and manifest.json go",
        section="Output",
    ),
    SectionedOption(
        ["--check"],
        is_flag=True,
        help="write nothing; name each new, changed, missing and orphan file, and exit 1 if any",
        section="Output",
    ),
    SectionedOption(
        ["--diff"], is_flag=True, help="show how each changed kernel differs", section="Output"
    ),
    SectionedOption(
        ["--prune"],
        is_flag=True,
        help="delete kernels that the files no longer ask for",
        section="Output",
    ),
    SectionedOption(
        ["--fail-fast"],
        is_flag=True,
        help="stop at the first kernel that fails; finished ones stay",
        section="Output",
    ),
    SectionedOption(
        ["--jobs"],
        type=click.IntRange(1, _MOST_JOBS),
        default=1,
        show_default=False,
        metavar="NUMBER",
        help="processes to work with  [default: 1]",
        section="Output",
    ),
    SectionedOption(
        ["--json", "as_json"], is_flag=True, help="the report as JSON on stdout", section="Output"
    ),
]

COMMAND = Command(
    "generate",
    params=[*_OPTIONS, *spec_flags(), *level_flags()],
    callback=_generate,
    help="Writes every kernel that FILES ask for, and a manifest, into a folder. Flags below"
    " Output apply to every kernel and beat the files.",
    examples=(
        "deepgemm_codegen generate configs/kernels/*.yaml -o generated",
        "deepgemm_codegen generate configs/kernels/*.yaml -o generated --check --diff",
    ),
)
