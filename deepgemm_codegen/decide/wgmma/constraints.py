"""What rules a wgmma candidate out: each constraint by name, with its reason.

As in mma.sync's constraints: plain numbers in, None or (got, limit) out. What rules the whole
family out is a sentence, see `deepgemm_codegen.decide.wgmma.family`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.wgmma.consumer import (
    PANEL_COLUMNS,
    accumulators,
    columns,
    rows,
    scales,
    turns,
)
from deepgemm_codegen.plan.tma import SWIZZLE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.misses import Miss
    from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
    from deepgemm_codegen.decide.wgmma.task import Task

__all__ = ["MAX_CLUSTER_K", "PHRASES", "violations"]

MAX_CLUSTER = 2
"""Blocks of a cluster that share tiles, and nothing else; larger ones were slower for the author of
fast.cu (its README, H100)."""

MAX_CLUSTER_K = 8
"""Blocks of a cluster along k, or that have whole rows: what a cluster may have anywhere (CUDA
programming guide)."""

PAST = 8
"""How many columns land for each that may lie past a tile. Tiles of 112, 176 and 224 columns were
up to 12 % faster than whole ones where math is the limit and the last wave is fuller by them, those
of 80, 144, 160 and 208 up to 28 % slower than predicted, and consumers in turn, whose rings are
short, 1.05 to 1.6 times as slow (``benchmarks/notes.md``)."""

MAX_TILES = 2**31 - 1024
"""Tiles that a block counts in 32 bits, its stride included."""


def sums(rows_follow: bool, tiles_at_once: int) -> Miss | None:
    """Sums that another kernel makes rows of leave once for all consumers."""
    return (tiles_at_once, 1) if rows_follow and tiles_at_once > 1 else None


def parts(count: int, tiles_at_once: int) -> Miss | None:
    """A consumer that skips the other's slices must know how many: parts of k are not all equal."""
    return (count, 1) if count > 1 and tiles_at_once > 1 else None


def panels(tile: int, *, k_major: bool, ragged: bool = False) -> Miss | None:
    """An operand with m or n contiguous travels in panels of 64: got is left over, wanted 0.

    Where it may be `ragged`, the tile ends inside its last panel, which then brings columns of the
    next tile for nobody: no more than one in `PAST`.
    """
    left = 0 if k_major else tile % PANEL_COLUMNS
    landed = tile + PANEL_COLUMNS - left
    if left == 0 or (ragged and PAST * (landed - tile) <= landed):
        return None
    return (left, 0)


def ragged(task: Task, consumers: int, tiles_at_once: int) -> bool:
    """Whether tiles may end inside a panel of B: consumers share them, and TMA writes D."""
    return consumers > tiles_at_once and task.tma_store


def pairs(tile: int, halves: int, *, k_major: bool) -> Miss | None:
    """Each half of a paired tile is whole fragments, or panels: got is left over, wanted 0."""
    half = 8 if k_major else PANEL_COLUMNS
    left = tile % (halves * half) if halves > 1 else 0
    return (left, 0) if left else None


def cluster(cluster_m: int, cluster_n: int, sms: int) -> Miss | None:
    """Blocks of a cluster share A's tile or B's: two, along one dimension, each on an SM."""
    got, limit = cluster_m * cluster_n, min(MAX_CLUSTER, sms)
    return (got, limit) if got > limit else None


def alone(sharers: int, cluster_k: int) -> Miss | None:
    """A cluster of parts of k shares no tiles beside: got is the blocks that would."""
    return (sharers, 1) if sharers > 1 and cluster_k > 1 else None


def long_slice(task: Task, tile_m: int, tile_n: int, sharers: int) -> Miss | None:
    """A slice of two rows is for 2-byte operands that fill the tile, and for no cluster or pairs.

    Got are rows of a slice, or of a matrix; the limit is what they may be, or have to be.
    """
    problem = task.problem
    alone = sharers * task.cluster_k * problem.halves == 1 and problem.element_bytes == 2
    if not alone or not (problem.dynamic_k or problem.k >= 2 * task.kind.tile_k):
        return (2, 1)
    for size, tile, dynamic in (
        (problem.m, tile_m, problem.dynamic_m),
        (problem.n, tile_n, problem.dynamic_n),
    ):
        if size < tile and not dynamic:  # rows of a slot that no copy writes lie in one place
            return (size, tile)
    return None


