"""The decision tree: from a spec and an architecture's facts to a program.

Read it from the top: `decide` puts the spec into the plan's roles (`problem`, where `operands`
answers how each operand travels), takes the menu of answers to every other question (`menu`: tile,
warps, slice, stages, resident blocks, raster, each narrowed by the user's overrides), searches
it for the cheapest candidate (`search`) among those that no constraint rules out (`constraints`),
by a cost that a person can redo with a pencil (`predict`), and writes down each answer with its
reason (`questions`). What nothing serves is refused with the limit and the nearest legal value
(`refuse`). `explain` tells the whole story, with rivals and rejections.

A decision is a pure function of the spec and the architecture's facts: no GPU is asked, nothing
is remembered between two specs but tables that depend on the architecture alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.assemble import Choice, assemble
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.menu import menu_for
from deepgemm_codegen.decide.predict import predict
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.questions import answers
from deepgemm_codegen.decide.refuse import check_types, refuse
from deepgemm_codegen.decide.search import search

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Choice", "assemble", "decide"]


def decide(spec: GemmSpec, arch: Arch) -> Program:
    """The program that the tree chooses.

    Raises:
        InputError: nothing serves the spec, or nothing does under its overrides; the message
            names the limit and the nearest legal value.
    """
    check_types(spec, arch)
    problem, machine = problem_of(spec, arch), machine_of(arch)
    found = search(problem, machine, menu_for(problem, spec.overrides))
    if found is None:
        raise refuse(spec, problem, machine)
    prediction = predict(problem, machine, found.choice)
    decisions = answers(problem, arch, machine, found.choice, prediction)
    return assemble(spec, arch, found.choice, decisions)
