"""``schema``: the formats of the files that are read and written, and each field explained."""

from __future__ import annotations

import json
from typing import Any

import click

from deepgemm_codegen.cli.completing import complete_words
from deepgemm_codegen.cli.flags import Command, flag_of, level_flags, take_console
from deepgemm_codegen.cli.streams import print_data
from deepgemm_codegen.errors import InputError, nearest

__all__ = ["COMMAND"]

_UNSAID = {
    **dict.fromkeys(("dtype_a", "dtype_b", "dtype_d"), "that of dtype"),
    **dict.fromkeys(("lda", "ldb", "ldc", "ldd"), "dense; an argument where it is dynamic"),
    "gpu": "the architecture's first",
    "sms": "the GPU's",
}
"""Defaults that follow from other fields."""

_FILES = ("kernels", "manifest", "build", "dispatch")


def _schema(*, what: str, **values: Any) -> int:
    take_console(values)
    if what == "kernels":
        from deepgemm_codegen.specfile import schema  # noqa: PLC0415  --help needs none of it

        print_data(json.dumps(schema(), indent=2) + "\n")
    elif what in _FILES:
        from deepgemm_codegen.schemas import SCHEMAS  # noqa: PLC0415

        print_data(json.dumps(SCHEMAS[what](), indent=2) + "\n")
    else:
        print_data(_field(what))
    return 0


def _field(name: str) -> str:
    """What a field of a kernel file is, how it is written, and what it is without being given."""
    from deepgemm_codegen.cli.flags import default_of  # noqa: PLC0415
    from deepgemm_codegen.spec.overrides import OVERRIDES  # noqa: PLC0415
    from deepgemm_codegen.specfile.fields import GROUPS, HELP, NAME, written  # noqa: PLC0415

    word = name.removeprefix("--").replace("-", "_")
    word = NAME if word == "label" else word
    if word in GROUPS:
        fields = ", ".join(GROUPS[word].values())
        return f"{word}: fields that may be written together\n  fields    {fields}\n"
    if word not in HELP:
        known = [*HELP, *GROUPS]
        raise InputError(
            f"no field and no file is named '{name}'{nearest(word, known)};"
            f" files: {', '.join(_FILES)}; fields: {', '.join(known)}"
        )
    flag = flag_of("label" if word == NAME else word)
    if word in OVERRIDES:
        flag += f", environment DGEMM_{word.upper()}"
    required = word in ("m", "n", "k")
    default = "the tree decides" if word in OVERRIDES else default_of(word) or _UNSAID.get(word)
    return (
        f"{word}: {HELP[word]}\n"
        f"  written   {written(word)}\n"
        f"  required  {'yes' if required else 'no'}\n"
        + ("" if required else f"  default   {default or 'none'}\n")
        + f"  flag      {flag}\n"
    )


def _known() -> list[str]:
    from deepgemm_codegen.specfile.fields import GROUPS, HELP  # noqa: PLC0415

    return [*_FILES, *HELP, *GROUPS]


COMMAND = Command(
    "schema",
    params=[
        click.Argument(
            ["what"],
            default="kernels",
            required=False,
            metavar=f"[{'|'.join(_FILES)}|FIELD]",
            shell_complete=complete_words(_known),
        ),
        *level_flags(),
    ],
    callback=_schema,
    help="Prints the JSON Schema of a file: of kernel files, for editors that check YAML, or of"
    " what is written beside the kernels. With the name of a FIELD of kernel files it explains"
    " that.",
    examples=(
        "deepgemm_codegen schema > kernels.schema.json",
        "deepgemm_codegen schema manifest",
        "deepgemm_codegen schema stages",
    ),
)
