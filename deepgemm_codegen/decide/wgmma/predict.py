"""What a wgmma candidate costs: clocks of the busiest multiprocessor.

One block stays on each multiprocessor and computes ``rounds`` tiles, one after the other:

    kernel = LAUNCH + rounds * (slices * slice + finish) + what of D is left to write
    slice  = max(work, flow) + OVERLAP * min(work, flow) + SYNC
    work   = max(mma * heat, feed)
    flow   = max(L2 bytes / L2 rate * heat, device memory's bytes / its rate), as `reading` has it

mma and feed hide each other, unlike those of mma.sync: both are read by the tensor core itself.
Where the blocks of a cluster sum parts of k, each cluster computes one tile: rounds are then waves.
Consumers that take tiles in turn hide ``finish`` behind the other's slices; else what the ring
holds of the next tile arrives meanwhile. No kernel is faster than device memory reads and writes.
The constants were fitted together to 882 kernels of 25 shapes, measured on an H200 beside cuBLAS
(``benchmarks/results/wgmma_sweep_h200.json``): times, and which kernel of a shape comes first.
`docs/decisions.md` says how well they fit.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import operand_traffic
from deepgemm_codegen.decide.split_k import late_clocks
from deepgemm_codegen.decide.wgmma.reading import (
    LEAST_ONCE,
    l2_clocks,
    loaded,
    on_their_way,
    reading,
)
from deepgemm_codegen.decide.wgmma.tile import tile_table
from deepgemm_codegen.decide.wgmma.writing import writing
from deepgemm_codegen.plan import schedules
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile

__all__ = ["clusters_at_once", "predict"]

LAUNCH_US = 1.6
"""Launch, barriers, descriptors, the first slice and the last store: 1.8 as fitted, before a block
started its first copies ahead of all else, which takes 0.2 off (``benchmarks/notes.md``)."""

CLUSTER_US = 0.37
"""What a launch with clusters takes longer, whose blocks meet before their first copies."""

ROUND_US = 2.0
"""What a cluster along k takes to follow another on its multiprocessors: it computes one tile, so
that nothing of the next is on its way."""

SYNC = 2.4
"""Clocks a slice between two slices' wgmmas that the pending slice does not hide."""

CLUSTER_SYNC, CLUSTER_SLICE = 5.5, 18
"""Clocks a slice that a cluster waits for its other block, and more where consumers take turns."""

LONE = 18
"""Clocks a row of k that a lone consumer, beside whom nobody multiplies, waits less where it waits
for two rows at a time. Nine products took 13 to 69 less (``benchmarks/notes.md``)."""

OVERLAP = 0.0245
"""Part of the shorter of work and flow that the longer does not hide."""

INTEGER_FLOW = 1.46
"""Further part that integers' math does not hide where consumers share a tile, for each part that
power stretches math by: math is twice as fast beside the same bytes. Fitted as `writing.WAYS`."""

INTEGER_PAIR = 0.66
"""Part of what power stretches integers' math by that blocks beside each other save, which share A:
fitted as `INTEGER_FLOW`."""

DRIFT = 0.4
"""Part of an epilogue that does not count where the writing of D beyond the L2 outlasts the math:
consumers that share a tile then drift apart, and one multiplies while the other writes. 0.3 to 0.4
rank products nearly alike; not of integers, whose slabs were fitted without."""

TURN = 420
"""Clocks a tile from one consumer's last slice to the other's first, where they take turns."""

TURN_HEAT, CLUSTER_HEAT = 0.03, 0.25
"""How much more of what power costs consumers that take turns pay, alone and in a cluster, in whose
every slice tensor cores wait: part of math's heat."""

INTEGER_TURN = 0.364
"""The same of integers, alone or in a cluster: fitted as `INTEGER_FLOW`."""

OVERHANG = 0.22
"""How much longer a lone consumer's slices take for each of its tiles that lies past n; why is not
known. At 4096x320x1280, 64x96 to 64x256, which reach past n, were slower than 64x64 and 64x160."""


def roofline(task: Task) -> float:
    """Clocks that no tile can beat: the launch, and the slower of math and memory."""
    problem, machine = task.problem, task.machine
    math = 2 * problem.batch * problem.m * problem.n * problem.k / machine.wgmma_rate / machine.sms
    return LAUNCH_US * machine.clock_mhz + max(math, task.once * LEAST_ONCE)


