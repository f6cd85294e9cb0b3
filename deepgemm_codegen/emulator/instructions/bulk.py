"""Bulk tensor copies (TMA): boxes of a matrix between global and shared memory.

The bytes move when the copy is issued. The listeners know that a load is complete only with its
mbarrier's phase, and a store only when its thread has waited for its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.instructions.mbarrier import EFFECTS, find, land_bytes
from deepgemm_codegen.emulator.instructions.move import PARAM_WINDOW, WINDOW_SIZE
from deepgemm_codegen.emulator.listeners import SITE_SHIFT, Agent, Region
from deepgemm_codegen.emulator.memory import RAW
from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.swizzle import swizzle

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.tensormap import PlacedMap

Array = np.ndarray[Any, np.dtype[Any]]

_LOAD = {"2d", "shared::cluster", "shared::cta", "global", "tile"}
_LOAD |= {"mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint"}
_STORE = {"2d", "global", "shared::cta", "bulk_group", "tile", "L2::cache_hint"}


@dataclass(frozen=True, slots=True)
class _Copy:
    """What is fixed of one copy: its number, and the constant offset of each address."""

    number: int
    shared_offset: int
    map_offset: int
    barrier_offset: int = 0


@semantics("cp.async.bulk", "cp.reduce", destinations=0)
def _unknown(emitter: Emitter, ins: Instruction) -> None:
    raise emitter.fail(ins, "only two-dimensional tensor copies are supported")


@semantics("cp.async.bulk.tensor", destinations=0, effects=EFFECTS, asynchronous=True)
def _tensor(emitter: Emitter, ins: Instruction) -> None:
    words = set(ins.opcode[4:])
    if "2d" not in words:
        raise emitter.fail(ins, "only two-dimensional tensor copies are supported")
    operands = list(ins.operands)
    if "L2::cache_hint" in words:
        operands.pop()
    if "bulk_group" in words:
        _store(emitter, ins, words, operands)
    else:
        _load(emitter, ins, words, operands)


def _load(
    emitter: Emitter, ins: Instruction, words: set[str], operands: list[nodes.Operand]
) -> None:
    multicast = "multicast::cluster" in words
    spaces = words & {"shared::cluster", "shared::cta"}
    if (
        not words <= _LOAD
        or len(spaces) != 1
        or not {"global", "mbarrier::complete_tx::bytes"} <= words
        or len(operands) != 3 + multicast
    ):
        raise emitter.fail(ins, "unsupported modifier")
    target, shared_offset = _address(emitter, ins, operands[0])
    source, inner, outer, map_offset = _place(emitter, ins, operands[1])
    barrier, barrier_offset = _address(emitter, ins, operands[2])
    blocks = emitter.source(operands[3], "u16", ins) if multicast else "None"
    copy = _Copy(emitter.site(ins), shared_offset, map_offset, barrier_offset)
    emitter.line(
        f"bulk_load({emitter.object(copy)}, {target}, ({source}, {inner}, {outer}), {barrier}, "
        f"{blocks}, {emitter.mask})"
    )


def _store(
    emitter: Emitter, ins: Instruction, words: set[str], operands: list[nodes.Operand]
) -> None:
    if not words <= _STORE or not {"global", "shared::cta"} <= words or len(operands) != 2:
        raise emitter.fail(ins, "unsupported modifier")
    target, inner, outer, map_offset = _place(emitter, ins, operands[0])
    source, shared_offset = _address(emitter, ins, operands[1])
    copy = _Copy(emitter.site(ins), shared_offset, map_offset)
    emitter.line(
        f"bulk_store({emitter.object(copy)}, ({target}, {inner}, {outer}), {source}, "
        f"{emitter.mask})"
    )


def _address(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, int]:
    if not isinstance(operand, nodes.Address) or operand.extra:
        raise emitter.fail(ins, "an address was expected")
    bits = emitter.bits(operand.base, ins) or 32
    return emitter.source(operand.base, f"u{bits}", ins), operand.offset


def _place(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, str, str, int]:
    """A map's address, and the coordinates."""
    if not isinstance(operand, nodes.Address) or len(operand.extra) != 1:
        raise emitter.fail(ins, "a tensor map and coordinates were expected")
    (coordinates,) = operand.extra
    if not isinstance(coordinates, nodes.Vector) or len(coordinates.items) != 2:
        raise emitter.fail(ins, "two coordinates were expected")
    inner, outer = (emitter.source(c, "s32", ins) for c in coordinates.items)
    return emitter.source(operand.base, "u64", ins), inner, outer, operand.offset


