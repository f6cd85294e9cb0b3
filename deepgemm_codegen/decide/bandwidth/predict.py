"""What a candidate of the bandwidth family costs: clocks of the busiest multiprocessor.

    kernel = LAUNCH + filling + root of the sum of squares + turns * meeting
    squares of memory:  all bytes of A, B and D at device memory's rate, or a multiprocessor's of
                        the long operand at the L2's where few tiles leave the others idle
               latency: turns * rings * ring, what warps wait for loads and work between them
               loads:   lines that the load/store unit looks up
    ring = max(stages * work, LATENCY + work); WAIT + stages * work where the long operand lies
           across k; stages * max(work, a busy memory's latency / (stages - 1)) in shared memory

A multiprocessor computes ``rounds`` tiles, as many at a time as blocks are resident: that makes its
turns. A warp asks for ``stages`` slices together, waits, and works on them before it asks again: it
comes round its ring in that time. Filling is what the first loads take longer, and
the partial sums of a tile meet at its end, while nothing is on its way. A root of squares since
none of the three is steady: where two are equal they hinder each other. The constants were fitted
to kernels measured on an H200 (`docs/decisions.md` says how well they fit).
"""

from __future__ import annotations

from math import log2, sqrt
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.plan.bandwidth import RingPlace

__all__ = ["TileCost", "again_clocks", "kernel_clocks", "predict", "tile_cost"]

FILL = 19
"""Clocks at the kernel's start for each line of 128 bytes that a warp asks for first."""

LATENCY, WAIT = 0.59, 1.0
"""Parts of a busy memory's latency that a warp waits for its ring: rows along k, fitted while each
slot was asked for as soon as it had been multiplied, which other warps hide; rows across k."""

ROW_WORK, FRAGMENT_WORK = 170, 9
"""Clocks that a warp is busy with a slice, each eight rows of the short side and each fragment."""

MEETING = 18
"""Clocks at a tile's end for each warp along k, a fragment and eight rows of the short side."""

LINE = 0.44
"""Clocks that the load/store unit spends on a line that a warp's load touches."""

DEEP = 0.016
"""What each doubling of the bytes in flight costs beyond those that are enough."""


SHORT_AGAIN = 0.07
"""What the short operand costs, which every tile reads again, of what as many bytes of device
memory cost. Beside a ring in registers it only decides between the two: those constants were
fitted without."""

RING_MEMORY, RING_LATENCY = 0.97, 1.23
"""What a ring in shared memory makes of device memory's clocks and of its latency: whole lines come
better, and what is asked for without end comes later. Fitted with `SHORT_AGAIN` to plans that were
measured in half lines, and told the others' order: of 355 kernels of 18 problems
(``benchmarks/results/bandwidth_sweep_rings_h200.json``) the first is 1.006 x the fastest's time."""

SLOT_WORK, ROW_TAKEN = 60, 12
"""Clocks that a warp is busy with a slot in shared memory: once, and each eight rows in it."""


class TileCost(NamedTuple):
    """What a tile costs whatever the warps along k, the stages and the resident blocks are.

    Attributes:
        rounds: tiles that the busiest multiprocessor computes.
        filling: clocks at the kernel's start for each stage.
        work: clocks that a warp is busy with a slice.
        meeting: clocks at a tile's end for each warp along k.
        loads: clocks of the load/store unit, all rounds.
        memory: clocks of device memory, or of the L2 where that is slower.
        flight: bytes of the long operand that a warp along k has on its way a stage.
        again: clocks in which device memory would deliver the short operand to every tile.
        taken: eights of rows in a slot.
    """

    rounds: int
    filling: float
    work: float
    meeting: float
    loads: float
    memory: float
    flight: int
    again: float
    taken: int


