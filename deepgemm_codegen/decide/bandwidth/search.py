"""Choice: the cheapest candidate of the bandwidth family.

The menu has less than a hundred combinations, all of which are costed. What is predicted to take
hardly more than the least (`as_good_as`) is as good as equal. Of that the kind is taken that did
best where it was measured (`preference`). Each kind of ring has a search of its own. Resident
blocks are no choice beside: as many as registers, shared memory and tiles allow are on a
multiprocessor anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.bandwidth import constraints
from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
from deepgemm_codegen.decide.bandwidth.predict import kernel_clocks, tile_cost
from deepgemm_codegen.decide.bandwidth.registers import register_estimate
from deepgemm_codegen.decide.occupancy import register_caps, shared_block
from deepgemm_codegen.decide.schedule import grid
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.bandwidth.menu import BandwidthMenu
    from deepgemm_codegen.decide.bandwidth.task import Task

__all__ = ["BandwidthFound", "as_good_as", "preference", "resident_blocks", "search"]

_Numbers = tuple[int, int, int, int, int]
"""Fragments, warps along the long side and along k, stages, resident blocks."""

EVEN, EVEN_US = 0.03, 1.2
"""What the model cannot tell apart: a part of the time, and microseconds at most."""

WARPS, RING = 8, 4
"""What did best among such kernels where they were measured."""


class BandwidthFound(NamedTuple):
    """The winner of a search: its numbers, its predicted cost, and how many were costed."""

    choice: BandwidthChoice
    clocks: float
    costed: int


def search(task: Task, menu: BandwidthMenu) -> BandwidthFound | None:
    """The choice from a menu that is as good as the cheapest, or None when nothing on it is legal.

    Of equals the cheapest wins, then the first on the menu.
    """
    found = list(_costed(task, menu))
    if not found:
        return None
    best = min(found)
    if menu.ring == "registers":
        least = as_good_as(task, best[0])
        even = (one for one in found if one[0] <= least)
        best = min(even, key=lambda one: preference(task, *one))
    return BandwidthFound(BandwidthChoice(*best[1], ring=menu.ring), best[0], len(found))


def _costed(task: Task, menu: BandwidthMenu) -> Iterator[tuple[float, _Numbers]]:
    """Clocks and numbers of every legal choice on a menu."""
    for fragments, warps_long in menu.tile:
        lanes = task.sides.long_lanes_of(fragments)
        if constraints.columns(fragments, lanes.vector, k_major=lanes.k_major):
            continue
        if grid(task.tiles(fragments * warps_long * FRAGMENT_LONG)):
            continue
        tile = tile_cost(task, fragments, warps_long)
        for warps_k in menu.warps_k:
            if constraints.warps(warps_long * warps_k):
                break
            slices = max(task.slices(warps_k), 1)
            for stages in menu.stages:
                blocks = resident_blocks(task, menu, fragments, warps_long, warps_k, stages)
                if not blocks:
                    break
                used = min(stages, slices)
                clocks = kernel_clocks(task, tile, warps_k, used, slices, blocks, menu.ring)
                yield clocks, (fragments, warps_long, warps_k, stages, blocks)
                if stages >= slices:
                    break  # no more slices than there are


def as_good_as(task: Task, least: float) -> float:
    """Clocks up to which a candidate is as good as one that takes the least."""
    return least + min(EVEN * least, EVEN_US * task.machine.clock_mhz)


def preference(task: Task, clocks: float, numbers: tuple[int, ...]) -> tuple[int, int, float]:
    """What is as good as equal, the best first: several warps along k, then a deep ring."""
    _, _, warps_k, stages, _ = numbers
    if task.slices(warps_k) < 2:
        return 0, 0, clocks
    return -min(warps_k, WARPS), -min(stages, RING), clocks


def resident_blocks(
    task: Task, menu: BandwidthMenu, fragments: int, warps_long: int, warps_k: int, stages: int
) -> int:
    """Blocks to plan for: as many as fit and as there are tiles for; 0 when none is legal."""
    machine, ring = task.machine, menu.ring
    needed = task.shared_bytes(fragments, warps_long, warps_k, stages, ring)
    if shared_block(needed, machine):
        return 0
    slice_k, own_slots = task.warp_k * warps_k, ring == "shared"
    if constraints.whole_slices(task.problem.k, slice_k, own_slots=own_slots):
        return 0
    if constraints.deep(stages, own_slots=own_slots):
        return 0
    limit = machine.shared_per_sm // (needed + machine.shared_reserved)
    if not menu.min_blocks:
        tiles = task.tiles(fragments * warps_long * FRAGMENT_LONG)
        limit = min(limit, -(-tiles // machine.sms))
    caps = register_caps(WARP * warps_long * warps_k, machine)
    estimate = register_estimate(task, fragments, warps_k, stages, ring)
    return _blocks(menu, limit, caps, estimate)


def _blocks(menu: BandwidthMenu, limit: int, caps: tuple[int, ...], estimate: int) -> int:
    """Resident blocks whose registers fit too; what is given, or nothing, where that is."""
    most = limit if limit < len(caps) else len(caps) - 1
    while most and caps[most] < estimate:
        most -= 1
    if not menu.min_blocks:
        return most
    return menu.min_blocks[0] if menu.min_blocks[0] <= most else 0
