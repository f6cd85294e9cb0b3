"""Refusals of the wgmma family: what was given, the limit it breaks, the nearest legal value."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.misses import nearest_miss
from deepgemm_codegen.decide.refusal import Refusal, last_with_nearest, named
from deepgemm_codegen.decide.split_k import Cut
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from deepgemm_codegen.decide.wgmma.constraints import MAX_TILES, PHRASES, violations
from deepgemm_codegen.decide.wgmma.menu import LEGAL, WgmmaMenu, menu_for
from deepgemm_codegen.decide.wgmma.search import search
from deepgemm_codegen.decide.wgmma.task import task_of
from deepgemm_codegen.decide.wgmma.whole_rows import best_holding_rows, rows_menu

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["refuse"]


def refuse(spec: GemmSpec, problem: Problem, machine: Machine) -> Refusal:
    """Why no candidate serves a spec."""
    given = spec.overrides.numbers()
    parts, cluster_k = given.get("split_k"), given.get("cluster_k", 1)
    if cluster_k > 1 and parts not in (None, cluster_k):
        return Refusal(
            f"cluster_k = {cluster_k} with split_k = {parts}: the parts of a cluster are all there"
            " are",
            "split_k",
            cluster_k,
        )
    if given.get("cluster_rows"):
        return _refuse_rows(spec, task_of(spec, problem, machine), given)
    task = task_of(spec, problem, machine, _cut_of(given))
    if search(task, menu_for(task.problem, {})) is None:
        batch = f", batch = {spec.batch}" if spec.batch > 1 else ""
        return Refusal(
            f"m = {spec.m}, n = {spec.n}{batch}: more tiles of D than the {MAX_TILES} that a wgmma"
            " kernel counts",
            remedy="make one of them smaller",
        )
    name, got, limit = _nearest_miss(task, menu_for(task.problem, given))
    blamed, nearest = last_with_nearest(given, lambda name: _nearest_legal(spec, task, given, name))
    why = PHRASES[name].format(got=got, limit=limit, machine=task.machine.name)
    return Refusal(f"{named(dict(spec.overrides.items()), blamed)}: {why}", blamed, nearest)


def _refuse_rows(spec: GemmSpec, task: Task, given: dict[str, int]) -> Refusal:
    """Why the blocks of a cluster cannot have whole rows between them as asked."""

    def nearest(name: str) -> int | None:
        for value in sorted(LEGAL[name], key=lambda value: (abs(value - given[name]), value)):
            numbers = {**given, name: value}
            menu = rows_menu(task.problem, numbers)
            if best_holding_rows(task, menu, (numbers["cluster_rows"],)) is not None:
                return value
        return None

    blamed, value = last_with_nearest(given, nearest)
    blocks, columns = given["cluster_rows"], task.problem.n
    why = f"no legal tile has {blocks} blocks share the {columns} columns of a row"
    return Refusal(f"{named(dict(spec.overrides.items()), blamed)}: {why}", blamed, value)


def _cut_of(given: dict[str, int]) -> Cut:
    """The cut that overrides ask for."""
    if given.get("cluster_k", 1) > 1:
        return Cut(given["cluster_k"], together=True)
    return Cut(given.get("split_k", 1))


def _nearest_miss(task: Task, menu: WgmmaMenu) -> tuple[str, int, int]:
    """(constraint, got, limit) of the candidate that comes closest to being legal."""
    candidates = product(
        menu.tile_m,
        menu.tile_n,
        menu.consumers,
        menu.tiles_at_once,
        menu.stages[:1],
        menu.cluster_m,
        menu.cluster_n,
        menu.raster_group[:1],
    )
    tile_k = task.kind.tile_k * menu.slice_rows[0]
    choices = (WgmmaChoice(*numbers, tile_k=tile_k) for numbers in candidates)
    missed = (list(violations(task, choice)) for choice in choices)
    return nearest_miss(missed, PHRASES)


def _nearest_legal(spec: GemmSpec, task: Task, given: dict[str, int], name: str) -> int | None:
    """The legal value of one override that is nearest to the given one, the others kept."""
    problem, machine = task.problem, task.machine
    for value in sorted(LEGAL[name], key=lambda value: (abs(value - given[name]), value)):
        numbers = {**given, name: value}
        changed = task_of(spec, problem, machine, _cut_of(numbers))
        if search(changed, menu_for(problem, numbers)) is not None:
            return value
    return None
