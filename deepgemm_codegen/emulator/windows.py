"""Where the state spaces lie in generic addresses, and the blocks of a cluster in shared memory's.

Global and constant addresses are their own generic addresses, and no buffer lies as low as the
windows. A shared::cluster
address holds the rank of its block + 1 above ``CLUSTER_SHIFT``; 0 is the thread's own block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "CLUSTER_SHIFT",
    "LOCAL_WINDOW",
    "OFFSET_MASK",
    "PARAM_WINDOW",
    "SHARED_WINDOW",
    "SPACING_BITS",
    "WINDOW_SIZE",
    "buffer_address",
    "by_window",
    "space_at",
]

Array = np.ndarray[Any, np.dtype[Any]]

CLUSTER_SHIFT = 24
WINDOW_SIZE = 1 << CLUSTER_SHIFT
OFFSET_MASK = WINDOW_SIZE - 1
SHARED_WINDOW = 0x0000_0000_1000_0000
LOCAL_WINDOW = 0x0000_0000_3000_0000
PARAM_WINDOW = 0x0000_0000_4000_0000

# The thread's own block and the 16 ranks of the largest cluster.
_SIZES = (
    ("shared", SHARED_WINDOW, 17 * WINDOW_SIZE),
    ("local", LOCAL_WINDOW, WINDOW_SIZE),
    ("param", PARAM_WINDOW, WINDOW_SIZE),
)


# Each buffer of a launch has a terabyte to itself, and starts just below a multiple of 2^32, so
# that an offset computed in 32 bits lands outside every buffer instead of in another one.
SPACING_BITS = 40
_LOW = 0xFFFF_F000


def buffer_address(index: int) -> int:
    """Where the buffer with that number starts."""
    return ((index + 1) << SPACING_BITS) + _LOW


def space_at(space: str, address: Array) -> Array:
    """Which generic addresses (uint64) lie in a state space, bool."""
    inside = {
        name: (address >= np.uint64(start)) & (address < np.uint64(start + size))
        for name, start, size in _SIZES
    }
    if space != "global":
        return inside[space]
    result: Array = ~np.logical_or.reduce(list(inside.values()))
    return result


def by_window(address: Array, offset: int, lanes: Array) -> list[tuple[str, Array, Array]]:
    """Generic accesses by state space.

    Args:
        address: of every lane, any unsigned type, without ``offset``.
        offset: constant part of the address.
        lanes: bool, the active ones.

    Returns:
        Name of the space, addresses in it still without ``offset``, and its lanes (bool).
    """
    base = address.astype(np.uint64)
    at = base + np.uint64(offset & (2**64 - 1))
    result: list[tuple[str, Array, Array]] = []
    left = lanes
    for name, start, size in _SIZES:
        inside = left & (at >= np.uint64(start)) & (at < np.uint64(start + size))
        if inside.any():
            result.append((name, base - np.uint64(start), inside))
            left = left & ~inside
    if left.any():
        result.append(("global", base, left))
    return result
