"""What each cell of global memory remembers: its last write, the reads since, and who they were.

Only pages that somebody touched exist. A cell starts as wide as the widest access and is cut when a
narrower one comes; as accesses are aligned, each covers whole cells, and nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator.listeners import LANE_MASK

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Events", "Former", "GlobalShadow"]

Array = np.ndarray[Any, np.dtype[Any]]

PAGE_BYTES = 1024
_PAGE_SHIFT = PAGE_BYTES.bit_length() - 1
_WIDEST_SHIFT = 4
_ROOM = 256
_FEW = 256


class Events(NamedTuple):
    """Some events.

    Attributes:
        ids: lane and instruction of each.
        stamps: when, and how (see `GlobalRaces`); 0 where there was none.
    """

    ids: Array
    stamps: Array

    def pick(self, which: Array) -> Events:
        """Some of them."""
        return Events(self.ids[which], self.stamps[which])


class Former(NamedTuple):
    """Events that a cell remembers beside its last write and its last read.

    Attributes:
        cells: of each event.
        events: who and when.
        writes: bool, which of them wrote.
    """

    cells: Array
    events: Events
    writes: Array

    def pick(self, which: Array) -> Former:
        """Some of them."""
        return Former(self.cells[which], self.events.pick(which), self.writes[which])


class GlobalShadow:
    """The cells of a launch's writable buffers.

    Attributes:
        shift: log2 of a cell's bytes.
    """

    def __init__(self) -> None:
        self.shift = _WIDEST_SHIFT
        self._tables: dict[int, Array] = {}
        self._pages = 1  # page 0 stands for those that nobody touched
        room = _ROOM << (_PAGE_SHIFT - self.shift)
        self._write = Events(np.zeros(room, np.int64), np.zeros(room, np.int32))
        self._read = Events(np.zeros(room, np.int64), np.zeros(room, np.int32))
        # Cells with former events: 1, or 3 where one of them was plain.
        self._crowded = np.zeros(room, np.uint8)
        self._former: list[Former] = []
        self._kept, self._limit = 0, _FEW
        self._ever_read = False  # few kernels read what they may write

    def cells(self, buffer: int, nbytes: int, address: int, offsets: Array, width: int) -> Array:
        """Cells of accesses, those of each access together; makes pages that are missing.

        See `Touch` for the arguments.
        """
        if width < 1 << self.shift:
            self._cut(width.bit_length() - 1)
        table = self._tables.get(buffer)
        if table is None:
            # Zeros cost nothing until they are touched, which a D of gigabytes relies on.
            table = np.zeros((nbytes >> _PAGE_SHIFT) + 2, np.int32)
            self._tables[buffer] = table
        position = offsets + address % PAGE_BYTES
        page = position >> _PAGE_SHIFT
        slot = table.take(page)
        if not slot.all():
            missing = np.unique(page[slot == 0])
            table[missing] = np.arange(self._pages, self._pages + missing.size)
            self._pages += missing.size
            self._make_room()
            slot = table.take(page)
        cells: Array = slot.astype(np.int64) << (_PAGE_SHIFT - self.shift)
        cells += (position & (PAGE_BYTES - 1)) >> self.shift
        per = width >> self.shift
        if per > 1:
            cells = (cells[:, None] + np.arange(per)).reshape(-1)
        return cells

    # -- the last write and the last read of a cell --

    def wrote(self, cells: Array) -> tuple[Array, Events] | None:
        """The last writes of those cells that have one, and the indices of these cells."""
        return self._last(self._write, cells)

    def read(self, cells: Array) -> tuple[Array, Events] | None:
        """Likewise the last reads since the last write."""
        if not self._ever_read:
            return None
        return self._last(self._read, cells)

    @staticmethod
    def _last(events: Events, cells: Array) -> tuple[Array, Events] | None:
        stamps = events.stamps.take(cells)
        if not stamps.any():
            return None
        which = np.flatnonzero(stamps)
        return which, Events(events.ids.take(cells[which]), stamps[which])

    def put_write(self, cells: Array, ids: Array, stamp: int) -> tuple[Array, Array]:
        """These accesses are the cells' last writes, and no read has come after.

        Returns:
            Indices of accesses that share their cell with one of another thread, and that one.
        """
        if self._ever_read:
            self._read.stamps[cells] = 0
        return self._put(self._write, cells, ids, stamp)

    def put_read(self, cells: Array, ids: Array, stamp: int) -> tuple[Array, Array]:
        """These accesses are the cells' last reads; see `put_write`."""
        self._ever_read = True
        return self._put(self._read, cells, ids, stamp)

    @staticmethod
    def _put(events: Events, cells: Array, ids: Array, stamp: int) -> tuple[Array, Array]:
        events.ids[cells] = ids
        events.stamps[cells] = stamp
        last = events.ids.take(cells)
        shared = np.flatnonzero((last ^ ids) & LANE_MASK)
        return shared, last[shared]

    # -- events that no later one is known to follow --

    def keep(self, cells: Array, events: Events, *, write: bool) -> None:
        """Remember events that others take the place of without being ordered after them."""
        if not cells.size:
            return
        self._former.append(Former(cells, events, np.full(cells.size, write)))
        self._crowded[cells] |= np.where(events.stamps & 1, 1, 3).astype(np.uint8)
        self._kept += cells.size
        if self._kept > self._limit:
            self._thin()

    def former(self, cells: Array, *, plain: bool) -> tuple[Array, Former] | None:
        """Former events of some cells, and the index among ``cells`` of each; None for none.

        With ``plain``, strong events may be missing.
        """
        if not self._former or not (self._crowded.take(cells) > (1 if plain else 0)).any():
            return None
        order = np.argsort(cells, kind="stable")
        ordered = cells[order]
        every = self._joined()
        low = np.searchsorted(ordered, every.cells, "left")
        count = np.searchsorted(ordered, every.cells, "right") - low
        hit = np.flatnonzero(count)
        if not hit.size:
            return None
        # A cell may stand several times among ``cells``: each meets each event.
        which = np.repeat(hit, count[hit])
        first = np.repeat(np.cumsum(count[hit]) - count[hit], count[hit])
        index = np.repeat(low[hit], count[hit]) + np.arange(which.size) - first
        return order[index], every.pick(which)

    def forget(self, cells: Array) -> None:
        """All former events of these cells are known to be over."""
        self._crowded[cells] = 0
        every = self._joined()
        self._former = [every.pick(self._crowded.take(every.cells) > 0)]

    def _joined(self) -> Former:
        if len(self._former) > 1:
            cells, events, writes = zip(*self._former, strict=True)
            ids, stamps = zip(*events, strict=True)
            joined = Events(np.concatenate(ids), np.concatenate(stamps))
            self._former = [Former(np.concatenate(cells), joined, np.concatenate(writes))]
        return self._former[0]

    def _thin(self) -> None:
        """Of each thread's events of one kind at a cell, keep the last: it follows the others."""
        every = self._joined()
        lanes, kinds = every.events.ids & LANE_MASK, every.events.stamps & 1
        order = np.lexsort((every.events.stamps, kinds, every.writes, lanes, every.cells))
        key = np.stack([every.cells, lanes, every.writes, kinds])[:, order]
        last = np.append((key[:, 1:] != key[:, :-1]).any(axis=0), True)
        self._former = [every.pick(order[last])]
        self._kept = int(last.sum())
        self._limit = max(_FEW, 2 * self._kept)

    # -- room --

    def _cut(self, shift: int) -> None:
        """Make cells narrower."""
        factor = 1 << (self.shift - shift)
        self._each(lambda array: np.repeat(array, factor))
        self._former = [
            Former(
                (f.cells[:, None] * factor + np.arange(factor)).reshape(-1),
                Events(np.repeat(f.events.ids, factor), np.repeat(f.events.stamps, factor)),
                np.repeat(f.writes, factor),
            )
            for f in self._former
        ]
        self.shift = shift

    def _make_room(self) -> None:
        have, need = self._crowded.size, self._pages << (_PAGE_SHIFT - self.shift)
        if need > have:
            more = max(need, 2 * have) - have
            self._each(lambda array: np.concatenate([array, np.zeros(more, array.dtype)]))

    def _each(self, change: Callable[[Array], Array]) -> None:
        self._write = Events(*map(change, self._write))
        self._read = Events(*map(change, self._read))
        self._crowded = change(self._crowded)
