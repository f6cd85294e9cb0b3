"""The decision tree: from a spec and an architecture's facts to a program.

Read it from the top: `decide` puts the spec into the plan's roles (`problem`, where `operands`
and `tma` answer how each operand can travel) and asks which family of instructions multiplies
(`families`). Each family that can serve takes the menu of answers to every other question (`menu`:
tile, warps, slice, stages, resident blocks, raster, each narrowed by the user's overrides),
searches it for the cheapest candidate (`search`) among those that no constraint rules out
(`constraints`), by a cost that a person can redo with a pencil (`predict`). Those modules are
mma.sync's; wgmma's stand under the same names in `wgmma`. The cheaper family's answers are written
down with their reasons (`questions`). What nothing serves is refused with the limit and the
nearest legal value (`refuse`). `explain` tells the whole story, with rivals and rejections.

A decision is a pure function of the spec and the architecture's facts: no GPU is asked, nothing
is remembered between two specs but tables that depend on the architecture alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.assemble import Choice, WgmmaChoice, assemble
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.predict import predict
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.questions import answers
from deepgemm_codegen.decide.refuse import check_types, refuse
from deepgemm_codegen.decide.wgmma.predict import predict as predict_wgmma
from deepgemm_codegen.decide.wgmma.questions import answers as answers_of_wgmma

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Choice", "WgmmaChoice", "assemble", "decide"]


def decide(spec: GemmSpec, arch: Arch) -> Program:
    """The program that the tree chooses.

    Raises:
        InputError: nothing serves the spec, or nothing does under its overrides; the message
            names the limit and the nearest legal value.
    """
    check_types(spec, arch)
    problem, machine = problem_of(spec, arch), machine_of(arch)
    considered = consider(spec, arch, problem, machine)
    reason = considered.reason(arch)
    fast, slow, task = considered.fast, considered.slow, considered.task
    if slow is not None:
        choice = slow.choice
        prediction = predict(problem, machine, choice)
        decisions = answers(problem, arch, machine, choice, prediction, reason)
        return assemble(spec, arch, choice, decisions)
    if fast is not None and task is not None:
        prediction = predict_wgmma(task, fast.choice)
        decisions = answers_of_wgmma(spec, task, fast.choice, prediction, reason)
        return assemble(spec, arch, fast.choice, decisions)
    raise refuse(spec, problem, machine, considered)
