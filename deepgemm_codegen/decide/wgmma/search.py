"""Choice: the cheapest wgmma candidate.

A tile's floor is what its math, its shared memory and its epilogues take in the fewest rounds;
tiles are visited from the lowest floor up until the next one's is above the best cost. Of a tile's
rings the deepest that fits comes first; fewer slots are cheaper where device memory has more asked
of it than covers its latency (`reading`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heapify, heappop
from itertools import pairwise, product
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.schedule import best_raster
from deepgemm_codegen.decide.wgmma import constraints
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from deepgemm_codegen.decide.wgmma.predict import (
    CLUSTER_SYNC,
    CLUSTER_US,
    LAUNCH_US,
    LONE,
    SYNC,
    finish_clocks,
    kernel_clocks,
)
from deepgemm_codegen.decide.wgmma.reading import LEAST_ONCE, spared_by_fewer
from deepgemm_codegen.decide.wgmma.tile import tile_table, turn_bytes
from deepgemm_codegen.plan.layout import row_slab_bytes
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.wgmma.menu import WgmmaMenu
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile

__all__ = ["LEAST_LONG", "ROWS_RING", "WgmmaFound", "search", "slice_rows_tried"]

LEAST_LONG = 5
"""Slots of a ring whose slices have two rows of k. With five to eight, products took 0.82 to 0.96
of the time (64x8 to 64x80), with four 1.03 to 1.08 (64x112, 64x128)."""

ROWS_RING = 165_000
"""Bytes of a ring beside which TMA writes rows of a D that the L2 does not hold, where writing it
outlasts the math. In 128x128 with six, five, four slots 6144x3072x768 took 31.6, 28.2, 28.0 us,
6144x2304x768 with six, five 27.0, 24.2; but 4096x4096x7168 in 128x256 with three, four 174.6,
168.3."""

ROUNDING = 1 - 1e-9
"""Keeps a floor below the cost it bounds when both round differently."""


class WgmmaFound(NamedTuple):
    """The winner of a search: its numbers, its predicted cost, and how many were costed."""

    choice: WgmmaChoice
    clocks: float
    costed: int


def search(task: Task, menu: WgmmaMenu, below: float = inf) -> WgmmaFound | None:
    """The cheapest choice from a menu, or None when nothing on it is legal, or under a limit.

    Of equal costs the first in the order of floors wins, then the smaller cluster.
    """
    machine = task.machine
    clusters = [
        (m, n)
        for m in menu.cluster_m
        for n in menu.cluster_n
        if not constraints.cluster(m, n, machine.sms)
    ]
    heap = _floors(task, menu)
    least = below
    best: tuple[Tile, int, int, int, int] | None = None
    costed = 0
    while heap:
        floor, _, tile, rounds = heappop(heap)
        if floor >= least:
            break
        steps = rounds * task.slices
        for cluster_m, cluster_n in clusters:
            if cluster_m * cluster_n > 1:
                extra = CLUSTER_US * machine.clock_mhz + CLUSTER_SYNC * steps
                if (floor + extra) * ROUNDING >= least:
                    continue
            cluster = cluster_m, cluster_n
            clocks, stages, slice_rows, tried = _slices(task, tile, cluster, rounds, menu, least)
            costed += tried
            if clocks < least:
                least, best = clocks, (tile, *cluster, stages, slice_rows)
    if best is None:
        return None
    tile, cluster_m, cluster_n, stages, slice_rows = best
    choice = WgmmaChoice(
        tile_m=tile.tile_m,
        tile_n=tile.tile_n,
        consumers=tile.consumers,
        tiles_at_once=tile.tiles_at_once,
        stages=stages,
        cluster_m=cluster_m,
        cluster_n=cluster_n,
        raster_group=_raster(task, tile, cluster_m, cluster_n, menu)[1],
        split_k=task.parts,
        tile_k=task.kind.tile_k * slice_rows,
        cluster_k=task.cluster_k,
    )
    return WgmmaFound(choice, least, costed)


def _slices(
    task: Task,
    tile: Tile,
    cluster: tuple[int, int],
    rounds: int,
    menu: WgmmaMenu,
    least: float,
) -> tuple[float, int, int, int]:
    """(clocks, stages, rows of k in a slice, how many were costed) of a tile's cheapest ring."""
    best, costed = (inf, 0, 0), 0
    floor, deepest = 0.0, 0
    for slice_rows in slice_rows_tried(task, tile, cluster[0] * cluster[1], menu):
        counts = _counts(task, tile, cluster, slice_rows, menu)
        if not counts:
            continue
        if slice_rows * counts[-1] <= deepest and floor - LONE * task.slices >= least:
            break  # as many slices of one row were too dear by more than two in one spare
        costed += 1
        clocks, stages, floor = _cost(task, tile, cluster, rounds, slice_rows, counts, menu, least)
        floor, deepest = floor * ROUNDING, counts[-1]
        if clocks < best[0]:
            best = clocks, stages, slice_rows
    return *best, costed


