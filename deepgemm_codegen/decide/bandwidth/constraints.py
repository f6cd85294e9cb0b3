"""What rules a candidate of the bandwidth family out: each constraint by name, with its reason.

As in mma.sync's constraints: plain numbers in, None or (got, limit) out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.bandwidth.registers import register_estimate
from deepgemm_codegen.decide.occupancy import (
    RESIDENT,
    blocks_sm,
    registers,
    shared_block,
    shared_sm,
    threads_sm,
)
from deepgemm_codegen.decide.schedule import grid
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.decide.misses import Miss

__all__ = ["MAX_WARPS", "PHRASES", "violations"]

MAX_WARPS = 16
"""Warps of a block; above 512 threads the register cap falls below 128 a thread."""

SLAB_COLUMNS = 32
"""Columns of a slab that vectors of four or eight make free of bank conflicts."""


def warps(count: int) -> Miss | None:
    """At most 16 warps a block, so that each thread may keep 128 registers."""
    return (count, MAX_WARPS) if count > MAX_WARPS else None


def columns(fragments: int, vector: int, *, k_major: bool) -> Miss | None:
    """Where k is not contiguous two columns share a register, and a slab whole groups of banks.

    Got is the long side of a warp, wanted the multiple that it must be.
    """
    step = FRAGMENT_LONG * 2 if vector <= 2 else SLAB_COLUMNS
    got = fragments * FRAGMENT_LONG
    return None if k_major or got % step == 0 else (got, step)


def whole_slices(k: int, slice_k: int, *, own_slots: bool) -> Miss | None:
    """A ring in shared memory takes whole slices: got is what of k is left over."""
    left = k % slice_k if own_slots else 0
    return (left, 0) if left else None


def deep(stages: int, *, own_slots: bool) -> Miss | None:
    """In shared memory a slot is filled while another is multiplied."""
    return (stages, 2) if own_slots and stages < 2 else None


PHRASES: dict[str, str] = {
    "warps": "{got} warps a block; the limit is {limit}",
    "grid": "{got} blocks; a grid holds {limit}",
    "columns": "{got} columns of a warp are no multiple of {limit}",
    "deep": "{got} stage in shared memory; the least is {limit}",
    "whole_slices": "{got} elements of k are no whole slice of a ring in shared memory",
    "registers": RESIDENT["registers"],  # before shared memory, here
    **RESIDENT,
}
"""Every constraint, in the order they are asked, and how a broken one reads."""


def violations(task: Task, choice: BandwidthChoice) -> Iterator[tuple[str, int, int]]:
    """(constraint, got, limit) of everything that is wrong with a choice, in order."""
    machine = task.machine
    fragments, count = choice.fragments, choice.warps_long * choice.warps_k
    long_tile = fragments * choice.warps_long * FRAGMENT_LONG
    threads, blocks = WARP * count, choice.min_blocks
    lanes = task.sides.long_lanes_of(fragments)
    own_slots = choice.ring == "shared"
    estimate = register_estimate(task, fragments, choice.warps_k, choice.stages, choice.ring)
    needed = task.shared_bytes(
        fragments, choice.warps_long, choice.warps_k, choice.stages, choice.ring
    )
    slice_k = task.warp_k * choice.warps_k
    for name, miss in (
        ("warps", warps(count)),
        ("grid", grid(task.tiles(long_tile))),
        ("columns", columns(fragments, lanes.vector, k_major=lanes.k_major)),
        ("deep", deep(choice.stages, own_slots=own_slots)),
        ("whole_slices", whole_slices(task.problem.k, slice_k, own_slots=own_slots)),
        ("registers", registers(estimate, threads, blocks, machine)),
        ("shared_block", shared_block(needed, machine)),
        ("shared_sm", shared_sm(needed, blocks, machine)),
        ("threads_sm", threads_sm(threads, blocks, machine)),
        ("blocks_sm", blocks_sm(blocks, machine)),
    ):
        if miss is not None:
            yield name, *miss
