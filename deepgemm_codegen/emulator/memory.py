"""Global memory: the launch's buffers at 64-bit addresses, far apart.

``windows`` says where each one starts. Variables of the module are buffers too, the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from deepgemm_codegen.emulator.faults import LaunchError
from deepgemm_codegen.emulator.listeners import Access, Touch, split_id
from deepgemm_codegen.emulator.windows import SPACING_BITS, buffer_address

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.listeners import Listener, Watcher

__all__ = ["RAW", "GlobalBuffer", "GlobalMemory", "LazyArray", "Pointer", "PointerTable"]

Array = np.ndarray[Any, np.dtype[Any]]

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


@dataclass(frozen=True, slots=True)
class PointerTable:
    """A kernel argument that points to an array of pointers, which the kernel may read."""

    name: str
    pointers: tuple[Pointer, ...]


class _Placed:
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
            if buffer.writable:
                raise LaunchError(f"buffer '{buffer.name}' is lazy, so it cannot be writable")
            return
        if not buffer.data.flags.c_contiguous:
            raise LaunchError(
                f"buffer '{buffer.name}' is not C-contiguous; pass numpy.ascontiguousarray(...) of"
                " it, which the kernel then writes in its place"
            )
        if not buffer.data.dtype.isnative:
            raise LaunchError(
                f"buffer '{buffer.name}' is not in this machine's byte order; pass a copy of it"
                " that is: astype(dtype.newbyteorder('='))"
            )
        if buffer.data.dtype.hasobject:
            raise LaunchError(
                f"buffer '{buffer.name}' holds Python objects; pass an array of numbers"
            )
        raw = buffer.data.reshape(-1).view(np.uint8)
        self.bytes = raw
        for width, dtype in RAW.items():
            if buffer.misalign % width == 0:
                view = raw[: self.nbytes // width * width].view(dtype)
                if view.flags.aligned:
                    self.views[width] = view

    def refuse_overlap(self, other: _Placed) -> None:
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


class GlobalMemory:
    """All buffers of a launch, with bounds, alignment and poison checks.

    Attributes:
        listeners: are told of every access.
        watchers: are told of the good accesses to writable buffers.
    """

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.placed: list[_Placed] = []
        self.listeners: list[Listener] = []
        self.watchers: list[Watcher] = []
        self._index: dict[int, int] = {}

    def address(self, pointer: Pointer) -> int:
        """Address of a pointer; places its buffer at the first call."""
        key = id(pointer.buffer)
        index = self._index.get(key)
        if index is None:
            index = len(self.placed)
            placed = _Placed(pointer.buffer, index)
            for other in self.placed:
                placed.refuse_overlap(other)
            self._index[key] = index
            self.placed.append(placed)
        return self.placed[index].base + pointer.offset

    def table(self, table: PointerTable) -> int:
        """Address of an array of pointers, whose buffers are placed too."""
        addresses = np.array([self.address(each) for each in table.pointers], np.uint64)
        return self.address(GlobalBuffer(table.name, addresses).at(0))

    def load(
        self, address: Array, width: int, ids: Array, *, strong: bool = False, atomic: bool = False
    ) -> Array:
        """Raw words at addresses.

        Args:
            address: uint64, shape (n,).
            width: bytes of an access.
            ids: int64, shape (n,): lane and instruction of each access, for findings.
            strong: whether they are strong accesses, which do not race with each other.
            atomic: whether they are the read of an atomic operation, whose write says it all.

        Returns:
            Shape (n,), of the raw type of that width; 0xff bytes where the access is at fault.
        """
        if address.size == 0:
            return np.zeros(0, RAW[width])
        for listener in () if atomic else self.listeners:
            listener.global_access(Access(address.view(np.int64), width, ids))
        here = self._single(address, width)
        if here is not None:
            return self._read(*here, width, ids, strong=strong, atomic=atomic)
        values = np.zeros(address.size, RAW[width])
        raw = values.view(np.uint8).reshape(-1, width)
        raw[...] = 0xFF
        for placed, where, offsets in self._split(address, width, ids, "read"):
            values[where] = self._read(
                placed, offsets, width, ids[where], strong=strong, atomic=atomic
            )
        return values

    def _read(
        self, placed: _Placed, offsets: Array, width: int, ids: Array, *, strong: bool, atomic: bool
    ) -> Array:
        """Raw words of one buffer, all inside."""
        values = placed.read(offsets, width)
        if placed.buffer.writable and not atomic:
            for watcher in self.watchers:
                watcher.read(placed.touch(offsets, width, ids, strong=strong))
        if placed.buffer.unwritten is not None:
            self._poison(placed, offsets, width, ids)
        return values

    def store(
        self,
        address: Array,
        width: int,
        values: Array,
        ids: Array,
        *,
        strong: bool = False,
        group: int = 0,
    ) -> None:
        """Write raw words (``values``) to addresses; an access at fault is dropped.

        ``group`` is that of a bulk store's thread; see `load` for the others.
        """
        if address.size == 0:
            return
        for listener in self.listeners:
            listener.global_access(Access(address.view(np.int64), width, ids))
        here = self._single(address, width)
        parts = (
            [(here[0], slice(None), here[1])]
            if here is not None
            else self._split(address, width, ids, "write")
        )
        for placed, where, offsets in parts:
            if not placed.buffer.writable:
                self._report(
                    "read-only-write",
                    f"{width}-byte write to read-only buffer '{placed.buffer.name}'",
                    int(ids[where][0]),
                    int(address[where][0]),
                    offsets.size,
                )
                continue
            for watcher in self.watchers:
                watcher.write(placed.touch(offsets, width, ids[where], strong=strong, group=group))
            placed.write(offsets, width, values[where])
            if placed.buffer.unwritten is not None:
                placed.buffer.unwritten[offsets[:, None] + np.arange(width)] = False

    def _single(self, address: Array, width: int) -> tuple[_Placed, Array] | None:
        """Buffer and offsets when all accesses are aligned and inside one buffer."""
        index = (int(address[0]) >> SPACING_BITS) - 1
        if not 0 <= index < len(self.placed):
            return None
        placed = self.placed[index]
        # An address below the base wraps to a huge offset, which is then outside.
        offsets = (address - np.uint64(placed.base)).view(np.int64)
        low, high = int(offsets.min()), int(offsets.max())
        if low < 0 or high > placed.nbytes - width:
            return None
        if width > 1 and int(np.bitwise_or.reduce(address)) & (width - 1):
            return None
        return placed, offsets

    def _split(
        self, address: Array, width: int, ids: Array, verb: str
    ) -> list[tuple[_Placed, Array, Array]]:
        """Accesses by buffer; reports those that are misaligned or outside."""
        misaligned = (address & np.uint64(width - 1)) != 0
        if misaligned.any():
            first = int(np.flatnonzero(misaligned)[0])
            self._report(
                "misaligned",
                f"global {verb} of {width} bytes at an address that is no multiple of {width}",
                int(ids[first]),
                int(address[first]),
                int(misaligned.sum()),
            )
        index = (address >> np.uint64(SPACING_BITS)).astype(np.int64) - 1
        left = ~misaligned
        result = []
        for number, placed in enumerate(self.placed):
            offsets = (address - np.uint64(placed.base)).view(np.int64)
            inside = left & (index == number) & (offsets >= 0)
            inside &= offsets <= placed.nbytes - width
            # An address a little below the base still has the buffer's index or the one before.
            if inside.any():
                where = np.flatnonzero(inside)
                result.append((placed, where, offsets[where]))
                left &= ~inside
        if left.any():
            first = int(np.flatnonzero(left)[0])
            self._report(
                f"out-of-bounds-{verb}",
                f"global {verb} of {width} bytes {self._nearest(int(address[first]))}",
                int(ids[first]),
                int(address[first]),
                int(left.sum()),
            )
        return result

    def _nearest(self, address: int) -> str:
        index = min(max((address >> SPACING_BITS) - 1, 0), max(len(self.placed) - 1, 0))
        if not self.placed:
            return "with no buffer in the launch"
        placed = self.placed[index]
        name, size, offset = placed.buffer.name, placed.nbytes, address - placed.base
        if address >> SPACING_BITS == 0:
            return f"at an address in no buffer (the nearest, '{name}', is far off)"
        return f"at offset {offset} of buffer '{name}' ({size} bytes)"

    def _poison(self, placed: _Placed, offsets: Array, width: int, ids: Array) -> None:
        marks = placed.buffer.unwritten
        if marks is None:
            return
        bad = marks[offsets[:, None] + np.arange(width)].any(axis=1)
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            self._report(
                "poison-read",
                f"global read of {width} bytes at offset {int(offsets[first])} of buffer "
                f"'{placed.buffer.name}', which nobody wrote",
                int(ids[first]),
                placed.base + int(offsets[first]),
                int(bad.sum()),
            )

    def _report(self, kind: str, message: str, ident: int, address: int, count: int) -> None:
        site, lane = split_id(ident)
        self.collector.add(kind, message, site, lane, address=address, count=count)
