"""What a candidate costs: bytes, waves, clocks.

The model is a handful of sums that a person can redo with a pencil; it ranks candidates, and it
is not a simulator. All clocks are those of one multiprocessor, the busiest.

A *wave* is every multiprocessor holding its resident blocks. A multiprocessor with x of them
works through x slices at a time, for which it needs

- ``mma``: their FLOP at the rate of mma.sync, if four schedulers have a warp each;
- ``feed``: their traffic in shared memory at 128 bytes a clock (ldmatrix reads and the copy's
  writes), and the issue of the copy's instructions;
- ``flow``: their bytes from the L2, or all multiprocessors' bytes from device memory, and, after
  the slices that the prologue starts, never less than the latency spread over the slices in
  flight (Little's law).

mma and feed overlap imperfectly: together they take the root of their squares, which fits the
best open mma.sync kernels on an H200 (128x256x64 tile at 4096-cubed, 64x128x64 at 1024-cubed)
within ten percent. Barriers and latencies inside a slice come on top, shared by the warps of a
scheduler. The longer of work and flow counts in full and the shorter in part.
"""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.mma_sync.pipeline import useful_stages
from deepgemm_codegen.decide.mma_sync.registers import fragment_buffers
from deepgemm_codegen.decide.occupancy import SCHEDULERS
from deepgemm_codegen.decide.prediction import Prediction, output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes, operand_traffic
from deepgemm_codegen.plan.layout import swizzle_bytes_for
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["predict"]

SHARED_RATE = 128
"""Bytes a clock of a multiprocessor's shared memory: 32 banks of 4 bytes."""

SYNC = 100
"""Clocks a slice that one warp a scheduler loses to the wait and the barrier."""

STEP = (10, 40)
"""Clocks a fragment set that it loses to ldmatrix: fragments prefetched, or loaded as needed."""

OVERLAP = 0.1
"""Part of the shorter of work and flow that the longer does not hide."""

COPY_ISSUE = 4
"""Clocks of the load/store unit for one warp's copy instruction, whatever its width: what the
write of 512 bytes to shared memory takes, so that narrower vectors cost time of their own."""

STAGED_ISSUE = 6
"""Further clocks of a copy through registers: a load, a test, and the store apart."""

PANEL_TRAFFIC = {128: 1.0, 64: 1.05, 32: 1.3, 16: 2.0}
"""Bytes moved a useful byte by panel width: a panel of 16 bytes uses half of each 32-byte sector
of the L2, one of 32 half of what device memory delivers at once."""

BLOCK_START = 300
"""Clocks until a new block's first copy: launch of the block, its arguments, its addresses."""

SLAB = 8 / SHARED_RATE
"""Clocks an element of D that the epilogue's fp32 slab is written and read."""

STORE_ISSUE = 4
"""Clocks of the load/store unit for one warp's store to D (or load of C)."""

FRAGMENT_FINISH = 80
"""Clocks of latency a 16-row step of the epilogue: slab write, barrier, read, store."""


def _math_clocks(flop: float, machine: Machine) -> float:
    """Clocks of a multiprocessor's math; none where it has no hardware: then k is 0."""
    return flop / machine.mma_rate if machine.mma_rate else 0.0


def tile_clocks(
    machine: Machine, element_bytes: int, tile_m: int, tile_n: int, warps_m: int, warps_n: int
) -> tuple[float, float]:
    """(mma, shared) clocks of one tile and one element of k.

    Each warp reads its rows of A and columns of B through ldmatrix; the copy writes each once.
    """
    mma = _math_clocks(2 * tile_m * tile_n, machine)
    reads = tile_m * warps_n + tile_n * warps_m
    shared = (reads + tile_m + tile_n) * element_bytes / SHARED_RATE
    return mma, shared


def copy_clocks(problem: Problem) -> tuple[float, float]:
    """Issue clocks of the copy of one row of A and one column of B, and one element of k.

    Beyond those of the shared-memory write itself, which `tile_clocks` counts.
    """
    rates = []
    for travel in (problem.a, problem.b):
        vector_bytes = travel.vector_bytes * WARP
        issue = COPY_ISSUE - vector_bytes / SHARED_RATE
        if travel.mechanism == "registers":
            issue += STAGED_ISSUE
        rates.append(issue * problem.element_bytes / vector_bytes)
    return rates[0], rates[1]


