"""The decision tree: from a spec and an architecture's facts to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.assemble import Choice, assemble

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Choice", "assemble", "decide"]


def decide(spec: GemmSpec, arch: Arch) -> Program:
    """The program that the tree chooses. One candidate so far."""
    choice = Choice(64, 64, 32, 2, 2, 2, 4, 8)
    return assemble(spec, arch, choice)
