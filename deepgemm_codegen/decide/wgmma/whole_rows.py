"""Question: do the blocks of a cluster have whole rows of D between them, for a norm?

Each block sums some columns of the same rows, keeps them in registers, and tells the others what
they come to: no sum goes through device memory, and no second kernel follows. Blocks stay for the
next rows, whose slices arrive meanwhile, and all of a cluster share A's tile by multicast where its
rows are whole swizzle patterns for each.

    kernel  = LAUNCH + latency + rounds * tile, and never less than what device memory moves takes
    tile    = slices * slice + the longer of finish and written + SHOWN * the shorter
    finish  = FINISH * sums of a thread + TELL * other blocks, PAST times as long for ragged columns
    written = WRITE (1 + WRITE_COLUMNS / columns) times what device memory's rate says, of a round

Consumers that take tiles in turn hide the one's finish behind the other's slices. The constants
were fitted to programs of 15 products, measured on an H200 beside those of two kernels
(``benchmarks/results/program_sweep_whole_rows_h200.json``); `docs/decisions.md` says how well.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.menus import MAX_TILE, TILE_NS
from deepgemm_codegen.decide.operands import output_vector
from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.decide.tma import LANE_COLUMNS, LANE_VECTOR
from deepgemm_codegen.decide.wgmma import constraints, consumer
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from deepgemm_codegen.decide.wgmma.menu import menu_for
from deepgemm_codegen.decide.wgmma.predict import SYNC, clusters_at_once
from deepgemm_codegen.decide.wgmma.reading import l2_clocks
from deepgemm_codegen.decide.wgmma.search import WgmmaFound
from deepgemm_codegen.decide.wgmma.tile import tile_table, turn_bytes
from deepgemm_codegen.plan.tma import PANEL_BYTES
from deepgemm_codegen.plan.wgmma import told_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.wgmma.menu import WgmmaMenu
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "best_holding_rows",
    "blocks_to_try",
    "predict_holding_rows",
    "rows_menu",
    "rows_obstacle",
    "shared_bytes",
]

ALONE = ("split_k", "cluster_k", "cluster_m", "cluster_n", "raster_group")
"""Overrides that leave no room for it, but for 1."""

LAUNCH_US = 2.8
"""Launch, descriptors, the cluster's first meeting, and the last rows on their way."""

FINISH, TELL = 25, 123
"""Clocks that a consumer takes to finish its rows, a sum of a thread; and for what each other block
has to tell, of its mean and its mean square."""

PAST = 2.9
"""How much longer it takes where the last block's columns reach past D: reads then wait for each
other, behind the question whether there is a column."""

WRITE, WRITE_COLUMNS = 1.3, 11
"""How much longer device memory takes for D and what steps read and write than its rate says: at
all, and the more the fewer columns a block has, side by side, over which this is divided."""

SHOWN = 0.65
"""Part of the shorter of that and of the finish that the longer does not hide."""

TURN = 1360
"""Clocks a tile that consumers in turns lose between one's last slice and the other's first."""


def rows_obstacle(spec: GemmSpec, blocks: int) -> str:
    """Why a cluster of so many blocks cannot have whole rows; empty where it may."""
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


def blocks_to_try(spec: GemmSpec) -> tuple[int, ...]:
    """Numbers of blocks that may have whole rows of a spec; none where a second kernel has to.

    Unasked only where D and all that is read like it goes by four elements at least: no others
    were measured.
    """
    given = spec.overrides.cluster_rows
    if given is None and output_vector(spec) < LANE_VECTOR:
        return ()
    numbers = range(1, constraints.MAX_CLUSTER_K + 1) if given is None else (given,)
    return tuple(number for number in numbers if number and not rows_obstacle(spec, number))


def rows_menu(problem: Problem, given: dict[str, int]) -> WgmmaMenu:
    """The tree's menu; columns that no override tells follow from the blocks, not from n."""
    menu = menu_for(problem, given)
    return menu if "tile_n" in given else menu._replace(tile_n=TILE_NS)


def best_holding_rows(
    task: Task, menu: WgmmaMenu, blocks: tuple[int, ...], below: float = inf
) -> WgmmaFound | None:
    """The cheapest choice in which a cluster has whole rows; None where none is legal, or below.

    Args:
        task: what is computed.
        menu: see `rows_menu`.
        blocks: numbers of a cluster's blocks.
        below: clocks that a rival takes.
    """
    found = [
        (clocks, -choice.tile_m, choice.cluster_rows, choice)
        for number in blocks
        for tile, choice in _candidates(task, menu, number)
        if (clocks := _clocks(task, tile, choice)) < below
    ]
    if not found:
        return None
    clocks, *_, choice = min(found, key=lambda each: each[:3])
    return WgmmaFound(choice, clocks, len(found))