def scale_clocks(problem: Problem, tile_m: int, tile_k: int, warps_m: int, warps_n: int) -> float:
    """Issue clocks of loading scales by block for one tile and one element of k.

    Each warp loads those of its rows for itself, and one of its columns, once a slice. What
    multiplies by them is the addition of sums that leave the tensor core, or a few a slice.
    """
    if not problem.scaled:
        return 0.0
    loads = warps_n * tile_m // 8 + warps_m * warps_n * problem.halves
    return COPY_ISSUE * loads / tile_k


def finish_clocks(problem: Problem) -> float:
    """Issue clocks of the epilogue for one element of D."""
    accesses = 2 if problem.c_bytes else 1
    return SLAB + accesses * STORE_ISSUE / (WARP * problem.vector) + problem.step_clocks


def first_clocks(machine: Machine) -> float:
    """Clocks from a block's start until its first bytes arrive."""
    return BLOCK_START + machine.latency


def slice_loss(problem: Problem, tile_k: int) -> float:
    """Clocks a slice that one warp a scheduler loses to barriers and latencies."""
    fragment_k = problem.fragment_k
    return SYNC + STEP[fragment_buffers(tile_k, fragment_k) == 1] * tile_k / fragment_k


def roofline(problem: Problem, machine: Machine) -> float:
    """Clocks that no tile can beat: launch, first bytes, and the slower of math and memory."""
    flop = 2 * problem.batch * problem.m * problem.n * problem.k
    math = _math_clocks(flop / machine.sms, machine)
    bytes_moved = compulsory_bytes(problem) + output_bytes(problem)
    memory = bytes_moved / machine.dram_rate
    return machine.launch + first_clocks(machine) + max(math, memory)


class Fixed(NamedTuple):
    """What the clocks of all candidates for a problem share; see `fixed_of`.

    Attributes:
        sms: multiprocessors.
        dram_rate: bytes a clock of device memory.
        latency: clocks of a loaded memory.
        launch: clocks of the launch.
        first: clocks from a block's start until its first bytes arrive.
        c_latency: clocks that an epilogue waits for C; 0 without one.
        out: clocks in which device memory writes D and reads C.
    """

    sms: int
    dram_rate: float
    latency: float
    launch: float
    first: float
    c_latency: float
    out: float


def fixed_of(problem: Problem, machine: Machine) -> Fixed:
    """The same for a problem on a machine."""
    return Fixed(
        sms=machine.sms,
        dram_rate=machine.dram_rate,
        latency=machine.loaded_latency,
        launch=machine.launch,
        first=first_clocks(machine),
        c_latency=machine.latency if problem.c_bytes else 0.0,
        out=output_bytes(problem) / machine.dram_rate,
    )


class Candidate(NamedTuple):
    """What of a kernel its clocks depend on.

    Attributes:
        tiles: blocks of the grid.
        tile_k: elements of a slice.
        slices: of k.
        loss: clocks of a slice's barriers and latencies, one warp a scheduler.
        warps: of a block.
        warp_rows: rows of a warp tile.
        stages: ring slots.
        blocks: resident blocks of a multiprocessor.
        mma: tensor-core clocks of one tile and one element of k.
        feed: shared-memory and issue clocks of the same.
        flow: L2 clocks of the same.
        finish: clocks of one tile's epilogue.
        dram_bytes: bytes of A and B from device memory.
    """

    tiles: int
    tile_k: int
    slices: int
    loss: float
    warps: int
    warp_rows: int
    stages: int
    blocks: int
    mma: float
    feed: float
    flow: float
    finish: float
    dram_bytes: float


