"""Shared memory of the thread blocks that run together, and their asynchronous copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.listeners import LANE_MASK, Access, Strong, split_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.listeners import Listener, Order

__all__ = ["SharedMemory"]

Array = np.ndarray[Any, np.dtype[Any]]


class SharedMemory:
    """One window a block, in one array.

    Attributes:
        nbytes: size of a window.
        stride: distance of two blocks' windows in the array.
        base: int64, shape (lanes,): where each lane's window starts; None with one block.
    """

    def __init__(self, nbytes: int, blocks: int, threads: int, collector: Collector) -> None:
        self.nbytes = nbytes
        self.stride = -(-max(nbytes, 16) // 128) * 128
        self.collector = collector
        words = np.zeros(blocks * self.stride // 16, np.complex128)
        self.views = {width: words.view(dtype) for width, dtype in RAW.items()}
        self.base: Array | None = None
        if blocks > 1:
            self.base = np.repeat(np.arange(blocks, dtype=np.int64) * self.stride, threads)
        self.listeners: list[Listener] = []
        # Reused between launches: stale bytes must not look like data.
        self.views[1][...] = 0xFF

    def resolve(
        self, address: Array, width: int, base: Array | None, ids: Array, verb: str
    ) -> tuple[Array, Array | None]:
        """Flat byte offsets of accesses, checked for bounds and alignment.

        Args:
            address: int64, shape (n,), in the block's window.
            width: bytes of an access.
            base: window start of each access, or None.
            ids: identity of each access.
            verb: ``read`` or ``write``, for findings.

        Returns:
            The offsets, and None when all accesses are good or the bool mask of good ones (the
            offsets of bad ones are then 0).
        """
        bits = int(np.bitwise_or.reduce(address)) if address.size else 0
        good = None
        # A negative address sets the sign bit of the OR.
        if (
            bits < 0
            or bits & (width - 1)
            or (bits > self.nbytes - width and not self._inside(address, width))
        ):
            good = self._bad(address, width, ids, verb)
            address = np.where(good, address, 0)
        return (address if base is None else address + base), good

    def _inside(self, address: Array, width: int) -> bool:
        return int(address.max()) <= self.nbytes - width

    def _bad(self, address: Array, width: int, ids: Array, verb: str) -> Array:
        outside = (address < 0) | (address > self.nbytes - width)
        misaligned = (address & (width - 1)) != 0
        for bad, kind, text in (
            (misaligned, "misaligned", f"at an address that is no multiple of {width}"),
            (outside, f"out-of-bounds-{verb}", f"outside the block's {self.nbytes} bytes"),
        ):
            if bad.any():
                first = int(np.flatnonzero(bad)[0])
                site, lane = split_id(int(ids[first]))
                self.collector.add(
                    kind,
                    f"shared {verb} of {width} bytes {text}",
                    site,
                    lane,
                    address=int(address[first]),
                    count=int(bad.sum()),
                )
        good: Array = ~(outside | misaligned)
        return good

    def load(
        self,
        address: Array,
        width: int,
        base: Array | None,
        ids: Array,
        order: Order | None = None,
    ) -> Array:
        """Raw words, shape (n,); 0xff bytes where the access is at fault.

        ``order`` is that of strong loads, None for ordinary ones.
        """
        flat, good = self.resolve(address, width, base, ids, "read")
        if good is not None:
            values = np.zeros(address.size, RAW[width])
            values.view(np.uint8)[...] = 0xFF
            values[good] = self._take(flat[good], width, ids[good], order)
            return values
        return self._take(flat, width, ids, order)

    def _take(self, flat: Array, width: int, ids: Array, order: Order | None) -> Array:
        values = self.views[width].take(flat >> (width.bit_length() - 1))
        poison: Array | None = None
        if order is not None:
            poison = self._strong(flat, width, ids, order, reads=True, writes=False)
        else:
            access = Access(flat, width, ids)
            for listener in self.listeners:
                found = listener.read(access)
                if found is not None:
                    poison = found if poison is None else poison | found
        if poison is not None:
            values.view(np.uint8).reshape(-1, width)[poison] = 0xFF
        return values

    def store(
        self,
        address: Array,
        width: int,
        base: Array | None,
        ids: Array,
        values: Array,
        order: Order | None = None,
    ) -> None:
        """Write raw words; an access at fault is dropped."""
        flat, good = self.resolve(address, width, base, ids, "write")
        if good is not None:
            flat, ids, values = flat[good], ids[good], values[good]
        if order is not None:
            self._strong(flat, width, ids, order, reads=False, writes=True)
        else:
            access = Access(flat, width, ids)
            for listener in self.listeners:
                listener.write(access)
        self.views[width][flat >> (width.bit_length() - 1)] = values

    def update(
        self,
        address: Array,
        width: int,
        base: Array | None,
        ids: Array,
        order: Order,
        combine: Callable[[Array, Array, Array], None],
    ) -> None:
        """Atomic operations.

        ``combine`` gets the view of all words of that width, the words to change and the accesses
        that change them, where the access is good.
        """
        flat, good = self.resolve(address, width, base, ids, "write")
        which = np.arange(address.size)
        if good is not None:
            which = np.flatnonzero(good)
            flat, ids = flat[which], ids[which]
        self._strong(flat, width, ids, order, reads=True, writes=True)
        combine(self.views[width], flat >> (width.bit_length() - 1), which)

    def _strong(
        self, flat: Array, width: int, ids: Array, order: Order, *, reads: bool, writes: bool
    ) -> Array | None:
        """Announce strong accesses; returns those that must yield poison (bool), or None."""
        access = Access(flat, width, ids)
        what = Strong("shared", flat, ids & LANE_MASK, order, reads, writes)
        poison: Array | None = None
        for listener in self.listeners:
            found = listener.strong(access, reads=reads, writes=writes)
            listener.synchronise(what)
            if found is not None:
                poison = found if poison is None else poison | found
        return poison

    def start_copy(
        self, address: Array, width: int, base: Array | None, ids: Array, values: Array
    ) -> tuple[list[object], Array]:
        """Start an asynchronous write; returns the listeners' tokens and who wrote (ids)."""
        flat, good = self.resolve(address, width, base, ids, "write")
        if good is not None:
            flat, ids, values = flat[good], ids[good], values[good]
        access = Access(flat, width, ids)
        tokens = [listener.issue(access) for listener in self.listeners]
        self.views[width][flat >> (width.bit_length() - 1)] = values
        return tokens, ids
