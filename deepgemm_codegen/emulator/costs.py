"""What the memory accesses cost: bank conflicts in shared memory, sectors in global memory.

Shared memory has 32 banks of 4 bytes. A warp's access goes in passes: all 32 lanes for up to 4
bytes a lane, 16 lanes for 8 bytes, 8 lanes for 16 bytes (one matrix of ``ldmatrix``). A pass takes
as many wavefronts as the busiest bank has distinct words; lanes that share a word share its
wavefront. Excess counts wavefronts beyond one a pass.

Accesses that the machine code makes one (:mod:`joins`) are counted as one.

Global memory moves sectors of 32 bytes. A request is one warp's access; the fewest sectors that
could hold its bytes are the ideal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import SITE_SHIFT, Access, Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.findings import Place
    from deepgemm_codegen.emulator.joins import Join

__all__ = ["CostListener", "GlobalCost", "SharedCost"]

Array = np.ndarray[Any, np.dtype[Any]]

_SECTOR = 32


@dataclass(frozen=True, slots=True)
class SharedCost:
    """Bank conflicts of one instruction.

    Attributes:
        place: the instruction.
        width: bytes of a lane's access.
        requests: warp accesses.
        wavefronts: taken by all of them.
        excess: wavefronts beyond one a pass; 0 is conflict-free.
        degree: the most wavefronts that one pass took.
    """

    place: Place
    width: int
    requests: int
    wavefronts: int
    excess: int
    degree: int


@dataclass(frozen=True, slots=True)
class GlobalCost:
    """Sectors of one instruction.

    Attributes:
        place: the instruction.
        width: bytes of a lane's access.
        requests: warp accesses.
        sectors: 32-byte sectors touched, summed over the requests.
        ideal: the fewest that could hold the bytes.
    """

    place: Place
    width: int
    requests: int
    sectors: int
    ideal: int


class CostListener(Listener):
    """Counts wavefronts and sectors by instruction.

    Args:
        joins: instructions that the machine code makes one; it is counted at the first of them.
    """

    def __init__(self, joins: tuple[Join, ...] = ()) -> None:
        self._shared: dict[int, list[int]] = {}
        self._global: dict[int, list[int]] = {}
        self._parts = {
            site: (join, offset, site == join.sites[0])
            for join in joins
            for site, offset in zip(join.sites, join.offsets, strict=True)
        }

    def read(self, access: Access) -> Array | None:
        """Count a read."""
        self._count(access)
        return None

    def write(self, access: Access) -> None:
        """Count a write."""
        self._count(access)

    def strong(self, access: Access, *, reads: bool, writes: bool) -> Array | None:  # noqa: ARG002
        """Count an atomic operation, a strong load or store."""
        self._count(access)
        return None

    def issue(self, access: Access) -> object:
        """An asynchronous copy writes shared memory as a store would."""
        self._count(access)
        return None

    def global_access(self, access: Access) -> None:
        """Count the sectors of global accesses."""
        for each in self._joined(access):
            self._count_global(each)

    def _joined(self, access: Access) -> list[Access]:
        """The accesses as the machine code makes them."""
        if not self._parts:
            return [access]
        sites = access.ids >> SITE_SHIFT
        found = []
        left = np.ones(sites.size, bool)
        for site in np.unique(sites).tolist():
            if site not in self._parts:
                continue
            join, offset, first = self._parts[site]
            mine = sites == site
            whole = access.address[mine] - offset
            if (whole & (join.width - 1)).any():
                continue  # where the whole is not aligned, the parts stay apart
            left &= ~mine
            if first:
                found.append(Access(whole, join.width, access.ids[mine]))
        if left.all():
            return [access]
        if left.any():
            found.append(Access(access.address[left], access.width, access.ids[left]))
        return found

    def _count_global(self, access: Access) -> None:
        first = access.address // _SECTOR
        last = (access.address + access.width - 1) // _SECTOR
        if _whole_warps(access.ids) and np.array_equal(first, last):
            rows = np.sort(first.reshape(-1, 32), axis=1)
            sectors = 1 + np.count_nonzero(np.diff(rows, axis=1), axis=1)
            requests = access.ids[::32] >> 5
            lanes = np.full(requests.size, 32)
        else:
            warps = np.concatenate([access.ids, access.ids]) >> 5
            touched = _distinct(warps, np.concatenate([first, last]))[0]
            requests, sectors = np.unique(touched, return_counts=True)
            lanes = np.unique(access.ids >> 5, return_counts=True)[1]
        ideal = np.minimum(-(-lanes * access.width // _SECTOR), sectors)  # lanes may share bytes
        sites, which = np.unique(requests >> (SITE_SHIFT - 5), return_inverse=True)
        found = [
            np.bincount(which),
            np.bincount(which, sectors),
            np.bincount(which, ideal),
        ]
        for site, *numbers in zip(sites.tolist(), *found, strict=True):
            entry = self._global.setdefault(site, [0, 0, 0, 0])
            entry[0] = max(entry[0], access.width)
            for i, number in enumerate(numbers, 1):
                entry[i] += int(number)

    def _count(self, access: Access) -> None:
        for each in self._joined(access):
            self._count_shared(each)

    def _count_shared(self, access: Access) -> None:
        # A lane of w bytes (4 at least) covers w/4 neighbouring banks: as many lanes as fill the
        # 128 bytes of all banks make a pass, and there are as many places among the banks.
        size = max(access.width, 4)
        lanes = 128 // size
        units = access.address >> (size.bit_length() - 1)
        if _whole_warps(access.ids):
            rows = units.reshape(-1, lanes)
            places = np.bitwise_or.reduce(np.int64(1) << (rows & (lanes - 1)), axis=1)
            degrees = np.ones(len(rows), np.int64)
            met = np.flatnonzero(places != (1 << lanes) - 1)
            if met.size:
                degrees[met] = _degrees(np.repeat(met, lanes), rows[met].reshape(-1), lanes)
            passes = access.ids[::lanes]
            requests = access.ids[::32]
        else:
            number = access.ids // lanes
            degrees = _degrees(number, units, lanes)
            passes = np.unique(number) * lanes
            requests = np.unique(access.ids >> 5) << 5
        sites, which = np.unique(passes >> SITE_SHIFT, return_inverse=True)
        wavefronts, counts = np.bincount(which, degrees), np.bincount(which)
        degree = np.zeros(sites.size, np.int64)
        np.maximum.at(degree, which, degrees)
        warps = np.bincount(np.searchsorted(sites, requests >> SITE_SHIFT))
        for i, site in enumerate(sites.tolist()):
            entry = self._shared.setdefault(site, [0, 0, 0, 0, 0])
            entry[0] = max(entry[0], access.width)
            entry[1] += int(warps[i])
            entry[2] += int(wavefronts[i])
            entry[3] += int(wavefronts[i]) - int(counts[i])
            entry[4] = max(entry[4], int(degree[i]))

    def shared_costs(self, place: Callable[[int], Place]) -> tuple[SharedCost, ...]:
        """By instruction, in program order."""
        return tuple(SharedCost(place(s), *self._shared[s]) for s in sorted(self._shared))

    def global_costs(self, place: Callable[[int], Place]) -> tuple[GlobalCost, ...]:
        """By instruction, in program order."""
        return tuple(GlobalCost(place(s), *self._global[s]) for s in sorted(self._global))


def _whole_warps(ids: Array) -> bool:
    """Whether the accesses are those of whole warps, lane after lane."""
    if ids.size % 32:
        return False
    rows = ids.reshape(-1, 32)
    return not (rows[:, 0] & 31).any() and bool((rows == rows[:, :1] + np.arange(32)).all())


def _distinct(first: Array, second: Array) -> tuple[Array, Array]:
    """The distinct pairs of two arrays, ascending."""
    low = second.min()
    span = int(second.max() - low) + 1
    ranks, which = np.unique(first, return_inverse=True)
    pairs = np.unique(which * span + (second - low))
    return ranks[pairs // span], pairs % span + low


def _degrees(passes: Array, units: Array, places: int) -> Array:
    """The most distinct units that meet at one place, for each pass in ascending order."""
    which, words = _distinct(passes, units)
    busy, counts = np.unique(which * places + words % places, return_counts=True)
    starts = np.unique(busy // places, return_index=True)[1]
    degrees: Array = np.maximum.reduceat(counts, starts)
    return degrees
