"""Question: how many registers does a thread need, and how many blocks may share an SM?

``__launch_bounds__(threads, min_blocks)`` tells ptxas the cap. The estimate here must not be
under what ptxas needs to keep out of local memory; ``tests/decide`` compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.plan import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["MAX_REGISTERS", "MIN_BLOCKS", "accumulators_of", "most_blocks", "register_cap", "register_estimate", "staged_registers"]

MAX_REGISTERS = 255
"""Registers of a thread, on every architecture."""

MIN_BLOCKS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Resident blocks that the tree tries to plan for, fewest first."""

REGISTER_UNIT = 8
"""Registers are handed out to a warp in units of 8 a thread."""

ADDRESSING = 40
"""Registers for pointers, offsets, loop counters and predicates; read off ptxas, see above."""


def accumulators_of(tile_m: int, tile_n: int, warps: int) -> int:
    """fp32 sums a thread holds."""
    return tile_m * tile_n // (WARP * warps)


def register_estimate(tile_m: int, tile_n: int, warps_m: int, warps_n: int) -> int:
    """Registers a thread needs beside those of a staged copy.

    Sums, one set of fragments (four registers a fragment of A, two a fragment of B), addresses.
    """
    fragments = tile_m // warps_m // 16 * 4 + tile_n // warps_n // 8 * 2
    return accumulators_of(tile_m, tile_n, warps_m * warps_n) + fragments + ADDRESSING


def staged_registers(problem: Problem, tile_m: int, tile_n: int, tile_k: int, threads: int) -> int:
    """Registers that hold the next slice while a copy through registers is under way.

    A vector of two bytes takes a register of its own.
    """
    total = 0
    for travel, rows in ((problem.a, tile_m), (problem.b, tile_n)):
        if travel.mechanism == "registers":
            width = travel.vector_bytes
            vectors = -(-rows * tile_k * problem.element_bytes // (threads * width))
            total += vectors * max(width // 4, 1)
    return total


def register_cap(threads: int, blocks: int, machine: Machine) -> int:
    """Registers a thread may have so that `blocks` blocks are resident."""
    share = machine.registers_per_sm // (threads * blocks)
    return min(share // REGISTER_UNIT * REGISTER_UNIT, MAX_REGISTERS)


def most_blocks(machine: Machine, registers: int, threads: int) -> int:
    """Most resident blocks that registers and threads allow; 0 if not even one."""
    blocks = min(machine.blocks_per_sm, machine.threads_per_sm // threads)
    while blocks and register_cap(threads, blocks, machine) < registers:
        blocks -= 1
    return blocks
