"""What each question of the wgmma family may be answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.menus import (
    CUT_TILES,
    LEAST_REACH,
    MAX_RASTER,
    MAX_TILE,
    TILE_NS,
    few,
    reaching,
)
from deepgemm_codegen.decide.schedule import RASTER_GROUPS
from deepgemm_codegen.decide.split_k import SPLIT_K
from deepgemm_codegen.decide.wgmma.constraints import MAX_CLUSTER_K
from deepgemm_codegen.decide.wgmma.consumer import PANEL_COLUMNS
from deepgemm_codegen.decide.wgmma.tile import CONSUMERS, FRAGMENT_M, TILE_MS
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["CLUSTER_KS", "LEGAL", "WgmmaMenu", "menu_for"]

STAGES = tuple(range(2, 17))
"""Stage counts that the tree tries: narrow tiles keep enough bytes in flight by many slots."""

WIDE_PANELS = (32, 64)
"""Columns of D that leave together in wide panels: a tile may reach past D so as to have them. At
4096x80x40, 8 products, 96 columns took 5.05 us where 80, in panels of 16, took 5.32."""

CLUSTER_KS = (2, 3, 4, 6, 8)
"""Parts of k that the tree tries as blocks of one cluster."""

LEGAL: dict[str, range] = {
    "tile_m": range(FRAGMENT_M, MAX_TILE + 1, FRAGMENT_M),
    "tile_n": range(8, MAX_TILE + 1, 8),
    "tile_k": range(64, 129, 64),  # a 128-byte row, or two of 2-byte types
    "stages": range(STAGES[0], STAGES[-1] + 1),
    "raster_group": range(1, MAX_RASTER + 1),
    "consumers": range(1, CONSUMERS[-1] + 1),
    "tiles_at_once": range(1, 3),
    "cluster_m": range(1, 3),
    "cluster_n": range(1, 3),
    "cluster_k": range(1, MAX_CLUSTER_K + 1),
    "cluster_rows": range(1, MAX_CLUSTER_K + 1),
    **SPLIT_K,
}
"""Every value that an override may ask for."""


class WgmmaMenu(NamedTuple):
    """The values that each question may be answered with; an override leaves one of its own."""

    tile_m: tuple[int, ...] = TILE_MS
    tile_n: tuple[int, ...] = TILE_NS
    consumers: tuple[int, ...] = CONSUMERS
    tiles_at_once: tuple[int, ...] = (1, 2)
    stages: tuple[int, ...] = STAGES
    cluster_m: tuple[int, ...] = (1, 2)
    cluster_n: tuple[int, ...] = (1, 2)
    raster_group: tuple[int, ...] = RASTER_GROUPS
    slice_rows: tuple[int, ...] = (1, 2)
    """128-byte rows of k in a slice, which the override ``tile_k`` tells."""


def menu_for(problem: Problem, given: dict[str, int], *, cut: bool = False) -> WgmmaMenu:
    """The tree's menu for a problem, filtered by overrides with legal values.

    Where k is ``cut``, a few tiles do: what fills the multiprocessors is the number of parts.
    """
    columns = max(problem.n, LEAST_REACH)
    if not problem.b_k_major:  # in whole panels, of each half
        panels = problem.halves * PANEL_COLUMNS
        columns = -(-columns // panels) * panels
    wide = {-(-columns // panel) * panel for panel in WIDE_PANELS}
    tiles = (*reaching(TILE_NS, columns), *(tile for tile in sorted(wide) if tile <= MAX_TILE))
    menu = WgmmaMenu(tile_m=reaching(TILE_MS, problem.m), tile_n=tuple(dict.fromkeys(tiles)))
    if cut:
        menu = menu._replace(tile_n=few(CUT_TILES, menu.tile_n))
    if not given:
        return menu
    chosen: dict[str, Any] = {
        name: (value,) for name, value in given.items() if name in WgmmaMenu._fields
    }
    if "tile_k" in given:
        chosen["slice_rows"] = (given["tile_k"] * problem.element_bytes // PANEL_BYTES,)
    return menu._replace(**chosen)
