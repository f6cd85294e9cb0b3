"""MmaSyncChoice: the cheapest candidate, found without costing them all.

The search goes from the outermost question inwards: tile, warps, slice of k, resident blocks,
stages. At each level a floor is known under which no continuation can cost, and a branch whose
floor is not below the best cost so far is left. Costs are compared in whole hundredths of the
problem's roofline: the model knows no finer difference, and near ties would otherwise keep
every branch alive.
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.mma_sync import constraints
from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
from deepgemm_codegen.decide.mma_sync.pipeline import deepest, slab_bytes, useful_stages
from deepgemm_codegen.decide.mma_sync.predict import (
    FRAGMENT_FINISH,
    OVERLAP,
    Candidate,
    copy_clocks,
    finish_clocks,
    fixed_of,
    kernel_clocks,
    roofline,
    scale_clocks,
)
from deepgemm_codegen.decide.mma_sync.registers import copied_vectors, operand_registers
from deepgemm_codegen.decide.mma_sync.slices import Slice, Slices
from deepgemm_codegen.decide.mma_sync.warps import Layout, tile_table
from deepgemm_codegen.decide.occupancy import SCHEDULERS
from deepgemm_codegen.decide.schedule import MAX_GRID, best_raster, compulsory_bytes, grid, raster
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.mma_sync.menu import Menu
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["Found", "cost", "search"]

STEPS = 100
"""Steps of cost in the roofline."""

ROUNDING = 1 - 1e-9
"""Keeps a floor below the cost it bounds when both round differently."""


class Found(NamedTuple):
    """The winner of a search.

    Attributes:
        choice: its numbers.
        clocks: its predicted cost.
        costed: candidates whose cost was computed.
    """

    choice: MmaSyncChoice
    clocks: float
    costed: int


def cost(problem: Problem, machine: Machine, clocks: float) -> int:
    """Clocks in steps of the roofline, rounded up: what candidates compete by."""
    return ceil(clocks / (roofline(problem, machine) / STEPS))


def search(problem: Problem, machine: Machine, menu: Menu, below: float = inf) -> Found | None:
    """The cheapest choice from a menu, or None when nothing on it is legal and cheap enough.

    Of equal costs the first in the order of floors, then of the menu, wins; of its stage counts
    the fewest that keep the cost.

    Args:
        problem: what is computed.
        machine: where.
        menu: what may be chosen.
        below: clocks that a rival of another family takes; what does not cost less is left.
    """
    whole = tuple(
        k
        for k in menu.tile_k
        if not constraints.slice_steps(k, problem.fragment_k)
        and not constraints.slice_block(k, scaled=problem.scaled)
    )
    if not whole or below < roofline(problem, machine):
        return None
    if len(whole) < len(menu.tile_k):
        menu = menu._replace(tile_k=whole)
    run = _Search(problem, machine, menu)
    if below < inf:
        run.ceiling = (ceil(below / run.unit) - 1) * run.unit
    for tile in run.tiles():
        if tile.floor > run.ceiling:
            break
        run.visit_tile(tile)
    return run.result()


class _Tile(NamedTuple):
    """A tile in the context of a problem.

    Attributes:
        floor: clocks that no kernel with this tile can beat; the order of the search.
        negative_n: minus the columns, so that of equal floors the wider tile comes first.
        tile_m, tile_n: rows and columns.
        tiles: blocks of the grid.
        rounds: tiles of the busiest multiprocessor.
        memory: least clocks of memory traffic.
        copies: issue clocks of the copy, one tile and one element of k.
        end: least clocks of all epilogues.
        layouts: legal warp layouts.
    """

    floor: float
    negative_n: int
    tile_m: int
    tile_n: int
    tiles: int
    rounds: int
    memory: float
    copies: float
    end: float
    layouts: list[Layout]


class _Search:
    """The state of one search: what the spec fixes, and the best so far."""

    def __init__(self, problem: Problem, machine: Machine, menu: Menu) -> None:
        self.problem = problem
        self.machine = machine
        self.menu = menu
        self.copy_a, self.copy_b = copy_clocks(problem)
        self.finish = finish_clocks(problem)
        self.once = compulsory_bytes(problem)
        self.memory_floor = self.once / machine.dram_rate
        self.fixed = fixed_of(problem, machine)
        self.base = self.fixed.launch + self.fixed.first
        self.unit = roofline(problem, machine) / STEPS
        self.stages = tuple(
            count
            for count in menu.stages
            if not constraints.staged_copy(count, staged=problem.staged)
        )
        self.slices = Slices(problem, machine, menu.tile_k, max(self.stages, default=2))
        self.ceiling = inf  # a cost above it cannot win
        self.best: tuple[_Tile, Layout, Candidate] | None = None
        self.clocks = inf
        self.traffics: dict[tuple[int, int, int], float] = {}
        self.costed = 0

    def tiles(self) -> Iterator[_Tile]:
        """The tiles whose grid is legal and that may win, the lowest floor first."""
        lowest = min(self.menu.raster_group)
        for fields in self.in_order():
            tile = _Tile._make(fields)
            if tile.tiles * lowest <= MAX_GRID or not (  # it is, whatever the columns
                grid(tile.tiles) or raster(lowest, -(-self.problem.n // tile.tile_n))
            ):
                yield tile

    def in_order(self) -> Iterator[tuple[Any, ...]]:
        """The same before grids are asked for.

        The first is visited before the others are put in order: its cost leaves few of them.
        """
        found = self.floors()
        if found:
            first = min(found)
            yield first
            yield from sorted(t for t in found if t[0] <= self.ceiling and t is not first)

    def floors(self) -> list[tuple[Any, ...]]:
        """The fields of a `_Tile` for each tile that may win, in no order."""
        problem, machine, menu = self.problem, self.machine, self.menu
        m, n, k, batch, sms = problem.m, problem.n, problem.k, problem.batch, machine.sms
        copy_a, copy_b, finish, base = self.copy_a, self.copy_b, self.finish, self.base
        memory_floor, out_floor = self.memory_floor, self.fixed.out
        l2_clocks = k * problem.element_bytes / machine.l2_rate
        share, wait, ceiling = self.slices.least_share, self.slices.least_wait, self.ceiling
        columns = {}
        for tile_n in menu.tile_n:
            tiles_n = -(-n // tile_n)
            columns[tile_n] = tiles_n, n / tiles_n, tile_n * copy_b
        found = []
        apart = problem.columns_apart, problem.columns_within
        table = tile_table(machine, problem.element_bytes, apart, menu.warps)
        for tile_m in menu.tile_m:
            tiles_m = -(-m // tile_m)
            rows, copy_m, finish_m = m / tiles_m, tile_m * copy_a, tile_m * finish
            for tile_n, blocks, mma, shared, layouts in table[tile_m]:
                column = columns.get(tile_n)
                if column is None:
                    continue
                tiles_n, width, copy_n = column
                tiles = batch * tiles_m * tiles_n
                rounds = -(-tiles // sms)
                copies = copy_m + copy_n
                feed = shared + copies
                work = rounds * k * sqrt(mma * mma + feed * feed)
                memory = rounds * l2_clocks * (rows + width)
                waves = -(-rounds // blocks)
                if memory < memory_floor:
                    memory = memory_floor
                flow = wait * waves + memory * share
                if flow < memory:
                    flow = memory
                end = rounds * finish_m * tile_n
                if end < out_floor:
                    end = out_floor
                floor = work + OVERLAP * flow if work > flow else flow + OVERLAP * work
                floor = (floor + base + end + waves * FRAGMENT_FINISH) * ROUNDING
                if floor <= ceiling:
                    found.append(
                        (floor, -tile_n, tile_m, tile_n, tiles, rounds, memory, copies, end,
                         layouts)
                    )  # fmt: skip
        return found

    def visit_tile(self, tile: _Tile) -> None:
        """Asks for warps; leaves a layout whose shared memory or idle schedulers cost too much."""
        k, rounds, copies, memory = self.problem.k, tile.rounds, tile.copies, tile.memory
        slices = self.slices
        share, wait, least_loss = slices.least_share, slices.least_wait, slices.least_loss
        outside = self.base + tile.end
        for layout in tile.layouts:
            most = layout.blocks
            if most > rounds:
                most = rounds
            waves = -(-rounds // most)
            ready = most * layout.warps
            math, feed = layout.mma, layout.shared + copies
            loss = rounds / most
            if ready < SCHEDULERS:
                math *= SCHEDULERS / ready
            else:
                loss *= SCHEDULERS / ready
            rate = rounds * sqrt(math * math + feed * feed)
            work = k * (rate + loss * least_loss)
            flow = memory * share + wait * waves
            if flow < memory:
                flow = memory
            floor = work + OVERLAP * flow if work > flow else flow + OVERLAP * work
            edge = (waves - 1) * self.fixed.first / most
            edge += waves * FRAGMENT_FINISH * tile.tile_m / (16 * layout.warps_m)
            edge += outside
            if (floor + edge) * ROUNDING <= self.ceiling:
                self.visit_layout(tile, layout, rate, loss, waves, edge)

    def visit_layout(
        self, tile: _Tile, layout: Layout, rate: float, loss: float, waves: int, edge: float
    ) -> None:
        """Asks for the slice of k; its padding, panels and barriers cost.

        Args:
            tile: outer choice.
            layout: outer choice.
            rate: least clocks of math and shared memory an element of k, all rounds.
            loss: least waits a slice, in units of `slice_loss`.
            waves: fewest waves.
            edge: least clocks outside the slices.
        """
        m, n, memory_floor, rounds = self.problem.m, self.problem.n, self.memory_floor, tile.rounds
        rows = m / -(-m // tile.tile_m)
        columns = n / -(-n // tile.tile_n)
        l2_clocks = self.problem.element_bytes / self.machine.l2_rate
        a_wastes, b_wastes = self.slices.wastes(tile.tile_m, tile.tile_n, layout.warps)
        for entry, a_waste, b_waste in zip(self.slices.menu, a_wastes, b_wastes, strict=True):
            if not a_waste or not b_waste:
                continue
            tile_k, slices, share, wait, slice_loss = entry
            flow = (rows * a_waste + columns * b_waste) * l2_clocks
            padded = slices * tile_k
            work = padded * rate + loss * slices * slice_loss
            memory = padded * flow * rounds
            if memory < memory_floor:
                memory = memory_floor
            late = memory * share + wait * waves
            if memory < late:
                memory = late
            floor = work + OVERLAP * memory if work > memory else memory + OVERLAP * work
            if (floor + edge) * ROUNDING <= self.ceiling:
                waste = (m * a_waste + n * b_waste) / (m + n)
                self.visit_slice(tile, layout, entry, flow, waste)

    def visit_slice(
        self, tile: _Tile, layout: Layout, entry: Slice, flow: float, waste: float
    ) -> None:
        """Asks for resident blocks and stages, and computes what is left."""
        problem, machine = self.problem, self.machine
        tile_m, tile_n, tile_k = tile.tile_m, tile.tile_n, entry.tile_k
        warps_m, warps_n = layout.warps_m, layout.warps_n
        vectors = copied_vectors(problem, tile_m, tile_n, tile_k, WARP * layout.warps)
        if constraints.copies(*vectors):
            return
        caps, registers = layout.caps, layout.registers
        registers += operand_registers(problem, tile_m, tile_n, tile_k, warps_m, warps_n)
        stage_bytes = (tile_m + tile_n) * tile_k * problem.element_bytes
        slabs = slab_bytes(tile_n, warps_m)
        useful = useful_stages(entry.slices)
        feed = layout.shared + tile.copies
        feed += scale_clocks(problem, tile_m, tile_k, warps_m, warps_n)
        finish = self.finish * tile_m * tile_n
        for blocks in self.menu.min_blocks:
            if blocks >= len(caps) or registers > caps[blocks]:
                break
            stages = deepest(self.stages, stage_bytes, slabs, useful, blocks, machine)
            if not stages:
                break
            traffic = self.traffic(tile, blocks) * waste
            self.costed += 1
            candidate = Candidate(
                tile.tiles, tile_k, entry.slices, entry.loss, layout.warps, tile_m // warps_m,
                stages, blocks, layout.mma, feed, flow, finish, traffic,
            )  # fmt: skip
            clocks = kernel_clocks(self.fixed, candidate)
            if clocks <= self.ceiling:
                self.ceiling = (ceil(clocks / self.unit) - 1) * self.unit
                self.best = tile, layout, candidate
                self.clocks = clocks
            if blocks >= tile.rounds:
                break  # more blocks than the busiest multiprocessor has tiles

    def traffic(self, tile: _Tile, blocks: int) -> float:
        """Bytes of A and B from device memory under the best raster."""
        machine = self.machine
        problem = self.problem
        if (
            self.once <= machine.l2_bytes * problem.batch
            or tile.tiles <= machine.sms * blocks * problem.batch
        ):
            return self.once
        key = tile.tile_m, tile.tile_n, blocks
        if key not in self.traffics:
            self.traffics[key] = best_raster(problem, machine, *key, self.menu.raster_group)[0]
        return self.traffics[key]

    def result(self) -> Found | None:
        """The best candidate, with the fewest stages that keep its cost."""
        if self.best is None:
            return None
        tile, layout, candidate = self.best
        problem, machine = self.problem, self.machine
        blocks, stages = candidate.blocks, candidate.stages
        for count in self.stages:
            if count >= stages:
                break
            clocks = kernel_clocks(self.fixed, candidate._replace(stages=count))
            if clocks <= self.ceiling + self.unit:
                stages, self.clocks = count, clocks
                break
        _, group = best_raster(
            problem, machine, tile.tile_m, tile.tile_n, blocks, self.menu.raster_group
        )
        choice = MmaSyncChoice(
            tile_m=tile.tile_m,
            tile_n=tile.tile_n,
            tile_k=candidate.tile_k,
            warps_m=layout.warps_m,
            warps_n=layout.warps_n,
            stages=stages,
            min_blocks=blocks,
            raster_group=group,
        )
        return Found(choice, self.clocks, self.costed)