def tile_cost(task: Task, fragments: int, warps_long: int) -> TileCost:
    """The cost of a tile."""
    tiles = task.tiles(fragments * FRAGMENT_LONG * warps_long)
    rounds = -(-tiles // task.machine.sms)
    warp_bytes = WARP * task.slot_words(fragments)[0] * 4
    long_bytes = task.long_bytes(fragments * FRAGMENT_LONG * warps_long)
    return TileCost(
        rounds=rounds,
        filling=warp_bytes / 128 * FILL,
        work=task.short_rows * ROW_WORK + fragments * FRAGMENT_WORK,
        meeting=fragments * task.short_rows * MEETING,
        loads=rounds * _lines(task, fragments, warps_long) * LINE,
        memory=max(task.memory, rounds * long_bytes / task.machine.l2_rate),
        flight=warps_long * warp_bytes,
        again=tiles
        * task.short
        * task.problem.k
        * task.problem.element_bytes
        / task.machine.dram_rate,
        taken=fragments + task.short_rows,
    )


def again_clocks(task: Task, fragments: int, warps_long: int) -> float:
    """Clocks that reading the short operand again for each tile costs."""
    return SHORT_AGAIN * tile_cost(task, fragments, warps_long).again


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


def kernel_clocks(
    task: Task,
    tile: TileCost,
    warps_k: int,
    stages: int,
    slices: int,
    blocks: int,
    ring: RingPlace = "registers",
) -> float:
    """Clocks of the whole kernel.

    Args:
        task: what is computed, and where.
        tile: its tile.
        warps_k: warps along k.
        stages: slices in flight, not more than there are.
        slices: of k; one at least.
        blocks: resident blocks.
        ring: what holds the slices.
    """
    turns = _turns(tile, blocks)
    memory = _memory(task, tile, warps_k * stages, blocks, ring)
    latency = _latency(task, tile, stages, slices, turns, ring)
    squares = memory * memory + latency * latency
    if ring == "registers":
        squares += tile.loads * tile.loads
    fixed = task.launch + stages * tile.filling + turns * warps_k * tile.meeting
    return fixed + sqrt(squares)


def _turns(tile: TileCost, blocks: int) -> int:
    """How many times in a row resident blocks compute a tile each."""
    return -(-tile.rounds // blocks)


def _memory(task: Task, tile: TileCost, slices: int, blocks: int, ring: RingPlace) -> float:
    """Clocks of memory, longer with more on its way than it needs."""
    if ring == "shared":
        return RING_MEMORY * tile.memory + SHORT_AGAIN * tile.again
    in_flight = tile.flight * slices * min(blocks, tile.rounds)
    if in_flight <= task.enough:
        return tile.memory
    return tile.memory * (1 + DEEP * log2(in_flight / task.enough))


def _latency(
    task: Task, tile: TileCost, stages: int, slices: int, turns: int, ring_in: RingPlace
) -> float:
    """Clocks in which a warp comes round its ring as often as its slices ask for, all turns."""
    latency = task.machine.loaded_latency
    if ring_in == "shared":
        work = SLOT_WORK + ROW_TAKEN * tile.taken
        return turns * slices * max(work, RING_LATENCY * latency / max(stages - 1, 1))
    if task.sides.long_lanes.k_major:
        ring = max(stages * tile.work, LATENCY * latency + tile.work)
    else:
        ring = WAIT * latency + stages * tile.work
    return turns * slices / stages * ring


def predict(task: Task, choice: BandwidthChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine = task.problem, task.machine
    warps_k, blocks = choice.warps_k, choice.min_blocks
    tile = tile_cost(task, choice.fragments, choice.warps_long)
    slices = max(task.slices(warps_k), 1)
    stages = min(choice.stages, slices)
    clocks = kernel_clocks(task, tile, warps_k, stages, slices, blocks, choice.ring)
    turns, rounds = _turns(tile, blocks), tile.rounds
    memory = "L2" if tile.memory > task.memory else "device memory"
    whole = {
        memory: _memory(task, tile, warps_k * stages, blocks, choice.ring),
        "latency": _latency(task, tile, stages, slices, turns, choice.ring),
        **({"load/store unit": tile.loads} if choice.ring == "registers" else {}),
        "sums' meeting": turns * warps_k * tile.meeting,
    }
    bound = max(whole, key=lambda part: whole[part])
    if whole[bound] < task.launch:
        bound = "launch and latency"
    long_tile = choice.fragments * choice.warps_long * FRAGMENT_LONG
    tiles = task.tiles(long_tile)
    short_bytes = task.short * problem.k * problem.element_bytes
    operands = compulsory_bytes(problem)
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles,
        waves=tiles / (machine.sms * min(blocks, rounds)),
        slices=slices,
        l2_bytes=tiles * (task.long_bytes(long_tile) + short_bytes),
        operand_bytes=operands,
        dram_bytes=operands + output_bytes(problem),
        parts={part: clocks / (rounds * slices) for part, clocks in whole.items()},
        bound=bound,
    )
