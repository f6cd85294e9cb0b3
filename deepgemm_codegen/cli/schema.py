"""``schema``: the kernel file's format for editors."""

from __future__ import annotations

import json
from typing import Any

from deepgemm_codegen.cli.flags import Command, level_flags, take_console
from deepgemm_codegen.cli.streams import print_data

__all__ = ["COMMAND"]


def _schema(**values: Any) -> int:
    from deepgemm_codegen.specfile import schema  # noqa: PLC0415  --help needs none of it

    take_console(values)
    print_data(json.dumps(schema(), indent=2) + "\n")
    return 0


COMMAND = Command(
    "schema",
    params=level_flags(),
    callback=_schema,
    help="Prints the JSON Schema of a kernel file, for editors that check YAML.",
    examples=("deepgemm_codegen schema > kernels.schema.json",),
)
