"""Where lanes of a warp that parted come together again: post-dominators of basic blocks.

What a warp executes together (a barrier, a shuffle, a product) waits for lanes that come to it on
every way they may take. Where a lane may as well pass it by, nobody waits: that is a fault, and is
told as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.emulator.basicblock import BasicBlock

__all__ = ["reconverging"]

Array = np.ndarray[Any, np.dtype[Any]]


def reconverging(blocks: Sequence[BasicBlock]) -> Array:
    """For each block, the others (bool) from which every way leads to it.

    Returns:
        A matrix with a row a block, and a column a block and one for the end of the kernel.
    """
    end = len(blocks)
    everything = (1 << end + 1) - 1
    behind = [everything] * end + [1 << end]  # of each block those that every way from it meets
    ways = [_ways(block, number, end) for number, block in enumerate(blocks)]
    changed = True
    while changed:
        changed = False
        for number in range(end - 1, -1, -1):
            met = everything
            for way in ways[number]:
                met &= behind[way]
            met |= 1 << number
            if met != behind[number]:
                behind[number] = met
                changed = True
    found = np.zeros((end, end + 1), bool)
    for number in range(end):
        for other in range(end):
            found[other, number] = other != number and behind[number] >> other & 1
    return found


def _ways(block: BasicBlock, number: int, end: int) -> tuple[int, ...]:
    """The blocks that may follow one."""
    last = block.terminator
    on = (number + 1,)
    if last.kind == "branch":
        return (last.target, *on) if last.predicate >= 0 else (last.target,)
    if last.kind == "exit":
        return (end, *on) if last.predicate >= 0 else (end,)
    return on
