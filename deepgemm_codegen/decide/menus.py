"""What the menus of several families share: values, and how a menu is cut to a problem."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "CUT_TILES",
    "LEAST_REACH",
    "MAX_RASTER",
    "MAX_TILE",
    "STAGES",
    "TILE_NS",
    "few",
    "others_than",
    "reaching",
    "why_illegal",
]

MAX_TILE = 256
"""Largest tile_m and tile_n; 256x256 already asks for more sums than registers hold."""

TILE_NS = tuple(range(8, MAX_TILE + 1, 8))
"""Columns of a tile that the tree tries: multiples of mma_n. Any is a candidate, since 48 or 80
sometimes fill the last wave best."""

STAGES = (2, 3, 4, 5, 6, 7, 8)
"""Stage counts that the tree tries."""

LEAST_REACH = 32
"""Tiles up to here are tried for the smallest problem too: narrow copies need several warps."""

MAX_RASTER = 1024
"""Largest raster group that may be asked for; beyond a few dozen rows nothing changes."""

CUT_TILES = (16, 32, 64, 128, 192, 256)
"""Rows and columns of a tile that are tried where k is cut into parts."""


def few(values: tuple[int, ...], menu: tuple[int, ...]) -> tuple[int, ...]:
    """Those of the values that are on a menu, and the last of the menu, which covers the extent."""
    return (*(value for value in menu[:-1] if value in values), menu[-1])


def reaching(values: tuple[int, ...], extent: int) -> tuple[int, ...]:
    """The values up to the first that covers an extent, in their order."""
    limit = min([value for value in values if value >= extent], default=extent)
    return tuple([value for value in values if value <= limit])


WITH_WARPS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n", "tile_k"),
    "warps": ("warps",),
    "stages": ("stages",),
    "occupancy": ("min_blocks",),
    "raster": ("raster_group",),
}
"""What of a menu with layouts of warps answers a question; others have one answer only."""


def others_than(choice: Any, menu: NamedTuple, question: str) -> dict[str, tuple[Any, ...]]:
    """The values of such a menu that would answer a question otherwise than a choice does."""
    found = {}
    for field in WITH_WARPS.get(question, ()):
        layout = field == "warps"
        own = (choice.warps_m, choice.warps_n) if layout else getattr(choice, field)
        found[field] = tuple(value for value in getattr(menu, field) if value != own)
    return found


def why_illegal(value: int, legal: range) -> str:
    """Why a value is not in a range, and what is the nearest that is."""
    if len(legal) == 1:
        return f"the only legal value is {legal[0]}"
    if value < legal[0]:
        return f"too small; the nearest legal is {legal[0]}"
    if value > legal[-1]:
        return f"too large; the nearest legal is {legal[-1]}"
    below = legal[(value - legal.start) // legal.step]
    return f"not a multiple of {legal.step}; the nearest legal are {below} and {below + legal.step}"
