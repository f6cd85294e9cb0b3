"""``schema``: a file's format, or a field explained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.schemas import SCHEMAS
from deepgemm_codegen.specfile import schema
from deepgemm_codegen.specfile.fields import GROUPS, HELP

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_files(cli: Cli) -> None:
    assert json.loads(cli("schema").out) == json.loads(cli("schema", "kernels").out) == schema()
    for name, made in SCHEMAS.items():
        assert json.loads(cli("schema", name).out) == made()


@pytest.mark.parametrize("name", [*HELP, *GROUPS])
def test_every_field_is_explained(name: str, cli: Cli) -> None:
    result = cli("schema", name)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{name}: ")


def test_what_a_field_is_told_of(cli: Cli) -> None:
    assert cli("schema", "stages").out == (
        "stages: pipeline stages in shared memory (prefetch depth + 1)\n"
        "  written   a whole number from 1 to 2147482624\n"
        "  required  no\n"
        "  default   the tree decides\n"
        "  flag      --stages, environment DGEMM_STAGES\n"
    )
    assert "  required  yes\n" in cli("schema", "m").out
    assert "  default   that of dtype\n" in cli("schema", "dtype_d").out
    assert cli("schema", "label").out == cli("schema", "name").out
    assert cli("schema", "tile-m").out == cli("schema", "tile_m").out


def test_an_unknown_word(cli: Cli) -> None:
    result = cli("schema", "stagse")
    assert result.code == 2
    assert result.err.startswith(
        "error: no field and no file is named 'stagse' (did you mean 'stages'?); files: kernels, "
    )
