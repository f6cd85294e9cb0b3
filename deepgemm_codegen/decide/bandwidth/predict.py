"""What a candidate of the bandwidth family costs: clocks of the busiest multiprocessor.

    kernel = LAUNCH + root of the sum of squares of
             memory: all bytes of A, B and D at device memory's rate
             latency: what the loads in flight let a multiprocessor have, and new blocks' waits
             loads: lines that the load/store unit looks up
             caches: the short operand, which every block reads

A multiprocessor computes ``rounds`` tiles, as many at a time as blocks are resident. Of each, as
many bytes are on their way as registers hold; by Little's law that is a rate. A root of squares
since none of the four is steady: where two are equal they hinder each other. The constants were
fitted to kernels measured on an H200 (`docs/decisions.md` says how well they fit).
"""

from __future__ import annotations

from math import log2, sqrt
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
    from deepgemm_codegen.decide.bandwidth.task import Task

__all__ = ["ENOUGH", "LAUNCH_US", "TileCost", "kernel_clocks", "predict", "tile_cost"]

LAUNCH_US = 3.5
"""Launch, the first read from cold memory, the sums' meeting and the last write: 1x1024x4096
takes 5.2, of which its bytes take 1.9."""

STREAM = 1.06
"""Bytes that streams of whole lines get, over the plain read that `Machine.dram_rate` is."""

LATENCY = 0.87
"""Part of a busy memory's latency for which a load's bytes are in flight."""

BLOCK_START = 0.93
"""The same from a block's end to its successor's first bytes."""

LINE = 0.53
"""Clocks that the load/store unit spends on a line that a warp's load touches."""

SHORT = 0.005
"""Clocks a byte of the short operand that a block reads from the caches."""

UNEVEN = 0.125
"""How much of the time that the busiest multiprocessor works longer than the average is lost."""

ENOUGH, DEEP = 2.4, 0.026
"""Bytes in flight, over those of Little's law, that are enough; and what each doubling beyond them
costs."""


class TileCost(NamedTuple):
    """What a tile costs whatever the warps along k, the stages and the resident blocks are.

    Attributes:
        rounds: tiles that the busiest multiprocessor computes.
        block_bytes: of the long operand, for one tile.
        loads: clocks of the load/store unit, all rounds.
        caches: clocks of the short operand's way from the caches, all rounds.
        memory: clocks of device memory, with what uneven rounds lose.
        uneven: the latter alone.
        flight: bytes of the long operand that a warp along k has on its way a stage.
    """

    rounds: int
    block_bytes: int
    loads: float
    caches: float
    memory: float
    uneven: float
    flight: int


def tile_cost(task: Task, fragments: int, warps_long: int) -> TileCost:
    """The cost of a tile."""
    machine, problem = task.machine, task.problem
    long_tile = fragments * FRAGMENT_LONG * warps_long
    tiles = task.tiles(long_tile)
    rounds = -(-tiles // machine.sms)
    memory = task.memory / STREAM
    short_bytes = task.short * problem.k * problem.element_bytes
    return TileCost(
        rounds=rounds,
        block_bytes=task.long_bytes(long_tile),
        loads=rounds * _lines(task, fragments, warps_long) * LINE,
        caches=rounds * short_bytes * SHORT,
        memory=memory,
        uneven=UNEVEN * (rounds * machine.sms / tiles - 1) * memory,
        flight=WARP * warps_long * task.slot_words(fragments)[0] * 4,
    )


def _lines(task: Task, fragments: int, warps_long: int) -> float:
    """Lines of memory that the loads of a block touch, one for each row a warp's load reaches."""
    sides, k = task.sides, task.problem.k
    lanes = sides.long_lanes_of(fragments)
    tile = fragments * FRAGMENT_LONG * warps_long
    loads = tile * k / (WARP * lanes.vector)
    lines = loads * (8 if lanes.k_major else 4)
    short = sides.short_lanes
    loads = k / 4 / short.vector * warps_long
    reached = min(task.short, sides.tile) if short.k_major else 4 * task.short_rows
    return lines + loads * reached


def kernel_clocks(task: Task, tile: TileCost, warps_k: int, stages: int, blocks: int) -> float:
    """Clocks of the whole kernel.

    Args:
        task: what is computed, and where.
        tile: its tile.
        warps_k: warps along k.
        stages: slices in flight, not more than there are.
        blocks: resident blocks.
    """
    resident = min(blocks, tile.rounds)
    flight = tile.flight * warps_k * stages
    memory = tile.memory * _crowding(task, resident * flight)
    latency = _latency(task, tile, resident, flight)
    squares = memory * memory + latency * latency
    squares += tile.loads * tile.loads + tile.caches * tile.caches
    return task.launch + sqrt(squares) + tile.uneven


def _crowding(task: Task, in_flight: int) -> float:
    """How much longer device memory takes with more on its way than it needs."""
    if in_flight <= task.enough:
        return 1.0
    return 1 + DEEP * log2(in_flight / task.enough)


def _latency(task: Task, tile: TileCost, resident: int, flight: int) -> float:
    """Clocks in which what a block has on its way brings its bytes, for all blocks in turn."""
    turns = -(-tile.rounds // resident)
    each = tile.block_bytes / flight * LATENCY + BLOCK_START
    return turns * each * task.machine.loaded_latency


def predict(task: Task, choice: BandwidthChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine = task.problem, task.machine
    tile = tile_cost(task, choice.fragments, choice.warps_long)
    slices = max(task.slices(choice.warps_k), 1)
    stages = min(choice.stages, slices)
    clocks = kernel_clocks(task, tile, choice.warps_k, stages, choice.min_blocks)
    long_tile = choice.fragments * choice.warps_long * FRAGMENT_LONG
    tiles, rounds = task.tiles(long_tile), tile.rounds
    resident = min(choice.min_blocks, rounds)
    flight = tile.flight * choice.warps_k * stages
    whole = {
        "device memory": tile.memory * _crowding(task, resident * flight),
        "latency": _latency(task, tile, resident, flight),
        "load/store unit": tile.loads,
        "caches": tile.caches,
    }
    bound = max(whole, key=lambda part: whole[part])
    if whole[bound] < task.launch:
        bound = "launch and latency"
    operands = compulsory_bytes(problem)
    short_bytes = task.short * problem.k * problem.element_bytes
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles,
        waves=tiles / (machine.sms * resident),
        slices=slices,
        l2_bytes=tiles * (task.long_bytes(long_tile) + short_bytes),
        operand_bytes=operands,
        dram_bytes=operands + output_bytes(problem),
        parts={part: clocks / (rounds * slices) for part, clocks in whole.items()},
        bound=bound,
    )
