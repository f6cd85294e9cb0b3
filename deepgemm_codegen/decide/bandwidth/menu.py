"""What each question of the bandwidth family may be answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.abreast import ABREAST
from deepgemm_codegen.decide.bandwidth.constraints import MAX_WARPS
from deepgemm_codegen.decide.menus import MAX_TILE
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG, RingPlace

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = ["LEGAL", "BandwidthMenu", "measured", "menu_for", "rings_for"]

MAX_BLOCKS = 32
"""Resident blocks that any architecture holds."""

MAX_STAGES = 8
"""Slices in flight at most: more do not fit the registers."""

STAGES: tuple[int, ...] = (1, 2, 3, 4, 6)
"""Slices in flight that the tree tries."""

WARPS_LONG: tuple[int, ...] = (1,)
WARPS_K: tuple[int, ...] = (1, 2, 4, 8, 16)
"""Warps that the tree tries along D's long side and along k, fewest first. Along the long side one
was as good as two or four in 22 problems of 23 (`benchmarks/results/bandwidth_sweep_h200.json`)."""

FRAGMENTS = {True: (1, 2, 4), False: (2, 4, 8)}
"""Fragments of a warp that the tree tries, by whether k is contiguous in the long operand."""

SHARED_FRAGMENTS, SHARED_STAGES = (1, 2, 3, 4, 6, 7, 8, 14, 16), (2, 3, 4, 5, 6, 8)
"""Those that it tries for a ring in shared memory, which registers do not limit."""

SHARED_WARPS_K = (2, 4, 8, 16)
"""The same of warps along k: one alone took 8 % longer at 128256 columns."""

MEASURED_ON, MEASURED_FROM, MEASURED_K = 90, 32_000_000, 4096
"""The architecture whose GPU told where a ring in shared memory pays; bytes of the long operand,
and k, from which on it was asked (`benchmarks/results/bandwidth_sweep_rings_h200.json`)."""

LEGAL: dict[str, range] = {
    "tile_m": range(FRAGMENT_LONG, MAX_TILE + 1, FRAGMENT_LONG),
    "tile_n": range(FRAGMENT_LONG, MAX_TILE + 1, FRAGMENT_LONG),
    "warps_m": range(1, MAX_WARPS + 1),
    "warps_n": range(1, MAX_WARPS + 1),
    "warps_k": range(1, MAX_WARPS + 1),
    "stages": range(1, MAX_STAGES + 1),
    "min_blocks": range(1, MAX_BLOCKS + 1),
    **ABREAST,
}
"""Every value that an override may ask for."""


class BandwidthMenu(NamedTuple):
    """The values that each question may be answered with; an override leaves one of its own.

    Attributes:
        tile: (fragments, warps along the long side) of a block tile.
        warps_k, stages: see `BandwidthChoice`.
        min_blocks: resident blocks; empty for as many as registers allow and tiles need.
        ring: what holds the slices.
    """

    tile: tuple[tuple[int, int], ...]
    warps_k: tuple[int, ...] = WARPS_K
    stages: tuple[int, ...] = STAGES
    min_blocks: tuple[int, ...] = ()
    ring: RingPlace = "registers"


def measured(arch: Arch, batch: int, k: int, long: int) -> bool:
    """Whether a ring in shared memory was measured for such a problem.

    Args:
        arch: where.
        batch: products.
        k: of each.
        long: bytes that the long operand has for each k.
    """
    there = arch.number == MEASURED_ON and batch == 1
    return there and k >= MEASURED_K and k * long >= MEASURED_FROM


def rings_for(task: Task, overrides: Overrides, arch: Arch) -> tuple[RingPlace, ...]:
    """The rings that a problem may have, the user's alone where it is given.

    By itself the tree takes a ring in shared memory where it was measured: single products on
    Hopper whose long operand is large and whose k is long. Rows of two instructions have it there
    alone, and elsewhere no kernel of this family, unless the user asks for one.
    """
    barred = task.own_slots or (overrides.abreast or 1) > 1
    asked = overrides.family == "bandwidth" or overrides.warps_k is not None
    if overrides.ring == "shared":
        return () if barred else ("shared",)
    if overrides.ring == "registers":
        return ("registers",)
    rings: tuple[RingPlace, ...] = ("registers",) if task.instructions == 1 or asked else ()
    problem = task.problem
    long = task.long * problem.element_bytes
    if not barred and measured(arch, problem.batch, problem.k, long):
        rings += ("shared",)
    return rings


def menu_for(task: Task, given: dict[str, int], ring: RingPlace = "registers") -> BandwidthMenu:
    """The tree's menu for a problem and a ring, filtered by overrides with legal values."""
    sides = task.sides
    fragments: tuple[int, ...] = FRAGMENTS[sides.long_lanes.k_major]
    along_k, depths = WARPS_K, STAGES
    if ring == "shared":
        fragments, along_k, depths = SHARED_FRAGMENTS, SHARED_WARPS_K, SHARED_STAGES
    if not given:
        tiles = tuple((f, w) for w in WARPS_LONG for f in fragments)
        return BandwidthMenu(tiles, along_k, depths, ring=ring)
    short, long = ("m", "n") if sides.short == "m" else ("n", "m")
    wanted = given.get(f"tile_{long}", 0)
    counts = [given[f"warps_{long}"]] if f"warps_{long}" in given else list(WARPS_LONG)
    if wanted:
        whole = wanted // FRAGMENT_LONG
        pairs = [(whole // w, w) for w in counts if whole % w == 0]
    else:
        pairs = [(f, w) for w in counts for f in fragments]
    if given.get(f"tile_{short}", sides.tile) != sides.tile or given.get(f"warps_{short}", 1) != 1:
        pairs = []
    most = MAX_WARPS // given.get("abreast", 1)
    warps_k = (given["warps_k"],) if "warps_k" in given else along_k
    return BandwidthMenu(
        tile=tuple(pair for pair in pairs if pair[1] <= most) or tuple(pairs),
        warps_k=tuple(count for count in warps_k if count <= most) or warps_k,
        stages=(given["stages"],) if "stages" in given else depths,
        min_blocks=(given["min_blocks"],) if "min_blocks" in given else (),
        ring=ring,
    )
