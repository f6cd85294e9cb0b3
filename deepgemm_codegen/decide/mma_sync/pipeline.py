"""Question: how deep is the ring of stages in shared memory?

A slice on its way hides the memory's latency behind the math of those before it. The ring is as
deep as shared memory allows at the occupancy asked for, then cut to the fewest stages that cost
no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine

__all__ = [
    "MAX_TILE_K",
    "TILE_KS",
    "deepest",
    "shared_bytes",
    "slab_bytes",
    "useful_stages",
]

MAX_TILE_K = 256
"""Largest slice: its fragment sets are unrolled in the text."""

ROW_BYTES = (128, 64, 256, 192, 96, 32)
"""Bytes of k in the slices that the tree tries, preferred first: one full-width panel of a row."""

TILE_KS = {size: tuple(row // size for row in ROW_BYTES) for size in (1, 2)}
"""The same in elements of k, by the bytes of an element."""


def shared_bytes(
    tile_m: int, tile_n: int, tile_k: int, warps_m: int, stages: int, element_bytes: int
) -> int:
    """Dynamic shared memory of a block: the ring, or the epilogue's slabs if they need more."""
    ring = stages * (tile_m + tile_n) * tile_k * element_bytes
    return max(ring, slab_bytes(tile_n, warps_m))


def slab_bytes(tile_n: int, warps_m: int) -> int:
    """Bytes of all warps' epilogue slabs: 16 rows of fp32 each."""
    return warps_m * 16 * tile_n * 4


def deepest(
    stages: tuple[int, ...],
    stage_bytes: int,
    slabs: int,
    useful: int,
    blocks: int,
    machine: Machine,
) -> int:
    """The best of `stages` that lets `blocks` blocks share a multiprocessor; 0 if none does.

    The cost never rises with depth, so the deepest useful ring is best; where only useless depth
    is on offer, the least of it.

    Args:
        stages: slot counts to choose from, fewest first.
        stage_bytes: bytes of a slot.
        slabs: bytes of the epilogue's slabs.
        useful: from `useful_stages`.
        blocks: resident blocks.
        machine: where.
    """
    room = min(machine.shared_per_block, machine.shared_per_sm // blocks - machine.shared_reserved)
    if slabs > room:
        return 0
    fit = room // stage_bytes
    best = 0
    for count in stages:
        if count > fit:
            break
        best = count
        if count >= useful:
            break
    return best


def useful_stages(slices: int) -> int:
    """Slots beyond this never hold anything: all slices are in flight."""
    return max(slices + 1, 2)
