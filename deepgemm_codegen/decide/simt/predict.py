"""What a CUDA-core candidate costs: clocks of the busiest multiprocessor.

    kernel = launch + first + waves * (slices * slice + epilogue)
    slice  = max(work, flow) + SYNC / (warps a scheduler)
    work   = max(fma, issue, feed)

- ``fma``: fused multiply-adds at the rate of the CUDA cores;
- ``issue``: all instructions, one a clock and scheduler: the multiply-adds, a 16-byte read for
  every four rows or columns, the copies, and what the loop needs;
- ``feed``: those reads at four wavefronts each, one a clock of the shared memory;
- ``flow``: bytes of A and B from the L2 or device memory, never less than the latency spread over
  the slices in flight; what passes through registers is asked for in the first half of a slice's
  work and has to be there in the second.

Nothing here is fitted yet: on an H200 a multiply-add and an instruction a clock bind alike, which
is why the largest thread tile that registers hold is preferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import operand_traffic
from deepgemm_codegen.decide.simt.constraints import copied_vectors
from deepgemm_codegen.decide.simt.tile import SCHEDULERS, tile_of
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.simt.choice import SimtChoice
    from deepgemm_codegen.decide.simt.task import Task
    from deepgemm_codegen.decide.simt.tile import Tile

__all__ = ["charged_warps", "kernel_clocks", "predict", "slice_parts"]

COPY_ISSUE, STAGED_ISSUE = 2, 4
"""Instructions of one copied vector with its address: asynchronous, and further ones through
registers. Estimates; the first agrees with what ptxas makes of 128x128x8."""

LOOP_ISSUE = 30
"""Instructions of a slice beside those: waits, the barrier, the ring's offsets; as above."""

SYNC = 60
"""Clocks a slice that one warp a scheduler loses to the wait, the barrier and the first read."""

MANY_SUMS = 64
FOUR_WARPS, FOUR_ALONE = 1.2, 1.95
"""What the math takes, over the units' rate, in blocks of four warps whose threads have more sums
than `MANY_SUMS`, and where a multiprocessor has one such block. Measured: 64x256x16 by 2x2 warps
beside 2x4 in six products on an H200 (``benchmarks/notes.md``)."""

STORE_ISSUE = 8
"""Clocks of a warp's store to D in the epilogue, with its arithmetic; an estimate."""

BLOCK_START = 300
"""Clocks until a new block's first copy; as in mma.sync's model."""


def charged_warps(task: Task, tile: Tile) -> int:
    """Warps that a block takes the time of: a warp for every scheduler at least.

    Tiles of one or two warps were slower than the rest of the model has them wherever they were
    measured. Not where a tile is a whole product of a batch: others then lie beside it.
    """
    problem = task.problem
    whole = tile.tile_m >= problem.m and tile.tile_n >= problem.n
    return tile.warps if whole and problem.batch > 1 else max(tile.warps, SCHEDULERS)


def slice_parts(task: Task, tile: Tile, tile_k: int, resident: int) -> tuple[float, float, float]:
    """Clocks of one slice of the resident blocks: fp32 units, instructions, shared memory."""
    copies = copied_vectors(task, tile.tile_m, tile.tile_n, tile_k, WARP * tile.warps)
    issue = tile.issue * tile_k + LOOP_ISSUE
    for number, travel in zip(copies, (task.a, task.b), strict=True):
        issue += number * (COPY_ISSUE + STAGED_ISSUE * (travel.mechanism == "registers"))
    busy = max(charged_warps(task, tile) * resident, SCHEDULERS)
    fma = tile.fma * tile_k * busy / max(tile.warps, SCHEDULERS)
    sums = tile.tile_m * tile.tile_n // (WARP * tile.warps)
    if sums > MANY_SUMS and tile.warps <= SCHEDULERS:
        fma *= FOUR_WARPS if resident > 1 else FOUR_ALONE
    return fma, issue * busy / SCHEDULERS, tile.feed * tile_k * resident


