"""What must not be left undone when thread blocks end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.listeners import LANE_MASK, SITE_SHIFT

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context

__all__ = ["finish"]


def finish(context: Context) -> None:
    """Check the state that a batch of blocks leaves behind."""
    state = context.state
    add = context.collector.add
    for lane, bulk in state.bulk.items():
        for _, site in bulk.stores[:1]:
            add(
                "exit-in-flight",
                "the thread ends before this bulk store has read shared memory",
                site,
                lane,
                count=len(bulk.stores),
            )
    for pending in context.copies:
        left = pending.open()
        if left.size:
            add(
                "exit-in-flight",
                "the thread ends with nobody having waited for this cp.async",
                int(left[0]) >> SITE_SHIFT,
                int(left[0]) & LANE_MASK,
                count=int(left.size),
            )
    for group in state.warpgroups.values():
        latest, site = group.unsettled
        if latest > group.waited:
            add(
                "exit-in-flight",
                "the warpgroup ends with nobody having waited for this wgmma",
                site,
                group.start,
            )
    for barrier in state.mbarriers.values():
        if barrier.tx:
            add(
                "transaction-count",
                f"the block ends with the mbarrier in {barrier.state()}",
                barrier.site,
                barrier.lane,
                address=barrier.address,
            )
    for listener in context.shared.listeners:
        listener.finish()
