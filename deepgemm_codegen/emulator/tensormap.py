"""Tensor maps: what a launch passes by value so that the copy engine (TMA) finds a matrix.

The hardware's 128 bytes are opaque and made by the driver; here a launch passes a
:class:`TensorMap`, and the kernel's parameter holds nothing but a mark.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.buffers import GlobalBuffer, Pointer
from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.swizzle import SWIZZLES

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.memory import GlobalMemory

__all__ = ["MAP_BYTES", "PlacedMap", "TensorMap"]

MAP_BYTES = 128
"""Size of an encoded map (CUDA driver API, CUtensorMap)."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tiled tensor map of one to five dimensions; elements out of bounds are read as zero.

    Attributes:
        buffer: the tensor, or a pointer to its first element.
        element_bytes: 1, 2, 4 or 8.
        sizes: elements along each dimension, the contiguous one first.
        strides_bytes: from index to index along the other dimensions, one fewer than ``sizes``.
        box: elements that one copy moves along each dimension; up to 256 each.
        swizzle_bytes: 128, 64, 32, or 0 for none.

    Raises:
        LaunchError: a value that the driver's encoder refuses (CUDA driver API,
            cuTensorMapEncodeTiled).
    """

    buffer: GlobalBuffer | Pointer
    element_bytes: int
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle_bytes: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.buffer, GlobalBuffer | Pointer):
            raise LaunchError(
                f"tensor map: of a {type(self.buffer).__name__}; give a GlobalBuffer, or a pointer"
                " into one"
            )
        for name in ("sizes", "strides_bytes", "box"):
            value = getattr(self, name)
            whole = isinstance(value, tuple) and all(isinstance(n, Integral) for n in value)
            if not whole:
                raise LaunchError(f"tensor map: {name} = {value!r}; give a tuple of whole numbers")
        rank = len(self.sizes)
        if not 1 <= rank <= 5 or (len(self.strides_bytes), len(self.box)) != (rank - 1, rank):
            raise LaunchError(
                f"tensor map: {rank} sizes, {len(self.strides_bytes)} strides and a box of "
                f"{len(self.box)} numbers; with n sizes (1 to 5), n - 1 and n are needed"
            )
        row, strides = self.box[0] * self.element_bytes, self.strides_bytes
        swizzles = ", ".join(map(str, sorted(SWIZZLES)))
        limits = (
            (
                self.element_bytes in (1, 2, 4, 8),
                f"elements of {self.element_bytes} bytes; they have 1, 2, 4 or 8",
            ),
            (all(0 < s <= 1 << 32 for s in self.sizes), f"sizes {self.sizes}; each is 1 to 2^32"),
            (
                all(s % 16 == 0 and 0 < s < 1 << 40 for s in strides),
                f"strides of {', '.join(map(str, strides))} bytes; each is a multiple of 16 < 2^40",
            ),
            (all(0 < b <= 256 for b in self.box), f"a box of {self.box}; each number is 1 to 256"),
            (
                self.swizzle_bytes in SWIZZLES,
                f"a swizzle of {self.swizzle_bytes!r} bytes; it is one of {swizzles}",
            ),
        )
        for good, what in limits:
            if not good:
                raise LaunchError(f"tensor map: {what}")
        if row % 16:
            raise LaunchError(f"tensor map: a box row of {row} bytes, no multiple of 16")
        if self.swizzle_bytes and row > self.swizzle_bytes:
            raise LaunchError(
                f"tensor map: a box row of {row} bytes, wider than the swizzle's"
                f" {self.swizzle_bytes}"
            )


@dataclass(frozen=True, slots=True)
class PlacedMap:
    """A map whose matrix has its address."""

    map: TensorMap
    address: int

    @staticmethod
    def place(tensor_map: TensorMap, memory: GlobalMemory) -> PlacedMap:
        """Give the map's buffer its address.

        Raises:
            LaunchError: the matrix starts at no multiple of 16.
        """
        pointer = tensor_map.buffer
        if isinstance(pointer, GlobalBuffer):
            pointer = pointer.at(0)
        address = memory.address(pointer)
        if address % 16:
            raise LaunchError(
                f"tensor map: buffer '{pointer.buffer.name}' starts at no multiple of 16"
            )
        return PlacedMap(tensor_map, address)
