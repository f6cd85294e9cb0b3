"""mbarrier: initialise, arrive, announce bytes, wait.

A wait that fails puts its lanes to sleep until the phase completes, which is what try_wait's
suspension does; spinning would only cost time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.mbarrier import LARGEST_COUNT, MBARRIER_BYTES, Mbarrier
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = [
    "EFFECTS",
    "Site",
    "active_lanes",
    "address_of",
    "check_phase",
    "complete",
    "count_arrivals",
    "find",
    "land_bytes",
    "places",
]

Array = np.ndarray[Any, np.dtype[Any]]

# Synchronisation keeps its place among all accesses.
EFFECTS = (("shared", "write"), ("global", "write"), ("async", "write"))
_ORDER = frozenset({"release", "relaxed", "acquire", "cta", "cluster"})
_SPACES = frozenset({"shared", "shared::cta", "shared::cluster"})


@dataclass(frozen=True, slots=True)
class Site:
    """What is fixed of one instruction.

    Attributes:
        number: of the instruction.
        offset: bytes added to the address register.
        arrives: whether it counts arrivals.
        expects: whether it announces bytes.
        orders: whether an arrival releases and a wait acquires: not where it is ``.relaxed``.
    """

    number: int
    offset: int
    arrives: bool = True
    expects: bool = False
    orders: bool = True


def _check(emitter: Emitter, ins: Instruction, extra: set[str], *, remote: bool = False) -> None:
    words = set(ins.opcode[1:-1])
    spaces = words & _SPACES
    if ins.opcode[-1] != "b64" or len(spaces) > 1 or not words - spaces <= _ORDER | extra:
        raise emitter.fail(ins, "unsupported modifier")
    if not spaces:
        raise emitter.fail(ins, "generic addresses of mbarriers are not supported")
    if "shared::cluster" in spaces and not remote:
        raise emitter.fail(ins, "only arrivals and announced bytes reach another block")


def address_of(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, int]:
    """The register of an mbarrier's address, and the offset added to it."""
    if not isinstance(operand, nodes.Address) or operand.extra:
        raise emitter.fail(ins, "an address was expected")
    bits = emitter.bits(operand.base, ins) or 32
    return emitter.source(operand.base, f"u{bits}", ins), operand.offset


@semantics("mbarrier.init", destinations=0, effects=EFFECTS, asynchronous=True, operands=2)
def _init(emitter: Emitter, ins: Instruction) -> None:
    _check(emitter, ins, {"init"})
    address, offset = address_of(emitter, ins, ins.operands[0])
    site = emitter.object(Site(emitter.site(ins), offset))
    count = emitter.source(ins.operands[1], "u32", ins)
    emitter.line(f"mbarrier_init({site}, {address}, {count}, {emitter.mask})")


@semantics("mbarrier.inval", destinations=0, effects=EFFECTS, asynchronous=True, operands=1)
def _inval(emitter: Emitter, ins: Instruction) -> None:
    _check(emitter, ins, {"inval"})
    address, offset = address_of(emitter, ins, ins.operands[0])
    site = emitter.object(Site(emitter.site(ins), offset))
    emitter.line(f"mbarrier_inval({site}, {address}, {emitter.mask})")


@semantics("mbarrier.arrive", effects=EFFECTS, asynchronous=True)
def _arrive(emitter: Emitter, ins: Instruction) -> None:
    _check(emitter, ins, {"arrive", "expect_tx"}, remote=True)
    expects = "expect_tx" in ins.opcode
    state, where, *rest = ins.operands
    address, offset = address_of(emitter, ins, where)
    if len(rest) > 1 or (expects and not rest):
        raise emitter.fail(ins, "another number of operands was expected")
    orders = "relaxed" not in ins.opcode
    site = emitter.object(Site(emitter.site(ins), offset, expects=expects, orders=orders))
    number = rest[0] if rest else nodes.Immediate("1")
    value = emitter.source(number, "u32", ins)
    out = "None"
    if state != nodes.Name("_"):
        out = emitter.target(state, "u64", ins)
    emitter.line(f"mbarrier_arrive({site}, {address}, {value}, {out}, {emitter.mask})")


@semantics("mbarrier.expect_tx", destinations=0, effects=EFFECTS, asynchronous=True, operands=2)
def _expect_tx(emitter: Emitter, ins: Instruction) -> None:
    _check(emitter, ins, {"expect_tx"}, remote=True)
    address, offset = address_of(emitter, ins, ins.operands[0])
    site = emitter.object(Site(emitter.site(ins), offset, arrives=False, expects=True))
    value = emitter.source(ins.operands[1], "u32", ins)
    emitter.line(f"mbarrier_arrive({site}, {address}, {value}, None, {emitter.mask})")


