"""Question: how many registers does a thread need, and how many blocks may share an SM?

Nothing but registers holds what is on its way from memory, so they are what the family runs on.
The estimate must not be under what ptxas needs to keep out of local memory; ``tests/decide``
compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.plan.bandwidth import RingPlace

__all__ = ["register_estimate"]

REST = 24
"""Registers beside slots and sums: pointers, counters, fragments being put together. Read off
ptxas, which kept 150 of 152 kernels within it, to the next cap that occupancy allows."""

SINGLE = 16
"""The same of an operand that is loaded one element at a time, beside a pointer a fragment."""


LAID_OUT = 8
"""More of them where the second turn of the ring is the last and not whole: ptxas lays both out."""

SLOTS = 36
"""Registers beside sums, operands and a pointer a fragment where a ring lies in shared memory."""


def register_estimate(
    task: Task, fragments: int, warps_k: int, stages: int, ring: RingPlace = "registers"
) -> int:
    """Registers a thread needs.

    What lies in shared memory comes to registers half a slice at a time.
    """
    if ring == "shared":
        sums = 4 * fragments * task.instructions
        return sums + 4 * fragments + 4 * task.short_rows + fragments + SLOTS
    long, short = task.slot_words(fragments)
    sides = task.sides
    lanes = sides.long_lanes_of(fragments)
    rest = REST + (fragments if lanes.k_major else 0)
    if lanes.vector == 1:
        rest += SINGLE + 2 * fragments
    if sides.short_lanes.vector == 1:
        rest += SINGLE
    if stages < task.slices(warps_k) < 2 * stages:
        rest += LAID_OUT
    return stages * (long + short) + 4 * fragments * task.instructions + rest