def multicast(tile: int, sharers: int, *, k_major: bool) -> Miss | None:
    """Each sharer loads its part of the rows, which holds whole swizzle patterns.

    The stored rows of a K-major tile are its m or n, those of the other kind the slice's 64 of k.
    """
    part = (tile if k_major else PANEL_COLUMNS) // sharers
    return (part, SWIZZLE_ROWS) if part % SWIZZLE_ROWS else None


def grid(tiles: int) -> Miss | None:
    """A block counts its tiles in 32 bits."""
    return (tiles, MAX_TILES) if tiles > MAX_TILES else None


def raster(group: int, clusters_n: int) -> Miss | None:
    """The clusters of one raster group are counted in 32 bits by the kernel."""
    got = group * clusters_n
    return (got, 2**31 - 1) if got >= 2**31 else None


def shared_block(needed: int, limit: int) -> Miss | None:
    """The ring, and D's tile or the slabs beside it, fit what one block may ask for."""
    return (needed, limit) if needed > limit else None


PHRASES: dict[str, str] = {
    "turns": "{got} consumer cannot take tiles in turn; it takes {limit}",
    "sums": "{got} tiles in turn, whose sums do not go to a workspace; the limit is {limit}",
    "parts": "{got} parts of k for consumers that take tiles in turn; the limit is {limit}",
    "rows": "{got} rows a consumer; it takes 64 or 128",
    "accumulators": "{got} accumulators a thread; the limit is {limit}",
    "columns": "{got} columns are left over; beyond 32 an integer tile is a multiple of 16",
    "scales": "the tile may lie in {got} blocks of B's scales; the limit is {limit}",
    "panels": "{got} rows or columns are no whole panel of 64",
    "pairs": "{got} columns are no whole half of a paired tile",
    "cluster": "{got} blocks a cluster; the limit is {limit}",
    "alone": "{got} blocks share a tile in a cluster of parts of k; the limit is {limit}",
    "long_slice": "{got} rows of k or of a matrix where a slice has two rows of k; wanted {limit}",
    "multicast": "{got} rows of a shared tile are no multiple of {limit}",
    "grid": "{got} tiles; the kernel counts to {limit}",
    "raster": "{got} clusters in a raster group; the limit is {limit}",
    "shared_block": (
        "{got} bytes of shared memory a block (0 of them static); {machine} has {limit}"
    ),
}
"""Every constraint, in the order they are asked, and how a broken one reads."""


def violations(task: Task, choice: WgmmaChoice) -> Iterator[tuple[str, int, int]]:
    """(constraint, got, limit) of everything that is wrong with a choice, in order."""
    problem, kind = task.problem, task.kind
    tile_m, tile_n = choice.tile_m, choice.tile_n
    consumers, at_once = choice.consumers, choice.tiles_at_once
    cluster_m, cluster_n = choice.cluster_m, choice.cluster_n
    clusters_n = -(-problem.n // (tile_n * cluster_n))
    clusters = -(-problem.m // (tile_m * cluster_m)) * clusters_n * task.units
    slice_rows = choice.tile_k // kind.tile_k
    needed = task.shared_bytes(tile_m, tile_n, consumers, at_once, choice.stages, slice_rows)
    sharers = cluster_m * cluster_n
    for name, miss in (
        ("turns", turns(consumers, at_once)),
        ("parts", parts(task.parts, at_once)),
        ("sums", sums(problem.rows_follow, at_once)),
        ("rows", rows(tile_m, consumers, at_once)),
        ("accumulators", accumulators(tile_m, tile_n, consumers, at_once, kind.sets)),
        ("columns", columns(tile_n, integers=kind.integers)),
        ("scales", scales(tile_n, problem.halves, scaled=kind.scaled)),
        ("panels", panels(tile_m, k_major=problem.a_k_major)),
        (
            "panels",
            panels(tile_n, k_major=problem.b_k_major, ragged=ragged(task, consumers, at_once)),
        ),
        ("pairs", pairs(tile_n, problem.halves, k_major=problem.b_k_major)),
        ("cluster", cluster(cluster_m, cluster_n, task.machine.sms)),
        ("alone", alone(sharers, task.cluster_k)),
        ("long_slice", long_slice(task, tile_m, tile_n, sharers) if slice_rows > 1 else None),
        ("multicast", multicast(tile_m, cluster_n, k_major=problem.a_k_major)),
        ("multicast", multicast(tile_n, cluster_m, k_major=problem.b_k_major)),
        ("grid", grid(clusters)),
        ("raster", raster(choice.raster_group, clusters_n)),
        ("shared_block", shared_block(needed, task.machine.shared_per_block)),
    ):
        if miss is not None:
            yield name, *miss
