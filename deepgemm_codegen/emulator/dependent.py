"""Programmatic dependent launch: no memory is touched before the kernel before this one has ended.

A kernel that is launched so may begin early. Nothing that the kernel before it wrote can be relied
on, and nothing that it still reads may be overwritten, until a thread has executed
``griddepcontrol.wait`` (PTX ISA, "griddepcontrol").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import LANE_MASK, SITE_SHIFT, Access, Listener, Region

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.mbarrier import Mbarrier

__all__ = ["EarlyAccesses"]

Array = np.ndarray[Any, np.dtype[Any]]


class EarlyAccesses(Listener):
    """Finds accesses to global memory by threads that have not waited yet."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.waited: Array = np.zeros(0, np.bool_)

    def begin(self, lanes: int) -> None:
        """Another batch begins."""
        self.waited = np.zeros(lanes, np.bool_)

    def depend(self, lanes: Array) -> None:
        """These threads waited."""
        self.waited[lanes] = True

    def global_access(self, access: Access) -> None:
        """Every thread has to have waited."""
        lanes = access.ids & LANE_MASK
        early = ~self.waited[lanes]
        if early.any():
            first = int(np.argmax(early))
            site = int(access.ids[first] >> SITE_SHIFT)
            self._add(site, int(lanes[first]), int(early.sum()))

    def land(self, region: Region, barrier: Mbarrier) -> None:  # noqa: ARG002  all bulk copies
        """The same of those who ask for a bulk copy."""
        early = region.lanes[~self.waited[region.lanes]]
        if early.size:
            self._add(region.site, int(early[0]), int(early.size))

    def _add(self, site: int, lane: int, count: int) -> None:
        self.collector.add(
            "early-access",
            "global memory is accessed before griddepcontrol.wait: the kernel before may still run",
            site,
            lane,
            count=count,
        )
