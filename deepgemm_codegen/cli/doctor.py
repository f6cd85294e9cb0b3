"""``doctor``: prints what `deepgemm_codegen.doctor` finds."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any

from deepgemm_codegen import __version__
from deepgemm_codegen.cli.flags import Command, SectionedOption, level_flags, take_console
from deepgemm_codegen.cli.request import environment_settings
from deepgemm_codegen.cli.streams import print_data

__all__ = ["COMMAND"]

_FORMAT = "1.0"


def _doctor(*, as_json: bool, arch: str | None, **values: Any) -> int:
    from deepgemm_codegen.doctor import examine, verdict  # noqa: PLC0415  --help needs no checks

    console = take_console(values)
    if arch:
        from deepgemm_codegen.arch import load_arch  # noqa: PLC0415

        with suppress(ModuleNotFoundError):  # that is for the doctor to tell
            load_arch(arch)
    findings = examine(arch or "")
    code, words = verdict(findings)
    settings = environment_settings(os.environ, console)
    if as_json:
        fields = {
            "format": _FORMAT,
            "version": __version__,
            "findings": [{"what": f.what, "state": f.state, "text": f.text} for f in findings],
            "environment": {name: setting.variable for name, setting in settings.items()},
            "verdict": words,
            "exit_code": code,
        }
        print_data(json.dumps(fields, indent=2) + "\n")
        return code
    lines = [f"deepgemm_codegen {__version__}", *map(str, findings)]
    lines.extend(f"set   {name:<12} {setting.variable}" for name, setting in settings.items())
    lines.append(f"verdict: {words}")
    print_data("\n".join(lines) + "\n")
    return code


COMMAND = Command(
    "doctor",
    params=[
        SectionedOption(
            ["--arch"],
            metavar="ARCH",
            help="also tell whether kernels of this architecture compile and run here",
        ),
        SectionedOption(["--json", "as_json"], is_flag=True, help="the report as JSON on stdout"),
        *level_flags(),
    ],
    callback=_doctor,
    help="Tells what is installed, what each lack costs and what installs it. Exit code 0 when"
    " the machine can write PTX, 3 when it cannot.",
    examples=("deepgemm_codegen doctor", "deepgemm_codegen doctor --arch=sm_90a"),
)
