"""Choice: the cheapest CUDA-core candidate.

A tile's floor is the work of all its multiply-adds on the busiest multiprocessor; tiles are visited
from the lowest floor up until the next one's is above the best cost.
"""

from __future__ import annotations

from heapq import heapify, heappop
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.occupancy import register_caps
from deepgemm_codegen.decide.schedule import best_raster, compulsory_bytes, grid, raster
from deepgemm_codegen.decide.simt import constraints
from deepgemm_codegen.decide.simt.choice import SimtChoice
from deepgemm_codegen.decide.simt.constraints import (
    copied_vectors,
    register_estimate,
    rows_of,
    shared_bytes,
)
from deepgemm_codegen.decide.simt.predict import charged_warps, kernel_clocks
from deepgemm_codegen.decide.simt.tile import SCHEDULERS, tile_table
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.simt.menu import SimtMenu
    from deepgemm_codegen.decide.simt.task import Task
    from deepgemm_codegen.decide.simt.tile import Tile

__all__ = ["SimtFound", "search", "search_all"]

ROUNDING = 1 - 1e-9
"""Keeps a floor below the cost it bounds when both round differently."""

ENOUGH_K = 64
"""Elements of k in the ring beyond which nothing is gained: some thousand clocks of work."""


class SimtFound(NamedTuple):
    """The winner of a search: its numbers, its predicted cost, how many were costed, its task."""

    choice: SimtChoice
    clocks: float
    costed: int
    task: Task


def search_all(tasks: tuple[Task, ...], menu: SimtMenu) -> SimtFound | None:
    """The cheapest choice over the ways in which A and B may travel; of equal costs the first."""
    best: SimtFound | None = None
    costed = 0
    for task in tasks:
        found = search(task, menu, inf if best is None else best.clocks)
        if found is not None:
            best, costed = found, costed + found.costed
    return best and best._replace(costed=costed)


def search(task: Task, menu: SimtMenu, below: float = inf) -> SimtFound | None:
    """The cheapest choice from a menu, or None when nothing on it is legal and below a limit.

    Of equal costs the first in the order of floors, then of the menu, wins.
    """
    problem, machine = task.problem, task.machine
    once = compulsory_bytes(problem)
    best: SimtChoice | None = None
    least = below
    costed = 0
    heap = _floors(task, menu)
    while heap:
        floor, _, tile = heappop(heap)
        if floor >= least:
            break
        for tile_k, blocks, stages in _rings(task, tile, menu):
            costed += 1
            clocks = kernel_clocks(task, tile, tile_k, stages, blocks, once)
            if clocks >= least:
                continue
            shape = tile.tile_m, tile.tile_n
            traffic, group = best_raster(problem, machine, *shape, blocks, menu.raster_group)
            if traffic > once:
                clocks = kernel_clocks(task, tile, tile_k, stages, blocks, traffic)
            if clocks < least:
                least = clocks
                best = SimtChoice(*shape, tile_k, tile.warps_m, tile.warps_n, stages, blocks, group)
    if best is None:
        return None
    return SimtFound(best._replace(elements=task.elements), least, costed, task)


def _floors(task: Task, menu: SimtMenu) -> list[tuple[float, int, Tile]]:
    """A heap of (floor, order of preference, tile) of every tile of the menu."""
    problem, sms = task.problem, task.machine.sms
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    lowest = min(menu.raster_group)
    heap = []
    table = tile_table(task.fma_rate, menu.tile_m, menu.tile_n, menu.warps)
    for order, tile in enumerate(table):
        if constraints.pairs(tile.tile_n, tile.warps_n, problem.halves):
            continue
        tiles_n = -(-n // tile.tile_n)
        tiles = batch * -(-m // tile.tile_m) * tiles_n
        if grid(tiles) or raster(lowest, tiles_n):
            continue
        charged = charged_warps(task, tile)
        fma = tile.fma * charged / max(tile.warps, SCHEDULERS)
        work = max(fma, tile.issue * charged / SCHEDULERS, tile.feed)
        heap.append((-(-tiles // sms) * k * work * ROUNDING, order, tile))
    heapify(heap)
    return heap


def _rings(task: Task, tile: Tile, menu: SimtMenu) -> Iterator[tuple[int, int, int]]:
    """(tile_k, resident blocks, stages) that a tile may have, with the deepest useful ring."""
    machine, problem = task.machine, task.problem
    threads = WARP * tile.warps
    shape = tile.tile_m, tile.tile_n
    caps = register_caps(threads, machine)
    tiles = problem.batch * -(-problem.m // tile.tile_m) * -(-problem.n // tile.tile_n)
    rounds = -(-tiles // machine.sms)
    staged = task.staged
    for tile_k in menu.tile_k:
        if (
            rows_of(task, "a", tile.tile_m, tile_k, threads)
            or rows_of(task, "b", tile.tile_n, tile_k, threads)
            or constraints.copies(sum(copied_vectors(task, *shape, tile_k, threads)))
        ):
            continue
        estimate = register_estimate(task, *shape, tile_k, tile.warps_m, tile.warps_n)
        slot = shared_bytes(task, *shape, tile_k, 1)
        useful = max(-(-problem.k // tile_k) + 1, 2)
        for blocks in menu.min_blocks:
            if blocks >= len(caps) or estimate > caps[blocks]:
                break
            per_block = machine.shared_per_sm // blocks - machine.shared_reserved
            room = min(machine.shared_per_block, per_block)
            best = 0
            for count in menu.stages:
                if count * slot > room or (staged and count > 2):
                    break
                best = count
                if count >= useful or count * tile_k >= ENOUGH_K:
                    break
            if best:
                yield tile_k, blocks, best
            if blocks >= rounds:
                break  # more blocks than the busiest multiprocessor has tiles
