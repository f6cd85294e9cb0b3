"""Question: how many warps share a block tile, and how do they split it?

More warps hide more latency but read shared memory more often: a warp tile of 64x64 moves half
the bytes a FLOP of one of 32x32. What a layout needs is known without any spec, so it stands in a
table made once an architecture.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.menus import MAX_TILE, TILE_NS
from deepgemm_codegen.decide.mma_sync import constraints
from deepgemm_codegen.decide.mma_sync.predict import tile_clocks
from deepgemm_codegen.decide.mma_sync.registers import register_estimate
from deepgemm_codegen.decide.occupancy import register_caps
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine

__all__ = ["TILE_MS", "WARP_LAYOUTS", "Layout", "Tile", "layouts_of", "tile_table"]

TILE_MS = tuple(range(16, MAX_TILE + 1, 16))
"""Rows of a tile that the tree tries: multiples of mma_m. Large tiles reuse operands more; small
ones fill the multiprocessors evenly."""

WARP_LAYOUTS = (
    (2, 4), (4, 2), (2, 2), (1, 4), (4, 1), (2, 3), (3, 2), (1, 8), (8, 1), (1, 2), (2, 1), (1, 1),
)  # fmt: skip
"""Warps along m and n that the tree tries, preferred first."""


class Layout(NamedTuple):
    """One way to spread a block tile over warps, with all that needs no spec to know.

    Attributes:
        warps_m: warps along m.
        warps_n: warps along n.
        warps: of the block.
        registers: estimate a thread, `operand_registers` left out.
        blocks: most resident blocks that these registers and the threads allow.
        caps: registers a thread may have, by resident blocks.
        mma: tensor-core clocks of one tile and one element of k.
        shared: shared-memory clocks of the same, see `predict.tile_clocks`.
    """

    warps_m: int
    warps_n: int
    warps: int
    registers: int
    blocks: int
    caps: tuple[int, ...]
    mma: float
    shared: float


class Tile(NamedTuple):
    """A legal tile and its layouts.

    Attributes:
        tile_n: columns; the rows are the table's key.
        blocks: most resident blocks of any layout.
        mma: tensor-core clocks of one tile and one element of k.
        shared: least shared-memory clocks of the same.
        layouts: the legal layouts, preferred first.
    """

    tile_n: int
    blocks: int
    mma: float
    shared: float
    layouts: list[Layout]


def layouts_of(
    machine: Machine,
    element_bytes: int,
    columns: tuple[int, int],
    tile_m: int,
    tile_n: int,
    warp_layouts: tuple[tuple[int, int], ...] = WARP_LAYOUTS,
) -> list[Layout]:
    """The legal layouts of a tile, in the order of `warp_layouts`.

    ``columns`` are `Problem.columns_apart` and `columns_within`.
    """
    apart, within = columns
    found = []
    for warps_m, warps_n in warp_layouts:
        count = warps_m * warps_n
        if (
            constraints.fragments(tile_m, tile_n, warps_m, warps_n, apart)
            or constraints.warps(count)
            or constraints.scales(tile_n, warps_n, within)
            or constraints.accumulators(tile_m, tile_n, count)
        ):
            continue
        estimate = register_estimate(tile_m, tile_n, warps_m, warps_n)
        caps = register_caps(WARP * count, machine)
        blocks = sum(cap >= estimate for cap in caps[1:])
        if blocks:
            mma, shared = tile_clocks(machine, element_bytes, tile_m, tile_n, warps_m, warps_n)
            found.append(Layout(warps_m, warps_n, count, estimate, blocks, caps, mma, shared))
    return found


@cache
def tile_table(
    machine: Machine,
    element_bytes: int,
    columns: tuple[int, int],
    warp_layouts: tuple[tuple[int, int], ...],
) -> dict[int, list[Tile]]:
    """All legal tiles by their rows; made once an architecture and list of layouts."""
    table: dict[int, list[Tile]] = {}
    for tile_m in TILE_MS:
        table[tile_m] = rows = []
        for tile_n in TILE_NS:
            layouts = layouts_of(machine, element_bytes, columns, tile_m, tile_n, warp_layouts)
            if layouts:
                blocks = max(layout.blocks for layout in layouts)
                shared = min(layout.shared for layout in layouts)
                rows.append(Tile(tile_n, blocks, layouts[0].mma, shared, layouts))
    return table
