"""``verify``: builds kernels and judges them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from functools import cache
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import click

from deepgemm_codegen.cli.flags import (
    Command,
    SectionedOption,
    files_argument,
    level_flags,
    spec_flags,
    take_console,
)
from deepgemm_codegen.cli.request import requests_for, take_flags
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError

if TYPE_CHECKING:
    from deepgemm_codegen.cli.judging import Judge
    from deepgemm_codegen.cli.request import Request
    from deepgemm_codegen.harness import Verdict
    from deepgemm_codegen.toolchain import BuiltCubin

__all__ = ["COMMAND"]

_FORMAT = "1.0"
_MOST_SEED = 2**32 - 1


def _verify(
    *,
    files: tuple[str, ...],
    on: Judge | None,
    seed: int,
    effort: float,
    as_json: bool,
    **values: Any,
) -> int:
    console = take_console(values)
    requests = requests_for(files, take_flags(values), os.environ, console)
    records: list[dict[str, Any]] = []
    passed = failed = broken = code = 0
    for request in requests:
        try:
            verdict = _judged(request, on or "auto", seed, effort)
        except EnvironmentLackError:
            raise  # the next kernel would lack the same
        except CodegenError as error:
            place = f"{request.where}: " if request.where else ""
            console.problem(f"error: {place}{error}")
            broken, code = broken + 1, max(code, error.exit_code)
            records.append({"source": request.where, "passed": False, "error": str(error)})
            continue
        passed, failed = passed + verdict.passed, failed + (not verdict.passed)
        if as_json:
            found = {"source": request.where, "passed": verdict.passed, **asdict(verdict)}
            records.append(_finite(found))
        else:
            from deepgemm_codegen.harness import format_verdict  # noqa: PLC0415

            if console.level < 0:
                verdict = replace(verdict, notes=())
            print_data("\n".join(format_verdict(verdict)) + "\n")
    code = max(code, int(failed > 0))
    if as_json:
        fields = {"format": _FORMAT, "seed": seed, "exit_code": code, "kernels": records}
        print_data(json.dumps(fields, indent=2) + "\n")
    elif len(requests) > 1:
        counts = [(passed, "passed"), (failed, "failed"), (broken, "not judged")]
        console.say(", ".join(f"{count} {word}" for count, word in counts if count))
    return code


def _judged(request: Request, on: Judge, seed: int, effort: float) -> Verdict:
    from deepgemm_codegen.arch import load_arch  # noqa: PLC0415  --help and errors need none of it
    from deepgemm_codegen.cli.judging import verdict_of  # noqa: PLC0415
    from deepgemm_codegen.decide import decide  # noqa: PLC0415
    from deepgemm_codegen.render import render_program  # noqa: PLC0415
    from deepgemm_codegen.toolchain import build_cubin  # noqa: PLC0415

    spec = request.spec
    program = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))

    @cache
    def build(target: str) -> BuiltCubin:
        return build_cubin(render_program(program), name=program.name, arch=target)

    return verdict_of(program, build, on=on, seed=seed, effort=effort)


def _finite(value: Any) -> Any:
    """The value with NaN and infinities as text, which JSON has no numbers for."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value


def _a_number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuses NaN, which passes every range."""
    if isnan(value):
        raise click.BadParameter("nan is not in the range", context, parameter)
    return value


_SECTION = "Judge"

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
            ["--seed"],
            type=click.IntRange(0, _MOST_SEED),
            default=0,
            metavar="NUMBER",
            help="of the random inputs and of the sampled blocks  [default: 0]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--effort"],
            type=click.FloatRange(0.01, 1000.0),
            default=1.0,
            callback=_a_number,
            metavar="FACTOR",
            help="on the number of thread blocks that the emulator runs  [default: 1]",
            section=_SECTION,
        ),
        SectionedOption(
            ["--json", "as_json"],
            is_flag=True,
            help="the verdicts as JSON on stdout",
            section="Output",
        ),
        *spec_flags(),
        *level_flags(),
    ],
    callback=_verify,
    help="Builds and judges the kernel that the flags describe, or every kernel of FILES. A"
    " verdict says where it was judged. Exit code 0 when all pass, 1 when one is wrong.",
    examples=(
        "deepgemm_codegen verify --m=256 --n=256 --k=256 --layout=nt",
        "deepgemm_codegen verify configs/kernels/gpt2_small.yaml --on=gpu",
    ),
)
