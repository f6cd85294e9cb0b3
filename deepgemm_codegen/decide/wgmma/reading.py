"""What the reading of A and B costs a wgmma kernel: how fast slices arrive, and how late.

A ring has ``depth`` slices on their way while one is multiplied. Too few, and a slice takes as long
as device memory's latency; too many, and what is asked for queues there:

    flow   = max(L2 bytes / L2 rate, memory), and never less than (latency + flow) / depth
    memory = norm(bytes / rate * queue, (latency + that) / depth)
    queue  = 1 + QUEUE * (max((depth - HELD) * bytes / rate / latency, FREE) - USUAL)

A slice's time through device memory and its wait add in a high norm, not as a maximum: latency
varies, so that memory runs dry now and then before the wait is the longer of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.wgmma.consumer import PANEL_COLUMNS
from deepgemm_codegen.decide.wgmma.writing import crowd
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile

__all__ = [
    "LEAST_ONCE",
    "Reading",
    "l2_clocks",
    "loaded",
    "on_their_way",
    "reading",
    "spared_by_fewer",
]

QUEUE, HELD, FREE, USUAL = 0.005, 1, 1.2, 3.0
"""How much longer device memory takes for each time more that what all blocks have on their way
covers its latency; slices of the ring that are not, as slots are given back a slice late; how many
times cost nothing; and with how many its rate is counted. Fitted, with `NORM`, to 174 kernels of 20
shapes, tiles of which were measured with two to sixteen slots, and to 424 of 36
(``benchmarks/results/program_sweep_depths_h200.json``, ``program_sweep_rings_h200.json``): where an
operand streams past once one to three times are best, and slots beyond cost 1 to 6 %."""

LEAST_ONCE = 1 + QUEUE * (FREE - USUAL)
"""The least factor on device memory's clocks."""

NORM = 6
"""In which a slice's time through device memory and its wait add."""

ABOVE = 2 ** (1 / NORM)
"""How much more than the longer of two such times they come to, at most."""

NEARER = 0.5
"""How much sooner a slice comes of operands that are nothing beside D, and wait in the L2."""

CLUSTER_LATENCY = 390
"""Clocks until a slot that both blocks have to give back is full again, beyond a lone block's."""

PARTS_FLOW = 1.6
"""How much longer the L2 takes to deliver to blocks of a cluster along k than to as many blocks
that sum parts of k apart; why is not known. Fitted with `predict.ROUND_US` to 149 programs of 11
shapes on an H200 (``benchmarks/results/program_sweep_cluster_k_h200.json``)."""

NARROW = 2.0
"""How many times as long TMA takes for rows of the slice in which k ends, of an operand along k.
Fitted as `writing.WRITE`; alone, rows in which the matrix ends took twice as long as whole ones.
Not of integers, whose constants were fitted without."""

PAST = 90
"""Clocks a slice that TMA takes longer for a panel that reaches past the matrix, of an operand with
m or n contiguous. Fitted to 33 kernels of 4096x40x4096, 8 products (in `writing.WRITE`'s file)."""

SCATTER, TOGETHER = 4.8, 256
"""How much slower device memory delivers rows of the longer operand the fewer of them a block asks
for together, of which each copy brings 128 bytes; so many are enough. Set by which of 114 programs
of 8 problems with few rows come first (``benchmarks/results/program_sweep_few_rows_h200.json``)."""


class Reading(NamedTuple):
    """Clocks of the reading of A and B.

    A slice is a row of k here, of 128 bytes, wherever a slot holds two.

    Attributes:
        flow: a slice, between one's arrival and the next one's.
        once: in which device memory delivers A and B to the whole kernel, as often as they are
            asked for, so much being asked for at a time.
        depth: slices on their way while one is multiplied.
        waiting: how full of them the ring is, from 0 to 1, where that matters (`Task.sparse`):
            y / (1 + y), the L2 delivering as many in y times a latency.
    """

    flow: float
    once: float
    depth: int
    waiting: float


def reading(
    task: Task,
    tile: Tile,
    cluster: tuple[int, int],
    rows: int,
    once: float,
    rounds: int,
    slice_rows: int = 1,
) -> Reading:
    """The clocks of tiles in so many rounds.

    Args:
        task: what is computed.
        tile: its tile.
        cluster: blocks of a cluster along m and n.
        rows: of k that the ring holds.
        once: clocks in which device memory delivers A and B as often as they are asked for.
        rounds: tiles that a multiprocessor computes.
        slice_rows: rows of k in a slot, which are multiplied together.
    """
    problem, tile_m, tile_n = task.problem, tile.tile_m, tile.tile_n
    steps = rounds * task.slices
    ring, depth = on_their_way(task, rows, rounds, slice_rows)
    latency = task.machine.loaded_latency
    once *= _queue((depth - HELD) * once / steps / latency * task.reads)
    l2 = l2_clocks(task, loaded(task, tile, cluster, rounds))
    waiting = 0.0
    along_k = problem.a_k_major and problem.b_k_major
    past = 0.0 if along_k else PAST * _panels_past(problem, tile_m, tile_n)
    memory = once / steps * _scattered(problem, tile_m, tile_n) + past
    flow = max(l2 + past, memory)
    if task.sparse:
        ahead = depth * l2 / latency
        waiting = ahead / (1 + ahead)
        latency *= 1 - NEARER * task.sparse
    if ring > depth:
        if cluster != (1, 1):
            latency += CLUSTER_LATENCY
        late = max(flow, (latency + flow) / depth)
        wait = (latency + memory) / depth
        if max(memory, wait) * ABOVE > late:
            late = max(late, memory * (1 + (wait / memory) ** NORM) ** (1 / NORM))
        if late > flow:
            flow += (late - flow) * (ring - depth) / ring
    return Reading(flow, once, depth, waiting)


