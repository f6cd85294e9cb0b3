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
from typing import TYPE_CHECKING

from deepgemm_codegen.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
    from deepgemm_codegen.decide.bandwidth.task import Task

__all__ = ["kernel_clocks", "predict"]

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


def lines_of(task: Task, fragments: int, warps_long: int) -> float:
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


def kernel_clocks(
    task: Task,
    fragments: int,
    warps_long: int,
    warps_k: int,
    stages: int,
    blocks: int,
) -> tuple[float, dict[str, float]]:
    """Clocks of the whole kernel, and the parts of its flow.

    Args:
        task: what is computed, and where.
        fragments: of a warp.
        warps_long: warps along D's long side.
        warps_k: warps along k.
        stages: slices in flight.
        blocks: resident blocks.
    """
    machine = task.machine
    long_tile = fragments * FRAGMENT_LONG * warps_long
    tiles = task.tiles(long_tile)
    rounds = -(-tiles // machine.sms)
    resident = min(blocks, rounds)
    turns = -(-rounds // resident)
    deep = min(stages, max(task.slices(warps_k), 1))
    block_bytes = WARP * warps_long * warps_k * deep * task.slot_words(fragments)[0] * 4
    in_flight = resident * block_bytes
    memory = task.memory / STREAM
    enough = ENOUGH * machine.dram_rate / machine.sms * machine.loaded_latency
    if in_flight > enough:
        memory *= 1 + DEEP * log2(in_flight / enough)
    streamed = task.long_bytes(long_tile) / block_bytes * LATENCY + BLOCK_START
    latency = turns * streamed * machine.loaded_latency
    loads = rounds * lines_of(task, fragments, warps_long) * LINE
    short_bytes = task.short * task.problem.k * task.problem.element_bytes
    caches = rounds * short_bytes * SHORT
    uneven = UNEVEN * (rounds * machine.sms / tiles - 1) * memory
    flow = sqrt(memory * memory + latency * latency + loads * loads + caches * caches)
    parts = {
        "device memory": memory,
        "latency": latency,
        "load/store unit": loads,
        "caches": caches,
    }
    return LAUNCH_US * machine.clock_mhz + flow + uneven, parts


def predict(task: Task, choice: BandwidthChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine = task.problem, task.machine
    numbers = choice.fragments, choice.warps_long, choice.warps_k, choice.stages
    clocks, whole = kernel_clocks(task, *numbers, choice.min_blocks)
    long_tile = choice.fragments * choice.warps_long * FRAGMENT_LONG
    tiles = task.tiles(long_tile)
    slices = max(task.slices(choice.warps_k), 1)
    rounds = -(-tiles // machine.sms)
    resident = min(choice.min_blocks, rounds)
    bound = max(whole, key=lambda part: whole[part])
    if whole[bound] < LAUNCH_US * machine.clock_mhz:
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
