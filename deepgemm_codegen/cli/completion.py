"""``completion``: the script that makes a shell complete this command."""

from __future__ import annotations

from typing import Any

import click

from deepgemm_codegen.cli.flags import Command, level_flags, take_console
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.errors import InternalError

__all__ = ["COMMAND"]

_SHELLS = ("bash", "zsh", "fish")


def _completion(*, shell: str, **values: Any) -> int:
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from deepgemm_codegen.cli.app import PROGRAM, build_app  # noqa: PLC0415  it lists this command

    take_console(values)
    found = get_completion_class(shell)
    if found is None:
        raise InternalError(f"click does not know {shell}")
    # bash's script asks for the version of the bash that runs it; `source` alone would run it.
    template = found(build_app(), {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    print_data(found.source_template % template.source_vars() + "\n")
    return 0


COMMAND = Command(
    "completion",
    params=[
        click.Argument(["shell"], type=click.Choice(_SHELLS), metavar="|".join(_SHELLS)),
        *level_flags(),
    ],
    callback=_completion,
    help="Prints the script that makes a shell complete commands, flags, values and files.",
    examples=(
        'eval "$(deepgemm_codegen completion bash)"                  # in ~/.bashrc',
        'eval "$(deepgemm_codegen completion zsh)"                   # in ~/.zshrc',
        "deepgemm_codegen completion fish > ~/.config/fish/completions/deepgemm_codegen.fish",
    ),
)
