"""``verify``: builds kernels and judges them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.checks import CHECKS, DEFAULT_CHECKS, EFFORTS, MOST_SEED, parse_checks
from deepgemm_codegen.cli.flags import (
    Command,
    SectionedOption,
    files_argument,
    level_flags,
    spec_flags,
    take_console,
)
from deepgemm_codegen.cli.progress import LaunchProgress, Progress
from deepgemm_codegen.cli.ranges import Number, Whole
from deepgemm_codegen.cli.request import requests_for, take_flags
from deepgemm_codegen.cli.streams import Audience
from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.parallel import one_thread_each

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deepgemm_codegen.cli.request import Request
    from deepgemm_codegen.cli.streams import Console
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.verification import Outcome
    from deepgemm_codegen.verification.judging import Judge

__all__ = ["COMMAND", "seconds_of"]

_FORMAT = "1.1"
_MOST_JOBS = 256
_UNITS = {"s": 1, "m": 60, "h": 3600}


def _verify(
    *,
    files: tuple[str, ...],
    on: Judge | None,
    seed: int,
    effort: float,
    checks: str | None,
    sample: int | None,
    budget: float | None,
    jobs: int,
    report: bool,
    junit: str | None,
    json_file: str | None,
    annotations: str | None,
    as_json: bool,
    **values: Any,
) -> int:
    one_thread_each()
    console = take_console(values)
    deadline = inf if budget is None else monotonic() + budget
    wanted = DEFAULT_CHECKS if checks is None else parse_checks(checks)
    github = _github(annotations)
    _check_reports(junit, json_file)
    requests = _requests(files, values, console, github=github)

    from deepgemm_codegen.verification import (  # noqa: PLC0415  --help needs none of it
        Job,
        Options,
        exit_code,
        verify_all,
    )
    from deepgemm_codegen.verification import sample as draw  # noqa: PLC0415

    asked = []
    for request in requests:
        entry = request.entry
        place = (entry.file, entry.line, entry.column, entry.require) if entry else ()
        asked.append(Job(request.spec, *place))

    chosen = asked if sample is None else draw(asked, sample, seed)
    if len(chosen) < len(asked):
        console.note(f"{len(chosen)} of {len(asked)} kernels, drawn by seed {seed}")
    options = Options(seed, effort, wanted, deadline, on=on or "auto", costs=report)
    audience = Audience(needed=junit is None and json_file is None)
    places = {request.spec: request.place_of for request in requests}
    teller = _Teller(console, audience, len(chosen), places, quiet=as_json, github=github)
    outcomes: list[Outcome] = []
    try:
        for outcome in verify_all(chosen, options, jobs, teller.launches):
            outcomes.append(outcome)
            teller.tell(outcome)
    except EnvironmentLackError:
        teller.done()
        _write_reports(outcomes, EnvironmentLackError.exit_code, seed, junit, json_file)
        raise  # the next kernel would lack the same
    teller.done()
    code = exit_code(outcomes)
    _write_reports(outcomes, code, seed, junit, json_file)
    if as_json:
        audience.print(_json(outcomes, code, seed))
    _conclude(outcomes, console, budget, quiet=as_json)
    return audience.settled(code)


def _requests(
    files: tuple[str, ...], values: dict[str, Any], console: Console, *, github: bool
) -> list[Request]:
    """The kernels that files and flags ask for."""
    try:
        return requests_for(files, take_flags(values), os.environ, console)
    except InputError as error:
        for problem in getattr(error, "problems", ()) if github else ():
            console.problem(problem.annotation())
        raise


def _github(annotations: str | None) -> bool:
    """Whether GitHub reads what is printed."""
    if annotations is None:
        return os.environ.get("GITHUB_ACTIONS") == "true"
    return annotations == "github"


class _Teller:
    """Prints every outcome as it comes."""

    def __init__(
        self,
        console: Console,
        audience: Audience,
        total: int,
        places: Mapping[GemmSpec, Callable[[str], str]],
        *,
        quiet: bool,
        github: bool,
    ) -> None:
        self.console = console
        self.audience = audience
        self.places = places  # of what is wrong with a kernel, by its message
        self.quiet = quiet
        self.github = github
        self.kernels = Progress(total, console) if total > 1 else None
        self.launches = LaunchProgress(console)  # of a lone kernel

    def tell(self, outcome: Outcome) -> None:
        """The verdict on stdout, an error or an annotation on stderr."""
        self.done()
        if self.github:
            from deepgemm_codegen.verification.annotations import annotation  # noqa: PLC0415

            if line := annotation(outcome):
                self.console.problem(line)
        if outcome.status == "error":
            place = self.places[outcome.job.spec](outcome.message)
            self.console.problem(f"error: {place + ': ' if place else ''}{outcome.message}")
        elif not self.quiet and outcome.verdict is not None:
            lines = _lines(outcome, notes=self.console.level >= 0)
            self.audience.print("\n".join(lines) + "\n")
        if self.kernels is not None:
            self.kernels.step()

    def done(self) -> None:
        """Makes room for a message."""
        self.launches.done()
        if self.kernels is not None:
            self.kernels.done()


def _lines(outcome: Outcome, *, notes: bool) -> list[str]:
    """The verdict, and what the memory accesses cost where that was asked for."""
    from deepgemm_codegen.harness import format_verdict  # noqa: PLC0415  imports numpy

    if outcome.verdict is None:
        return []
    verdict = outcome.verdict if notes else replace(outcome.verdict, notes=())
    lines = format_verdict(verdict)
    if outcome.costs is not None and outcome.reported:
        from deepgemm_codegen.harness.memory_costs import cost_lines  # noqa: PLC0415

        lines += [f"  {line}" for line in cost_lines(outcome.costs, outcome.source)]
    return lines


def _json(outcomes: Sequence[Outcome], code: int, seed: int) -> str:
    from deepgemm_codegen.verification.report import as_json  # noqa: PLC0415  imports numpy

    kernels = [as_json(outcome) for outcome in outcomes]
    fields = {"format": _FORMAT, "seed": seed, "exit_code": code, "kernels": kernels}
    return json.dumps(fields, indent=2) + "\n"


def _check_reports(junit: str | None, json_file: str | None) -> None:
    """What is wrong with the reports' paths is told before anything is judged.

    Raises:
        InputError: one cannot be written, or both are one file.
    """
    from deepgemm_codegen.files import check_target  # noqa: PLC0415

    for path in (junit, json_file):
        if path is not None:
            check_target(path)
    if junit and json_file and os.path.realpath(junit) == os.path.realpath(json_file):
        raise InputError(f"--junit and --json-file both name '{junit}'; give each its own file")


def _write_reports(
    outcomes: Sequence[Outcome], code: int, seed: int, junit: str | None, json_file: str | None
) -> None:
    """The files that a continuous integration keeps, whatever the verdicts."""
    from deepgemm_codegen.files import atomic_write  # noqa: PLC0415

    if json_file is not None:
        atomic_write(json_file, _json(outcomes, code, seed))
    if junit is not None:
        from deepgemm_codegen.verification.junit import junit_xml  # noqa: PLC0415

        atomic_write(junit, junit_xml(outcomes, {"seed": str(seed)}))


def _conclude(
    outcomes: Sequence[Outcome], console: Console, budget: float | None, *, quiet: bool
) -> None:
    """The summary, and what was not judged for want of time."""
    left = [outcome for outcome in outcomes if outcome.status == "unjudged"]
    if left:
        for outcome in left:
            console.problem(f"not judged: {outcome.job.where or 'command line'}: {outcome.name}")
        console.problem(
            f"the budget of {budget:g} seconds is used up; {len(left)} of {len(outcomes)} kernels"
            " were not judged"
        )
    if not quiet and len(outcomes) > 1:
        words = {"passed": "passed", "failed": "failed", "error": "could not be judged"}
        counts = [
            f"{count} {word}"
            for status, word in (*words.items(), ("unjudged", "not judged"))
            if (count := sum(outcome.status == status for outcome in outcomes))
        ]
        console.say(", ".join(counts))


def seconds_of(text: str) -> float:
    """The seconds of ``90``, ``90s``, ``5m``, ``1h30m``.

    Raises:
        InputError: another form, or nothing.
    """
    if text.isascii() and text.isdigit():
        text = f"{text}s"
    if not text or not re.fullmatch(r"(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?", text):
        raise InputError(f"a time of '{text}'; give such as 90s, 5m or 1h30m")
    parts = re.findall(r"([0-9]+)([hms])", text)
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts))


def _a_time(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """See `seconds_of`."""
    if value is None:
        return None
    try:
        return seconds_of(value)
    except InputError as error:
        raise click.BadParameter(str(error), context, parameter) from error


_SECTION = "Judge"
_OUTPUT = "Output"
_SPECIAL = ", ".join(sorted(set(CHECKS) - DEFAULT_CHECKS))

COMMAND = Command(
    "verify",
    params=[
        files_argument(required=False),
        SectionedOption(
            ["--on"],
            type=click.Choice(("auto", "gpu", "emulator")),
            help="where the kernel runs; auto is the GPU where one fits, else the CPU emulator"
            "  [default: auto]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--checks"],
            metavar="KINDS",
            help=f"some of {', '.join(CHECKS)}; or all  [default: all but {_SPECIAL}]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--seed"],
            type=Whole(0, MOST_SEED),
            default=0,
            metavar="NUMBER",
            help="seed of the random inputs, sampled blocks and sampled kernels  [default: 0]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--effort"],
            type=Number(*EFFORTS),
            default=1.0,
            metavar="FACTOR",
            help="multiplies the number of thread blocks that the emulator runs  [default: 1]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--sample"],
            type=Whole(1),
            metavar="NUMBER",
            help="judge only this many of the kernels, drawn by the seed",
            section=_SECTION,
        ),
        SectionedOption(
            ["--budget"],
            callback=_a_time,
            metavar="TIME",
            help="start no kernel after this time, such as 90s or 5m; those left are named, and the"
            " exit code is 4 if all others passed",
            section=_SECTION,
        ),
        SectionedOption(
            ["--jobs"],
            type=Whole(1, _MOST_JOBS),
            default=1,
            metavar="NUMBER",
            help="processes that share the kernels, or the launches of one  [default: 1]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--report"],
            is_flag=True,
            help="print bank conflicts and coalescing of each kernel, by line of its source",
            section=_OUTPUT,
        ),
        SectionedOption(
            ["--json", "as_json"],
            is_flag=True,
            help="print the verdicts as JSON on stdout",
            section=_OUTPUT,
        ),
        SectionedOption(
            ["--json-file"],
            metavar="FILE",
            help="write that JSON into a file, beside the lines on stdout",
            section=_OUTPUT,
        ),
        SectionedOption(
            ["--junit"],
            metavar="FILE",
            help="write the verdicts as JUnit XML, one test case per kernel",
            section=_OUTPUT,
        ),
        SectionedOption(
            ["--annotations"],
            type=click.Choice(("github", "none")),
            help="print failures as GitHub workflow commands on stderr  [default: github where"
            " GITHUB_ACTIONS is true]",
            section=_OUTPUT,
        ),
        *spec_flags(),
        *level_flags(),
    ],
    callback=_verify,
    help="Builds and judges the kernel that the flags describe, or every kernel of FILES, which may"
    " be folders of them. A verdict says where it was judged. Exit code 0 when all pass, 1 when one"
    " is wrong or misses what its file requires.",
    examples=(
        "deepgemm_codegen verify --m=256 --n=256 --k=256 --layout=nt",
        "deepgemm_codegen verify configs/kernels/gpt2_small.yaml --on=gpu",
        "deepgemm_codegen verify configs/kernels --sample=20 --budget=5m --junit=verify.xml",
    ),
)
