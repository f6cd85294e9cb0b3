"""Refusals of the bandwidth family: what was given, the limit it breaks, the nearest legal."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
from deepgemm_codegen.decide.bandwidth.constraints import PHRASES, violations
from deepgemm_codegen.decide.bandwidth.menu import LEGAL, menu_for
from deepgemm_codegen.decide.bandwidth.search import search
from deepgemm_codegen.decide.misses import nearest_miss
from deepgemm_codegen.decide.refusal import Refusal, last_with_nearest, named
from deepgemm_codegen.decide.schedule import MAX_GRID

if TYPE_CHECKING:
    from deepgemm_codegen.decide.bandwidth.menu import BandwidthMenu
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.plan.bandwidth import RingPlace
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["refuse"]


def refuse(spec: GemmSpec, task: Task) -> Refusal:
    """Why no candidate serves a spec."""
    given = spec.overrides.numbers()
    ring: RingPlace = "shared" if spec.overrides.ring == "shared" else "registers"
    if ring == "shared" and task.own_slots:
        return Refusal(f"ring = shared: {task.own_slots}", "ring")
    if ring == "shared" and (spec.overrides.abreast or 1) > 1:
        return Refusal(
            f"abreast = {spec.overrides.abreast} with ring = shared: a ring in shared memory has a"
            " block to itself",
            "abreast",
        )
    if search(task, menu_for(task, {})) is None:
        return Refusal(
            f"m = {spec.m}, n = {spec.n}, batch = {spec.batch}: more tiles of D than the {MAX_GRID}"
            " blocks of a grid",
            remedy="make one of them smaller",
        )
    if not given:
        return Refusal(f"ring = {ring}: {_why(task, menu_for(task, {}, ring))}", "ring")
    blamed, nearest = last_with_nearest(given, lambda name: _nearest_legal(task, given, name, ring))
    head = named(dict(spec.overrides.items()), blamed)
    return Refusal(f"{head}: {_why(task, menu_for(task, given, ring))}", blamed, nearest)


def _why(task: Task, menu: BandwidthMenu) -> str:
    """What the candidate that comes closest to being legal breaks, in words."""
    sides = task.sides
    if not menu.tile:
        return f"the short side {sides.short} is one warp's, in a tile of {sides.tile}"
    stages, blocks = menu.stages[0], (menu.min_blocks or (1,))[0]
    candidates = (
        BandwidthChoice(fragments, warps_long, warps_k, stages, blocks, ring=menu.ring)
        for (fragments, warps_long), warps_k in product(menu.tile, menu.warps_k)
    )
    missed = (list(violations(task, choice)) for choice in candidates)
    name, got, limit = nearest_miss(missed, PHRASES)
    return PHRASES[name].format(got=got, limit=limit, machine=task.machine.name)


def _nearest_legal(task: Task, given: dict[str, int], name: str, ring: RingPlace) -> int | None:
    """The legal value of one override that is nearest to the given one, the others kept."""
    values = sorted(LEGAL[name], key=lambda value: (abs(value - given[name]), value))
    for value in values:
        if search(task, menu_for(task, {**given, name: value}, ring)) is not None:
            return value
    return None
