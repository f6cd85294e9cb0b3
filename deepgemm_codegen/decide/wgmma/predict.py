"""What a wgmma candidate costs: clocks of the busiest multiprocessor.

One block stays on each multiprocessor and computes ``rounds`` tiles, one after the other:

    kernel = LAUNCH + rounds * (slices * slice + finish) + what of D is left to write
    slice  = max(work, flow) + OVERLAP * min(work, flow) + SYNC
    work   = max(mma * heat, feed)
    flow   = max(L2 bytes / L2 rate * heat, device memory's bytes / its rate), and never less than
             the latency spread over the slices in flight

mma and feed hide each other, unlike those of mma.sync: both are read by the tensor core itself.
The constants were fitted together to 84 kernels of 12 shapes, measured on an H200 beside cuBLAS:
times, and the order within a shape. `docs/decisions.md` says how well they fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import operand_traffic
from deepgemm_codegen.decide.wgmma.tile import tile_table
from deepgemm_codegen.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile

__all__ = ["predict"]

LAUNCH_US = 2.24
"""Launch, barriers, descriptors, the first slice and the last store; 1024x640x640 takes 5.2."""

CLUSTER_US = 0.25
"""What a launch with clusters takes longer: 1024-cubed in 64x128 tiles, 6.96 for 6.68 us."""

SYNC = 46
"""Clocks a slice between two slices' wgmmas: a barrier's wait, the fence, the issue."""

CLUSTER_SYNC = 15
"""Clocks a slice that a cluster waits for its other block."""

OVERLAP = 0.073
"""Part of the shorter of work and flow that the longer does not hide."""

HIDDEN = 0.385
"""Part of a tile's time that hides the writing of the tile before it, by TMA."""

SLAB_WRITE = 0.3
"""Part of the writing that a slab's epilogue waits for."""

OVERHANG = 0.6
"""How much longer a lone consumer's slices take for each of its tiles that lies past n.

Measured on an H200 after the fit. At 4096x320x1280, 64x96, 64x128, 64x192 and 64x256 reach past n
by 64 to 192 columns and took 1.07 to 1.7 x the time without this term, 64x64 and 64x160, which do
not, 0.9 to 0.97 x; at 1024x640x640, 64x96 (32 columns past n) was slower than 64x128. Tiles of two
consumers show no such thing; why is not known."""

LAST_WRITE = 1.2
"""How long the last tiles' writing takes for each clock that device memory needs: all write at
once, and nothing else is left to do."""


def kernel_clocks(
    task: Task, tile: Tile, cluster_m: int, cluster_n: int, stages: int, once: float
) -> float:
    """Clocks of the whole kernel.

    Args:
        task: what is computed, and where.
        tile: its tile.
        cluster_m: blocks of a cluster along m.
        cluster_n: the same along n.
        stages: ring slots.
        once: clocks in which device memory delivers A and B as often as they are asked for.
    """
    problem, machine, slices = task.problem, task.machine, task.slices
    tile_m, tile_n = tile.tile_m, tile.tile_n
    tiles_m, tiles_n = -(-problem.m // tile_m), -(-problem.n // tile_n)
    total = LAUNCH_US * machine.clock_mhz
    sync = SYNC
    cluster = cluster_m * cluster_n
    if cluster == 1:
        rounds = -(-tiles_m * tiles_n // machine.sms)
    else:
        clusters = -(-tiles_m // cluster_m) * -(-tiles_n // cluster_n)
        rounds = -(-clusters // (machine.sms // cluster))
        total += CLUSTER_US * machine.clock_mhz
        sync += CLUSTER_SYNC
    rows, columns = _loaded(task, tile_m, tile_n, rounds)
    rows, columns = rows / cluster_n, columns / cluster_m
    work = tile.mma * task.heat
    work = max(work, tile.feed)
    flow = (rows + columns) * PANEL_BYTES * task.heat / machine.tma_rate
    steps = rounds * slices
    flow = max(flow, once / steps)
    depth = min(stages, max(steps, 2)) - 1
    if steps > depth:
        late = (machine.loaded_latency + flow) / depth - flow
        if late > 0:
            flow += late * (steps - depth) / steps
    slice_clocks = work + OVERLAP * flow if work > flow else flow + OVERLAP * work
    if tile.consumers == 1:
        slice_clocks *= 1 + OVERHANG * (tiles_n - problem.n / tile_n)
    out = task.out / rounds
    busy = slices * (slice_clocks + sync)
    if task.tma_store and tile.whole_panels:
        busy += tile.tma_finish
        left = out - HIDDEN * busy
        between = max(left, 0.0)
    else:
        busy += tile.slab_finish
        between = SLAB_WRITE * out
    if problem.c_bytes:
        busy += machine.latency
    return total + rounds * busy + (rounds - 1) * between + LAST_WRITE * out


def _loaded(task: Task, tile_m: int, tile_n: int, rounds: int) -> tuple[float, float]:
    """Rows of A and columns of B that the busiest multiprocessor loads a slice.

    In one round that is a whole tile; over several, the partial tiles at the edges even out.
    """
    m, n = task.problem.m, task.problem.n
    if rounds == 1:
        return min(tile_m, m), min(tile_n, n)
    return m / -(-m // tile_m), n / -(-n // tile_n)


def predict(task: Task, choice: WgmmaChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine, slices = task.problem, task.machine, task.slices
    tile_m, tile_n = choice.tile_m, choice.tile_n
    cluster_m, cluster_n = choice.cluster_m, choice.cluster_n
    cluster = cluster_m * cluster_n
    tile = next(t for t in tile_table(machine)[tile_m, choice.consumers] if t.tile_n == tile_n)
    traffic = operand_traffic(
        problem,
        machine._replace(sms=machine.sms // cluster),
        tile_m * cluster_m,
        tile_n * cluster_n,
        1,
        choice.raster_group,
    )
    once = traffic / machine.dram_rate
    clocks = kernel_clocks(task, tile, cluster_m, cluster_n, choice.stages, once)
    tiles_m, tiles_n = -(-problem.m // tile_m), -(-problem.n // tile_n)
    clusters = -(-tiles_m // cluster_m) * -(-tiles_n // cluster_n)
    rounds = -(-clusters // (machine.sms // cluster))
    rows, columns = _loaded(task, tile_m, tile_n, rounds)
    rows, columns = rows / cluster_n, columns / cluster_m
    steps = rounds * slices
    parts = {
        "tensor cores": tile.mma * task.heat,
        "shared memory": tile.feed,
        "L2": (rows + columns) * PANEL_BYTES * task.heat / machine.tma_rate,
        "device memory": once / steps,
    }
    depth = min(choice.stages, max(steps, 2)) - 1
    transfer = max(parts["L2"], parts["device memory"])
    parts["latency"] = (machine.loaded_latency + transfer) / depth * (steps > depth)
    bound = max(parts, key=lambda part: parts[part])
    if task.out > steps * parts[bound]:
        bound = "the writing of D"
    if max(steps * parts[bound] if bound in parts else 0.0, task.out) < (
        LAUNCH_US * machine.clock_mhz
    ):
        bound = "launch and latency"
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles_m * tiles_n,
        waves=clusters / (machine.sms // cluster),
        slices=slices,
        l2_bytes=(rows + columns) * PANEL_BYTES * slices * tiles_m * tiles_n,
        operand_bytes=traffic,
        dram_bytes=traffic + output_bytes(problem),
        parts=parts,
        bound=bound,
    )
