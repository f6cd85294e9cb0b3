"""Question: which tile, and how many consumers share it?

What a tile needs is known without any spec, so it stands in a table made once an architecture.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.menus import TILE_NS
from deepgemm_codegen.decide.wgmma import constraints
from deepgemm_codegen.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine

__all__ = ["CONSUMERS", "FRAGMENT_M", "TILE_K", "TILE_MS", "Tile", "slab_columns", "tile_table"]

FRAGMENT_M = 64
"""Rows of one wgmma, shared by the four warps of a warpgroup."""

TILE_K = 64
"""Elements of k in a slice: one 128-byte row of 16-bit elements, the only slice there is."""

TILE_MS = (64, 128, 256)
"""Rows of a tile that the tree tries; 192 would want three consumers, which no kernel has."""

CONSUMERS = (1, 2)
"""Consumer warpgroups that the tree tries."""

STEP_K, STEPS = 16, TILE_K // 16
"""k of one wgmma, and how many of them make a slice."""

SHARED_RATE = 128
"""Bytes a clock of a multiprocessor's shared memory: 32 banks of 4 bytes."""

FEED = 0.825
"""Clocks of shared memory charged for each that its bytes take.

Fitted to kernels measured on an H200: at 784x512x2048 slices of 64x64, 64x128 and 128x64 take
about 283, 333 and 373 clocks of 1,755 MHz (the launch set aside), for 256, 384 and 448 by their
bytes. A chip that boosts to 1,980 MHz when little runs (from memory) alone makes it 0.886."""

TWO_FRAGMENTS = 1.089
"""How much longer math takes with two fragments of 64 rows a consumer.

Fitted to kernels measured on an H200: 256x128 (two fragments, n128) took longer than 128x256 (one,
n256; the same FLOP a slice) by a factor of 1.086 at 4096-cubed, 1.06 at 8192-cubed and at
4096x2112x7168."""


FINISH = 50
"""Clocks between two tiles."""

FINISH_TMA = 0.06
"""Clocks of the epilogue an element of a tile that is converted and staged for TMA."""

FINISH_SLAB, PART = 0.038, 300
"""The same through slabs, and clocks of one pass of a warp's slab, mostly latency.

Fitted, as those above, to kernels measured on an H200: at 4096-cubed tiles of 128x176, which pass
in eleven parts of 16 columns, take 1.51 x the clocks of their math, 128x192 by TMA 1.44 x."""


class Tile(NamedTuple):
    """A legal tile with all that needs no spec to know.

    Attributes:
        tile_m, tile_n: rows and columns.
        consumers: consumer warpgroups.
        mma: tensor-core clocks of a slice, unheated.
        feed: shared-memory clocks of a slice: what wgmma reads and TMA writes.
        stage_bytes: of a ring slot with its two barriers.
        tma_finish: clocks of the epilogue where D leaves by TMA.
        slab_finish: the same by slabs.
        tma_bytes, slab_bytes: of the epilogue beside the ring, D leaving by TMA or by slab.
        whole_panels: whether D's tile is whole 128-byte panels, so that TMA may write it.
    """

    tile_m: int
    tile_n: int
    consumers: int
    mma: float
    feed: float
    tma_finish: float
    slab_finish: float
    stage_bytes: int
    tma_bytes: int
    slab_bytes: int
    whole_panels: bool


def slab_columns(tile_n: int) -> int:
    """Columns of a warp's slab: a warp's row passes through it in parts."""
    return next(width for width in (64, 48, 32, 16, 8) if tile_n % width == 0)


def _tile(machine: Machine, tile_m: int, tile_n: int, consumers: int) -> Tile:
    """Numbers of one tile; operands have two bytes an element."""
    fragments = tile_m // FRAGMENT_M
    mma = 2 * tile_m * tile_n * TILE_K / machine.wgmma_rate
    if fragments > consumers:
        mma *= TWO_FRAGMENTS
    parts = fragments // consumers * tile_n // slab_columns(tile_n)
    reads = fragments * STEPS * (FRAGMENT_M + tile_n) * STEP_K * 2
    written = (tile_m + tile_n) * PANEL_BYTES
    return Tile(
        tile_m=tile_m,
        tile_n=tile_n,
        consumers=consumers,
        mma=mma,
        feed=FEED * (reads + written) / SHARED_RATE,
        tma_finish=FINISH + FINISH_TMA * tile_m * tile_n,
        slab_finish=FINISH + FINISH_SLAB * tile_m * tile_n + PART * parts,
        stage_bytes=written + 16,
        tma_bytes=tile_m * tile_n * 2,
        slab_bytes=consumers * 4 * 16 * slab_columns(tile_n) * 4,
        whole_panels=tile_n * 2 % PANEL_BYTES == 0,
    )


@cache
def tile_table(machine: Machine) -> dict[tuple[int, int], list[Tile]]:
    """All legal tiles by their rows and consumers, columns rising; made once an architecture."""
    table: dict[tuple[int, int], list[Tile]] = {}
    for tile_m in TILE_MS:
        for consumers in CONSUMERS:
            if constraints.rows(tile_m, consumers):
                continue
            table[tile_m, consumers] = [
                _tile(machine, tile_m, tile_n, consumers)
                for tile_n in TILE_NS
                if not constraints.accumulators(tile_m, tile_n, consumers)
            ]
    return table
