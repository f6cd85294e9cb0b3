"""What each question of the CUDA-core family may be answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.abreast import ABREAST, few_warps
from deepgemm_codegen.decide.menus import LEAST_REACH, MAX_RASTER, MAX_TILE, STAGES, reaching
from deepgemm_codegen.decide.schedule import RASTER_GROUPS
from deepgemm_codegen.decide.simt.constraints import MAX_WARPS
from deepgemm_codegen.decide.simt.tile import TILE_MS, TILE_NS, WARPS
from deepgemm_codegen.plan.simt import LANES_M, LANES_N, QUAD

if TYPE_CHECKING:
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = ["LEGAL", "SimtMenu", "menu_for"]

TILE_KS = (16, 8)
"""Slices of k that the tree tries, preferred first: a longer one has fewer barriers."""

MIN_BLOCKS = (1, 2, 3, 4, 6, 8)
"""Resident blocks that the tree tries to plan for, fewest first."""

LEGAL: dict[str, range] = {
    "tile_m": range(LANES_M * QUAD, MAX_TILE + 1, LANES_M * QUAD),
    "tile_n": range(LANES_N * QUAD, MAX_TILE + 1, LANES_N * QUAD),
    "tile_k": range(8, 17, 8),
    "warps_m": range(1, MAX_WARPS + 1),
    "warps_n": range(1, MAX_WARPS + 1),
    "stages": range(STAGES[0], STAGES[-1] + 1),
    "min_blocks": range(1, 33),
    "raster_group": range(1, MAX_RASTER + 1),
    **ABREAST,
}
"""Every value that an override may ask for; the tree itself tries fewer."""


class SimtMenu(NamedTuple):
    """The values that each question may be answered with; an override leaves one of its own."""

    tile_m: tuple[int, ...] = TILE_MS
    tile_n: tuple[int, ...] = TILE_NS
    tile_k: tuple[int, ...] = TILE_KS
    warps: tuple[tuple[int, int], ...] = WARPS
    stages: tuple[int, ...] = STAGES
    min_blocks: tuple[int, ...] = MIN_BLOCKS
    raster_group: tuple[int, ...] = RASTER_GROUPS


def menu_for(problem: Problem, overrides: Overrides | None = None) -> SimtMenu:
    """The tree's menu for a problem, filtered by overrides with legal values."""
    quads = problem.halves * LANES_N * QUAD  # of a warp, in each half where columns are paired
    menu = SimtMenu(
        tile_m=reaching(TILE_MS, max(problem.m, LEAST_REACH)),
        tile_n=reaching(TILE_NS, max(problem.n, LEAST_REACH, quads)),
    )
    given = overrides.numbers() if overrides is not None else {}
    if not given:
        return menu
    chosen: dict[str, Any] = {
        name: (value,) for name, value in given.items() if name in SimtMenu._fields
    }
    menu = menu._replace(**chosen)
    if "warps_m" in given or "warps_n" in given:
        pairs = [
            (m, n)
            for m in ([given["warps_m"]] if "warps_m" in given else (1, 2, 4, 8))
            for n in ([given["warps_n"]] if "warps_n" in given else (1, 2, 4, 8))
        ]
        menu = menu._replace(warps=tuple(pairs))
    return menu._replace(warps=few_warps(menu.warps, given))
