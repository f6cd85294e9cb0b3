"""What observers of a run are told, and the interface that they implement.

The machine executes; listeners judge. An access reaches them as flat arrays, one element for each
access of each lane, so that a check is a handful of numpy calls for a whole batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["SITE_SHIFT", "Access", "Listener", "make_ids", "split_id"]

Array = np.ndarray[Any, np.dtype[Any]]

# An access is known by one integer: lane in the low 20 bits, instruction above.
SITE_SHIFT = 20
_LANE_MASK = (1 << SITE_SHIFT) - 1


def make_ids(site: int, lanes: Array) -> Array:
    """Identities of one instruction's accesses in some lanes (int64)."""
    return lanes + (site << SITE_SHIFT)


def split_id(ident: int) -> tuple[int, int]:
    """Instruction number and lane of an identity."""
    return (ident >> SITE_SHIFT) & 0xFFFFF, ident & _LANE_MASK


class Access(NamedTuple):
    """Accesses to shared memory, in order of instruction and then lane.

    Attributes:
        address: int64, shape (n,): byte offset in the array that holds all blocks' windows.
        width: bytes of each access, aligned to it.
        ids: int64, shape (n,): who and which instruction.
    """

    address: Array
    width: int
    ids: Array


class Listener:
    """Base of all checks; every event does nothing here."""

    def read(self, access: Access) -> Array | None:
        """Shared memory is read; returns the accesses that must yield poison (bool), or None."""

    def write(self, access: Access) -> None:
        """Shared memory is written."""

    def issue(self, access: Access) -> object:
        """An asynchronous write starts; the returned token comes back at its completion."""

    def complete(self, token: object, where: Array | None) -> None:
        """An asynchronous write is done for its issuing threads (``where``: bool a access)."""

    def global_access(self, access: Access) -> None:
        """Global memory is read or written; ``address`` holds the addresses (int64)."""

    def barrier(self, blocks: Array | None) -> None:
        """All live threads of some blocks met (numbers in the batch; None: all blocks)."""

    def meet(self, lanes: Array) -> None:
        """Groups of threads met: int array (groups, members) of lanes."""

    def finish(self) -> None:
        """The batch of blocks ended."""