@semantics(
    "cp.async.bulk.commit_group", destinations=0, effects=EFFECTS, asynchronous=True, operands=0
)
def _commit(emitter: Emitter, _ins: Instruction) -> None:
    emitter.line(f"bulk_commit({emitter.mask})")


@semantics(
    "cp.async.bulk.wait_group", destinations=0, effects=EFFECTS, asynchronous=True, operands=1
)
def _wait(emitter: Emitter, ins: Instruction) -> None:
    """``.read`` waits until shared memory may be overwritten; without it the bytes are written."""
    count = ins.operands[0]
    if ins.opcode[4:] not in ((), ("read",)) or not isinstance(count, nodes.Immediate):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"bulk_wait({int(count.text, 0)}, {not ins.opcode[4:]}, {emitter.mask})")


# -- at run time --


def _lanes(context: Context, mask: Array | None) -> list[int]:
    lanes: list[int] = np.flatnonzero(context.alive if mask is None else mask).tolist()
    return lanes


def _map(context: Context, copy: _Copy, lane: int, address: int) -> PlacedMap | None:
    offset = address + copy.map_offset - PARAM_WINDOW
    found = context.tensor_maps.get(offset) if 0 <= offset < WINDOW_SIZE else None
    if found is None:
        context.collector.add(
            "bad-descriptor", "no tensor map at this address", copy.number, lane, address=address
        )
    return found


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a copy's bytes lie.

    Attributes:
        width: bytes of a piece, all in bounds or all out.
        inside: bool (pieces,), row by row.
        address: uint64, global addresses of the pieces inside.
        row_bytes: of a box row.
    """

    width: int
    inside: Array
    address: Array
    row_bytes: int


def _box(placed: PlacedMap, inner: int, outer: int) -> _Box:
    what = placed.map
    size = what.element_bytes
    row_bytes = what.box[0] * size
    start, end = inner * size, what.sizes[0] * size
    # The widest piece that starts and ends with elements in bounds; the matrix is aligned to 16.
    width = 16
    while start % width or (start < end < start + row_bytes and end % width):
        width //= 2
    columns = start + np.arange(0, row_bytes, width)
    rows = outer + np.arange(what.box[1])
    fits = (columns >= 0) & (columns < end)
    inside = (((rows >= 0) & (rows < what.sizes[1]))[:, None] & fits).reshape(-1)
    address = placed.address + rows[:, None] * what.strides_bytes[0] + columns
    return _Box(width, inside, address.reshape(-1)[inside].astype(np.uint64), row_bytes)


def _shared(
    context: Context, copy: _Copy, lane: int, address: int, placed: PlacedMap
) -> Array | None:
    """Byte offsets in the window of the box's chunks, row by row; None for a bad address."""
    what = placed.map
    row_bytes = what.box[0] * what.element_bytes
    # Rows narrower than the swizzle's pattern are padded to it (CUDA programming guide).
    pitch = what.swizzle_bytes or row_bytes
    total = pitch * what.box[1]
    fault = ""
    if address % (128 if what.swizzle_bytes else 16):
        kind, fault = "misaligned", f"a bulk copy at shared address {address:#x}"
    elif not 0 <= address <= context.shared.nbytes - total:
        kind = "out-of-bounds-access"
        fault = f"a bulk copy of {total} bytes outside the block's {context.shared.nbytes} bytes"
    if fault:
        context.collector.add(kind, fault, copy.number, lane, address=address)
        return None
    rows = np.arange(what.box[1])[:, None] * pitch
    flat = (rows + np.arange(0, row_bytes, 16)).reshape(-1)
    return swizzle(address + flat, what.swizzle_bytes)


