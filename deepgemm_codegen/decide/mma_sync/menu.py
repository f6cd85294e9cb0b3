"""What each question may be answered with: the tree's own values, or the user's."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.abreast import ABREAST, few_warps
from deepgemm_codegen.decide.menus import (
    CUT_TILES,
    LEAST_REACH,
    MAX_RASTER,
    MAX_TILE,
    STAGES,
    TILE_NS,
    few,
    reaching,
)
from deepgemm_codegen.decide.mma_sync.constraints import MAX_WARPS, MMA_M, MMA_N, slice_block
from deepgemm_codegen.decide.mma_sync.pipeline import MAX_TILE_K, TILE_KS
from deepgemm_codegen.decide.mma_sync.registers import MIN_BLOCKS
from deepgemm_codegen.decide.mma_sync.warps import TILE_MS, WARP_LAYOUTS
from deepgemm_codegen.decide.schedule import RASTER_GROUPS
from deepgemm_codegen.decide.split_k import SPLIT_K

if TYPE_CHECKING:
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = ["LEGAL", "Menu", "menu_for"]

MAX_BLOCKS = 32
"""Resident blocks that any architecture holds."""

LEGAL: dict[str, range] = {
    "tile_m": range(MMA_M, MAX_TILE + 1, MMA_M),
    "tile_n": range(MMA_N, MAX_TILE + 1, MMA_N),
    "tile_k": range(16, MAX_TILE_K + 1, 16),  # 8-bit types: every other one, see `slice_steps`
    "warps_m": range(1, MAX_WARPS + 1),
    "warps_n": range(1, MAX_WARPS + 1),
    "stages": range(STAGES[0], STAGES[-1] + 1),
    "min_blocks": range(1, MAX_BLOCKS + 1),
    "raster_group": range(1, MAX_RASTER + 1),
    **SPLIT_K,
    **ABREAST,
}
"""Every value that an override may ask for; the tree itself tries fewer."""


class Menu(NamedTuple):
    """The values that each question may be answered with.

    An override leaves one value of its own; the search for a rival leaves the winner's out.
    ``tile_k`` and ``warps`` stand in order of preference, the others rise.
    """

    tile_m: tuple[int, ...] = TILE_MS
    tile_n: tuple[int, ...] = TILE_NS
    tile_k: tuple[int, ...] = TILE_KS[2]
    warps: tuple[tuple[int, int], ...] = WARP_LAYOUTS
    stages: tuple[int, ...] = STAGES
    min_blocks: tuple[int, ...] = MIN_BLOCKS
    raster_group: tuple[int, ...] = RASTER_GROUPS


def menu_for(problem: Problem, overrides: Overrides | None = None, *, cut: bool = False) -> Menu:
    """The tree's menu for a problem, filtered by overrides with legal values.

    Tiles and slices that reach further beyond the problem than they must are left out. Where k is
    ``cut``, a few tiles do: what fills the multiprocessors is the number of parts.
    """
    menu = Menu(
        tile_m=reaching(TILE_MS, max(problem.m, LEAST_REACH)),
        tile_n=reaching(TILE_NS, max(problem.n, LEAST_REACH, 2 * problem.columns_apart)),
        tile_k=reaching(_slices(problem), problem.k),
    )
    if cut:
        menu = menu._replace(tile_m=few(CUT_TILES, menu.tile_m), tile_n=few(CUT_TILES, menu.tile_n))
    given = overrides.numbers() if overrides is not None else {}
    if not given:
        return menu
    chosen: dict[str, Any] = {
        name: (value,) for name, value in given.items() if name in Menu._fields
    }
    menu = menu._replace(**chosen)
    if "warps_m" in given or "warps_n" in given:
        menu = menu._replace(warps=_warps(given.get("warps_m", 0), given.get("warps_n", 0)))
    return menu._replace(warps=few_warps(menu.warps, given))


def _slices(problem: Problem) -> tuple[int, ...]:
    """The slices of k that the tree tries: those of a legal length."""
    values = TILE_KS[problem.element_bytes]
    return tuple(k for k in values if not slice_block(k, scaled=problem.scaled))


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
