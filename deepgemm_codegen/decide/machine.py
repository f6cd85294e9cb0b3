"""An architecture's facts in the units of the cost model: clocks and bytes a clock."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch

__all__ = ["Machine", "machine_of"]

LAUNCH_US = 1.0
"""A launch with its grid's ramp up and drain, microseconds; an empty kernel in a graph takes 0.6
on an H200."""

LATENCY_NS = 400
"""A read from device memory with little else under way: 564 clocks of an A100, 702 of an H100;
published microbenchmarks lie between 350 and 500 ns on every architecture here."""

LOADED = 1.5
"""How much longer such a read takes when the memory is busy; it sets the bytes in flight."""

DRAM_EFFICIENCY = 0.92
"""Part of the datasheet's bandwidth that reads reach: 4,515 of 4,800 GB/s on an H200."""

L2_SHARE = 0.6
"""Part of the L2 that operands in reuse can count on; the rest holds D and what streams past."""


class Machine(NamedTuple):
    """What the constraints and the cost model ask of a GPU; clocks are the multiprocessor's.

    Attributes:
        name: ``sm_80``.
        sms: multiprocessors.
        clock_mhz: clock that turns clocks into microseconds.
        mma_rate: FLOP a clock of one multiprocessor through mma.sync, for the operands' type; 0
            where there is no hardware for it.
        l2_rate: bytes a clock from the L2 to one multiprocessor.
        wgmma_rate: the same through wgmma.
        tma_rate: bytes a clock from the L2 to one multiprocessor through TMA; 0 where there is
            none.
        dram_rate: bytes a clock from device memory to all of them.
        l2_bytes: bytes of L2 that operands in reuse can count on.
        launch: clocks of a launch.
        latency: clocks of a read from an idle memory.
        loaded_latency: clocks of a read from a busy one.
        shared_per_block, shared_per_sm, shared_reserved: bytes, see `deepgemm_codegen.arch`.
        threads_per_sm, blocks_per_sm, registers_per_sm: see there.
    """

    name: str
    sms: int
    clock_mhz: int
    mma_rate: int
    l2_rate: int
    wgmma_rate: int
    tma_rate: int
    dram_rate: float
    l2_bytes: float
    launch: float
    latency: float
    loaded_latency: float
    shared_per_block: int
    shared_per_sm: int
    shared_reserved: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int


@cache
def machine_of(arch: Arch, dtype: str) -> Machine:
    """The machine that an architecture's chosen GPU is to operands of a type."""
    gpu = arch.gpu
    latency = LATENCY_NS * gpu.clock_mhz / 1e3
    return Machine(
        name=arch.name,
        sms=gpu.sms,
        clock_mhz=gpu.clock_mhz,
        mma_rate=arch.mma_rate(dtype),
        l2_rate=arch.l2_bytes_per_clock,
        wgmma_rate=arch.wgmma_rate(dtype),
        tma_rate=arch.wgmma_l2_bytes_per_clock,
        dram_rate=gpu.memory_gbs * DRAM_EFFICIENCY * 1e3 / gpu.clock_mhz,
        l2_bytes=gpu.l2_mb * 1e6 * L2_SHARE,
        launch=LAUNCH_US * gpu.clock_mhz,
        latency=latency,
        loaded_latency=LOADED * latency,
        shared_per_block=arch.shared_per_block,
        shared_per_sm=arch.shared_per_sm,
        shared_reserved=arch.shared_reserved,
        threads_per_sm=arch.threads_per_sm,
        blocks_per_sm=arch.blocks_per_sm,
        registers_per_sm=arch.registers_per_sm,
    )
