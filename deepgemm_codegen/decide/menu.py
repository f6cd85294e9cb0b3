"""What each question may be answered with: the tree's own values, or the user's."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.constraints import FRAGMENT_K, MAX_WARPS, MMA_M, MMA_N
from deepgemm_codegen.decide.pipeline import MAX_TILE_K, STAGES, TILE_KS
from deepgemm_codegen.decide.registers import MIN_BLOCKS
from deepgemm_codegen.decide.schedule import RASTER_GROUPS
from deepgemm_codegen.decide.tile import MAX_TILE, TILE_MS, TILE_NS
from deepgemm_codegen.decide.warps import WARP_LAYOUTS
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.overrides import Overrides

__all__ = ["LEAST_REACH", "LEGAL", "MAX_RASTER", "Menu", "menu_for", "reaching", "why_illegal"]

LEAST_REACH = 32
"""Tiles up to here are tried for the smallest problem too: narrow copies need several warps."""

MAX_BLOCKS = 32
"""Resident blocks that any architecture holds."""

MAX_RASTER = 1024
"""Largest raster group that may be asked for; beyond a few dozen rows nothing changes."""

LEGAL: dict[str, range] = {
    "tile_m": range(MMA_M, MAX_TILE + 1, MMA_M),
    "tile_n": range(MMA_N, MAX_TILE + 1, MMA_N),
    "tile_k": range(FRAGMENT_K, MAX_TILE_K + 1, FRAGMENT_K),
    "warps_m": range(1, MAX_WARPS + 1),
    "warps_n": range(1, MAX_WARPS + 1),
    "stages": range(STAGES[0], STAGES[-1] + 1),
    "min_blocks": range(1, MAX_BLOCKS + 1),
    "raster_group": range(1, MAX_RASTER + 1),
}
"""Every value that an override may ask for; the tree itself tries fewer."""


class Menu(NamedTuple):
    """The values that each question may be answered with.

    An override leaves one value of its own; the search for a rival leaves the winner's out.
    ``tile_k`` and ``warps`` stand in order of preference, the others rise.
    """

    tile_m: tuple[int, ...] = TILE_MS
    tile_n: tuple[int, ...] = TILE_NS
    tile_k: tuple[int, ...] = TILE_KS
    warps: tuple[tuple[int, int], ...] = WARP_LAYOUTS
    stages: tuple[int, ...] = STAGES
    min_blocks: tuple[int, ...] = MIN_BLOCKS
    raster_group: tuple[int, ...] = RASTER_GROUPS


def menu_for(problem: Problem, overrides: Overrides | None = None) -> Menu:
    """The tree's menu for a problem, filtered by the overrides before anything is decided.

    Tiles and slices that reach further beyond the problem than they must are left out.

    Raises:
        InputError: an override that no candidate could have.
    """
    menu = Menu(
        tile_m=reaching(TILE_MS, max(problem.m, LEAST_REACH)),
        tile_n=reaching(TILE_NS, max(problem.n, LEAST_REACH)),
        tile_k=reaching(TILE_KS, problem.k),
    )
    given = overrides.numbers() if overrides is not None else {}
    if not given:
        return menu
    for name, value in given.items():
        if value not in LEGAL[name]:
            raise InputError(f"{name} = {value}: {why_illegal(value, LEGAL[name])}")
    chosen: dict[str, Any] = {
        name: (value,) for name, value in given.items() if not name.startswith("warps")
    }
    menu = menu._replace(**chosen)
    if "warps_m" in given or "warps_n" in given:
        menu = menu._replace(warps=_warps(given.get("warps_m", 0), given.get("warps_n", 0)))
    return menu


def reaching(values: tuple[int, ...], extent: int) -> tuple[int, ...]:
    """The values up to the first that covers an extent, in their order."""
    limit = min((value for value in values if value >= extent), default=extent)
    return tuple(value for value in values if value <= limit)


@cache
def _warps(warps_m: int, warps_n: int) -> tuple[tuple[int, int], ...]:
    """All layouts with the given counts (0: any), those with most warps first."""
    pairs = [
        (m, n)
        for m in ([warps_m] if warps_m else LEGAL["warps_m"])
        for n in ([warps_n] if warps_n else LEGAL["warps_n"])
        if m * n <= MAX_WARPS or (warps_m and warps_n)
    ]
    return tuple(sorted(pairs, key=lambda pair: (-pair[0] * pair[1], pair)))


def why_illegal(value: int, legal: range) -> str:
    """Why a value is not in a range, and what is the nearest that is."""
    if len(legal) == 1:
        return f"the only legal value is {legal[0]}"
    if value < legal[0]:
        return f"too small; the nearest legal is {legal[0]}"
    if value > legal[-1]:
        return f"too large; the nearest legal is {legal[-1]}"
    below = legal[(value - legal.start) // legal.step]
    return f"not a multiple of {legal.step}; the nearest legal are {below} and {below + legal.step}"
