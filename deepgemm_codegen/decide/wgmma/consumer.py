"""What a consumer of wgmma holds: its rows, its sums, the scales of its columns.

Plain numbers in; None or (got, limit) out, as of the constraints that these are among.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.spec.block_scales import blocks_of

if TYPE_CHECKING:
    from deepgemm_codegen.decide.misses import Miss

__all__ = [
    "FRAGMENT_M",
    "PANEL_COLUMNS",
    "accumulators",
    "columns",
    "in_sequence",
    "overlapped",
    "rows",
    "scales",
    "turns",
]

FRAGMENT_M, MAX_CONSUMER_ROWS = 64, 128
"""Rows of a consumer: one or two fragments of 64. Three would leave 80 columns of sums."""

MAX_ACCUMULATORS = 192
"""fp32 sums a thread, of the 240 registers that setmaxnreg gives a consumer thread."""

MAX_SCALES = 3
"""Blocks of B's columns that a tile may lie in, each with a scale beside the sums: selects tell
which one a group of columns has."""

PANEL_COLUMNS = 64
"""16-bit elements of a 128-byte row."""


def turns(consumers: int, tiles_at_once: int) -> Miss | None:
    """Taking tiles in turn takes two consumers: got is how many there are."""
    return (consumers, 2) if consumers < tiles_at_once else None


def rows(tile_m: int, consumers: int, tiles_at_once: int) -> Miss | None:
    """A consumer takes one or two fragments of 64 rows."""
    got, left = divmod(tile_m * tiles_at_once, consumers)
    if not left and got in (FRAGMENT_M, MAX_CONSUMER_ROWS):
        return None
    return (got, FRAGMENT_M if got < MAX_CONSUMER_ROWS else MAX_CONSUMER_ROWS)


def accumulators(
    tile_m: int, tile_n: int, consumers: int, tiles_at_once: int, sets: int
) -> Miss | None:
    """A thread's sums stay in registers, with what addresses and the epilogue need.

    Where a slice's are added apart, those of one of its fragments lie beside those of all.
    """
    rows = tile_m * tiles_at_once // consumers
    got = (rows + FRAGMENT_M * (sets - 1)) * tile_n // 128
    return (got, MAX_ACCUMULATORS) if got > MAX_ACCUMULATORS else None


def overlapped(rows: int, tile_n: int, sets: int) -> bool:
    """Whether a consumer has room for a slice's sums beside those that the next slice makes.

    Args:
        rows: of D that a consumer computes.
        tile_n: columns of the tile.
        sets: of sums without that room; one where no slice's sums are added apart.
    """
    return sets > 1 and rows == FRAGMENT_M and (sets + 1) * tile_n // 2 <= MAX_ACCUMULATORS


def in_sequence(rows: int, tile_n: int, sets: int) -> bool:
    """Whether there is no room for the sums of all fragments of a slice; arguments as above."""
    return rows * sets * tile_n // 128 > MAX_ACCUMULATORS


def columns(tile_n: int, *, integers: bool) -> Miss | None:
    """An instruction on integers takes 8, 16, 24 and 32 columns, then multiples of 16."""
    left = tile_n % 16 if integers and tile_n > 32 else 0
    return (left, 0) if left else None


def scales(tile_n: int, halves: int, *, scaled: bool) -> Miss | None:
    """A tile lies in a few blocks of B's columns, and keeps the scale of each."""
    got = blocks_of(tile_n, halves) if scaled else 0
    return (got, MAX_SCALES) if got > MAX_SCALES else None