def _candidates(task: Task, menu: WgmmaMenu, blocks: int) -> Iterator[tuple[Tile, WgmmaChoice]]:
    """The legal ones, each with the deepest ring of the menu that fits and is of use."""
    kind, limit = task.kind, task.machine.shared_per_block
    for (tile_m, consumers, at_once), tiles in tile_table(task.machine, kind, task.result).items():
        split = consumers, at_once
        if tile_m not in menu.tile_m or split not in _shares(menu):
            continue
        if constraints.panels(tile_m, k_major=task.problem.a_k_major):
            continue
        for tile in tiles:
            if tile.tile_n not in menu.tile_n or not _has_rows(task, tile, blocks):
                continue
            useful = max(task.slices * _rounds(task, tile, blocks), menu.stages[0])
            choices = (
                WgmmaChoice(tile_m, tile.tile_n, *split, stages, 1, 1, 1,
                            tile_k=kind.tile_k, cluster_rows=blocks)
                for stages in reversed(menu.stages)
                if stages <= useful
            )  # fmt: skip
            fits = (choice for choice in choices if shared_bytes(task, choice) <= limit)
            if (choice := next(fits, None)) is not None:
                yield tile, choice


def _has_rows(task: Task, tile: Tile, blocks: int) -> bool:
    """Whether so many blocks have rows of such tiles between them, and none is idle."""
    columns, n = tile.tile_n, task.problem.n
    misses = (
        constraints.panels(columns, k_major=task.problem.b_k_major),
        consumer.scales(columns, 1, scaled=task.kind.scaled),
        constraints.grid(_tiles(task, tile) * blocks),
    )
    enough = columns * blocks >= n > columns * (blocks - 1) and blocks <= task.machine.sms
    return enough and columns % LANE_COLUMNS == 0 and not any(misses)


def _shares(menu: WgmmaMenu) -> set[tuple[int, int]]:
    """Consumers, and tiles in their hands."""
    return {(c, t) for c in menu.consumers for t in menu.tiles_at_once}


def shared_bytes(task: Task, choice: WgmmaChoice) -> int:
    """Dynamic shared memory of a block: the ring, what it is told, and the barriers."""
    columns = task.landed_columns(choice.tile_n)
    ring = choice.stages * ((choice.tile_m + columns) * PANEL_BYTES + 16)
    rows = choice.tile_m * choice.tiles_at_once // choice.consumers
    told = told_bytes(choice.cluster_rows, choice.consumers, rows)
    return ring + told + turn_bytes(choice.consumers, choice.tiles_at_once)


def _tiles(task: Task, tile: Tile) -> int:
    """Tiles of whole rows, each of which a cluster computes at a time."""
    return -(-task.problem.m // tile.tile_m) * task.problem.batch


def _rounds(task: Task, tile: Tile, blocks: int) -> int:
    return -(-_tiles(task, tile) // clusters_at_once(task.machine.sms, blocks))


def _parts(task: Task, tile: Tile, choice: WgmmaChoice) -> dict[str, float]:
    """Clocks of a slice by what takes them."""
    rows = min(tile.tile_m, task.problem.m) / choice.sharers_a
    return {
        "tensor cores": tile.mma * task.heat,
        "shared memory": tile.feed,
        "L2": l2_clocks(task, (rows, float(min(tile.tile_n, task.problem.n)))),
    }


def _clocks(task: Task, tile: Tile, choice: WgmmaChoice) -> float:
    """Clocks of the whole kernel."""
    machine, problem, blocks = task.machine, task.problem, choice.cluster_rows
    rounds, tiles = _rounds(task, tile, blocks), _tiles(task, tile)
    once = compulsory_bytes(problem) / machine.dram_rate
    loop = task.slices * (max(_parts(task, tile, choice).values()) + tile.promotion + SYNC)
    loop = max(loop, once / rounds)
    finish = FINISH * tile.rows * tile.tile_n / 128 + TELL * (blocks - 1)
    if tile.tile_n * blocks > problem.n:
        finish *= PAST
    apart = 1 + WRITE_COLUMNS / tile.tile_n
    moved = WRITE * apart * output_bytes(problem) / machine.dram_rate
    written = moved * min(clusters_at_once(machine.sms, blocks), tiles) / tiles
    ended = max(finish, written)
    busy = rounds * (loop + ended + SHOWN * min(finish, written))
    if tile.tiles_at_once > 1 and rounds > 1:
        turn = max(loop + TURN, (loop + finish) / 2, written + SHOWN * finish)
        busy = rounds * turn + ended
    return LAUNCH_US * machine.clock_mhz + machine.loaded_latency + max(busy, once + moved)


def predict_holding_rows(task: Task, choice: WgmmaChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine, blocks = task.problem, task.machine, choice.cluster_rows
    kinds = tile_table(machine, task.kind, task.result)[
        choice.tile_m, choice.consumers, choice.tiles_at_once
    ]
    tile = next(t for t in kinds if t.tile_n == choice.tile_n)
    parts, clocks = _parts(task, tile, choice), _clocks(task, tile, choice)
    tiles = _tiles(task, tile) * blocks
    lines = choice.tile_m / choice.sharers_a + choice.tile_n
    once = compulsory_bytes(problem)
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles,
        waves=_tiles(task, tile) / clusters_at_once(machine.sms, blocks),
        slices=task.slices,
        l2_bytes=float(lines * PANEL_BYTES * task.slices * tiles),
        operand_bytes=once,
        dram_bytes=once + output_bytes(problem),
        parts=parts,
        bound=max(parts, key=lambda part: parts[part]),
    )
