"""Choice: the cheapest candidate of the bandwidth family.

The menu has a few hundred combinations, of which all but the resident blocks are costed: more of
those are never worse, as far as registers allow and tiles need.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.decide.bandwidth import constraints
from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
from deepgemm_codegen.decide.bandwidth.predict import kernel_clocks, tile_cost
from deepgemm_codegen.decide.bandwidth.registers import register_estimate
from deepgemm_codegen.decide.occupancy import register_caps
from deepgemm_codegen.decide.schedule import grid
from deepgemm_codegen.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.bandwidth.menu import BandwidthMenu
    from deepgemm_codegen.decide.bandwidth.task import Task

__all__ = ["BandwidthFound", "resident_blocks", "search"]


class BandwidthFound(NamedTuple):
    """The winner of a search: its numbers, its predicted cost, and how many were costed."""

    choice: BandwidthChoice
    clocks: float
    costed: int


def search(task: Task, menu: BandwidthMenu) -> BandwidthFound | None:
    """The cheapest choice from a menu, or None when nothing on it is legal.

    Of equal costs the first on the menu wins.
    """
    least, best, costed = inf, None, 0
    for fragments, warps_long in menu.tile:
        lanes = task.sides.long_lanes_of(fragments)
        if constraints.columns(fragments, lanes.vector, k_major=lanes.k_major):
            continue
        if grid(task.tiles(fragments * warps_long * FRAGMENT_LONG)):
            continue
        tile = tile_cost(task, fragments, warps_long)
        estimates = [(count, register_estimate(task, fragments, count)) for count in menu.stages]
        for warps_k in menu.warps_k:
            if constraints.warps(warps_long * warps_k):
                break
            slices = max(task.slices(warps_k), 1)
            limit = _block_limit(task, menu, fragments, warps_long, warps_k)
            caps = register_caps(WARP * warps_long * warps_k, task.machine)
            for stages, estimate in estimates:
                blocks = _blocks(menu, limit, caps, estimate)
                if not blocks:
                    break
                costed += 1
                clocks = kernel_clocks(task, tile, warps_k, min(stages, slices), blocks)
                if clocks < least:
                    least, best = clocks, (fragments, warps_long, warps_k, stages, blocks)
                if stages >= slices:
                    break  # no more slices than there are
    return None if best is None else BandwidthFound(BandwidthChoice(*best), least, costed)


def resident_blocks(
    task: Task, menu: BandwidthMenu, fragments: int, warps_long: int, warps_k: int, stages: int
) -> int:
    """Blocks to plan for: as many as fit and as there are tiles for; 0 when none is legal."""
    limit = _block_limit(task, menu, fragments, warps_long, warps_k)
    caps = register_caps(WARP * warps_long * warps_k, task.machine)
    return _blocks(menu, limit, caps, register_estimate(task, fragments, stages))


def _block_limit(
    task: Task, menu: BandwidthMenu, fragments: int, warps_long: int, warps_k: int
) -> int:
    """Resident blocks that shared memory allows, and that tiles need where it is our choice."""
    machine = task.machine
    long_tile = fragments * warps_long * FRAGMENT_LONG
    slabs = warps_k * task.sides.tile * long_tile * 4
    if constraints.shared_block(slabs, machine):
        return 0
    most = machine.shared_per_sm // (slabs + machine.shared_reserved)
    return most if menu.min_blocks else min(most, -(-task.tiles(long_tile) // machine.sms))


def _blocks(menu: BandwidthMenu, limit: int, caps: tuple[int, ...], estimate: int) -> int:
    """Resident blocks whose registers fit too; what is given, or nothing, where that is."""
    most = limit if limit < len(caps) else len(caps) - 1
    while most and caps[most] < estimate:
        most -= 1
    if not menu.min_blocks:
        return most
    return menu.min_blocks[0] if menu.min_blocks[0] <= most else 0
