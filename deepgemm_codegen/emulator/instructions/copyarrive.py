"""cp.async.mbarrier.arrive: a thread's copies so far arrive at an mbarrier once they are complete.

The arrival is the system's, not the thread's: it says that the copies have landed, and nothing of
what the thread did beside them. Without ``.noinc`` the phase first gets one more arrival to wait
for, so that it must not end before the instruction: what keeps it from that is an arrival that
comes after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.instructions.copyasync import SETTLED, Pending, settle
from deepgemm_codegen.emulator.instructions.mbarrier import (
    EFFECTS,
    Site,
    active_lanes,
    address_of,
    check_phase,
    count_arrivals,
    find,
    places,
)
from deepgemm_codegen.emulator.mbarrier import LARGEST_COUNT
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


@semantics(
    "cp.async.mbarrier.arrive", destinations=0, effects=EFFECTS, asynchronous=True, operands=1
)
def _arrive(emitter: Emitter, ins: Instruction) -> None:
    words = list(ins.opcode[4:-1])
    if words[:1] == ["noinc"]:
        words = words[1:]
    if ins.opcode[-1] != "b64" or len(words) > 1 or not set(words) <= {"shared", "shared::cta"}:
        raise emitter.fail(ins, "unsupported modifier")
    if not words:
        raise emitter.fail(ins, "generic addresses of mbarriers are not supported")
    address, offset = address_of(emitter, ins, ins.operands[0])
    # The copies alone are released, by the listeners' `hand`.
    site = emitter.object(Site(emitter.site(ins), offset, orders=False))
    expected = "noinc" in ins.opcode
    emitter.line(f"copies_arrive({site}, {address}, {expected}, {emitter.mask})")


# -- at run time --


@runtime
def copies_arrive(
    context: Context, site: Site, address: Array, expected: bool, mask: Array | None
) -> None:
    """Hand the copies of some lanes to mbarriers, and count their arrivals.

    Args:
        context: of the batch.
        site: the instruction.
        address: of each lane's mbarrier.
        expected: whether the mbarriers' counts have room for these arrivals; if not, each makes
            room for itself.
        mask: lanes that execute it; None for all.
    """
    lanes = active_lanes(context, mask)
    if not lanes.size:
        return
    for block, offset, some in places(context, site, address, lanes):
        barrier = find(context, site.number, (block, offset), int(some[0]))
        if barrier is None:
            continue
        for listener in context.shared.listeners:
            listener.use(barrier, some, site.number, "an arrival at")
        left = some
        while left.size:  # a phase that ends takes no more
            now = left[: max(barrier.pending, 1)] if expected else left
            _arrive_at(context, site, barrier, now, expected)
            left = left[now.size :]


def _arrive_at(
    context: Context, site: Site, barrier: Mbarrier, lanes: Array, expected: bool
) -> None:
    check_phase(context, barrier, lanes, site.number)
    _hand(context, barrier, lanes, expected)
    if expected:
        for lane in lanes.tolist():
            count_arrivals(context, barrier, 1, site, lane)
    elif barrier.pending + lanes.size > LARGEST_COUNT:
        context.collector.add(
            "over-arrival",
            f"more arrivals than an mbarrier counts: {lanes.size} at {barrier.state()}",
            site.number,
            int(lanes[0]),
            address=barrier.address,
        )


def _hand(context: Context, barrier: Mbarrier, lanes: Array, expected: bool) -> None:
    """The copies' completion is the phase's from now on."""
    mine = np.zeros(context.lanes, bool)
    mine[lanes] = True

    def chosen(pending: Pending) -> Array:
        found: Array = mine.take(pending.lanes) & (pending.groups != SETTLED)
        return found

    for listener in context.shared.listeners:
        listener.attach(barrier, lanes, expected=expected)
    settle(
        context,
        chosen,
        lambda listener, token, where: listener.hand(token, where, barrier, expected=expected),
    )
