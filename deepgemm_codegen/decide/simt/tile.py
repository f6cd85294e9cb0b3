"""Question: which tile, and how do warps split it?

What a tile costs a k is known without any spec, so it stands in a table made once an architecture.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from deepgemm_codegen.decide.simt import constraints
from deepgemm_codegen.plan.simt import LANES_M, LANES_N, QUAD
from deepgemm_codegen.plan.tiles import WARP

__all__ = ["SCHEDULERS", "TILE_MS", "TILE_NS", "WARPS", "Tile", "tile_of", "tile_table"]

TILE_MS = (16, 32, 64, 128, 256)
"""Rows of a tile that the tree tries."""

TILE_NS = (32, 64, 128, 256)
"""Columns of a tile that the tree tries."""

WARPS = ((2, 2), (2, 4), (4, 2), (1, 2), (2, 1), (1, 1), (1, 4), (4, 1))
"""Warps along m and n that the tree tries, preferred first."""

SCHEDULERS = 4
"""Warp schedulers of a multiprocessor, each with an instruction a clock."""

READ_WAVEFRONTS = 4
"""Wavefronts of a warp's 16-byte read."""


class Tile(NamedTuple):
    """A tile and its warps, with all that needs no spec to know; clocks are of one k and block.

    Attributes:
        tile_m, tile_n: rows and columns.
        warps_m, warps_n: warps along them.
        warps: of the block.
        rows, columns: that a thread sums.
        fma: clocks of the fp32 units.
        issue: instructions of a thread: multiply-adds and reads.
        feed: wavefronts of the reads.
    """

    tile_m: int
    tile_n: int
    warps_m: int
    warps_n: int
    warps: int
    rows: int
    columns: int
    fma: float
    issue: int
    feed: int


def tile_of(tile_m: int, tile_n: int, warps_m: int, warps_n: int, fma_rate: int) -> Tile | None:
    """A tile on an architecture of so many multiply-adds a clock; None where it is illegal."""
    warps = warps_m * warps_n
    if (
        constraints.quads(tile_m, LANES_M, warps_m)
        or constraints.quads(tile_n, LANES_N, warps_n)
        or constraints.warps(warps)
        or constraints.sums(tile_m, tile_n, warps)
    ):
        return None
    rows, columns = tile_m // warps_m // LANES_M, tile_n // warps_n // LANES_N
    reads = (rows + columns) // QUAD
    return Tile(
        tile_m,
        tile_n,
        warps_m,
        warps_n,
        warps,
        rows,
        columns,
        rows * columns * WARP * max(warps, SCHEDULERS) / fma_rate,
        rows * columns + reads,
        reads * READ_WAVEFRONTS * warps,
    )


@cache
def tile_table(
    fma_rate: int,
    tile_ms: tuple[int, ...],
    tile_ns: tuple[int, ...],
    warps: tuple[tuple[int, int], ...],
) -> tuple[Tile, ...]:
    """All legal tiles of a menu, preferred warps first."""
    made = (
        tile_of(tile_m, tile_n, *layout, fma_rate)
        for layout in warps
        for tile_m in tile_ms
        for tile_n in tile_ns
    )
    return tuple(tile for tile in made if tile is not None)
