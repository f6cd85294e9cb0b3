"""What constraints ruled out of mma.sync's menu, counted, with the nearest miss of each."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide import occupancy
from deepgemm_codegen.decide.misses import Branch, Miss, Rejection, nearest_misses
from deepgemm_codegen.decide.mma_sync import constraints
from deepgemm_codegen.decide.mma_sync.pipeline import shared_bytes
from deepgemm_codegen.decide.mma_sync.registers import (
    copied_vectors,
    operand_registers,
    register_estimate,
)
from deepgemm_codegen.decide.schedule import grid, raster
from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
    from deepgemm_codegen.decide.mma_sync.menu import Menu
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["rejections"]


def rejections(
    problem: Problem, machine: Machine, menu: Menu, winner: MmaSyncChoice
) -> tuple[Rejection, ...]:
    """What each constraint ruled out, with its nearest miss.

    A branch here is tile_m, tile_n, tile_k, warps_m, warps_n, stages, min_blocks.
    """
    own = (
        winner.tile_m, winner.tile_n, winner.tile_k, winner.warps_m, winner.warps_n,
        winner.stages, winner.min_blocks,
    )  # fmt: skip
    cuts = _cuts(problem, machine, menu)
    return nearest_misses(cuts, own, constraints.PHRASES, _words, machine)


def _order_cut(problem: Problem, menu: Menu, tile_m: int, tile_n: int) -> tuple[str, Miss] | None:
    """What a tile breaks because there are too many of it."""
    tiles_n = -(-problem.n // tile_n)
    if miss := grid(problem.batch * -(-problem.m // tile_m) * tiles_n):
        return "grid", miss
    if miss := raster(min(menu.raster_group), tiles_n):
        return "raster", miss
    return None


def _layout_cut(
    problem: Problem, tile_m: int, tile_n: int, warps_m: int, warps_n: int
) -> tuple[str, Miss] | None:
    """What warps break that share a tile."""
    count = warps_m * warps_n
    if miss := constraints.warps(count):
        return "warps", miss
    apart = problem.columns_apart
    if miss := constraints.fragments(tile_m, tile_n, warps_m, warps_n, apart):
        return "fragments", miss
    if miss := constraints.scales(tile_n, warps_n, problem.columns_within):
        return "scales", miss
    if miss := constraints.accumulators(tile_m, tile_n, count):
        return "accumulators", miss
    return None


def _cuts(problem: Problem, machine: Machine, menu: Menu) -> Iterator[tuple[str, Miss, Branch]]:
    """(constraint, miss, branch) of every branch that a constraint cuts from the full tree."""
    size = problem.element_bytes
    for tile_m, tile_n in product(menu.tile_m, menu.tile_n):
        if cut := _order_cut(problem, menu, tile_m, tile_n):
            yield *cut, (tile_m, tile_n, 0, 0, 0, 0, 0)
            continue
        for warps_m, warps_n in menu.warps:
            if cut := _layout_cut(problem, tile_m, tile_n, warps_m, warps_n):
                yield *cut, (tile_m, tile_n, 0, warps_m, warps_n, 0, 0)
                continue
            count = warps_m * warps_n
            a_pass = WARP * count * problem.a.vector_bytes
            b_pass = WARP * count * problem.b.vector_bytes
            for tile_k in menu.tile_k:
                outer = tile_m, tile_n, tile_k, warps_m, warps_n
                a_row = (tile_k if problem.a_k_major else tile_m) * size
                b_row = (tile_k if problem.b_k_major else tile_n) * size
                name = "panel"
                miss = constraints.panel(a_row, a_pass) or constraints.panel(b_row, b_pass)
                if not miss:
                    vectors = copied_vectors(problem, tile_m, tile_n, tile_k, WARP * count)
                    name, miss = "copies", constraints.copies(*vectors)
                if miss:
                    yield name, miss, (*outer, 0, 0)
                else:
                    yield from _inner_cuts(problem, machine, menu, outer)


def _inner_cuts(
    problem: Problem, machine: Machine, menu: Menu, outer: tuple[int, int, int, int, int]
) -> Iterator[tuple[str, Miss, Branch]]:
    """The same for stages and resident blocks under one tile, slice and layout of warps."""
    tile_m, tile_n, tile_k, warps_m, warps_n = outer
    threads = WARP * warps_m * warps_n
    estimate = register_estimate(tile_m, tile_n, warps_m, warps_n)
    estimate += operand_registers(problem, *outer)
    fitting = []
    for blocks in menu.min_blocks:
        name, miss = "registers", occupancy.registers(estimate, threads, blocks, machine)
        if not miss:
            name, miss = "threads_sm", occupancy.threads_sm(threads, blocks, machine)
        if not miss:
            name, miss = "blocks_sm", occupancy.blocks_sm(blocks, machine)
        if miss:
            yield name, miss, (*outer, 0, blocks)
        else:
            fitting.append(blocks)
    for stages in menu.stages:
        needed = shared_bytes(tile_m, tile_n, tile_k, warps_m, stages, problem.element_bytes)
        name, miss = "staged_copy", constraints.staged_copy(stages, staged=problem.staged)
        if not miss:
            name, miss = "shared_block", occupancy.shared_block(needed, machine)
        if miss:
            yield name, miss, (*outer, stages, 0)
            continue
        for blocks in fitting:
            if miss := occupancy.shared_sm(needed, blocks, machine):
                yield "shared_sm", miss, (*outer, stages, blocks)


def _words(branch: Branch) -> str:
    """A branch as far as it was chosen."""
    tile_m, tile_n, tile_k, warps_m, warps_n, stages, blocks = branch
    words = [f"{tile_m}x{tile_n}" + (f"x{tile_k}" if tile_k else "")]
    if warps_m:
        words.append(f"warps {warps_m}x{warps_n}")
    if stages:
        words.append(f"{stages} stages")
    if blocks:
        words.append(counted(blocks, "block"))
    return ", ".join(words)
