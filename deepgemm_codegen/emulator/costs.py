"""What the memory accesses cost: bank conflicts in shared memory, sectors in global memory.

Shared memory has 32 banks of 4 bytes. A warp's access goes in passes: all 32 lanes for up to 4
bytes a lane, 16 lanes for 8 bytes, 8 lanes for 16 bytes (one matrix of ``ldmatrix``). A pass takes
as many wavefronts as the busiest bank has distinct words; lanes that share a word share its
wavefront. Excess counts wavefronts beyond one a pass.

Global memory moves sectors of 32 bytes. A request is one warp's access; the fewest sectors that
could hold its bytes are the ideal.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import LANE_MASK, SITE_SHIFT, Access, Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.findings import Place

__all__ = ["CostListener", "GlobalCost", "SharedCost"]

Array = np.ndarray[Any, np.dtype[Any]]

_SECTOR = 32


@dataclass(frozen=True, slots=True)
class SharedCost:
    """Bank conflicts of one instruction.

    Attributes:
        place: the instruction.
        requests: warp accesses.
        wavefronts: taken by all of them.
        excess: wavefronts beyond one a pass; 0 is conflict-free.
        degree: the most wavefronts that one pass took.
    """

    place: Place
    requests: int
    wavefronts: int
    excess: int
    degree: int


@dataclass(frozen=True, slots=True)
class GlobalCost:
    """Sectors of one instruction.

    Attributes:
        place: the instruction.
        requests: warp accesses.
        sectors: 32-byte sectors touched, summed over the requests.
        ideal: the fewest that could hold the bytes.
    """

    place: Place
    requests: int
    sectors: int
    ideal: int


class CostListener(Listener):
    """Counts wavefronts and sectors by instruction."""

    def __init__(self) -> None:
        self._shared: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._global: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])

    def read(self, access: Access) -> Array | None:
        """Count a read."""
        self._count_shared(access)
        return None

    def write(self, access: Access) -> None:
        """Count a write."""
        self._count_shared(access)

    def strong(self, access: Access, *, reads: bool, writes: bool) -> Array | None:  # noqa: ARG002
        """Count an atomic operation, a strong load or store."""
        self._count_shared(access)
        return None

    def issue(self, access: Access) -> object:
        """An asynchronous copy writes shared memory as a store would."""
        self._count_shared(access)
        return None

    def global_access(self, access: Access) -> None:
        """Count the sectors of global accesses."""
        warps = access.ids >> 5  # instruction, block and warp: one request
        last = (access.address + access.width - 1) // _SECTOR
        both = np.stack([warps, access.address // _SECTOR], axis=1)
        if not np.array_equal(both[:, 1], last):
            both = np.concatenate([both, np.stack([warps, last], axis=1)])
        touched = np.unique(both, axis=0)[:, 0]
        requests, lanes = np.unique(warps, return_counts=True)
        sectors = np.unique(touched, return_counts=True)[1]
        ideal = -(-lanes * access.width // _SECTOR)
        for site, count, least in zip(
            (requests >> (SITE_SHIFT - 5)).tolist(), sectors.tolist(), ideal.tolist(), strict=True
        ):
            entry = self._global[site]
            entry[0] += 1
            entry[1] += count
            entry[2] += least

    def _count_shared(self, access: Access) -> None:
        lanes = access.ids & LANE_MASK
        group = max(1, access.width // 4)  # lanes of a pass: 32 / group
        passes = (access.ids >> 5) * group + (lanes & 31) * group // 32
        words = (access.address >> 2)[:, None] + np.arange(group)
        pairs = np.stack([np.repeat(passes, group), words.reshape(-1)], axis=1)
        distinct = np.unique(pairs, axis=0)
        busy, counts = np.unique(distinct[:, 0] * 32 + distinct[:, 1] % 32, return_counts=True)
        which, starts = np.unique(busy // 32, return_index=True)
        degrees = np.maximum.reduceat(counts, starts)
        sites = which // group >> (SITE_SHIFT - 5)
        for site in np.unique(sites).tolist():
            here = degrees[sites == site]
            entry = self._shared[site]
            entry[1] += int(here.sum())
            entry[2] += int((here - 1).sum())
            entry[3] = max(entry[3], int(here.max()))
        requests = np.unique(access.ids >> 5)
        for site, count in zip(
            *(x.tolist() for x in np.unique(requests >> (SITE_SHIFT - 5), return_counts=True)),
            strict=True,
        ):
            self._shared[site][0] += count

    def shared_costs(self, place: Callable[[int], Place]) -> tuple[SharedCost, ...]:
        """By instruction, in program order."""
        return tuple(SharedCost(place(s), *self._shared[s]) for s in sorted(self._shared))

    def global_costs(self, place: Callable[[int], Place]) -> tuple[GlobalCost, ...]:
        """By instruction, in program order."""
        return tuple(GlobalCost(place(s), *self._global[s]) for s in sorted(self._global))
