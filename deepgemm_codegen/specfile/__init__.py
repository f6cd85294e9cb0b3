"""Kernel files: YAML in, specs out, every problem at its line and column.

The format is described in ``docs/yaml.md``; `schema` gives it to editors. Text becomes nodes
with marks (`nodes`), nodes become fields (`tree`, `values`), fields become a `GemmSpec`
(`build`), and what is wrong gathers in `problems`.
"""

from __future__ import annotations

from typing import Any

from deepgemm_codegen.specfile.problems import Problem, SpecFileError
from deepgemm_codegen.specfile.reader import read, read_all
from deepgemm_codegen.specfile.tree import MAX_KERNELS, SpecEntry

__all__ = ["MAX_KERNELS", "Problem", "SpecEntry", "SpecFileError", "read", "read_all", "schema"]


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a kernel file; see `deepgemm_codegen.specfile.jsonschema`."""
    from deepgemm_codegen.specfile.jsonschema import build_schema  # noqa: PLC0415  rarely asked for

    return build_schema()
