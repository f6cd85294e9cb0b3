"""Question: do the blocks of a cluster have whole rows of D between them, for a norm?

Each block sums some columns of the same rows. The sums meet in shared memory, over the ring, and
each block finishes some of the rows, a warp a row: no sum goes through device memory, and no second
kernel follows. A block then computes one tile:

    kernel = launch + waves * (latency + slices * slice + finish)
    finish = sums to shared memory + max(rows from there, what the rows move of device memory)

Only where it is asked for (`cluster_rows`): the model is an estimate, for which nothing was
measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.menus import MAX_TILE, TILE_NS
from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.decide.split_k import SUM_BYTES
from deepgemm_codegen.decide.wgmma import constraints, consumer
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from deepgemm_codegen.decide.wgmma.menu import menu_for
from deepgemm_codegen.decide.wgmma.predict import CLUSTER_US, LAUNCH_US, SYNC, clusters_at_once
from deepgemm_codegen.decide.wgmma.reading import l2_clocks
from deepgemm_codegen.decide.wgmma.search import WgmmaFound
from deepgemm_codegen.decide.wgmma.tile import tile_table
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.wgmma.menu import WgmmaMenu
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["best_holding_rows", "predict_holding_rows", "rows_obstacle", "shared_bytes"]

ALONE = ("split_k", "cluster_k", "tiles_at_once", "cluster_m", "cluster_n", "raster_group")
"""Overrides that leave no room for it, but for 1."""


def rows_obstacle(spec: GemmSpec) -> str:
    """Why no cluster can have the whole rows that are asked for; empty where one can."""
    blocks = spec.overrides.cluster_rows
    if not blocks:
        return ""
    _, columns = spec.stored("d")
    if spec.norm is None:
        return "no step asks for whole rows"
    if spec.pairs is not None:
        return f"{spec.pairs.kind} pairs columns of two blocks"
    if columns.dynamic:
        return "how long a row is only the launch tells"
    if columns.size > blocks * MAX_TILE:
        most = blocks * MAX_TILE
        return f"so many blocks have {most} columns at most, and a row has {columns.size}"
    legal = {**dict.fromkeys(ALONE, 1), "tile_k": PANEL_BYTES // spec.dtype_a.bytes}
    given = {name: getattr(spec.overrides, name) for name in legal}
    others = [name for name, value in given.items() if value not in (None, legal[name])]
    return f"{others[0]} = {given[others[0]]} is given, too" if others else ""


def shared_bytes(task: Task, choice: WgmmaChoice) -> int:
    """Dynamic shared memory of a block: the ring, or the sums over it, and the barriers."""
    rows = choice.tile_k // task.kind.tile_k
    columns = task.landed_columns(choice.tile_n)
    ring = choice.stages * rows * (choice.tile_m + columns) * PANEL_BYTES
    sums = choice.tile_m * choice.tile_n * SUM_BYTES
    return max(ring, sums) + choice.stages * (16 if task.outlasts(choice.stages) else 8)


def best_holding_rows(task: Task, given: dict[str, int]) -> WgmmaFound | None:
    """The cheapest choice in which a cluster has whole rows; None where none is legal.

    Args:
        task: what is computed.
        given: the overrides that are numbers, `cluster_rows` among them.
    """
    menu, blocks = menu_for(task.problem, given), given["cluster_rows"]
    if "tile_n" not in given:  # it follows from the blocks, and not from what reaches n
        menu = menu._replace(tile_n=TILE_NS)
    found = [
        (_clocks(task, tile, choice), -choice.tile_m, choice)
        for tile, choice in _candidates(task, menu, blocks)
    ]
    if not found:
        return None
    clocks, _, choice = min(found, key=lambda each: each[:2])
    return WgmmaFound(choice, clocks, len(found))


def _candidates(task: Task, menu: WgmmaMenu, blocks: int) -> Iterator[tuple[Tile, WgmmaChoice]]:
    """The legal ones, each with the deepest ring of the menu that fits and is of use."""
    problem, kind = task.problem, task.kind
    table = tile_table(task.machine, kind, task.result)
    for (tile_m, consumers, at_once), tiles in table.items():
        if at_once > 1 or tile_m not in menu.tile_m or consumers not in menu.consumers:
            continue
        if constraints.panels(tile_m, k_major=problem.a_k_major):
            continue
        for tile in tiles:
            enough = tile.tile_n * blocks >= problem.n > tile.tile_n * (blocks - 1)
            if tile.tile_n not in menu.tile_n or not enough:
                continue
            if constraints.panels(tile.tile_n, k_major=problem.b_k_major):
                continue
            if consumer.scales(tile.tile_n, 1, scaled=kind.scaled):
                continue
            choices = (
                WgmmaChoice(tile_m, tile.tile_n, consumers, 1, stages, 1, 1, 1,
                            tile_k=kind.tile_k, cluster_rows=blocks)
                for stages in reversed(menu.stages)
                if stages <= max(task.slices, menu.stages[0])
            )  # fmt: skip
            limit = task.machine.shared_per_block
            fits = (choice for choice in choices if shared_bytes(task, choice) <= limit)
            if (choice := next(fits, None)) is not None:
                yield tile, choice


def _parts(task: Task, tile: Tile) -> dict[str, float]:
    """Clocks of a slice by what takes them."""
    lines = float(min(tile.tile_m, task.problem.m)), float(min(tile.tile_n, task.problem.n))
    return {
        "tensor cores": tile.mma * task.heat,
        "shared memory": tile.feed,
        "L2": l2_clocks(task, lines),
    }


def _waves(task: Task, choice: WgmmaChoice) -> float:
    tiles = -(-task.problem.m // choice.tile_m) * task.problem.batch
    return tiles / clusters_at_once(task.machine.sms, choice.cluster_rows)


def _clocks(task: Task, tile: Tile, choice: WgmmaChoice) -> float:
    machine, problem = task.machine, task.problem
    blocks = choice.cluster_rows
    waves = -(-_waves(task, choice) // 1)
    one = task.slices * (max(_parts(task, tile).values()) + tile.promotion + SYNC)
    elements = tile.tile_m * tile.tile_n
    moved = output_bytes(problem) / machine.dram_rate / waves
    finish = tile.gather_finish + max(tile.gather_read + task.step_clocks * elements, moved)
    launch = (LAUNCH_US + CLUSTER_US * (blocks > 1)) * machine.clock_mhz
    return launch + waves * (machine.loaded_latency + one + finish)


def predict_holding_rows(task: Task, choice: WgmmaChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine = task.problem, task.machine
    table = tile_table(machine, task.kind, task.result)
    tile = next(t for t in table[choice.tile_m, choice.consumers, 1] if t.tile_n == choice.tile_n)
    parts, clocks = _parts(task, tile), _clocks(task, tile, choice)
    tiles = -(-problem.m // choice.tile_m) * problem.batch * choice.cluster_rows
    lines = choice.tile_m + choice.tile_n
    once = compulsory_bytes(problem)
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles,
        waves=_waves(task, choice),
        slices=task.slices,
        l2_bytes=float(lines * PANEL_BYTES * task.slices * tiles),
        operand_bytes=once,
        dram_bytes=once + output_bytes(problem),
        parts=parts,
        bound=max(parts, key=lambda part: parts[part]),
    )
