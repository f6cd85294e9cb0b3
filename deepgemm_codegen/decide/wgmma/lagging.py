"""Question: by how much does the second of two consumers who share a tile end it after the first?

One consumer's wgmmas keep the tensor cores as busy as two consumers' do. Where both end a tile
together, none multiplies while they finish it. So the second starts its last slices, its lag, when
the first has started all of its own: the first finishes its rows meanwhile, and is in the next tile
when the second finishes. How far apart they can be, the ring decides: what one has read and the
other has not cannot be filled again.

Measured beside no lag over 55 kernels of ``configs/`` (``benchmarks/results/lags_h200.json``), of
which 53 have one now: the lag takes 0.989 of the time in geometric mean, 0.96 at 1024x3072x768,
0.98 at 2048-cubed, 0.99 at 4096-cubed with an epilogue and without; 1.03 with the narrow tiles of
the other two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.plan.tma import PANEL_BYTES
from deepgemm_codegen.plan.wgmma import slices_for_lag

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tiles import Extent

__all__ = ["LEAST_LAG", "lag"]

LEAST_LAG = 2
"""Slices below which it was slower than none: one of five at int8 1024x5120x640 takes 1.006."""

CLOCK = 32
"""Elements of a tile whose products with 128 bytes of k take the tensor cores a clock."""

NARROW = 85
"""Bytes of a slice for each clock of its math from which on there is no lag: where both consumers
wait for slices to come, the second would only begin later what nobody else does meanwhile. Tiles of
128x64 bring 96 and were 1.03 slower, 128x80 with 83 as fast, 128x96 with 75 faster by 0.985."""


def lag(tile_m: int, tile_n: int, k: Extent, stages: int) -> int:
    """Slices of the lag: 0 where both end together.

    Less than the ring holds: the first waits for no slot that the second would have to give back.
    And no more than the shortest tile has the slices for (`slices_for_lag`).

    Args:
        tile_m: rows of the tile that two consumers share.
        tile_n: its columns.
        k: the product's, in slices of 128 bytes, and parts.
        stages: ring slots.
    """
    clocks = tile_m * tile_n // CLOCK
    if (tile_m + tile_n) * PANEL_BYTES > NARROW * clocks:
        return 0
    longest = stages - 1
    if k.part_tiles is None:  # the launch tells, and the kernel asks
        return longest if longest >= LEAST_LAG else 0
    lags = range(longest, LEAST_LAG - 1, -1)
    return next((n for n in lags if slices_for_lag(n, stages) <= k.part_tiles[0]), 0)