@semantics("mbarrier.try_wait", "mbarrier.test_wait", effects=EFFECTS, asynchronous=True)
def _wait(emitter: Emitter, ins: Instruction) -> None:
    _check(emitter, ins, {ins.opcode[1], "parity"})
    address, offset = address_of(emitter, ins, ins.operands[1])
    orders = "relaxed" not in ins.opcode
    site = emitter.object(Site(emitter.site(ins), offset, orders=orders))
    out = emitter.target(ins.operands[0], "pred", ins)
    parity = "parity" in ins.opcode
    code = "u32" if parity else "u64"
    value = emitter.source(ins.operands[2], code, ins)
    name = "mbarrier_parity" if parity else "mbarrier_state"
    emitter.line(f"{name}({site}, {address}, {value}, {out}, {emitter.mask})")


# -- at run time --


def active_lanes(context: Context, mask: Array | None) -> Array:
    """The lanes that execute an instruction."""
    return context.lane_ids if mask is None else np.flatnonzero(mask)


def places(
    context: Context, site: Site, address: Array, lanes: Array
) -> Iterator[tuple[int, int, Array]]:
    """Block, byte offset and lanes of each mbarrier that some lanes address."""
    where = address[lanes].astype(np.int64) + site.offset
    if context.blocks > 1:
        where += (lanes // context.threads) << 32
    first = int(where[0])
    if (where == first).all():
        groups = [(first, lanes)]
    else:
        groups = [(int(v), lanes[where == v]) for v in np.unique(where).tolist()]
    for value, some in groups:
        at = value - (int(some[0]) // context.threads << 32) if context.blocks > 1 else value
        block, offset = context.state.owner(int(some[0]), at)
        yield block, offset, some


def find(context: Context, number: int, place: tuple[int, int], lane: int) -> Mbarrier | None:
    """The mbarrier at a place; a finding where there is none."""
    found = context.state.mbarriers.get(place)
    if found is None:
        context.collector.add(
            "no-mbarrier",
            "no mbarrier was initialised at this address",
            number,
            lane,
            address=place[1],
        )
    return found


def complete(context: Context, barrier: Mbarrier) -> None:
    """End the phase if nothing is missing, and wake those who wait for it."""
    if barrier.complete():
        for listener in context.shared.listeners:
            listener.phase(barrier)
        context.state.wake(barrier.number)


def land_bytes(context: Context, barrier: Mbarrier, count: int, site: int, lane: int) -> None:
    """Bytes of a bulk copy have landed."""
    barrier.tx -= count
    if barrier.tx < -LARGEST_COUNT:
        context.collector.add(
            "transaction-count", f"too many bytes landed: {barrier.state()}", site, lane,
            address=barrier.address,
        )  # fmt: skip
    complete(context, barrier)


@runtime
def mbarrier_init(
    context: Context, site: Site, address: Array, count: Array, mask: Array | None
) -> None:
    """Make mbarriers."""
    lanes = active_lanes(context, mask)
    for lane in lanes.tolist():
        where = int(address[lane]) + site.offset
        expected = int(count[lane])
        bad = ""
        if where % MBARRIER_BYTES:
            bad, kind = (
                f"an mbarrier at an address that is no multiple of 8: {where:#x}",
                "misaligned",
            )
        elif not 0 <= where <= context.shared.nbytes - MBARRIER_BYTES:
            bad, kind = "an mbarrier outside the block's shared memory", "out-of-bounds-write"
        elif not 0 < expected <= LARGEST_COUNT:
            bad, kind = f"an mbarrier that expects {expected} arrivals", "bad-size"
        elif (lane // context.threads, where) in context.state.mbarriers:
            bad, kind = "an mbarrier where there is one already", "barrier-access"
        if bad:
            context.collector.add(kind, bad, site.number, lane, address=where)
            continue
        place = (lane // context.threads, where)
        state = context.state
        barrier = Mbarrier(state.made, *place, expected, expected, site.number, lane)
        state.made += 1
        state.mbarriers[place] = barrier
        for listener in context.shared.listeners:
            listener.initialise(barrier)


@runtime
def mbarrier_inval(context: Context, site: Site, address: Array, mask: Array | None) -> None:
    """Unmake mbarriers."""
    for block, offset, some in places(context, site, address, active_lanes(context, mask)):
        if find(context, site.number, (block, offset), int(some[0])) is not None:
            del context.state.mbarriers[block, offset]


@runtime
def mbarrier_arrive(
    context: Context,
    site: Site,
    address: Array,
    value: Array,
    out: Array | None,
    mask: Array | None,
) -> None:
    """Announce bytes, count arrivals, end the phase."""
    lanes = active_lanes(context, mask)
    if not lanes.size:
        return
    for block, offset, some in places(context, site, address, lanes):
        barrier = find(context, site.number, (block, offset), int(some[0]))
        if barrier is None:
            continue
        for listener in context.shared.listeners:
            listener.use(barrier, some, site.number, "an arrival at")
        check_phase(context, barrier, some, site.number)
        if out is not None:
            out[some] = barrier.phase
        for lane in some.tolist():
            number = int(value[lane])
            if site.expects:
                _expect_bytes(context, barrier, number, site.number, lane)
            if site.arrives:
                count_arrivals(context, barrier, 1 if site.expects else number, site, lane)


def check_phase(context: Context, barrier: Mbarrier, lanes: Array, site: int) -> None:
    """What counts at an mbarrier must come after the end of the phase before, or counts there."""
    if not barrier.phase:
        return
    for listener in context.shared.listeners:
        late = listener.doubts(barrier, lanes)
        if late is not None and late.any():
            context.collector.add(
                "race",
                "counts at an mbarrier with no order after the end of its last phase: in another "
                "order of events it counts in that one",
                site,
                int(lanes[late][0]),
                address=barrier.address,
                count=int(late.sum()),
            )


def _expect_bytes(context: Context, barrier: Mbarrier, number: int, site: int, lane: int) -> None:
    barrier.tx += number
    if barrier.tx > LARGEST_COUNT:
        context.collector.add(
            "transaction-count",
            f"too many bytes announced: {barrier.state()}",
            site,
            lane,
            address=barrier.address,
        )


def count_arrivals(context: Context, barrier: Mbarrier, number: int, site: Site, lane: int) -> None:
    """Count arrivals of one lane; a finding where the phase does not expect so many."""
    if not barrier.arrive(number):
        context.collector.add(
            "over-arrival",
            f"more arrivals than the mbarrier expects: {number} at {barrier.state()}",
            site.number,
            lane,
            address=barrier.address,
        )
        return
    if site.orders:
        for listener in context.shared.listeners:
            listener.arrive(barrier, np.array([lane]), site.number)
    complete(context, barrier)


@runtime
def mbarrier_parity(
    context: Context,
    site: Site,
    address: Array,
    parity: Array,
    out: Array,
    mask: Array | None,
) -> None:
    """Whether the phase of a parity is complete."""
    lanes = active_lanes(context, mask)
    if not lanes.size:
        return
    for block, offset, some in places(context, site, address, lanes):
        barrier = find(context, site.number, (block, offset), int(some[0]))
        for bit in np.unique(parity[some]).tolist():
            same = some[parity[some] == bit]
            passes = barrier is None or barrier.passes(bit & 1)
            _observe(context, site, barrier, same, out, passes=passes, parity=bit & 1)


@runtime
def mbarrier_state(
    context: Context,
    site: Site,
    address: Array,
    token: Array,
    out: Array,
    mask: Array | None,
) -> None:
    """Whether the phase that an arrival's token names is complete."""
    lanes = active_lanes(context, mask)
    if not lanes.size:
        return
    for block, offset, some in places(context, site, address, lanes):
        barrier = find(context, site.number, (block, offset), int(some[0]))
        for phase in np.unique(token[some]).tolist():
            same = some[token[some] == phase]
            passes = barrier is None or barrier.phase > phase
            _observe(
                context, site, barrier, same, out, passes=passes, parity=phase & 1, phase=phase
            )


def _observe(
    context: Context,
    site: Site,
    barrier: Mbarrier | None,
    lanes: Array,
    out: Array,
    *,
    passes: bool,
    parity: int,
    phase: int | None = None,
) -> None:
    out[lanes] = passes
    if barrier is None:
        return
    state = context.state
    for listener in context.shared.listeners:
        listener.use(barrier, lanes, site.number, "a wait for")
        unsure = listener.doubts(barrier, lanes) if passes else None
        if unsure is not None:
            # In another order of events the phase would not be complete yet: a first try fails,
            # so that code which does not obey the answer shows.
            unsure &= state.tries[lanes] == 0
            out[lanes[unsure]] = False
            state.tries[lanes[unsure]] = 1
            lanes = lanes[~unsure]
        if passes and lanes.size and site.orders:
            listener.observe(barrier, lanes, parity, phase, site.number)
    if passes:
        state.tries[lanes] = 0
    else:
        state.sleep(lanes, barrier.number, parity, site.number)
