"""Which block of a kernel computes which tile: schedules, one of which every plan has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.plan.expressions import FloorDiv, Maximum, Number, Variable, times

if TYPE_CHECKING:
    from deepgemm_codegen.plan.expressions import Expression

__all__ = ["Grid", "Persistent", "clusters_at_once"]

GROUP = 16
"""Multiprocessors beside each other on which a cluster has to lie, of which a GPU has groups."""

COUNTED = (15, 16)
"""Of so many clusters that whole groups would hold, so few are counted on: some groups have more
multiprocessors, some fewer. An H200 of 132 holds 39 of three blocks, 30 of four, 22 of five, 17 of
six, 15 of seven and of eight (``benchmarks/results/program_sweep_whole_rows_h200.json``); counted
so, 37, 30, 22, 15, 15 and 15."""


def clusters_at_once(blocks: int) -> Expression:
    """How many clusters run at a time whose blocks each fill a multiprocessor, over `sms`.

    Pairs always fit. Of larger ones too many would take as long again, which start when others end.
    """
    if blocks <= 2:
        return FloorDiv(Variable("sms"), blocks)
    few, many = COUNTED
    groups = FloorDiv(Variable("sms"), GROUP)
    return Maximum(FloorDiv(times(Number(GROUP // blocks * few), groups), many), 1)


@dataclass(frozen=True, slots=True)
class Grid:
    """One block a tile, tiles in groups of rows so that neighbours in time share operands.

    Attributes:
        raster_group: tile rows that a group walks, column by column.
    """

    raster_group: int

    def tile_of(self, block: int, tiles_m: int, tiles_n: int) -> tuple[int, int, int]:
        """(batch, tile row, tile column) that a block computes; what the templates print.

        Batches follow each other. In one, a group of `raster_group` tile rows (the last one may
        be lower) is walked down its first column, then down the next.
        """
        batch, block = divmod(block, tiles_m * tiles_n)
        group, within = divmod(block, self.raster_group * tiles_n)
        height = min(self.raster_group, tiles_m - group * self.raster_group)
        column, row = divmod(within, height)
        return batch, group * self.raster_group + row, column

    def block_of(self, batch: int, tile_m: int, tile_n: int, tiles_m: int, tiles_n: int) -> int:
        """The block that computes a tile: the inverse of `tile_of`."""
        group, row = divmod(tile_m, self.raster_group)
        height = min(self.raster_group, tiles_m - group * self.raster_group)
        within = tile_n * height + row
        return batch * tiles_m * tiles_n + group * self.raster_group * tiles_n + within


@dataclass(frozen=True, slots=True)
class Persistent(Grid):
    """Blocks that stay: block b computes the tiles b, b + grid, b + 2 * grid, ... of `Grid`.

    The loop strides by the grid's size, so any number of blocks computes the whole; there are
    no more than tiles, so that each has one.
    """
