"""The decision tree: from a spec and an architecture's facts to a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.assemble import Choice, assemble
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.search import menu_for, search
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Choice", "assemble", "decide"]


def decide(spec: GemmSpec, arch: Arch) -> Program:
    """The program that the tree chooses."""
    problem = problem_of(spec, arch)
    found = search(problem, machine_of(arch), menu_for(problem))
    if found is None:
        raise InputError("nothing")
    return assemble(spec, arch, found.choice)
