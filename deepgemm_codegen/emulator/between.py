"""What thread blocks tell those of later batches, through releases and acquires in global memory.

Clocks belong to one batch. What a location held when its batch ended is kept as a message: for each
batch, up to which time each of its threads' events are told. In a later batch a message is an
agent of that batch's clocks (a column): whoever acquires from the location learns it, and it
travels on as all knowledge does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.clocks import Snapshot

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.clocks import Clocks
    from deepgemm_codegen.emulator.locations import Locations

__all__ = ["Between"]

Array = np.ndarray[Any, np.dtype[Any]]

Message = dict[int, Array]
"""By batch, times by lane."""


class Between:
    """Order between the batches of one launch."""

    def __init__(self) -> None:
        self.batch = 0
        self._left: dict[int, Message] = {}  # by global address
        self._clocks: Clocks | None = None
        self._locations: Locations | None = None
        self._columns: dict[int, Message] = {}
        self._fetched: set[int] = set()

    def begin(self, clocks: Clocks | None, locations: Locations | None) -> None:
        """Another batch begins; None where its threads never order blocks."""
        self._end()
        self.batch += 1
        self._clocks, self._locations = clocks, locations
        self._columns = {}
        self._fetched = set()
        if locations is not None:
            locations.earlier = self._fetch if self._left else None

    def ordered(self, lanes: Array, batches: Array, others: Array, times: Array) -> Array:
        """Whether threads of this batch know what those of earlier ones did (bool)."""
        result = np.zeros(lanes.size, bool)
        if self._clocks is None:
            return result
        for column, message in self._columns.items():
            told = self._clocks.known[lanes, column] > 0
            if told.any():
                for batch in np.unique(batches).tolist():
                    if batch in message:
                        result |= told & (batches == batch) & (message[batch][others] >= times)
        return result

    def _fetch(self, place: int) -> Snapshot | None:
        """What was left at a global address, for the first access of this batch to it."""
        message = self._left.get(place)
        self._fetched.add(place)
        if message is None or self._clocks is None:
            return None
        column = self._clocks.column()
        self._columns[column] = message
        known = np.zeros(column + 1, np.int32)
        known[column] = 1
        return Snapshot(known, np.zeros(self._clocks.lanes, np.int32))

    def _end(self) -> None:
        """Keep what the batch's locations hold."""
        if self._locations is None:
            return
        for place in self._fetched:
            self._left.pop(place, None)
        for (space, place), entry in self._locations.places.items():
            if space == "global" and entry.wide is not None:
                self._left[place] = self._message(entry.wide.known)

    def _message(self, known: Array) -> Message:
        message = {self.batch: known}
        for column, older in self._columns.items():
            if column < known.size and known[column]:
                for batch, times in older.items():
                    mine = message.get(batch)
                    size = times.size if mine is None else max(mine.size, times.size)
                    joined = np.zeros(size, np.int32)
                    joined[: times.size] = times
                    if mine is not None:
                        np.maximum(joined[: mine.size], mine, out=joined[: mine.size])
                    message[batch] = joined
        return message
