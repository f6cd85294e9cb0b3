"""The XOR patterns of TMA and wgmma in shared memory.

A pattern of W bytes (128, 64 or 32) exchanges the 16-byte chunks of a row: bits [4, 4 + b) of the
byte address are XORed with bits [7, 7 + b), where b is 3, 2 or 1. It acts on the absolute address
in the block's window, whatever a tile's start (PTX ISA, "Swizzling modes"; checked on an H200).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["SWIZZLES", "swizzle"]

Array = np.ndarray[Any, np.dtype[Any]]

# Width of the pattern in bytes to the bits that it XORs; 0 is none.
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


def swizzle(address: Array, width: int) -> Array:
    """Byte addresses (int64) after the pattern of ``width`` bytes."""
    bits = SWIZZLES[width]
    if not bits:
        return address
    result: Array = address ^ ((address >> 3) & (((1 << bits) - 1) << 4))
    return result