def kernel_clocks(
    task: Task,
    tile: Tile,
    cluster_m: int,
    cluster_n: int,
    stages: int,
    once: float,
    slice_rows: int = 1,
) -> float:
    """Clocks of the whole kernel.

    Args:
        task: what is computed, and where.
        tile: its tile.
        cluster_m: blocks of a cluster along m.
        cluster_n: the same along n.
        stages: ring slots.
        once: clocks in which device memory delivers A and B as often as they are asked for.
        slice_rows: rows of k that a slot holds.
    """
    problem, machine, slices = task.problem, task.machine, task.slices
    tile_m, tile_n = tile.tile_m, tile.tile_n
    tiles_m, tiles_n = -(-problem.m // tile_m), -(-problem.n // tile_n)
    cluster = cluster_m * cluster_n
    sync = SYNC if cluster == 1 else SYNC + CLUSTER_SYNC
    if slice_rows > 1 and tile.consumers == 1:
        sync -= LONE
    units, at_once = _units(task, tiles_m, tiles_n, cluster_m, cluster_n)
    rounds = -(-units // at_once)
    total = _launches(task, tiles_m * tiles_n, cluster, rounds)
    flow, once, depth, waiting = reading(
        task, tile, (cluster_m, cluster_n), stages * slice_rows, once, rounds, slice_rows
    )
    feed = tile.feed
    if not problem.b_k_major:  # a row takes its clock to be written, also of columns past the tile
        feed += task.landed_columns(tile_n) - tile_n
    work = max(tile.mma * task.heat, feed)
    work += tile.promotion
    slice_clocks = max(work, flow) + OVERLAP * min(work, flow)
    if task.kind.integers:
        slice_clocks += _integer_clocks(task, tile, cluster_n, min(work, flow))
    if tile.tiles_at_once > 1:
        slice_clocks += tile.mma * (task.heat - 1) * _turn_heat(task, cluster)
        if cluster > 1:
            slice_clocks += CLUSTER_SLICE
    if tile.consumers == 1:
        slice_clocks *= 1 + OVERHANG * (tiles_n - problem.n / tile_n)
    leaving = writing(task, tile, (cluster_m, cluster_n), once, rounds, waiting)
    finish = finish_clocks(task, tile)
    if problem.c_bytes and not task.partial:
        finish += machine.latency
    busy = slices * (slice_clocks + sync)
    if tile.tiles_at_once > 1:
        # While one consumer finishes, the other multiplies: half of each one's time is a tile's.
        # What the steps issue slows the other, as far as it has not been counted with them.
        issued = task.problem.step_issue * tile_m * tile_n
        math = slices * slice_clocks + TURN + issued
        busy = max(math, (busy + finish) / 2, leaving.moved, slices * flow + leaving.passed)
        first = max(busy - math, 0.0)  # the first tile has none before it to be written meanwhile
        return total + rounds * busy - first + finish + leaving.last
    # Slices that fit the ring arrive while the tile before them is finished.
    ahead = min(finish, min(depth, slices) * max(slice_clocks - work, 0.0))
    busy += finish - ahead * (rounds - 1) / rounds
    between = max(leaving.moved - busy, leaving.shown)
    return total + rounds * busy + (rounds - 1) * between + leaving.last


def _integer_clocks(task: Task, tile: Tile, cluster_n: int, hidden: float) -> float:
    """Clocks that a slice of integers takes longer; ``hidden`` are those of its shorter part."""
    heat = task.heat - 1
    shown = INTEGER_FLOW * heat * hidden if tile.tiles_at_once == 1 else 0.0
    return shown - (INTEGER_PAIR * heat * tile.mma if cluster_n > 1 else 0.0)


def _turn_heat(task: Task, cluster: int) -> float:
    """How much more of what power costs consumers in turns pay: part of math's heat."""
    if task.kind.integers:
        return INTEGER_TURN
    return TURN_HEAT if cluster == 1 else CLUSTER_HEAT


def _launches(task: Task, tiles: int, cluster: int, rounds: int) -> float:
    """Clocks of the launch, of clusters that follow others, and of a second kernel's late start."""
    machine = task.machine
    us = LAUNCH_US
    if cluster > 1:
        us += CLUSTER_US
    elif task.cluster_k > 1:
        us += CLUSTER_US + (rounds - 1) * ROUND_US
    clocks = us * machine.clock_mhz
    if task.parts > task.cluster_k:
        clocks += late_clocks(machine, tiles * task.units / machine.sms)
    return clocks


def _units(
    task: Task, tiles_m: int, tiles_n: int, cluster_m: int, cluster_n: int
) -> tuple[int, int]:
    """(what blocks or clusters compute at a time, counted over D; how many of them run at once)."""
    sms = task.machine.sms
    if task.cluster_k > 1:
        fitting = clusters_at_once(sms, task.cluster_k)
        return tiles_m * tiles_n * (task.units // task.parts), fitting
    clusters = -(-tiles_m // cluster_m) * -(-tiles_n // cluster_n) * task.units
    return clusters, sms // (cluster_m * cluster_n)


@cache
def clusters_at_once(sms: int, blocks: int) -> int:
    """How many clusters of so many blocks, each alone on its multiprocessor, run at a time."""
    return max(schedules.clusters_at_once(blocks).evaluate({"sms": sms}), 1)


def finish_clocks(task: Task, tile: Tile) -> float:
    """Clocks of a tile's epilogue, what is read of C apart."""
    if task.partial:
        return tile.sums_finish
    steps = task.step_clocks * tile.tile_m * tile.tile_n
    if task.cluster_k > 1:
        others = (task.cluster_k - 1) / task.cluster_k
        return tile.gather_finish + others * tile.gather_read + steps / task.cluster_k
    leaves = task.leaves(tile.rows, tile.tile_n, whole_panels=tile.whole_panels)
    steps += {
        "tma": tile.tma_finish,
        "rows": tile.rows_finish,
        "lanes": tile.lanes_finish,
        "slab": tile.slab_finish,
    }[leaves]
    if tile.tiles_at_once == 1 and task.outlast and not task.kind.integers and not task.fits:
        steps *= 1 - DRIFT * task.outlast
    return steps


def predict(task: Task, choice: WgmmaChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine, slices = task.problem, task.machine, task.slices
    tile_m, tile_n = choice.tile_m, choice.tile_n
    cluster_m, cluster_n = choice.cluster_m, choice.cluster_n
    table = tile_table(machine, task.kind, task.result)
    tiles = table[tile_m, choice.consumers, choice.tiles_at_once]
    tile = next(t for t in tiles if t.tile_n == tile_n)
    traffic = operand_traffic(
        problem,
        machine._replace(sms=machine.sms // (cluster_m * cluster_n)),
        tile_m * cluster_m,
        tile_n * cluster_n,
        1,
        choice.raster_group,
    )
    once = traffic / machine.dram_rate
    slice_rows = choice.tile_k // task.kind.tile_k
    clocks = kernel_clocks(task, tile, cluster_m, cluster_n, choice.stages, once, slice_rows)
    tiles_m, tiles_n = -(-problem.m // tile_m), -(-problem.n // tile_n)
    units, at_once = _units(task, tiles_m, tiles_n, cluster_m, cluster_n)
    rounds = -(-units // at_once)
    lines = loaded(task, tile, (cluster_m, cluster_n), rounds)
    steps = rounds * slices
    parts = {
        "tensor cores": tile.mma * task.heat,
        "shared memory": tile.feed,
        "L2": l2_clocks(task, lines),
        "device memory": once / steps,
    }
    ring, depth = on_their_way(task, choice.stages * slice_rows, rounds, slice_rows)
    transfer = max(parts["L2"], parts["device memory"])
    parts["latency"] = (machine.loaded_latency + transfer) / depth * (ring > depth)
    bound = max(parts, key=lambda part: parts[part])
    moved, written = writing(task, tile, (cluster_m, cluster_n), once, 1)[:2]
    if written > once and moved > steps * parts[bound]:
        bound = "the writing of D"
    if max(steps * parts[bound] if bound in parts else 0.0, moved) < (
        LAUNCH_US * machine.clock_mhz
    ):
        bound = "launch and latency"
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles_m * tiles_n * task.units,
        waves=units / at_once,
        slices=slices,
        l2_bytes=sum(lines) * PANEL_BYTES * slices * tiles_m * tiles_n * task.units,
        operand_bytes=traffic,
        dram_bytes=traffic + output_bytes(problem),
        parts=parts,
        bound=bound,
    )