@runtime
def bulk_load(
    context: Context,
    copy: _Copy,
    target: Array,
    source: tuple[Array, Array, Array],
    barrier: Array,
    blocks: Array | None,
    mask: Array | None,
) -> None:
    """Global to shared memory, zeros where out of bounds; the whole box counts at the mbarrier."""
    for lane in _lanes(context, mask):
        placed = _map(context, copy, lane, int(source[0][lane]))
        if placed is None:
            continue
        box = _box(placed, int(source[1][lane]), int(source[2][lane]))
        values = np.zeros(box.inside.size, RAW[box.width])
        if box.address.size:
            ids = np.full(box.address.size, (copy.number << SITE_SHIFT) + lane, np.int64)
            values[box.inside] = context.memory.load(box.address, box.width, ids)
        words = values.view(np.complex128)
        owner, offset = context.state.owner(lane, int(target[lane]) + copy.shared_offset)
        there, place = context.state.owner(lane, int(barrier[lane]) + copy.barrier_offset)
        if blocks is None:
            targets = [(owner, there)]
        else:
            size = context.state.cluster
            first = lane // context.threads // size * size
            chosen = int(blocks[lane])
            if not 0 < chosen < 1 << size:
                context.collector.add(
                    "bad-rank",
                    f"a multicast to blocks {chosen:#x} of a cluster of {size}",
                    copy.number,
                    lane,
                )
            targets = [(first + r, first + r) for r in range(size) if chosen >> r & 1]
        for block, signalled in targets:
            _deliver(context, copy, lane, (block, offset), (signalled, place), placed, words)


def _deliver(
    context: Context,
    copy: _Copy,
    lane: int,
    target: tuple[int, int],
    signal: tuple[int, int],
    placed: PlacedMap,
    words: Array,
) -> None:
    """Write one block's shared memory, and count the bytes at its mbarrier."""
    chunks = _shared(context, copy, lane, target[1], placed)
    barrier = find(context, copy.number, signal, lane)
    if chunks is None or barrier is None:
        return
    if not barrier.fenced:
        context.collector.add(
            "missing-fence",
            "a bulk copy to an mbarrier that no fence.mbarrier_init made visible to it",
            copy.number,
            lane,
            other=(barrier.site, barrier.lane),
            address=barrier.address,
        )
    flat = chunks + target[0] * context.shared.stride
    region = Region(flat, np.array([lane]), copy.number)
    for listener in context.shared.listeners:
        listener.use(barrier, region.lanes, copy.number, "a bulk copy to")
        listener.land(region, barrier)
    context.shared.views[16][flat >> 4] = words
    land_bytes(context, barrier, flat.size * 16, copy.number, lane)


@runtime
def bulk_store(
    context: Context,
    copy: _Copy,
    target: tuple[Array, Array, Array],
    source: Array,
    mask: Array | None,
) -> None:
    """Shared to global memory; what lies out of bounds is cut."""
    for lane in _lanes(context, mask):
        placed = _map(context, copy, lane, int(target[0][lane]))
        if placed is None:
            continue
        chunks = _shared(context, copy, lane, int(source[lane]) + copy.shared_offset, placed)
        if chunks is None:
            continue
        flat = chunks + lane // context.threads * context.shared.stride
        words = context.shared.views[16].take(flat >> 4)
        bulk = context.state.bulk_of(lane)
        time = bulk.committed + 1
        bulk.stores.append((time, copy.number))
        region = Region(flat, np.array([lane]), copy.number)
        for listener in context.shared.listeners:
            poison = listener.fetch(region, Agent("bulk", lane), time)
            if poison is not None:
                words.view(np.uint64).reshape(-1, 2)[poison] = np.uint64(2**64 - 1)
        box = _box(placed, int(target[1][lane]), int(target[2][lane]))
        if box.address.size:
            ids = np.full(box.address.size, (copy.number << SITE_SHIFT) + lane, np.int64)
            values = words.view(RAW[box.width])[box.inside]
            context.memory.store(box.address, box.width, values, ids, group=time)


@runtime
def bulk_commit(context: Context, mask: Array | None) -> None:
    """Close the thread's group; an empty one counts."""
    for lane in _lanes(context, mask):
        context.state.bulk_of(lane).committed += 1


@runtime
def bulk_wait(context: Context, allowed: int, written: bool, mask: Array | None) -> None:
    """Wait for all but the newest ``allowed`` groups, ``written`` or only read."""
    for lane in _lanes(context, mask):
        done = context.state.settle_bulk(lane, allowed, context.shared)
        for watcher in context.memory.watchers if written else ():
            watcher.settle(lane, done)
