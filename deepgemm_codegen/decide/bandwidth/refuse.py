"""Refusals of the bandwidth family: what was given, the limit it breaks, the nearest legal."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
from deepgemm_codegen.decide.bandwidth.constraints import PHRASES, violations
from deepgemm_codegen.decide.bandwidth.menu import LEGAL, menu_for
from deepgemm_codegen.decide.bandwidth.search import search
from deepgemm_codegen.decide.misses import nearest_miss
from deepgemm_codegen.decide.schedule import MAX_GRID
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from deepgemm_codegen.bandwidth import RingPlace
    from deepgemm_codegen.decide.bandwidth.menu import BandwidthMenu
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["refuse"]


def refuse(spec: GemmSpec, task: Task) -> InputError:
    """The error for overrides that leave only this family, of which nothing serves the spec."""
    given = spec.overrides.numbers()
    ring: RingPlace = "shared" if spec.overrides.ring == "shared" else "registers"
    if ring == "shared" and task.own_slots:
        return InputError(f"ring = shared: {task.own_slots}; leave out the override")
    if ring == "shared" and (spec.overrides.abreast or 1) > 1:
        return InputError(
            f"abreast = {spec.overrides.abreast} with ring = shared: a ring in shared memory has a"
            " block to itself; leave out one of these overrides"
        )
    if search(task, menu_for(task, {})) is None:
        return InputError(
            f"m = {spec.m}, n = {spec.n}, batch = {spec.batch}: more tiles of D than the {MAX_GRID}"
            " blocks of a grid; make one of them smaller"
        )
    if not given:
        return InputError(f"ring = {ring}: {_why(task, menu_for(task, {}, ring))}; leave it out")
    blamed, nearest = next(reversed(given)), None
    for candidate in reversed(given):
        nearest = _nearest_legal(task, given, candidate, ring)
        if nearest is not None:
            blamed = candidate
            break
    words = [f"{key} = {value}" for key, value in given.items() if key != blamed]
    if spec.overrides.ring is not None:
        words.append(f"ring = {ring}")
    if spec.overrides.family is not None:
        words.insert(0, f"family = {spec.overrides.family}")
    text = f"{blamed} = {given[blamed]}{' with ' if words else ''}{', '.join(words)}: "
    text += _why(task, menu_for(task, given, ring)) + "; "
    if nearest is None:
        return InputError(text + "leave out one of these overrides")
    return InputError(text + f"the nearest legal {blamed} is {nearest}")


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
