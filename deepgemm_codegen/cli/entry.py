"""From the process to a command and back: exit codes, and every error as one plain message.

Exit codes: 0 yes; 1 an honest no (wrong result, stale files); 2 the input; 3 the machine lacks
something; 70 our own fault; 130 Ctrl-C; 141 the reader of stdout went away.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING

import click

from deepgemm_codegen.cli import streams
from deepgemm_codegen.cli.app import PROGRAM, build_app
from deepgemm_codegen.errors import CodegenError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]

_USAGE, _LACK, _INTERNAL, _INTERRUPTED, _READER_GONE = 2, 3, 70, 130, 141
_DEBUG = "DEEPGEMM_ENABLE_DEBUG"
_ISSUES = "please report it with the command that you gave"


def run(args: Sequence[str] | None = None) -> int:
    """Runs one command line.

    Args:
        args: the words after the program's name; by default the process's own.

    Returns:
        The exit code.
    """
    streams.guard()
    console = streams.Console()
    words = list(sys.argv[1:] if args is None else args)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return _invoke(words)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001  the last wall
        code, message = _concluded(error)
    if code in (_LACK, _READER_GONE):
        streams.abandon_stdout()  # it may be what refused
    if message:
        console.problem(message)
    return code


def _concluded(error: BaseException) -> tuple[int, str]:
    """The exit code and the message of whatever ended a command."""
    if isinstance(error, click.UsageError):
        hint = f"\ntry: {error.ctx.command_path} --help" if error.ctx is not None else ""
        return _USAGE, f"error: {_usage_message(error)}{hint}"
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return _INTERRUPTED, "interrupted"
    if isinstance(error, (streams.ReaderGoneError, BrokenPipeError)):
        return _READER_GONE, ""
    _trace()
    if isinstance(error, CodegenError):
        return error.exit_code, f"error: {str(error).rstrip()}"
    if lack := _lack(error):
        return _LACK, f"error: {lack}"
    cause = " ".join(str(error).split())
    return _INTERNAL, f"internal error: {type(error).__name__}: {cause}; {_ISSUES}"


def _lack(error: BaseException) -> str:
    """What the machine lacks when an error that no stage foresaw says so, else empty."""
    if isinstance(error, (OSError, MemoryError)):
        return f"the system refuses: {str(error) or 'out of memory'}"
    if isinstance(error, ModuleNotFoundError) and not (error.name or PROGRAM).startswith(PROGRAM):
        return (
            f"the Python package {error.name} is missing; install deepgemm_codegen with its"
            " dependencies"
        )
    return ""


def _invoke(words: list[str]) -> int:
    """Parses and runs, without click's own ideas about exit codes."""
    app = build_app()
    if f"_{PROGRAM.upper()}_COMPLETE" in os.environ:
        app.main(words, prog_name=PROGRAM)  # the shell asks for completions
    try:
        with app.make_context(PROGRAM, words) as context:
            result = app.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _usage_message(error: click.UsageError) -> str:
    """Click's complaint in the form of ours: what was given, then the closest that exists."""
    if isinstance(error, click.NoSuchOption):
        context = error.ctx
        known = [
            name
            for parameter in (context.command.get_params(context) if context else [])
            for name in (*parameter.opts, *parameter.secondary_opts)
        ]
        owners = _owners(error.option_name, context)
        hint = nearest(error.option_name, known)
        if owners:
            hint = f"; {', '.join(owners)} {'have' if len(owners) > 1 else 'has'} it"
        return f"no such option {error.option_name}{hint}"
    message = error.format_message()
    if not message.endswith("..."):
        message = message.removesuffix(".")
    return message[:1].lower() + message[1:]


def _owners(option: str, context: click.Context | None) -> list[str]:
    """The commands that have an option which the one at hand lacks."""
    group = context.find_root().command if context else None
    if context is None or not isinstance(group, click.Group):
        return []
    names = group.list_commands(context)
    commands = [(name, group.get_command(context, name)) for name in names]
    whole = [] if context.command is group else [(f"{PROGRAM} without a command", group)]
    return [
        name
        for name, command in (*commands, *whole)
        if command and any(option in each.opts for each in command.params)
    ]


def _trace() -> None:
    """The traceback, for those who asked for it."""
    if os.environ.get(_DEBUG, "").lower() not in ("", "0", "off", "false", "no"):
        import traceback  # noqa: PLC0415

        traceback.print_exc()


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    streams.Console().problem(f"warning: {message}")
