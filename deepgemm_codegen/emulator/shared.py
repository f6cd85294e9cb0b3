"""Shared memory of the thread blocks that run together, and their asynchronous copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import Access, split_id
from deepgemm_codegen.emulator.memory import RAW

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.listeners import Listener

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

    def load(self, address: Array, width: int, base: Array | None, ids: Array) -> Array:
        """Raw words, shape (n,); 0xff bytes where the access is at fault."""
        flat, good = self.resolve(address, width, base, ids, "read")
        if good is not None:
            values = np.zeros(address.size, RAW[width])
            values.view(np.uint8)[...] = 0xFF
            values[good] = self._take(flat[good], width, ids[good])
            return values
        return self._take(flat, width, ids)

    def _take(self, flat: Array, width: int, ids: Array) -> Array:
        values = self.views[width].take(flat >> (width.bit_length() - 1))
        poison: Array | None = None
        access = Access(flat, width, ids)
        for listener in self.listeners:
            found = listener.read(access)
            if found is not None:
                poison = found if poison is None else poison | found
        if poison is not None:
            values.view(np.uint8).reshape(-1, width)[poison] = 0xFF
        return values

    def store(
        self, address: Array, width: int, base: Array | None, ids: Array, values: Array
    ) -> None:
        """Write raw words; an access at fault is dropped."""
        flat, good = self.resolve(address, width, base, ids, "write")
        if good is not None:
            flat, ids, values = flat[good], ids[good], values[good]
        access = Access(flat, width, ids)
        for listener in self.listeners:
            listener.write(access)
        self.views[width][flat >> (width.bit_length() - 1)] = values

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
