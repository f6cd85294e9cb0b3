"""Whether a mutant is one at all: the machine code of both, by ptxas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.printer import print_module
from deepgemm_codegen.errors import ToolError
from deepgemm_codegen.toolchain import assemble, disassemble

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.nodes import Module

__all__ = ["assembled", "machine_code"]

_VERSION = re.compile(r"^\.version \S+$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*;)", re.MULTILINE)


def assembled(module: Module, target: str) -> bytes:
    """A module's cubin, at the PTX version that has every modifier an operator writes.

    Raises:
        ToolError: ptxas refuses it, or works against it.
    """
    text = _VERSION.sub(".version 9.0", print_module(module))
    return assemble(text, arch=target).cubin


def machine_code(module: Module, target: str) -> str:
    """A module's instructions as the disassembler shows them; ptxas's answer where it refuses."""
    try:
        cubin = assembled(module, target)
    except ToolError as error:
        return f"refused: {error}"
    return "\n".join(_INSTRUCTION.findall(disassemble(cubin)))