def slice_flow(
    task: Task, tile: Tile, tile_k: int, resident: int, together: int, traffic: float
) -> tuple[float, float]:
    """(L2, device memory) clocks of one slice of the resident blocks, `together` on all SMs."""
    problem, machine = task.problem, task.machine
    tiles_m, tiles_n = -(-problem.m // tile.tile_m), -(-problem.n // tile.tile_n)
    span = problem.m / tiles_m + problem.n / tiles_n
    slices = max(-(-problem.k // tile_k), 1)
    l2 = span * tile_k * problem.element_bytes * resident / machine.l2_rate
    tiles = tiles_m * tiles_n * problem.batch
    return l2, traffic / (tiles * slices * machine.dram_rate) * together


def kernel_clocks(
    task: Task, tile: Tile, tile_k: int, stages: int, blocks: int, traffic: float
) -> float:
    """Clocks of the whole kernel.

    Args:
        task: what is computed, and where.
        tile: its tile.
        tile_k: elements of a slice.
        stages: ring slots.
        blocks: resident blocks of a multiprocessor.
        traffic: bytes of A and B from device memory.
    """
    problem, machine = task.problem, task.machine
    tiles = problem.batch * -(-problem.m // tile.tile_m) * -(-problem.n // tile.tile_n)
    slices = -(-problem.k // tile_k)
    per_wave = machine.sms * blocks
    full, rest = divmod(tiles, per_wave)
    out = output_bytes(problem) / (tiles * machine.dram_rate)
    first = BLOCK_START + machine.latency
    total = machine.launch + first
    depth = min(stages, max(slices + 1, 2)) - 1
    for waves, resident, moving in (
        (full, blocks, per_wave),
        (int(rest > 0), -(-rest // machine.sms), rest),
    ):
        if not waves:
            continue
        work = max(slice_parts(task, tile, tile_k, resident))
        flow = max(slice_flow(task, tile, tile_k, resident, moving, traffic))
        if slices > depth:
            flow = max(flow, waited(task, work, flow, depth))
        ready = max(tile.warps * resident / SCHEDULERS, 1.0)
        stores = tile.tile_m * tile.tile_n * resident / (WARP * SCHEDULERS * problem.vector)
        end = max(out * moving, stores * STORE_ISSUE)
        total += waves * (slices * (max(work, flow) + SYNC / ready) + end)
    return total


def waited(task: Task, work: float, flow: float, depth: int) -> float:
    """Clocks of a slice that waits for its copies.

    Of those by cp.async `depth` slices are on their way; what passes through registers is written
    to shared memory in the second half of the slice that asked for it in the first.
    """
    if task.staged:
        return work / 2 + task.machine.loaded_latency
    return (task.machine.loaded_latency + flow) / depth


def predict(task: Task, choice: SimtChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    problem, machine = task.problem, task.machine
    blocks = choice.min_blocks
    shape = choice.tile_m, choice.tile_n
    traffic = operand_traffic(problem, machine, *shape, blocks, choice.raster_group)
    tile = tile_of(*shape, choice.warps_m, choice.warps_n, task.fma_rate)
    if tile is None:
        raise InternalError(f"{choice} is no legal tile: the constraints should refuse it")
    tile_k, stages = choice.tile_k, choice.stages
    clocks = kernel_clocks(task, tile, tile_k, stages, blocks, traffic)
    tiles = problem.batch * -(-problem.m // choice.tile_m) * -(-problem.n // choice.tile_n)
    slices = -(-problem.k // choice.tile_k)
    resident = min(blocks, -(-tiles // machine.sms))
    together = min(machine.sms * blocks, tiles)
    values = (
        *slice_parts(task, tile, tile_k, resident),
        *slice_flow(task, tile, tile_k, resident, together, traffic),
    )
    names = ("fp32 units", "instructions", "shared memory", "L2", "device memory")
    parts = dict(zip(names, values, strict=True))
    depth = min(stages, max(slices + 1, 2)) - 1
    transfer = max(parts["L2"], parts["device memory"])
    work = max(values[:3])
    parts["latency"] = waited(task, work, transfer, depth) * (slices > depth)
    bound = max(parts, key=lambda part: parts[part])
    waves = tiles / (machine.sms * blocks)
    if slices * parts[bound] * waves < machine.launch + BLOCK_START + machine.latency:
        bound = "launch and latency"
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles,
        waves=waves,
        slices=slices,
        l2_bytes=parts["L2"] / resident * machine.l2_rate * tiles * slices,
        operand_bytes=traffic,
        dram_bytes=traffic + output_bytes(problem),
        parts=parts,
        bound=bound,
    )
