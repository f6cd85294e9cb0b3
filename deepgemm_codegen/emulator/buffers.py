"""Buffers in global memory, as a launch gives them and as they lie at their addresses."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.listeners import Touch
from deepgemm_codegen.emulator.windows import buffer_address

__all__ = ["RAW", "GlobalBuffer", "LazyArray", "PlacedBuffer", "Pointer", "PointerTable"]

Array = np.ndarray[Any, np.dtype[Any]]

_PAGE = 4096  # buffers start at multiples of it

# Width in bytes to the numpy type that moves that many raw bytes. complex128 serves as a 16-byte
# word: numpy takes and scatters it in one move an element, and never looks inside.
RAW: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}


class LazyArray(Protocol):
    """A read-only buffer too large to hold: its bytes are computed where they are read."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...

    def read(self, offsets: Array, width: int) -> Array:
        """The bytes at some offsets.

        Args:
            offsets: int64, shape (n,): byte offsets, each a multiple of ``width`` unless the
                buffer is placed misaligned.
            width: bytes wanted at each: 1, 2, 4, 8 or 16.

        Returns:
            uint8, shape (n, width).
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GlobalBuffer:
    """A buffer of a launch.

    Attributes:
        name: for findings.
        data: a C-contiguous array, written in place; or a lazy one, which is read-only.
        writable: whether the kernel may write it.
        misalign: bytes by which its address misses a multiple of 4096.
        unwritten: bool, one element a byte: reading such a byte is a finding; writing it clears
            the mark. None where every byte may be read.
    """

    name: str
    data: Array | LazyArray
    writable: bool = False
    misalign: int = 0
    unwritten: Array | None = None

    def __post_init__(self) -> None:
        """Refuses what could not be addressed byte by byte.

        Raises:
            LaunchError: an array that is not contiguous, of objects, of the other byte order, or
                read-only where the kernel may write; a lazy one that it may write; no such thing; a
                place or marks that do not fit it.
        """
        wrong = _wrong_lazy(self) if not isinstance(self.data, np.ndarray) else _wrong_array(self)
        if not wrong and not (isinstance(self.misalign, Integral) and 0 <= self.misalign < _PAGE):
            wrong = f"misaligned by {self.misalign}; give whole bytes from 0 to {_PAGE - 1}"
        if not wrong and self.unwritten is not None:
            marks = self.unwritten
            fits = isinstance(marks, np.ndarray) and marks.shape == (self.nbytes,)
            if not fits or marks.dtype != np.bool_:
                wrong = f"marked unwritten otherwise than by {self.nbytes} booleans, one a byte"
        if wrong:
            raise LaunchError(f"buffer '{self.name}' is {wrong}")

    def at(self, offset: int) -> Pointer:
        """A pointer into the buffer, ``offset`` bytes from its start."""
        return Pointer(self, offset)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.data.nbytes)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A kernel argument that points into a buffer (or before or behind it)."""

    buffer: GlobalBuffer
    offset: int = 0

    def __post_init__(self) -> None:
        """Refuses an offset that is no number of bytes.

        Raises:
            LaunchError: it is none.
        """
        if not isinstance(self.offset, Integral):
            raise LaunchError(f"a pointer {self.offset!r} bytes into '{self.buffer.name}'")


@dataclass(frozen=True, slots=True)
class PointerTable:
    """A kernel argument that points to an array of pointers, which the kernel may read."""

    name: str
    pointers: tuple[Pointer, ...]

    def __post_init__(self) -> None:
        """Refuses what is no pointer.

        Raises:
            LaunchError: it is none.
        """
        for each in self.pointers:
            if not isinstance(each, Pointer):
                raise LaunchError(f"table '{self.name}' holds {each!r}; give buffer.at(offset)")


