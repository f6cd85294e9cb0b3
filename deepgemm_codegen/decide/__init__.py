"""The decision tree: from a spec and an architecture's facts to a program.

Read it from the top: `decide` puts the spec into the plan's roles (`problem`, where `operands`
and `tma` answer how each operand can travel) and asks which family of kernels serves (`families`;
what a family is to the tree stands in `family`). Each one that can takes the menu of answers to
every other question (``menu``: tile, stages, raster, ..., each narrowed by the user's overrides),
searches it for the cheapest candidate (``search``) among those that no constraint rules out
(``constraints``), by a cost that a person can redo with a pencil (``predict``). These modules stand
under the same names in each family's folder. The cheapest family's answers are written down with
their reasons (``questions``) and made a program (``choice``, `assemble`), with the kernels before
and behind it that no family knows of (`around`). What nothing serves is
refused with the limit and the nearest legal value (``refuse``). `explain` tells the whole story,
with rivals and rejections.

A decision is a pure function of the spec and the architecture's facts: no GPU is asked, nothing
is remembered between two specs but tables that depend on the architecture alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.around import program_around
from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.fold import answers_fold, fold, with_asked
from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
from deepgemm_codegen.decide.refuse import check_types, refuse
from deepgemm_codegen.decide.repack import Copies, RepackChoice
from deepgemm_codegen.decide.rows.choice import RowChoice
from deepgemm_codegen.decide.simt.choice import SimtChoice
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Decision, Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "BandwidthChoice",
    "Copies",
    "MmaSyncChoice",
    "RepackChoice",
    "RowChoice",
    "SimtChoice",
    "WgmmaChoice",
    "decide",
]


def decide(spec: GemmSpec, arch: Arch) -> Program:
    """The program that the tree chooses.

    Raises:
        InputError: nothing serves the spec, or nothing does under its overrides; the message
            names the limit and the nearest legal value.
    """
    check_types(spec, arch)
    solved = fold(spec)
    folded = answers_fold(spec, solved)
    program = program_around(solved, arch, lambda inner: _decided(inner, arch, folded))
    return with_asked(program, spec)


def _decided(spec: GemmSpec, arch: Arch, folded: tuple[Decision, ...]) -> Program:
    """The cheapest program of a spec as it is; ``folded`` says how it came of another."""
    setting = setting_of(spec, arch)
    considered = consider(setting)
    winner = considered.winner
    if winner is None:
        raise refuse(setting)
    decisions = winner.decisions(considered.reason(setting))
    return winner.choice.program(spec, arch, decisions + folded)
