"""Findings about pairs of accesses to shared memory, for both race checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import SITE_SHIFT, split_id

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector

__all__ = ["meetings", "report_pairs"]

Array = np.ndarray[Any, np.dtype[Any]]


def report_pairs(
    collector: Collector,
    what: tuple[str, str],
    cells: Array,
    ids: Array,
    where: Array,
    others: Array | None,
    *,
    shift: int,
    stride: int,
) -> None:
    """One finding for each pair of instructions among the accesses ``where``.

    Args:
        collector: where findings go.
        what: kind and text of the finding.
        cells: cell of every access.
        ids: identity of every access.
        where: indices of the accesses that are at fault.
        others: the identity that each of ``where`` conflicts with; None when there is none.
        shift: log2 of a cell's bytes.
        stride: bytes of one block's window.
    """
    sites = ids[where] >> SITE_SHIFT
    keys = sites if others is None else (sites << SITE_SHIFT) | (others >> SITE_SHIFT)
    _, firsts, counts = np.unique(keys, return_index=True, return_counts=True)
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        index = int(where[first])
        site, lane = split_id(int(ids[index]))
        collector.add(
            *what,
            site,
            lane,
            other=None if others is None else split_id(int(others[first])),
            address=int(cells[index] << shift) % stride,
            count=int(count),
        )


def meetings(cells: Array, others: Array) -> tuple[Array, Array]:
    """Each access with each other one to the same cell: indices into both, pair by pair."""
    order = np.argsort(cells, kind="stable")
    ascending = cells[order]
    first = np.searchsorted(ascending, others, "left")
    count = np.searchsorted(ascending, others, "right") - first
    theirs = np.repeat(np.arange(count.size), count)
    within = np.arange(theirs.size) - np.repeat(np.cumsum(count) - count, count)
    return order[first[theirs] + within], theirs
