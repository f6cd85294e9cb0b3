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


NARROW, NARROW_ELEMENTS = 12, 2
"""More of them where vectors along k of the short operand have so few elements, beside a long one
across k: a slice has four loads of them for one of 16 bytes. Two fragments in four warps spilled 48
bytes under a cap of 56, and take 62."""

SINGLE_TAIL = 20
"""More where elements of a long operand across k are loaded one by one, and tested for k's end."""

STRIDED = 45
"""More for each slice on its way where elements of the short side are loaded one by one over a
stride that is an argument, and tested for the end of k: each has a product of 64 bits for its
address. From sm_100 on ptxas took 255 for two slices, and spilled 40 to 320 bytes under lower
caps."""

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
    if sides.short_lanes.k_major and not lanes.k_major:
        rest += NARROW if sides.short_lanes.vector <= NARROW_ELEMENTS else 0
    if not lanes.k_major and lanes.vector == 1 and _has_tail(task, warps_k):
        rest += SINGLE_TAIL
    if sides.short_lanes.vector == 1:
        rest += SINGLE
        if _is_strided(task) and _has_tail(task, warps_k):
            rest += STRIDED * stages
    if stages < task.slices(warps_k) < 2 * stages:
        rest += LAID_OUT
    return stages * (long + short) + 4 * fragments * task.instructions + rest


def _has_tail(task: Task, warps_k: int) -> bool:
    """Whether k may end within a slice."""
    problem = task.problem
    return problem.dynamic_k or problem.k % (task.warp_k * warps_k) > 0


def _is_strided(task: Task) -> bool:
    """Whether the short operand's elements lie a stride apart that only a launch tells."""
    problem = task.problem
    dynamic = problem.dynamic_m if task.sides.short == "m" else problem.dynamic_n
    return dynamic and not task.sides.short_lanes.k_major
