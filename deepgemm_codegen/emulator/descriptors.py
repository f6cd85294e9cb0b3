"""Where a matrix operand of wgmma lies in shared memory, by its descriptor.

Bits 0-13 start address, 16-29 leading byte offset (LBO), 32-45 stride byte offset (SBO), each in
units of 16 bytes; 49-51 base offset; 62-63 swizzle: 0 none, 1 128, 2 64, 3 32 bytes (PTX ISA,
"Matrix-descriptor format"). A chunk is 16 bytes, 8 elements; W chunks make a swizzle's row. With
r = row along m or n and c = chunk along k, an operand's chunk lies at start plus

- K-major, swizzled: (r / 8) SBO + (r % 8) 16W + 16c;
- K-major, plain: (r / 8) SBO + (r % 8) 16 + c LBO;

and with k = index along k and q = chunk along m or n

- MN-major, swizzled: (q / W) LBO + (q % W) 16 + (k % 8) 16W + (k / 8) SBO;
- MN-major, plain: q SBO + (k % 8) 16 + (k / 8) LBO;

the swizzle then acts on the whole address (CUTLASS, "mma_sm90_desc.hpp", canonical layouts; the
128-byte ones checked on an H200).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deepgemm_codegen.emulator.swizzle import swizzle

__all__ = ["Operand", "chunks"]

Array = np.ndarray[Any, np.dtype[Any]]

_WIDTHS = (0, 128, 64, 32)
_FIELD = (1 << 14) - 1
_PERIOD = 1024  # a swizzle's pattern repeats at least so often


@dataclass(frozen=True, slots=True)
class Operand:
    """Rows along m or n of an operand with k = 16; transposed is MN-major."""

    rows: int
    transposed: bool


def chunks(operand: Operand, descriptor: int, size: int) -> tuple[Array, str]:
    """Byte offsets of the operand's chunks in the window, int64.

    K-major: row by row, two chunks each; MN-major: k by k, rows / 8 chunks each.

    Returns:
        The offsets, and what is wrong with the descriptor or an empty text; bad offsets are 0.
    """
    start = (descriptor & _FIELD) << 4
    leading = ((descriptor >> 16) & _FIELD) << 4
    stride = ((descriptor >> 32) & _FIELD) << 4
    width = _WIDTHS[descriptor >> 62]
    base = start // _PERIOD * _PERIOD
    offsets = _pattern(operand, start - base, leading, stride, width) + base
    fault = ""
    if (descriptor >> 49) & 7:
        fault = f"the base offset {(descriptor >> 49) & 7} is not supported"
    if int(offsets.max()) > size - 16:
        fault = fault or f"the operand ends outside the block's {size} bytes"
        offsets = np.where(offsets > size - 16, 0, offsets)
    return offsets, fault


@lru_cache(maxsize=256)
def _pattern(operand: Operand, start: int, leading: int, stride: int, width: int) -> Array:
    across = width // 16
    if operand.transposed:
        k = np.arange(16)[:, None]
        q = np.arange(operand.rows // 8)[None, :]
        if width:
            address = q // across * leading + q % across * 16
            address = address + k % 8 * width + k // 8 * stride
        else:
            address = q * stride + k % 8 * 16 + k // 8 * leading
    else:
        r = np.arange(operand.rows)[:, None]
        c = np.arange(2)[None, :]
        if width:
            address = r // 8 * stride + r % 8 * width + c * 16
        else:
            address = r // 8 * stride + r % 8 * 16 + c * leading
    result = swizzle(start + address.reshape(-1).astype(np.int64), width)
    result.flags.writeable = False
    return result
