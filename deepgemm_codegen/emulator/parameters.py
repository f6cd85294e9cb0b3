"""The parameter block of a launch: arguments laid out as the kernel declares them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.buffers import GlobalBuffer, Pointer, PointerTable
from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.tensormap import MAP_BYTES, PlacedMap, TensorMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.emulator.memory import GlobalMemory
    from deepgemm_codegen.emulator.program import ParameterSlot, Program

__all__ = ["pack"]


def pack(
    program: Program, values: Sequence[Any], memory: GlobalMemory
) -> tuple[bytes, dict[int, PlacedMap]]:
    """The bytes of the parameter block, and its tensor maps by offset.

    Buffers are placed in ``memory`` in order; the bytes of a tensor map are opaque.

    Raises:
        LaunchError: another number of parameters, or one that does not fit its slot.
    """
    slots = program.parameters
    if len(values) != len(slots):
        raise LaunchError(f"{program.name} takes {len(slots)} parameters, got {len(values)}")
    image = bytearray(max((s.offset + s.size for s in slots), default=0))
    maps = {}
    arrays: dict[int, GlobalBuffer] = {}  # an array given twice is one buffer
    for slot, given in zip(slots, values, strict=True):
        value = given
        if isinstance(given, np.ndarray):
            fresh = GlobalBuffer(slot.name, given, writable=bool(given.flags.writeable))
            value = arrays.setdefault(id(given), fresh)
        if isinstance(value, TensorMap):
            if slot.size != MAP_BYTES:
                raise LaunchError(f"parameter {slot.name} is no tensor map of {MAP_BYTES} bytes")
            maps[slot.offset] = PlacedMap.place(value, memory)
            continue
        raw = _bytes(slot, value, memory)
        if len(raw) != slot.size:
            raise LaunchError(f"parameter {slot.name} has {slot.size} bytes, got {len(raw)}")
        image[slot.offset : slot.offset + slot.size] = raw
    return bytes(image), maps


def _bytes(slot: ParameterSlot, value: Any, memory: GlobalMemory) -> bytes:
    """The value as it lies in the parameter block.

    Raises:
        LaunchError: a value of another type, or out of the type's range.
    """
    if isinstance(value, PointerTable):
        return memory.table(value).to_bytes(8, "little")
    if isinstance(value, GlobalBuffer):
        value = value.at(0)
    if isinstance(value, Pointer):
        address = memory.address(value)
        if not 0 <= address < 1 << 64:
            raise LaunchError(f"parameter {slot.name}: a pointer {value.offset} bytes off")
        return address.to_bytes(8, "little")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, np.generic):
        return value.tobytes()
    scalar = slot.size in (1, 2, 4, 8)
    # NVRTC declares float parameters as f32; b32 in newer styles holds the same bits.
    floating = slot.type[0] == "f" or (isinstance(value, float) and slot.type[0] == "b")
    try:
        if floating and isinstance(value, int | float):
            return struct.pack({4: "<f", 8: "<d"}[slot.size], value)
        if scalar and isinstance(value, int) and -(1 << 8 * slot.size - 1) <= value:
            return value.to_bytes(slot.size, "little", signed=value < 0)
    except (KeyError, OverflowError, struct.error):
        pass
    raise LaunchError(
        f"parameter {slot.name} is a .{slot.type} of {slot.size} bytes, got {value!r}"
    )
