"""Question: which tile of D does a block compute?

Large tiles reuse operands more; small ones fill the multiprocessors evenly. Any multiple of the
instruction shape is a candidate, since 48 or 80 rows sometimes fill the last wave best.
"""

from __future__ import annotations

__all__ = ["MAX_TILE", "TILE_MS", "TILE_NS"]

MAX_TILE = 256
"""Largest tile_m and tile_n; 256x256 already asks for more sums than registers hold."""

TILE_MS = tuple(range(16, MAX_TILE + 1, 16))
"""Rows of a tile that the tree tries: multiples of mma_m."""

TILE_NS = tuple(range(8, MAX_TILE + 1, 8))
"""Columns of a tile that the tree tries: multiples of mma_n."""
