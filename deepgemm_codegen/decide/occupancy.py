"""How many registers a thread may have beside how many resident blocks: the same for all families.

``__launch_bounds__(threads, min_blocks)`` tells ptxas that cap.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from deepgemm_codegen.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine

__all__ = ["MAX_REGISTERS", "SCHEDULERS", "register_cap", "register_caps"]

MAX_REGISTERS = 255
"""Registers of a thread, on every architecture."""

SCHEDULERS = 4
"""Warp schedulers of a multiprocessor; each owns a quarter of its registers."""

REGISTER_UNIT = 8
"""Registers are handed out to a warp in units of 8 a thread."""


def register_cap(threads: int, blocks: int, machine: Machine) -> int:
    """Registers a thread may have so that `blocks` blocks are resident.

    Each of the four schedulers owns a quarter of the register file, so what counts are the warps
    of the fullest: ten warps leave room for 168 registers a thread, not for 200.
    """
    warps = -(-threads * blocks // WARP)
    fullest = -(-warps // SCHEDULERS)
    share = machine.registers_per_sm // SCHEDULERS // (fullest * WARP)
    return min(share // REGISTER_UNIT * REGISTER_UNIT, MAX_REGISTERS)


@cache
def register_caps(threads: int, machine: Machine) -> tuple[int, ...]:
    """`register_cap` by number of resident blocks, up to the most that threads allow."""
    most = min(machine.blocks_per_sm, machine.threads_per_sm // threads)
    caps = (register_cap(threads, blocks, machine) for blocks in range(1, most + 1))
    return (MAX_REGISTERS, *caps)