def kernel_clocks(fixed: Fixed, candidate: Candidate) -> float:
    """Clocks of the whole kernel."""
    sms, dram_rate, latency, launch, first, c_latency, out = fixed
    (
        tiles, tile_k, slices, loss, warps, warp_rows, stages, blocks, mma, feed, flow, finish,
        dram_bytes,
    ) = candidate  # fmt: skip
    depth = min(stages, useful_stages(slices)) - 1
    per_wave = sms * blocks
    full, rest = divmod(tiles, per_wave)
    mma *= tile_k
    feed *= tile_k
    flow *= tile_k
    dram = dram_bytes / (tiles * slices * dram_rate) if slices else 0.0
    out /= tiles
    first += flow
    last = FRAGMENT_FINISH / 16 * warp_rows + c_latency
    # Beyond the first wave, a block's start hides behind the other resident blocks.
    total = launch + first + (full - (rest == 0)) * first / blocks
    for count, resident, moving in (
        (full, blocks, per_wave),
        (rest > 0, -(-rest // sms), rest),
    ):
        if not count:
            continue
        ready = resident * warps
        math = mma * resident if ready >= SCHEDULERS else mma * SCHEDULERS / warps
        move = feed * resident
        work = sqrt(math * math + move * move)
        work += loss * SCHEDULERS / ready if ready > SCHEDULERS else loss
        memory = max(flow * resident, dram * moving)
        # The slices that the prologue starts arrive one after the other; each later one is
        # started `depth` slices ahead, and waits if its latency takes longer than those.
        late = (latency + memory) / depth - memory
        if late > 0 and slices:
            memory += late * (slices - depth) / slices
        slice_clocks = work + OVERLAP * memory if work > memory else memory + OVERLAP * work
        total += count * (slices * slice_clocks + max(finish * resident, out * moving) + last)
    return total


def waste_of(
    problem: Problem, tile_m: int, tile_n: int, tile_k: int, threads: int
) -> tuple[float, float]:
    """Bytes moved a useful byte of A and of B, by `PANEL_TRAFFIC`."""
    size = problem.element_bytes
    a_row = (tile_k if problem.a_k_major else tile_m) * size
    b_row = (tile_k if problem.b_k_major else tile_n) * size
    return (
        waste_of_panel(a_row, threads * problem.a.vector_bytes),
        waste_of_panel(b_row, threads * problem.b.vector_bytes),
    )


@cache
def waste_of_panel(row_bytes: int, pass_bytes: int) -> float:
    """The same of rows of so many bytes, filled so many at a time; 0 where no panel serves."""
    return PANEL_TRAFFIC.get(swizzle_bytes_for(row_bytes, pass_bytes), 0.0)


def predict(problem: Problem, machine: Machine, choice: MmaSyncChoice) -> Prediction:
    """The cost of one legal choice, with its parts."""
    tile_m, tile_n, tile_k = choice.tile_m, choice.tile_n, choice.tile_k
    warps = choice.warps_m * choice.warps_n
    size = problem.element_bytes
    tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
    slices = -(-problem.k // tile_k)
    mma, shared = tile_clocks(machine, size, tile_m, tile_n, choice.warps_m, choice.warps_n)
    copy_a, copy_b = copy_clocks(problem)
    feed = shared + tile_m * copy_a + tile_n * copy_b
    feed += scale_clocks(problem, tile_m, tile_k, choice.warps_m, choice.warps_n)
    a_waste, b_waste = waste_of(problem, tile_m, tile_n, tile_k, WARP * warps)
    rows = problem.m / -(-problem.m // tile_m)  # rows beyond the matrix are never read
    columns = problem.n / -(-problem.n // tile_n)
    flow = (rows * a_waste + columns * b_waste) * (size / machine.l2_rate)
    waste = (problem.m * a_waste + problem.n * b_waste) / (problem.m + problem.n)
    blocks = choice.min_blocks
    traffic = operand_traffic(problem, machine, tile_m, tile_n, blocks, choice.raster_group)
    dram_bytes = traffic * waste
    candidate = Candidate(
        tiles=tiles,
        tile_k=tile_k,
        slices=slices,
        loss=slice_loss(problem, tile_k),
        warps=warps,
        warp_rows=tile_m // choice.warps_m,
        stages=choice.stages,
        blocks=blocks,
        mma=mma,
        feed=feed,
        flow=flow,
        finish=finish_clocks(problem) * tile_m * tile_n,
        dram_bytes=dram_bytes,
    )
    clocks = kernel_clocks(fixed_of(problem, machine), candidate)
    per_wave = machine.sms * blocks
    resident = min(blocks, -(-tiles // machine.sms))
    dram = dram_bytes / (tiles * slices * machine.dram_rate) if slices else 0.0
    parts = {
        "tensor cores": mma * tile_k * max(resident, SCHEDULERS / warps),
        "shared memory": feed * tile_k * resident,
        "L2": flow * tile_k * resident,
        "device memory": dram * min(tiles, per_wave),
    }
    depth = min(choice.stages, useful_stages(slices)) - 1
    transfer = max(parts["L2"], parts["device memory"])
    late = max((machine.loaded_latency + transfer) / depth - transfer, 0.0)
    parts["latency"] = (transfer + late) * (slices > depth)
    bound = max(parts, key=lambda part: parts[part])
    if slices * parts[bound] * tiles / per_wave < machine.launch + first_clocks(machine):
        bound = "launch and latency"
    return Prediction(
        clocks=clocks,
        us=clocks / machine.clock_mhz,
        tiles=tiles,
        waves=tiles / per_wave,
        slices=slices,
        l2_bytes=flow * machine.l2_rate * tiles * problem.k,
        operand_bytes=dram_bytes,
        dram_bytes=dram_bytes + output_bytes(problem),
        parts=parts,
        bound=bound,
    )