def slice_rows_tried(task: Task, tile: Tile, sharers: int, menu: WgmmaMenu) -> tuple[int, ...]:
    """Rows of k that a slice may have: two also for a lone consumer, which waits half as often.

    Measured where every block has one tile.
    """
    problem = task.problem
    if (
        (tile.consumers, task.parts) == (1, 1)
        and len(menu.slice_rows) > 1 < len(menu.stages)
        and -(-problem.m // tile.tile_m) * -(-problem.n // tile.tile_n) * task.units
        <= task.machine.sms
        and not constraints.long_slice(task, tile.tile_m, tile.tile_n, sharers)
    ):
        return menu.slice_rows
    return menu.slice_rows[:1]


def _floors(task: Task, menu: WgmmaMenu) -> list[tuple[float, tuple[int, ...], Tile, int]]:
    """A heap of (floor, order of preference, tile, rounds) of every tile that the menu offers."""
    problem, machine, slices = task.problem, task.machine, task.slices
    m, n, sms, heat, once = problem.m, problem.n, machine.sms, task.heat, task.once * LEAST_ONCE
    a_k_major, b_k_major = problem.a_k_major, problem.b_k_major
    launch = LAUNCH_US * machine.clock_mhz
    long_slices = len(menu.slice_rows) > 1 < len(menu.stages) and task.parts == 1
    table = tile_table(machine, task.kind, task.result)
    paired_n = [
        tile_n
        for tile_n in menu.tile_n
        if not constraints.pairs(tile_n, problem.halves, k_major=b_k_major)
    ]
    counts_n = {
        ragged: {
            tile_n: -(-n // tile_n)
            for tile_n in paired_n
            if not constraints.panels(tile_n, k_major=b_k_major, ragged=ragged)
        }
        for ragged in (False, True)
    }
    heap: list[tuple[float, tuple[int, ...], Tile, int]] = []
    for tile_m in menu.tile_m:
        if constraints.panels(tile_m, k_major=a_k_major):
            continue
        tiles_m = -(-m // tile_m)
        for shares in product(menu.consumers, menu.tiles_at_once):
            if constraints.parts(task.parts, shares[1]) or constraints.sums(
                task.problem.rows_follow, shares[1]
            ):
                continue
            tiles_n = counts_n[constraints.ragged(task, *shares)]
            for tile in table.get((tile_m, *shares), ()):
                tile_n = tile.tile_n
                if tile_n not in tiles_n:
                    continue
                rounds = -(-tiles_m * tiles_n[tile_n] * task.units // sms)  # at least
                mma, feed = tile.mma * heat, tile.feed
                loop = rounds * slices * max(mma, feed)
                finish = finish_clocks(task, tile)
                if tile.tiles_at_once == 1:  # a finish may hide the next tile's first slices
                    sync = SYNC if tile.consumers > 1 or not long_slices else SYNC - LONE
                    floor = launch + max(loop + rounds * finish, once) + rounds * slices * sync
                else:
                    floor = launch + max(loop, once) + finish
                order = -tile_n, -tile_m, tile.tiles_at_once, -tile.consumers
                heap.append((floor * ROUNDING, order, tile, rounds))
    heapify(heap)
    return heap


def _cost(
    task: Task,
    tile: Tile,
    cluster: tuple[int, int],
    rounds: int,
    slice_rows: int,
    counts: tuple[int, ...],
    menu: WgmmaMenu,
    least: float,
) -> tuple[float, int, float]:
    """(clocks, stages, floor) of a candidate with its best raster and ring, of so many slots.

    Where that is not below `least` the clocks may be a floor as well: most candidates lose even if
    memory delivers their operands once. The floor holds for every ring up to the deepest.
    """
    best, once = counts[-1], task.once
    clocks = kernel_clocks(task, tile, *cluster, best, once, slice_rows)
    memory = once / (rounds * task.slices)
    floor = clocks * spared_by_fewer(task, tile, best * slice_rows, memory)
    if floor >= least:
        return clocks, best, floor
    traffic = _raster(task, tile, *cluster, menu)[0] / task.machine.dram_rate
    if traffic > once:
        once = traffic
        memory = once / (rounds * task.slices)
        clocks = kernel_clocks(task, tile, *cluster, best, once, slice_rows)
    fewer = clocks
    for above, stages in pairwise(reversed(counts)):
        spare = spared_by_fewer(task, tile, above * slice_rows, memory)
        if spare == 1 or fewer * spare >= least:
            break
        fewer = kernel_clocks(task, tile, *cluster, stages, once, slice_rows)
        if fewer > clocks:  # the least is found: what fewer slots spare, and what they cost, grows
            break
        if fewer < clocks:
            clocks, best = fewer, stages
    return clocks, best, floor


def _counts(
    task: Task, tile: Tile, cluster: tuple[int, int], slice_rows: int, menu: WgmmaMenu
) -> tuple[int, ...]:
    """The slots of the useful rings that fit; none where cluster, grid or ring is illegal.

    Where only useless depth is on offer, the least of it is taken.
    """
    problem, machine = task.problem, task.machine
    cluster_m, cluster_n = cluster
    if constraints.multicast(tile.tile_n, cluster_m, k_major=problem.b_k_major):
        return ()
    clusters_n = -(-problem.n // (tile.tile_n * cluster_n))
    clusters = -(-problem.m // (tile.tile_m * cluster_m)) * clusters_n * task.units
    if constraints.grid(clusters) or constraints.raster(min(menu.raster_group), clusters_n):
        return ()
    leaves = task.leaves(tile.rows, tile.tile_n, whole_panels=tile.whole_panels)
    store = tile.tma_bytes if leaves == "tma" else tile.slab_bytes
    if leaves in ("rows", "lanes"):
        store = turn_bytes(tile.consumers, tile.tiles_at_once)
        store += row_slab_bytes(tile.tile_n, tile.consumers) if leaves == "rows" else 0
    if slice_rows > 1 and constraints.long_slice(
        task, tile.tile_m, tile.tile_n, cluster_m * cluster_n
    ):
        return ()
    room = machine.shared_per_block - (store if task.parts == 1 and not task.partial else 0)
    if leaves == "rows" and task.outlast and len(menu.stages) > 1:
        room = min(room, ROWS_RING)
    if constraints.alone(cluster_m * cluster_n, task.cluster_k):
        return ()
    rounds = -(-clusters // (machine.sms // (cluster_m * cluster_n)))
    useful = -(-task.slices // slice_rows) * (rounds if task.cluster_k == 1 else 1)
    stage_bytes = tile.stage_bytes
    if not problem.b_k_major:  # panels that reach past the tile take room as well
        stage_bytes += (task.landed_columns(tile.tile_n) - tile.tile_n) * PANEL_BYTES
    first = 0
    if slice_rows > menu.slice_rows[0]:  # nobody asked for it
        first = bisect_left(menu.stages, LEAST_LONG)
    fitting = bisect_right(menu.stages, room // (stage_bytes * slice_rows))
    enough = max(bisect_left(menu.stages, useful), first) + 1
    return menu.stages[first : min(fitting, enough)]


def _raster(
    task: Task, tile: Tile, cluster_m: int, cluster_n: int, menu: WgmmaMenu
) -> tuple[float, int]:
    """(bytes of A and B from device memory, raster group), a cluster's tiles taken as one."""
    machine = task.machine
    cluster = cluster_m * cluster_n
    if cluster > 1:
        machine = machine._replace(sms=machine.sms // cluster)
    tile_m, tile_n = tile.tile_m * cluster_m, tile.tile_n * cluster_n
    groups, whole, written = menu.raster_group, task.parts == 1, task.sparse > 0
    return best_raster(
        task.problem, machine, tile_m, tile_n, 1, groups, neighbours=whole, written=written
    )
