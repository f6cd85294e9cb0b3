"""What observers of a run are told, and the interface that they implement.

The machine executes; listeners judge. An access reaches them as flat arrays, one element for each
access of each lane, so that a check is a handful of numpy calls for a whole batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.mbarrier import Mbarrier

__all__ = [
    "LANE_MASK",
    "SITE_SHIFT",
    "Access",
    "Agent",
    "Listener",
    "Order",
    "Region",
    "Strong",
    "Touch",
    "Watcher",
    "make_ids",
    "split_id",
]

Array = np.ndarray[Any, np.dtype[Any]]

# An access is known by one integer: lane in the low 20 bits, instruction above.
SITE_SHIFT = 20
LANE_MASK = (1 << SITE_SHIFT) - 1


def make_ids(site: int, lanes: Array) -> Array:
    """Identities of one instruction's accesses in some lanes (int64)."""
    return lanes + (site << SITE_SHIFT)


def split_id(ident: int) -> tuple[int, int]:
    """Instruction number and lane of an identity."""
    return (ident >> SITE_SHIFT) & 0xFFFFF, ident & LANE_MASK


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


class Order(NamedTuple):
    """The memory order of a strong access or a fence.

    Attributes:
        acquire, release: which of the two it is; a relaxed access is neither.
        wide: whether its scope reaches beyond the block.
    """

    acquire: bool = False
    release: bool = False
    wide: bool = True


class Strong(NamedTuple):
    """Strong accesses, by which threads may synchronise; one after the other, lanes ascending.

    Attributes:
        space: ``global`` or ``shared``.
        places: int64, shape (n,): global addresses, or offsets in the array of all windows.
        lanes: shape (n,).
        order: of all of them.
        reads, writes: both for an atomic operation.
    """

    space: str
    places: Array
    lanes: Array
    order: Order
    reads: bool
    writes: bool


class Touch(NamedTuple):
    """Accesses to one writable buffer in global memory, all in bounds and aligned.

    Attributes:
        buffer: its number in the launch.
        name, nbytes: of the buffer.
        offsets: int64, shape (n,): bytes from its start.
        address: of its start.
        width: bytes of each access.
        ids: int64, shape (n,): who and which instruction.
        strong: whether they are atomic, or of their kind.
        group: of a bulk store, the thread's group that it belongs to; 0 for all else.
    """

    buffer: int
    name: str
    nbytes: int
    offsets: Array
    address: int
    width: int
    ids: Array
    strong: bool = False
    group: int = 0


class Watcher(Protocol):
    """Judges the accesses to writable buffers, and those alone."""

    def read(self, touch: Touch) -> None:
        """A buffer is read."""
        ...

    def write(self, touch: Touch) -> None:
        """A buffer is written, atomically where ``touch.strong``."""
        ...

    def settle(self, lane: int, group: int) -> None:
        """A thread waited until its bulk stores of groups up to this one had written."""
        ...


class Region(NamedTuple):
    """An asynchronous access to shared memory, in chunks of equal size.

    Attributes:
        address: int64, shape (n,): byte offset in the array that holds all blocks' windows, each a
            multiple of the chunk's size.
        lanes: the threads that issued it together.
        site: the instruction.
        width: bytes of a chunk.
        proxied: whether it goes through the async proxy, before which ordinary writes are fenced.
    """

    address: Array
    lanes: Array
    site: int
    width: int = 16
    proxied: bool = True


class Agent(NamedTuple):
    """Who reads shared memory beside the threads: ``wgmma`` of a warpgroup, ``bulk`` of a lane."""

    kind: str
    number: int


