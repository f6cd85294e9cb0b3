"""What rules a CUDA-core candidate out: each constraint by name, with its reason.

As in mma.sync's constraints: plain numbers in, None or (got, limit) out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.mma_sync.constraints import staged_copy
from deepgemm_codegen.decide.occupancy import (
    RESIDENT,
    blocks_sm,
    registers,
    shared_block,
    shared_sm,
    threads_sm,
)
from deepgemm_codegen.decide.schedule import grid, raster
from deepgemm_codegen.plan.simt import LANES_M, LANES_N, PAD, QUAD, TURNED_FROM, turned_among
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.misses import Miss
    from deepgemm_codegen.decide.simt.choice import SimtChoice
    from deepgemm_codegen.decide.simt.task import Task

__all__ = [
    "PHRASES",
    "copied_vectors",
    "pairs",
    "quads",
    "register_estimate",
    "rows_of",
    "shared_bytes",
    "sums",
    "violations",
    "warps",
]

MAX_WARPS = 8
"""Warps of a block."""

MAX_SUMS = 128
"""fp32 sums a thread: 16 rows by 8 columns; both sets of fragments come on top."""

MAX_COPIES = 32
"""Vectors that a thread copies a slice; their loop is unrolled."""

ADDRESSING = 32
"""Registers for pointers, offsets, loop counters and predicates; read off ptxas, as the next."""

TURN, TEST = 1, 1
"""Registers of each element that is turned round, and of each vector that is tested against the
matrix's edge: ptxas keeps addresses and tests."""


def quads(tile: int, lanes: int, warps: int) -> Miss | None:
    """Each lane has whole quads of the tile's rows or columns: got is left over, wanted 0."""
    left = tile % (lanes * QUAD * warps)
    return (left, 0) if left else None


def pairs(tile_n: int, warps_n: int, halves: int) -> Miss | None:
    """A lane has as many quads of one half as of the other: got is left over, wanted 0."""
    left = tile_n % (halves * LANES_N * QUAD * warps_n)
    return (left, 0) if left else None


def warps(count: int) -> Miss | None:
    """At most eight warps, and a power of two, so that every pass copies whole rows."""
    if count & (count - 1):
        return (count, 1 << (count.bit_length() - 1))
    return (count, MAX_WARPS) if count > MAX_WARPS else None


def sums(tile_m: int, tile_n: int, count: int) -> Miss | None:
    """A thread's sums stay in registers."""
    got = tile_m * tile_n // (WARP * count)
    return (got, MAX_SUMS) if got > MAX_SUMS else None


def whole_rows(row_vectors: int, threads: int, rows: int) -> Miss | None:
    """A pass of the copy covers whole stored rows of the tile: so many, or a multiple of them."""
    most = threads // rows
    if threads % row_vectors or row_vectors > most:
        return (row_vectors, most)
    return None


def rows_of(task: Task, role: str, tile: int, tile_k: int, threads: int) -> Miss | None:
    """The same of one operand."""
    k_major = task.problem.a_k_major if role == "a" else task.problem.b_k_major
    elements = task.vector(role)
    vectors = (tile_k if k_major else tile) // elements
    turned = k_major and tile_k > TURNED_FROM
    return whole_rows(vectors, threads, turned_among(elements) if turned else 1)


def copies(count: int) -> Miss | None:
    """The unrolled copy of a slice stays short."""
    return (count, MAX_COPIES) if count > MAX_COPIES else None


PHRASES: dict[str, str] = {
    "quads": "{got} rows or columns are left without a lane",
    "pairs": "{got} columns are no whole half of a paired tile",
    "warps": "{got} warps a block; the limit is {limit}",
    "sums": "{got} sums a thread; the limit is {limit}",
    "grid": "{got} blocks; a grid holds {limit}",
    "raster": "{got} blocks in a raster group; the limit is {limit}",
    "whole_rows": "{got} vectors a row of the tile, of which a pass copies {limit}",
    "copies": "{got} vectors that a thread copies a slice; the limit is {limit}",
    "staged_copy": "{got} stages for a copy through registers; it uses {limit}",
    **RESIDENT,
}
"""Every constraint, in the order they are asked, and how a broken one reads."""


