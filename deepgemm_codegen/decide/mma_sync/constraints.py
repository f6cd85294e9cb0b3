"""What rules a candidate out: each constraint by name, with its reason.

A constraint takes plain numbers and returns None, or (got, limit) when the candidate breaks it.
The search asks from the outermost question inwards, so that what the tile already forbids is
never asked again a stage count at a time; `violations` asks everything of one finished choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.mma_sync.pipeline import shared_bytes
from deepgemm_codegen.decide.mma_sync.registers import (
    accumulators_of,
    copied_vectors,
    operand_registers,
    register_estimate,
)
from deepgemm_codegen.decide.occupancy import (
    RESIDENT,
    blocks_sm,
    registers,
    shared_block,
    shared_sm,
    threads_sm,
)
from deepgemm_codegen.decide.schedule import grid, raster
from deepgemm_codegen.plan.layout import CHUNK_BYTES, swizzle_bytes_for
from deepgemm_codegen.plan.tiles import WARP
from deepgemm_codegen.spec.block_scales import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.misses import Miss
    from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["PHRASES", "violations"]

MMA_M, MMA_N = 16, 8
"""Rows of one fragment of A, columns of one of B."""

MAX_WARPS = 16
"""Warps of a block; above 512 threads the register cap falls below 128 a thread."""

MAX_ACCUMULATORS = 128
"""fp32 sums a thread may hold: half its 255 registers; the rest is fragments and addresses."""

MAX_IN_FLIGHT, MAX_HELD = 20, 32
"""Vectors that a thread copies a slice, asynchronously and through registers."""


def fragments(
    tile_m: int, tile_n: int, warps_m: int, warps_n: int, columns_apart: int
) -> Miss | None:
    """Warps split the tile into whole fragments: its rows or columns, and what they are so many of.

    A K-major B gives up single fragments of 8 columns, one of bytes that lie along n two at a time.
    """
    rows, columns = MMA_M * warps_m, columns_apart * warps_n
    if tile_m % rows:
        return tile_m, rows
    return (tile_n, columns) if tile_n % columns else None


def scales(tile_n: int, warps_n: int, within: int) -> Miss | None:
    """A warp's columns lie in one block of B's scales, and so does each half of a pair's.

    They begin at a multiple of their own number, so it is enough that it divides the block. A
    second block would take as many factors again, and a select for every two sums of a step. A
    warp of no column breaks `fragments`.
    """
    got = tile_n // warps_n
    return (got, within) if within and got and within % got else None


def warps(count: int) -> Miss | None:
    """At most 16 warps a block, so that each thread may keep 128 registers."""
    return (count, MAX_WARPS) if count > MAX_WARPS else None


def accumulators(tile_m: int, tile_n: int, count: int) -> Miss | None:
    """A thread's sums stay in registers; more than 128 of them spill."""
    got = accumulators_of(tile_m, tile_n, count)
    return (got, MAX_ACCUMULATORS) if got > MAX_ACCUMULATORS else None


def slice_steps(tile_k: int, fragment_k: int) -> Miss | None:
    """A slice is whole fragment sets of 32 bytes: got is what is left over, wanted 0."""
    return (tile_k % fragment_k, 0) if tile_k % fragment_k else None


def slice_block(tile_k: int, *, scaled: bool) -> Miss | None:
    """A slice lies in one block of k, whose scales are all that a thread holds."""
    return (tile_k, BLOCK) if scaled and BLOCK % tile_k else None


def panel(row_bytes: int, pass_bytes: int) -> Miss | None:
    """One pass of the copy loop fills eight rows of a panel of at least 16 bytes.

    Only then is the swizzle phase of a thread the same in every pass. Few threads with narrow
    vectors break it.
    """
    if swizzle_bytes_for(row_bytes, pass_bytes):
        return None
    return (pass_bytes, 8 * CHUNK_BYTES)


def copies(in_flight: int, held: int) -> Miss | None:
    """The unrolled copy of a slice stays short.

    ptxas keeps an address and a test for each asynchronous vector and has spilled from 24 a
    thread on; the register estimate knows better what a copy through registers needs.
    """
    if in_flight > MAX_IN_FLIGHT:
        return (in_flight, MAX_IN_FLIGHT)
    return (held, MAX_HELD) if held > MAX_HELD else None


def staged_copy(stages: int, *, staged: bool) -> Miss | None:
    """A copy through registers is one slice ahead of the math: two slots, never more."""
    return (stages, 2) if staged and stages > 2 else None


PHRASES: dict[str, str] = {
    "warps": "{got} warps a block; the limit is {limit}",
    "fragments": "{got} rows or columns of a tile are no multiple of {limit}, a fragment a warp",
    "scales": "{got} columns of a warp do not divide {limit}, which share scales by block",
    "accumulators": "{got} accumulators a thread; the limit is {limit}",
    "grid": "{got} blocks; a grid holds {limit}",
    "raster": "{got} blocks in a raster group; the limit is {limit}",
    "slice_steps": "{got} elements of k are no whole fragment",
    "slice_block": "{got} elements of k do not divide {limit}, which share scales by block",
    "panel": "a pass of the copy moves {got} bytes; the least is {limit}, eight rows of a panel",
    "copies": "{got} vectors that a thread copies a slice; the limit is {limit}",
    "staged_copy": "{got} stages for a copy through registers; it uses {limit}",
    **RESIDENT,
}
"""Every constraint, in the order they are asked, and how a broken one reads."""


def violations(
    problem: Problem, machine: Machine, choice: MmaSyncChoice
) -> Iterator[tuple[str, int, int]]:
    """(constraint, got, limit) of everything that is wrong with a choice, in order."""
    tile_m, tile_n, tile_k = choice.tile_m, choice.tile_n, choice.tile_k
    count = choice.warps_m * choice.warps_n
    threads, blocks = WARP * count, choice.min_blocks
    size = problem.element_bytes
    needed = shared_bytes(tile_m, tile_n, tile_k, choice.warps_m, choice.stages, size)
    estimate = register_estimate(tile_m, tile_n, choice.warps_m, choice.warps_n)
    estimate += operand_registers(problem, tile_m, tile_n, tile_k, choice.warps_m, choice.warps_n)
    a_row = (tile_k if problem.a_k_major else tile_m) * size
    b_row = (tile_k if problem.b_k_major else tile_n) * size
    tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
    for name, miss in (
        ("warps", warps(count)),
        (
            "fragments",
            fragments(tile_m, tile_n, choice.warps_m, choice.warps_n, problem.columns_apart),
        ),
        ("scales", scales(tile_n, choice.warps_n, problem.columns_within)),
        ("accumulators", accumulators(tile_m, tile_n, count)),
        ("grid", grid(tiles)),
        ("raster", raster(choice.raster_group, -(-problem.n // tile_n))),
        ("slice_steps", slice_steps(tile_k, problem.fragment_k)),
        ("slice_block", slice_block(tile_k, scaled=problem.scaled)),
        ("panel", panel(a_row, threads * problem.a.vector_bytes)),
        ("panel", panel(b_row, threads * problem.b.vector_bytes)),
        ("copies", copies(*copied_vectors(problem, tile_m, tile_n, tile_k, threads))),
        ("staged_copy", staged_copy(choice.stages, staged=problem.staged)),
        ("shared_block", shared_block(needed, machine)),
        ("shared_sm", shared_sm(needed, blocks, machine)),
        ("registers", registers(estimate, threads, blocks, machine)),
        ("threads_sm", threads_sm(threads, blocks, machine)),
        ("blocks_sm", blocks_sm(blocks, machine)),
    ):
        if miss is not None:
            yield name, *miss
