"""``generate``: every kernel of some kernel files into a folder, or a check of that folder."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.cli.flags import (
    PATH,
    Command,
    SectionedOption,
    files_argument,
    flag_of,
    level_flags,
    spec_flags,
    take_console,
)
from deepgemm_codegen.cli.progress import Progress
from deepgemm_codegen.cli.ranges import Whole
from deepgemm_codegen.cli.request import environment_settings, requests_of, take_flags
from deepgemm_codegen.cli.streams import Audience, print_data
from deepgemm_codegen.cli.tables import aligned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import click

    from deepgemm_codegen.batch import BatchReport, Outcome
    from deepgemm_codegen.cli.request import Setting
    from deepgemm_codegen.cli.streams import Console

__all__ = ["COMMAND"]

_FORMAT = "1.0"
_MOST_JOBS = 256
_SHOWN_DIFFS = 5
"""Changed files that a check shows in full unless it is told otherwise."""


def _generate(
    *,
    files: tuple[str, ...],
    out: str,
    check: bool,
    diff: bool | None,
    clean: bool,
    fail_fast: bool,
    jobs: int | None,
    as_json: bool,
    **values: Any,
) -> int:
    from deepgemm_codegen.batch import generate  # noqa: PLC0415  --help needs none of it

    console = take_console(values)
    flags = take_flags(values)
    settings = environment_settings(os.environ, console)
    asked = requests_of(files, flags, settings, console)
    progress = Progress(len(asked), console)
    audience = Audience(needed=check)
    report = generate(
        [replace(entry, spec=request.spec) for entry, request in asked],
        out,
        check=check,
        diffs=_diffs(diff, check=check),
        jobs=jobs,
        keep_going=not fail_fast,
        clean=clean,
        progress=_teller(progress, console, audience, quiet=as_json, check=check),
    )
    progress.done()
    report = replace(report, fix=_fix(report, files, out, flags, settings))
    if as_json:
        print_data(_report_json(report))
    else:
        _tell_end(report, console, cut=diff is None)
    return audience.settled(report.exit_code)


def _diffs(wanted: bool | None, *, check: bool) -> int:
    """How many changed files are shown in full."""
    if wanted is None:
        return _SHOWN_DIFFS if check else 0
    return sys.maxsize if wanted else 0


def _teller(
    progress: Progress, console: Console, audience: Audience, *, quiet: bool, check: bool
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
            audience.print(f"{outcome}\n{outcome.diff}")
        elif console.level > 0:
            audience.print(f"{outcome}\n")

    return tell


def _tell_end(report: BatchReport, console: Console, *, cut: bool) -> None:
    """The table of what came of each file's kernels, the counts, and what mends the folder."""
    changed = len(report.named("changed"))
    if report.check and cut and changed > _SHOWN_DIFFS:
        console.note(f"{changed - _SHOWN_DIFFS} more changed files; --diff shows them all")
    if report.check or console.level >= 0:
        print_data(_summary(report) + f"{report.counts}\n")
    if report.drift and report.fix:
        console.problem(f"to bring the folder up to date: {report.fix}")


def _summary(report: BatchReport) -> str:
    """A row a kernel file, a column a status; empty where one file asks for all."""
    from deepgemm_codegen.batch.report import STATUSES  # noqa: PLC0415  imports the whole room

    files = {outcome.source for outcome in report.outcomes if outcome.source}
    if len(files) < 2:
        return ""
    statuses = [status for status in STATUSES if report.named(status)]
    rows = [["kernel file", *statuses]]
    for file in sorted(files):
        found = [outcome.status for outcome in report.outcomes if outcome.source == file]
        rows.append([file, *(str(found.count(status) or "") for status in statuses)])
    return aligned(rows, numbers=1) + "\n"


def _fix(
    report: BatchReport,
    files: Sequence[str],
    out: str,
    flags: Mapping[str, str],
    settings: Mapping[str, Setting],
) -> str:
    """The command that mends the folder, with the flags and environment of this one."""
    words = [setting.variable for name, setting in settings.items() if name not in flags]
    words += ["deepgemm_codegen", "generate", *files, "--out", out]
    words += ["--clean"] if report.cleanable else []
    words += [f"{flag_of(name)}={value}" for name, value in flags.items()]
    return shlex.join(words)


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
        type=PATH,
        metavar="FOLDER",
        help="where the .cu files, dispatch.h and manifest.json go",
        section="Output",
    ),
    SectionedOption(
        ["--check"],
        is_flag=True,
        help="write nothing; name each new, changed, missing and orphan file, and exit 1 if any",
        section="Output",
    ),
    SectionedOption(
        ["--diff/--no-diff"],
        default=None,
        help="show how each changed file differs, or no difference at all"
        f"  [default: the first {_SHOWN_DIFFS} with --check]",
        section="Output",
    ),
    SectionedOption(
        ["--clean"],
        is_flag=True,
        help="delete kernels that the manifest lists and the files no longer ask for; edited ones"
        " stay",
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
        type=Whole(1, _MOST_JOBS),
        metavar="NUMBER",
        help="processes to work with  [default: what serves best]",
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
    help="Writes every kernel that FILES ask for, a selector and a manifest into a folder. A"
    " folder among FILES stands for the kernel files below it. Flags below Output apply to every"
    " kernel and beat the files.",
    examples=(
        "deepgemm_codegen generate configs/kernels -o generated",
        "deepgemm_codegen generate configs/kernels -o generated --clean",
        "deepgemm_codegen generate configs/kernels -o generated --check",
    ),
)
