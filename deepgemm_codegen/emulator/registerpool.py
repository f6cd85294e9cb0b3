"""The registers of a block's warpgroups, which setmaxnreg moves between them.

A block starts with the same number of registers for every thread. What a warpgroup gives back goes
to the block's pool; one that asks for more than the pool holds is blocked until another gives (PTX
ISA, "setmaxnreg").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RegisterPool", "Request"]

WARPGROUP = 128


class Request(NamedTuple):
    """A warpgroup that waits for registers.

    Attributes:
        start: its first lane.
        more: registers a thread that it lacks.
        site: the instruction.
    """

    start: int
    more: int
    site: int


class RegisterPool:
    """The pools of one batch.

    Args:
        blocks, threads: of the batch; lanes are block * threads + thread.
        launch: registers of a thread at the start; 0 where that is not known, and nobody waits.

    Attributes:
        starved: bool a lane: its warpgroup waits for registers.
        waiting: who waits, in the order in which they asked.
    """

    def __init__(self, blocks: int, threads: int, launch: int) -> None:
        self.threads, self.launch = threads, launch
        self.starved: NDArray[np.bool_] = np.zeros(blocks * threads, np.bool_)
        self.waiting: list[Request] = []
        self._free = [0] * blocks
        self._held: dict[int, int] = {}

    def free(self, start: int) -> int:
        """Registers a thread of a warpgroup that the pool of its block could give."""
        return self._free[start // self.threads]

    def set(self, start: int, count: int, site: int, *, more: bool) -> None:
        """A warpgroup asks for ``count`` registers a thread, or keeps no more than them."""
        held = self._held.get(start, self.launch)
        if not self.launch or (count <= held if more else count >= held):
            return
        if more:
            self.waiting.append(Request(start, count - held, site))
            self._mark(start, starved=True)
        else:
            self._free[start // self.threads] += held - count
            self._held[start] = count
        self._serve()

    def request(self, lane: int) -> Request | None:
        """What the warpgroup of a lane waits for."""
        return next((r for r in self.waiting if 0 <= lane - r.start < WARPGROUP), None)

    def _serve(self) -> None:
        for request in tuple(self.waiting):
            start, more, _ = request
            if more <= self.free(start):
                self._free[start // self.threads] -= more
                self._held[start] = self._held.get(start, self.launch) + more
                self.waiting.remove(request)
                self._mark(start, starved=False)

    def _mark(self, start: int, *, starved: bool) -> None:
        lanes: Any = slice(start, start + WARPGROUP)
        self.starved[lanes] = starved