def on_their_way(task: Task, rows: int, rounds: int, slice_rows: int) -> tuple[int, int]:
    """(slices that pass through a block's ring, those on their way while one is multiplied).

    Args:
        task: what is computed.
        rows: of k that the ring holds.
        rounds: tiles that a multiprocessor computes.
        slice_rows: rows of k in a slot.
    """
    ring = task.slices if task.cluster_k > 1 else rounds * task.slices
    return ring, max(min(rows, max(ring, 2)) - slice_rows, 1)


def spared_by_fewer(task: Task, tile: Tile, rows: int, memory: float) -> float:
    """The least factor on a kernel's clocks that a ring for fewer slices can bring.

    Args:
        task: what is computed.
        tile: its tile.
        rows: of k that the ring holds.
        memory: clocks in which device memory delivers a slice, at least.
    """
    latency = task.machine.loaded_latency
    factor = LEAST_ONCE / _queue(rows * memory / latency * task.reads)
    if task.sparse:
        most = NARROW * rows * (tile.tile_m + tile.tile_n) * PANEL_BYTES
        most *= task.heat / task.machine.tma_rate / latency
        factor *= crowd(task, 0.0) / crowd(task, most / (1 + most))
    return factor


def _queue(covered: float) -> float:
    """Factor on device memory's clocks where so many times its latency is on its way."""
    return 1 + QUEUE * (covered - USUAL) if covered > FREE else LEAST_ONCE


def loaded(task: Task, tile: Tile, cluster: tuple[int, int], rounds: int) -> tuple[float, float]:
    """Rows of A and columns of B that the busiest multiprocessor loads a slice.

    In one round that is a whole tile; over several, the partial tiles at the edges even out. Each
    block of a cluster loads its part of what they share.
    """
    m, n = task.problem.m, task.problem.n
    landed = task.landed_columns(tile.tile_n)
    if rounds == 1:
        rows, columns = float(min(tile.tile_m, m)), float(min(landed, n))
    else:
        rows, columns = m / -(-m // tile.tile_m), n / -(-n // tile.tile_n) * landed / tile.tile_n
    return rows / cluster[1], columns / cluster[0]


def l2_clocks(task: Task, lines: tuple[float, float]) -> float:
    """Clocks a slice in which the L2 delivers so many rows of A and columns of B."""
    flow = _panel_rows(task, *lines) * PANEL_BYTES * task.heat / task.machine.tma_rate
    return flow if task.cluster_k == 1 else flow * PARTS_FLOW


def _panel_rows(task: Task, rows: float, columns: float) -> float:
    """Rows of A's and B's panels that TMA brings a slice, or whole ones that take as long."""
    problem = task.problem
    if problem.k % task.kind.tile_k == 0 or task.kind.integers:
        return rows + columns
    more = (NARROW - 1) / (task.slices * task.parts)  # one of all slices, on the average
    return rows * (1 + more * problem.a_k_major) + columns * (1 + more * problem.b_k_major)


def _scattered(problem: Problem, tile_m: int, tile_n: int) -> float:
    """Factor on device memory's clocks for how few rows of the longer operand a tile has."""
    rows = tile_m if problem.m > problem.n else tile_n
    return 1 + SCATTER * max(1 / rows - 1 / TOGETHER, 0.0)


def _panels_past(problem: Problem, tile_m: int, tile_n: int) -> float:
    """Panels of a tile's operands, with m or n contiguous, that reach past their matrix.

    Boxes are no wider than a matrix that is narrower than a panel (`tma.box_columns`).
    """
    found = 0.0
    for extent, tile, k_major in (
        (problem.m, tile_m, problem.a_k_major),
        (problem.n, tile_n, problem.b_k_major),
    ):
        if not k_major:
            tiles = -(-extent // tile)
            panels = -(-tile // PANEL_COLUMNS)
            if tile % PANEL_COLUMNS == 0:
                found += panels - max(extent // PANEL_COLUMNS, 1) / tiles
            else:  # only the last tile has any, of which the whole ones lie inside
                last = (extent - (tiles - 1) * tile) // PANEL_COLUMNS
                found += (panels - max(last, tiles == 1)) / tiles
    return found