def shared_bytes(task: Task, tile_m: int, tile_n: int, tile_k: int, stages: int) -> int:
    """Dynamic shared memory of a block: the ring, fp32 whatever the operands are."""
    problem = task.problem
    floats = tile_m + tile_n + PAD * (problem.a_k_major + problem.b_k_major)
    return stages * floats * tile_k * 4


def copied_vectors(task: Task, tile_m: int, tile_n: int, tile_k: int, threads: int) -> list[int]:
    """Vectors that a thread copies a slice, of A and of B."""
    return [
        -(-rows * tile_k // (task.vector(role) * threads))
        for role, rows in (("a", tile_m), ("b", tile_n))
    ]


def register_estimate(
    task: Task, tile_m: int, tile_n: int, tile_k: int, warps_m: int, warps_n: int
) -> int:
    """Registers a thread needs: sums, two sets of fragments, what is held or tested, the rest."""
    rows = tile_m // warps_m // LANES_M
    columns = tile_n // warps_n // LANES_N
    total = rows * columns + 2 * (rows + columns) + ADDRESSING
    vectors = copied_vectors(task, tile_m, tile_n, tile_k, WARP * warps_m * warps_n)
    problem = task.problem
    k_tail = problem.dynamic_k or problem.k % tile_k
    tails = (problem.dynamic_m or problem.m % tile_m, problem.dynamic_n or problem.n % tile_n)
    turned = problem.a_k_major, problem.b_k_major
    for number, travel, tail, turns in zip(vectors, (task.a, task.b), tails, turned, strict=True):
        if turns:
            total += TURN * number
        if travel.mechanism == "registers":
            total += number * max(travel.vector_bytes // 4, 1)
        if tail or k_tail:
            total += TEST * number
    return total


def violations(task: Task, choice: SimtChoice) -> Iterator[tuple[str, int, int]]:
    """(constraint, got, limit) of everything that is wrong with a choice, in order."""
    problem, machine = task.problem, task.machine
    tile_m, tile_n, tile_k = choice.tile_m, choice.tile_n, choice.tile_k
    count = choice.warps_m * choice.warps_n
    threads, blocks = WARP * count, choice.min_blocks
    tiles_n = -(-problem.n // tile_n)
    tiles = problem.batch * -(-problem.m // tile_m) * tiles_n
    needed = shared_bytes(task, tile_m, tile_n, tile_k, choice.stages)
    estimate = register_estimate(task, tile_m, tile_n, tile_k, choice.warps_m, choice.warps_n)
    for name, miss in (
        ("quads", quads(tile_m, LANES_M, choice.warps_m)),
        ("quads", quads(tile_n, LANES_N, choice.warps_n)),
        ("pairs", pairs(tile_n, choice.warps_n, problem.halves)),
        ("warps", warps(count)),
        ("sums", sums(tile_m, tile_n, count)),
        ("grid", grid(tiles)),
        ("raster", raster(choice.raster_group, tiles_n)),
        ("whole_rows", rows_of(task, "a", tile_m, tile_k, threads)),
        ("whole_rows", rows_of(task, "b", tile_n, tile_k, threads)),
        ("copies", copies(sum(copied_vectors(task, tile_m, tile_n, tile_k, threads)))),
        ("staged_copy", staged_copy(choice.stages, staged=task.staged)),
        ("shared_block", shared_block(needed, machine)),
        ("shared_sm", shared_sm(needed, blocks, machine)),
        ("registers", registers(estimate, threads, blocks, machine)),
        ("threads_sm", threads_sm(threads, blocks, machine)),
        ("blocks_sm", blocks_sm(blocks, machine)),
    ):
        if miss is not None:
            yield name, *miss
