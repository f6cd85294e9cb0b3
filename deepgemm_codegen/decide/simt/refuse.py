"""Refusals of the CUDA-core family: what was given, the limit, the nearest legal value."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.decide.misses import nearest_miss
from deepgemm_codegen.decide.refusal import Refusal, last_with_nearest, named
from deepgemm_codegen.decide.simt.choice import SimtChoice
from deepgemm_codegen.decide.simt.constraints import PHRASES, violations
from deepgemm_codegen.decide.simt.menu import LEGAL, SimtMenu, menu_for
from deepgemm_codegen.decide.simt.search import search_all
from deepgemm_codegen.decide.simt.task import Task, tasks_of

if TYPE_CHECKING:
    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = ["refuse"]


def refuse(setting: Setting) -> Refusal:
    """Why no candidate serves a spec."""
    spec = setting.spec
    tasks = tasks_of(setting)
    problem = setting.problem
    given = spec.overrides.numbers()
    if not given or search_all(tasks, menu_for(problem)) is None:
        return Refusal(
            f"m = {spec.m}, n = {spec.n}, batch = {spec.batch}: more tiles of D than a grid has"
            " blocks, whatever the tile",
            remedy="make one of them smaller",
        )
    name, got, limit = _nearest_miss(tasks, menu_for(problem, spec.overrides))
    blamed, nearest = last_with_nearest(
        given, lambda name: _nearest_legal(tasks, spec.overrides, name)
    )
    why = PHRASES[name].format(got=got, limit=limit, machine=setting.machine.name)
    return Refusal(f"{named(dict(spec.overrides.items()), blamed)}: {why}", blamed, nearest)


def _nearest_miss(tasks: tuple[Task, ...], menu: SimtMenu) -> tuple[str, int, int]:
    """(constraint, got, limit) of the candidate that comes closest to being legal."""
    candidates = [
        SimtChoice(
            tile_m,
            tile_n,
            tile_k,
            warps_m,
            warps_n,
            menu.stages[0],
            menu.min_blocks[0],
            menu.raster_group[0],
        )
        for tile_m, tile_n, tile_k, (warps_m, warps_n) in product(
            menu.tile_m, menu.tile_n, menu.tile_k, menu.warps
        )
    ]
    missed = (list(violations(task, choice)) for task in tasks for choice in candidates)
    return nearest_miss(missed, PHRASES)


def _nearest_legal(tasks: tuple[Task, ...], overrides: Overrides, name: str) -> int | None:
    """The legal value of one override that is nearest to the given one, the others kept."""
    wanted = overrides.numbers()[name]
    for value in sorted(LEGAL[name], key=lambda value: (abs(value - wanted), value)):
        changed: dict[str, Any] = {name: value}
        menu = menu_for(tasks[0].problem, replace(overrides, **changed))
        if search_all(tasks, menu) is not None:
            return value
    return None