class Listener:
    """Base of all checks; every event does nothing here."""

    def read(self, access: Access) -> Array | None:
        """Shared memory is read; returns the accesses that must yield poison (bool), or None."""

    def write(self, access: Access) -> None:
        """Shared memory is written."""

    def strong(self, access: Access, *, reads: bool, writes: bool) -> Array | None:
        """Strong accesses to shared memory, which race with none of their kind; see ``read``."""

    def synchronise(self, what: Strong) -> None:
        """Strong accesses to global or shared memory may order threads."""

    def fence_memory(self, lanes: Array, order: Order) -> None:
        """Threads executed a fence."""

    def issue(self, access: Access) -> object:
        """An asynchronous write starts; the returned token comes back at its completion."""

    def complete(self, token: object, where: Array | None) -> None:
        """An asynchronous write is done for its issuing threads (``where``: bool a access)."""

    def attach(self, barrier: Mbarrier, lanes: Array, *, expected: bool) -> None:
        """Asynchronous writes of these threads will arrive at an mbarrier, if there are any.

        ``expected``: its count has these arrivals; if not, only an arrival that comes after this
        keeps the phase from ending before.
        """

    def hand(
        self, token: object, where: Array | None, barrier: Mbarrier, *, expected: bool
    ) -> None:
        """Such a write is complete with the mbarrier's current phase; see `complete`, `attach`."""

    def global_access(self, access: Access) -> None:
        """Global memory is read or written; ``address`` holds the addresses (int64)."""

    def depend(self, lanes: Array) -> None:
        """Threads waited for the kernel before this one (programmatic dependent launch)."""

    def barrier(self, blocks: Array | None) -> None:
        """All live threads of some blocks met (numbers in the batch; None: all blocks)."""

    def meet(self, lanes: Array) -> None:
        """Groups of threads met: int array (groups, members) of lanes."""

    def named(self, block: int, number: int, lanes: Array, site: int) -> None:
        """A numbered barrier with a thread count is complete for those who waited."""

    def arrive_named(self, block: int, number: int, lanes: Array, site: int) -> None:
        """Threads arrived at a numbered barrier, and go on."""

    def reach(self, lanes: Array, blocks: Array, site: int) -> None:
        """Threads are about to access the shared memory of other blocks of their cluster."""

    # -- asynchronous agents and mbarriers (Hopper) --

    def initialise(self, barrier: Mbarrier) -> None:
        """An mbarrier was made."""

    def use(self, barrier: Mbarrier, lanes: Array, site: int, verb: str) -> None:
        """Threads are about to do something with an mbarrier."""

    def arrive(self, barrier: Mbarrier, lanes: Array, site: int) -> None:
        """Threads arrived at an mbarrier, which releases what they did."""

    def phase(self, barrier: Mbarrier) -> None:
        """A phase of an mbarrier is complete."""

    def doubts(self, barrier: Mbarrier, lanes: Array) -> Array | None:
        """Which threads cannot know yet that the last phase is complete (bool); None for none."""

    def observe(
        self, barrier: Mbarrier, lanes: Array, parity: int, phase: int | None, site: int
    ) -> None:
        """Threads saw that a phase of that parity is complete; which, if a token named it."""

    def fence(self, lanes: Array) -> None:
        """Threads fenced their ordinary accesses for the asynchronous proxy."""

    def land(self, region: Region, barrier: Mbarrier) -> None:
        """A bulk copy, or st.async, writes shared memory until the mbarrier's current phase."""

    def fetch(self, region: Region, agent: Agent, time: int) -> Array | None:
        """An agent reads shared memory until its group ``time`` is waited for.

        Returns the chunks that must yield poison (bool), or None.
        """

    def fetch_until(self, region: Region, barrier: Mbarrier) -> Array | None:
        """A bulk copy reads shared memory until the mbarrier's current phase; see ``fetch``."""

    def settle(self, agent: Agent, lanes: Array, time: int) -> None:
        """Threads waited until an agent's groups up to ``time`` were done."""

    def cluster_arrive(self, cluster: int, lanes: Array, *, release: bool) -> None:
        """Threads arrived at the barrier of a cluster."""

    def cluster_complete(self, cluster: int) -> None:
        """All threads of a cluster have arrived."""

    def cluster_wait(self, cluster: int, lanes: Array) -> None:
        """Threads saw that the cluster's barrier is complete."""

    def finish(self) -> None:
        """The batch of blocks ended."""
