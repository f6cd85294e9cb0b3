"""What resident blocks share of a multiprocessor: the same for all families.

``__launch_bounds__(threads, min_blocks)`` tells ptxas the cap of a thread's registers. The
constraints take plain numbers and return None, or (got, limit) where a candidate breaks them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.misses import Miss

__all__ = [
    "MAX_REGISTERS",
    "RESIDENT",
    "SCHEDULERS",
    "blocks_sm",
    "occupancy_answer",
    "register_cap",
    "register_caps",
    "registers",
    "shared_block",
    "shared_sm",
    "threads_sm",
]

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


def shared_block(needed: int, machine: Machine) -> Miss | None:
    """The dynamic shared memory of a block is what it may ask for."""
    limit = machine.shared_per_block
    return (needed, limit) if needed > limit else None


def shared_sm(needed: int, blocks: int, machine: Machine) -> Miss | None:
    """The planned resident blocks fit a multiprocessor, each with the driver's reserve."""
    got = (needed + machine.shared_reserved) * blocks
    return (got, machine.shared_per_sm) if got > machine.shared_per_sm else None


def registers(estimate: int, threads: int, blocks: int, machine: Machine) -> Miss | None:
    """The estimate fits the cap that ``__launch_bounds__(threads, blocks)`` gives a thread."""
    cap = register_cap(threads, blocks, machine)
    return (estimate, cap) if estimate > cap else None


def threads_sm(threads: int, blocks: int, machine: Machine) -> Miss | None:
    """The planned resident blocks' threads fit a multiprocessor."""
    got = threads * blocks
    return (got, machine.threads_per_sm) if got > machine.threads_per_sm else None


def blocks_sm(blocks: int, machine: Machine) -> Miss | None:
    """A multiprocessor holds so many blocks and no more."""
    return (blocks, machine.blocks_per_sm) if blocks > machine.blocks_per_sm else None


def occupancy_answer(blocks: int, estimate: int, threads: int, machine: Machine) -> tuple[str, str]:
    """Resident blocks of so many threads, and the registers that they leave each."""
    cap = register_cap(threads, blocks, machine)
    return counted(blocks, "block"), f"about {estimate} registers a thread under a cap of {cap}"


RESIDENT: dict[str, str] = {
    "shared_block": (
        "{got} bytes of shared memory a block (0 of them static); {machine} has {limit}"
    ),
    "shared_sm": (
        "{got} bytes of shared memory in the resident blocks; {machine} has {limit} an SM"
    ),
    "registers": "about {got} registers a thread; the cap is {limit}",
    "threads_sm": "{got} threads in the resident blocks; {machine} holds {limit} an SM",
    "blocks_sm": "{got} resident blocks; {machine} holds {limit} an SM",
}
"""How these constraints read where they are broken, in the order that most families ask them."""
