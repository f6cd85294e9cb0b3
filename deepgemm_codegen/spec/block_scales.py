"""Scales by block of fp8 operands: what shares one, and how they lie in memory.

A has a scale for each row and each `BLOCK` elements of k (1x128), B one for each `BLOCK` columns
and as many of k (128x128). With k in slices of `BLOCK`, an element of D is

    sum over slices s of  scale_a[s, i] * scale_b[j / 128, s] * (sum of the slice's a b)

The scales of A lie slice by slice, those of a slice's rows side by side; the scales of B lie
block by block, those of a block's slices side by side. Both begin each line on 16 bytes, as
DeepGEMM and cublasLt want theirs. In a batch a product's scales lie behind those of the one before;
an operand that all products share has its scales once, too.
"""

from __future__ import annotations

from math import gcd

__all__ = [
    "BLOCK",
    "LINE",
    "SCALES",
    "SCALE_WORDS",
    "blocks_of",
    "line",
    "shared_columns",
]

BLOCK = 128
"""Elements of k, and columns of B, that share a scale."""

LINE = 4
"""Scales that a line is a multiple of: 16 bytes of fp32."""

SCALE_WORDS = {"a": "1x128", "b": "128x128"}
"""The blocks of each operand that has scales."""

SCALES = ("scale_a", "scale_b")
"""Arguments that hold them."""


def line(count: int) -> int:
    """Elements from a line of ``count`` scales to the next."""
    return -(-count // LINE) * LINE


def shared_columns(tile_n: int) -> int:
    """Columns of a tile that share B's scale wherever the tile begins, at a multiple of its own."""
    return gcd(tile_n, BLOCK)


def blocks_of(tile_n: int, halves: int = 1) -> int:
    """Most blocks of columns that a tile lies in, which begins at a multiple of its own.

    Args:
        tile_n: its columns, of all halves of B.
        halves: of a gated pair each half of the tile lies in blocks of its own.
    """
    apart = tile_n // halves
    return halves * (-(-(apart - shared_columns(apart)) // BLOCK) + 1)
