"""The command itself: without a subcommand it writes one kernel to stdout."""

from __future__ import annotations

import os
from typing import Any

import click

from deepgemm_codegen.cli.flags import (
    PATH,
    LazyGroup,
    SectionedOption,
    flag_of,
    level_flags,
    spec_flags,
    take_console,
    version_flag,
)
from deepgemm_codegen.cli.request import environment_settings, gather, take_flags

__all__ = ["EMITS", "PROGRAM", "build_app"]

PROGRAM = "deepgemm_codegen"

EMITS = ("ptx", "cu", "cubin", "sass", "plan")

_COMMANDS = {
    name: (f"deepgemm_codegen.cli.{name}", text)
    for name, text in (
        ("explain", "print every decision with its reason, its best rival and what was ruled out"),
        ("verify", "build kernels, run them on a GPU or the CPU emulator, and judge them"),
        ("bench", "time kernels beside cuBLAS on a GPU"),
        ("generate", "write every kernel of some YAML files into a folder, or check that folder"),
        ("build", "compile a generated folder, and report registers, spills and shared memory"),
        ("show", "print what a generated folder knows of one kernel"),
        ("diff", "compare two kernels, decision by decision"),
        ("schema", "print the JSON Schema of a file that is read or written, or explain a field"),
        ("doctor", "check what is installed, and say what is missing for what"),
        ("cache", "show or empty the cache of compiled kernels"),
        ("completion", "print the script with which a shell completes commands and flags"),
    )
}

_EXAMPLES = (
    "deepgemm_codegen --m=1024 --n=1024 --k=1024 --arch=sm_80 --dtype=fp16 > debug.ptx",
    "deepgemm_codegen --m=4096 --n=4096 --k=1024 --layout=nt --epilogue=bias,relu --emit=cu",
    "deepgemm_codegen --m=dynamic:8192 --n=4096 --k=4096 --stages=4 --resources -o gemm.ptx",
    "deepgemm_codegen --m=256 --n=256 --k=256 --verify --emit=cubin -o gemm.cubin",
)


def build_app() -> click.Group:
    """The click group, made when it is needed."""
    return LazyGroup(
        PROGRAM,
        params=[*_output_flags(), *spec_flags(), *level_flags(), version_flag()],
        callback=_main,
        invoke_without_command=True,
        lazy=_COMMANDS,
        help="Writes a CUDA matrix-product kernel, D = epilogue(alpha * A * B + beta * C), to"
        " stdout: PTX, or what --emit asks for. Notes go to stderr.",
        examples=_EXAMPLES,
        subcommand_metavar="[COMMAND ...]",
    )


def _output_flags() -> list[click.Parameter]:
    section = "Output"
    return [
        SectionedOption(
            ["--emit"],
            type=click.Choice(EMITS),
            help="what to write: PTX, CUDA C++, a cubin, its SASS, or the plan as JSON"
            "  [default: ptx]",
            section=section,
        ),
        SectionedOption(
            ["-o", "--output"],
            type=PATH,
            metavar="FILE",
            help="write there, whole or not at all, instead of to stdout",
            section=section,
        ),
        SectionedOption(
            ["--verify"],
            is_flag=True,
            help="build and judge the kernel first, and print the verdict on stderr; a wrong"
            " kernel is not written and gives exit code 1",
            section=section,
        ),
        SectionedOption(
            ["--resources"],
            is_flag=True,
            help="print registers, spills, shared memory and occupancy on stderr",
            section=section,
        ),
    ]


@click.pass_context
def _main(context: click.Context, /, **values: Any) -> int:
    console = take_console(values)
    given = [name for name, value in values.items() if value not in (None, False)]
    if context.invoked_subcommand is not None:
        if given:
            flag = flag_of(given[0])
            raise click.UsageError(
                f"{flag} stands before the command '{context.invoked_subcommand}'; give it after:"
                f" {PROGRAM} {context.invoked_subcommand} {flag} ...",
                context,
            )
        context.obj = console.level
        return 0
    flags = take_flags(values)
    if not given:
        raise click.UsageError("nothing is asked for; give --m, --n and --k, or a command", context)
    request = gather(flags, environment_settings(os.environ, console), console)

    from deepgemm_codegen.cli.emit import emit  # noqa: PLC0415  --help and errors need none of it

    return emit(
        request.spec,
        what=values["emit"] or "ptx",
        output="-" if values["output"] is None else values["output"],
        verify=values["verify"],
        resources=values["resources"],
        console=console,
    )
