"""The bandwidth family: products with a short side, whose other operand is read once."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.abreast import Block, refusal, tiles_abreast
from deepgemm_codegen.decide.bandwidth.menu import (
    LEGAL,
    BandwidthMenu,
    measured,
    menu_for,
    rings_for,
)
from deepgemm_codegen.decide.bandwidth.predict import again_clocks, predict
from deepgemm_codegen.decide.bandwidth.questions import answers
from deepgemm_codegen.decide.bandwidth.refuse import refuse
from deepgemm_codegen.decide.bandwidth.rejections import rejections
from deepgemm_codegen.decide.bandwidth.search import BandwidthFound, search
from deepgemm_codegen.decide.bandwidth.sides import MOST_SHORT, ONE_SHORT, sides_of
from deepgemm_codegen.decide.bandwidth.task import Task, own_slots, task_of
from deepgemm_codegen.decide.family import Family, Setting, best_other
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.refusal import Refusal
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["BANDWIDTH"]


WORTH = 0.985
"""A ring in shared memory has to be so much faster than the best in registers, as predicted."""


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`."""

    setting: Setting
    task: Task
    menu: BandwidthMenu
    choice: BandwidthChoice
    clocks: float
    costed: int

    def prediction(self) -> Prediction:
        return predict(self.task, self.choice)

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        arch = self.setting.arch
        return answers(arch, self.task, self.choice, self.prediction(), family_reason)

    def rival(self, question: str) -> str:
        choice, menu = self.choice, self.menu
        others: dict[str, tuple[Any, ...]] = {}
        if question == "tile":
            tile = choice.fragments * choice.warps_long
            others["tile"] = tuple(pair for pair in menu.tile if pair[0] * pair[1] != tile)
        elif question == "warps":
            others["warps_k"] = tuple(n for n in menu.warps_k if n != choice.warps_k)
        elif question == "stages":
            others["stages"] = tuple(n for n in menu.stages if n != choice.stages)
        elif question == "occupancy":
            others["min_blocks"] = (choice.min_blocks - 1,) if choice.min_blocks > 1 else ()
        return best_other(
            others,
            self.setting.spec.overrides.numbers(),
            self.clocks,
            lambda changed: search(self.task, menu._replace(**changed)),
        )

    def rejections(self) -> tuple[Rejection, ...]:
        return rejections(self.task, self.menu, self.choice)


def _obstacle(spec: GemmSpec, arch: Arch) -> str:
    """What about the problem keeps the family out."""
    for name, dtype in (("A", spec.dtype_a), ("B", spec.dtype_b)):
        if dtype.bytes != 2:
            return f"{name} is {dtype}, of which it has no kernel yet"
    sides = sides_of(spec)
    if spec.pairs is not None and sides is not None and sides.short == "n":
        return f"{spec.pairs.kind} pairs columns along D's short side"
    if spec.norm is not None:
        return f"{spec.epilogue[spec.norm].kind} needs whole rows, of which it keeps no sums"
    if _wide(spec, arch):
        most = MOST_SHORT if sides is None else ONE_SHORT
        return f"m = {spec.m} and n = {spec.n} are both above {most}"
    return ""


def _wide(spec: GemmSpec, arch: Arch) -> bool:
    """Whether no side of D is short.

    Of more rows than one instruction's those are that were asked for, or measured.
    """
    sides, given = sides_of(spec), spec.overrides
    if sides is None or sides.tile <= ONE_SHORT:
        return sides is None
    if given.family == "bandwidth" or given.ring is not None or given.warps_k is not None:
        return False
    long = max(spec.m.size, spec.b_columns.size) * spec.dtype_a.bytes
    barred = own_slots(spec, arch, sides)
    return bool(barred) or not measured(arch, spec.batch, spec.k.size, long)


def _task(setting: Setting) -> Task:
    task = task_of(setting)
    if task is None:
        raise InternalError("a problem without a short side reached the bandwidth family")
    return task


def _best(setting: Setting, below: float = inf) -> _Answer | None:
    task = _task(setting)
    given = setting.spec.overrides
    menu = found = None
    for ring in rings_for(task, given, setting.arch):
        its_menu = menu_for(task, given.numbers(), ring)
        its = search(task, its_menu)
        if its is not None and (found is None or its.clocks < WORTH * _beside(task, found)):
            menu, found = its_menu, its
    if menu is None or found is None or found.clocks >= below:
        return None
    if menu.ring == "shared":
        return _Answer(setting, task, menu, *found)
    abreast = tiles_abreast(
        setting.problem,
        setting.machine,
        task.tiles(found.choice.fragments * found.choice.warps_long * FRAGMENT_LONG),
        _block(task, found.choice),
        found.clocks,
        setting.spec.overrides.abreast,
    )
    if not abreast:
        return None
    choice = found.choice if abreast == 1 else replace(found.choice, abreast=abreast)
    return _Answer(setting, task, menu, choice, *found[1:])


def _beside(task: Task, found: BandwidthFound) -> float:
    """What a ring in registers takes, for comparing it with one in shared memory."""
    choice = found.choice
    return found.clocks + again_clocks(task, choice.fragments, choice.warps_long)


def _block(task: Task, choice: BandwidthChoice) -> Block:
    """What a block of one tile takes."""
    long_tile = choice.fragments * choice.warps_long * FRAGMENT_LONG
    slabs = choice.warps_k * task.sides.tile * long_tile * 4
    return Block(choice.warps_long * choice.warps_k, slabs)


def _refuse(setting: Setting) -> Refusal:
    spec, task = setting.spec, _task(setting)
    given = spec.overrides
    if given.abreast is not None:
        found = search(task, menu_for(task, given.numbers()))
        error = found and refusal(_block(task, found.choice), given.abreast, setting.machine)
        if error:
            return error
    return refuse(spec, task)


BANDWIDTH = Family(
    name="bandwidth",
    shown="bandwidth",
    obstacle=_obstacle,
    apart=_wide,
    legal=LEGAL,
    best=_best,
    refuse=_refuse,
)
