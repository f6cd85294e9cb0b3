"""Refusals of mma.sync: what was given, the limit it breaks, and the nearest legal value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.decide.misses import nearest_miss
from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
from deepgemm_codegen.decide.mma_sync.constraints import PHRASES, violations
from deepgemm_codegen.decide.mma_sync.menu import LEGAL, Menu, menu_for
from deepgemm_codegen.decide.mma_sync.search import search
from deepgemm_codegen.decide.refusal import Refusal, last_with_nearest, named
from deepgemm_codegen.decide.schedule import MAX_GRID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = ["refuse"]


def refuse(setting: Setting) -> Refusal:
    """Why no candidate serves a spec."""
    spec, _, problem, machine = setting
    overrides = spec.overrides
    given = overrides.numbers()
    if not given or search(problem, machine, menu_for(problem)) is None:
        return _too_large(spec, problem, machine)
    menu = menu_for(problem, overrides, cut=_cuts(overrides))
    name, got, limit = _nearest_miss(problem, machine, menu)
    blamed, nearest = last_with_nearest(
        given, lambda name: _nearest_legal(problem, machine, overrides, name)
    )
    why = PHRASES[name].format(got=got, limit=limit, machine=machine.name)
    return Refusal(f"{named(dict(overrides.items()), blamed)}: {why}", blamed, nearest)


def _cuts(overrides: Overrides) -> bool:
    """Whether k is cut, where the tree tries a few tiles only."""
    return (overrides.split_k or 1) > 1


def _candidates(menu: Menu) -> Iterator[MmaSyncChoice]:
    """The choices of a menu with the fewest stages and blocks: the easiest to serve."""
    for tile_m in menu.tile_m:
        for tile_n in menu.tile_n:
            for warps_m, warps_n in menu.warps:
                for tile_k in menu.tile_k:
                    yield MmaSyncChoice(
                        tile_m, tile_n, tile_k, warps_m, warps_n,
                        menu.stages[0], menu.min_blocks[0], menu.raster_group[0],
                    )  # fmt: skip


def _nearest_miss(problem: Problem, machine: Machine, menu: Menu) -> tuple[str, int, int]:
    """(constraint, got, limit) of the candidate that comes closest to being legal."""
    missed = (list(violations(problem, machine, choice)) for choice in _candidates(menu))
    return nearest_miss(missed, PHRASES)


def _nearest_legal(
    problem: Problem, machine: Machine, overrides: Overrides, name: str
) -> int | None:
    """The legal value of one override that is nearest to the given one, the others kept."""
    wanted = overrides.numbers()[name]
    values = sorted(LEGAL[name], key=lambda value: (abs(value - wanted), value))
    for value in values:
        changed: dict[str, Any] = {name: value}
        menu = menu_for(problem, replace(overrides, **changed), cut=_cuts(overrides))
        if search(problem, machine, menu) is not None:
            return value
    return None


def _too_large(spec: GemmSpec, problem: Problem, machine: Machine) -> Refusal:
    """The refusal of more tiles than a grid has blocks, with the nearest size that has not."""
    m, n = ("n", "m") if spec.layout_d == "t" else ("m", "n")
    text = f"m = {spec.m}, n = {spec.n}, batch = {spec.batch}: more tiles of D than the {MAX_GRID}"
    text += " blocks of a grid, whatever the tile"
    split = spec.overrides.split_k or 1
    if split > 1:
        return Refusal(f"{text}, {split} times over for split_k = {split}", "split_k")
    for name, field in (("batch", "batch"), (n, "n"), (m, "m")):
        most = _largest(problem, machine, field)
        if most:
            remedy = f"the largest {name} with the others as given is {most}"
            return Refusal(text, remedy=remedy)
    return Refusal(text, remedy="make two of them smaller")


def _largest(problem: Problem, machine: Machine, field: str) -> int:
    """The largest value of one extent that some candidate serves; 0 if none does."""
    low, high = 0, getattr(problem, field)
    while high - low > 1:
        middle = (low + high) // 2
        changed = problem._replace(**{field: middle})
        if search(changed, machine, menu_for(changed)) is None:
            high = middle
        else:
            low = middle
    return low
