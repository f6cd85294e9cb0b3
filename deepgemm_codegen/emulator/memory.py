"""Global memory: the launch's buffers at 64-bit addresses, far apart.

``windows`` says where each one starts. Variables of the module are buffers too, the first ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.buffers import RAW, GlobalBuffer, PlacedBuffer, Pointer, PointerTable
from deepgemm_codegen.emulator.listeners import Access, split_id
from deepgemm_codegen.emulator.windows import SPACING_BITS

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.listeners import Listener, Watcher

__all__ = ["GlobalMemory"]

Array = np.ndarray[Any, np.dtype[Any]]


class GlobalMemory:
    """All buffers of a launch, with bounds, alignment and poison checks.

    Attributes:
        listeners: are told of every access.
        watchers: are told of the good accesses to writable buffers.
    """

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.placed: list[PlacedBuffer] = []
        self.listeners: list[Listener] = []
        self.watchers: list[Watcher] = []
        self._index: dict[int, int] = {}

    def address(self, pointer: Pointer) -> int:
        """Address of a pointer; places its buffer at the first call."""
        key = id(pointer.buffer)
        index = self._index.get(key)
        if index is None:
            index = len(self.placed)
            placed = PlacedBuffer(pointer.buffer, index)
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
        self,
        placed: PlacedBuffer,
        offsets: Array,
        width: int,
        ids: Array,
        *,
        strong: bool,
        atomic: bool,
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

    def _single(self, address: Array, width: int) -> tuple[PlacedBuffer, Array] | None:
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
    ) -> list[tuple[PlacedBuffer, Array, Array]]:
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

    def _poison(self, placed: PlacedBuffer, offsets: Array, width: int, ids: Array) -> None:
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