def _wrong_array(buffer: GlobalBuffer) -> str:
    """What is wrong with an array, and what to pass instead; empty for nothing."""
    data = np.asarray(buffer.data)
    if not data.flags.c_contiguous:
        return (
            "not C-contiguous; pass numpy.ascontiguousarray(...) of it, which the kernel then"
            " writes in its place"
        )
    if not data.dtype.isnative:
        return (
            "not in this machine's byte order; pass a copy of it that is:"
            " astype(dtype.newbyteorder('='))"
        )
    if data.dtype.hasobject:
        return "an array of Python objects; pass one of numbers"
    if buffer.writable and not data.flags.writeable:
        return "read-only, and the kernel may write it; pass a copy, or writable=False"
    return ""


def _wrong_lazy(buffer: GlobalBuffer) -> str:
    """The same of what is no array."""
    if not (hasattr(buffer.data, "nbytes") and hasattr(buffer.data, "read")):
        return (
            f"a {type(buffer.data).__name__}; pass a numpy array, or an object with nbytes and read"
        )
    return "lazy, so it cannot be writable" if buffer.writable else ""


class PlacedBuffer:
    """A buffer with its address and raw views."""

    def __init__(self, buffer: GlobalBuffer, index: int) -> None:
        self.buffer = buffer
        self.index = index
        self.base = buffer_address(index) + buffer.misalign
        self.nbytes = buffer.nbytes
        self.lazy: LazyArray | None = None
        self.views: dict[int, Array] = {}
        self.bytes: Array | None = None
        if not isinstance(buffer.data, np.ndarray):
            self.lazy = buffer.data
            return
        raw = buffer.data.reshape(-1).view(np.uint8)
        self.bytes = raw
        for width, dtype in RAW.items():
            if buffer.misalign % width == 0:
                view = raw[: self.nbytes // width * width].view(dtype)
                if view.flags.aligned:
                    self.views[width] = view

    def refuse_overlap(self, other: PlacedBuffer) -> None:
        """Buffers lie apart, so races between two that share memory would go unseen.

        Raises:
            LaunchError: they share some, and the kernel may write one of them.
        """
        if self.bytes is None or other.bytes is None:
            return
        if not self.buffer.writable and not other.buffer.writable:
            return
        if np.may_share_memory(self.bytes, other.bytes):
            raise LaunchError(
                f"buffers '{other.buffer.name}' and '{self.buffer.name}' share memory: make one "
                "GlobalBuffer of the whole, and point into it with its at()"
            )

    def read(self, offsets: Array, width: int) -> Array:
        """Raw words at byte offsets, all inside."""
        if self.lazy is not None:
            got = np.ascontiguousarray(self.lazy.read(offsets, width))
            if got.shape != (offsets.size, width) or got.dtype != np.uint8:
                raise LaunchError(
                    f"buffer '{self.buffer.name}': its read gave {got.dtype} {got.shape}, where"
                    f" uint8 {(offsets.size, width)} was asked for"
                )
            return got.reshape(-1).view(RAW[width])
        view = self.views.get(width)
        if view is not None:
            return view.take(offsets >> (width.bit_length() - 1))
        if self.bytes is None:
            raise LaunchError("a buffer with neither bytes nor a reader")
        single = self.bytes.take(offsets[:, None] + np.arange(width))
        return single.reshape(-1).view(RAW[width])

    def touch(
        self, offsets: Array, width: int, ids: Array, *, strong: bool = False, group: int = 0
    ) -> Touch:
        """Accesses at byte offsets, all inside, for a watcher."""
        name, nbytes = self.buffer.name, self.nbytes
        return Touch(self.index, name, nbytes, offsets, self.base, width, ids, strong, group)

    def write(self, offsets: Array, width: int, values: Array) -> None:
        """Raw words to byte offsets, all inside."""
        view = self.views.get(width)
        if view is not None:
            view[offsets >> (width.bit_length() - 1)] = values
        elif self.bytes is not None:
            single = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)
            self.bytes[offsets[:, None] + np.arange(width)] = single
