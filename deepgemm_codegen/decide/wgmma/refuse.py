"""Refusals of the wgmma family: what was given, the limit it breaks, the nearest legal value."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.misses import nearest_miss
from deepgemm_codegen.decide.split_k import Cut
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from deepgemm_codegen.decide.wgmma.constraints import MAX_TILES, PHRASES, violations
from deepgemm_codegen.decide.wgmma.menu import LEGAL, WgmmaMenu, menu_for
from deepgemm_codegen.decide.wgmma.search import search
from deepgemm_codegen.decide.wgmma.task import task_of
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["refuse"]


def refuse(spec: GemmSpec, problem: Problem, machine: Machine) -> InputError:
    """The error for overrides that leave only wgmma, of which nothing serves the spec."""
    given = spec.overrides.numbers()
    parts, cluster_k = given.get("split_k"), given.get("cluster_k", 1)
    if cluster_k > 1 and parts not in (None, cluster_k):
        return InputError(
            f"cluster_k = {cluster_k} with split_k = {parts}: the parts of a cluster are all there"
            f" are; the nearest legal split_k is {cluster_k}"
        )
    task = task_of(spec, problem, machine, _cut_of(given))
    if search(task, menu_for(task.problem, {})) is None:
        batch = f", batch = {spec.batch}" if spec.batch > 1 else ""
        return InputError(
            f"m = {spec.m}, n = {spec.n}{batch}: more tiles of D than the {MAX_TILES} that a wgmma"
            " kernel counts; make one of them smaller"
        )
    name, got, limit = _nearest_miss(task, menu_for(task.problem, given))
    blamed, nearest = next(reversed(given)), None
    for candidate in reversed(given):
        nearest = _nearest_legal(spec, task, given, candidate)
        if nearest is not None:
            blamed = candidate
            break
    words = [f"{key} = {value}" for key, value in given.items() if key != blamed]
    if spec.overrides.family is not None:
        words.insert(0, f"family = {spec.overrides.family}")
    text = f"{blamed} = {given[blamed]}{' with ' if words else ''}{', '.join(words)}: "
    text += PHRASES[name].format(got=got, limit=limit, machine=task.machine.name) + "; "
    if nearest is None:
        return InputError(text + "leave out one of these overrides")
    return InputError(text + f"the nearest legal {blamed} is {nearest}")


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
    missed = (list(violations(task, WgmmaChoice(*numbers))) for numbers in candidates)
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
