"""Bulk tensor copies (TMA): boxes of a tensor between global and shared memory.

The bytes move when the copy is issued. The listeners know that a load is complete only with its
mbarrier's phase, and a store only when its thread has waited for its group.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.instructions.mbarrier import EFFECTS, check_phase, find, land_bytes
from deepgemm_codegen.emulator.listeners import SITE_SHIFT, Agent, Region
from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.swizzle import swizzle
from deepgemm_codegen.emulator.windows import PARAM_WINDOW, WINDOW_SIZE

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.mbarrier import Mbarrier
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.tensormap import PlacedMap

__all__ = ["deliver", "shared_address", "take_out", "targets"]

Array = np.ndarray[Any, np.dtype[Any]]

_LOAD = {"shared::cluster", "shared::cta", "global", "tile"}
_LOAD |= {"mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint"}
_STORE = {"global", "shared::cta", "bulk_group", "tile", "L2::cache_hint"}
_RANKS = {f"{rank}d": rank for rank in range(1, 6)}


@dataclass(frozen=True, slots=True)
class _Copy:
    """What is fixed of one copy: its number, and the constant offset of each address."""

    number: int
    shared_offset: int
    map_offset: int
    barrier_offset: int = 0


@semantics("cp.async.bulk.tensor", destinations=0, effects=EFFECTS, asynchronous=True)
def _tensor(emitter: Emitter, ins: Instruction) -> None:
    rank = _RANKS.get(ins.opcode[4]) if len(ins.opcode) > 4 else None
    words = set(ins.opcode[5:])
    if rank is None or len(words) != len(ins.opcode) - 5:
        raise emitter.fail(ins, "a tiled copy of one to five dimensions was expected")
    operands = list(ins.operands)
    if "L2::cache_hint" in words:
        operands.pop()
    if "bulk_group" in words:
        _store(emitter, ins, words, operands, rank)
    else:
        _load(emitter, ins, words, operands, rank)


def _load(
    emitter: Emitter, ins: Instruction, words: set[str], operands: list[nodes.Operand], rank: int
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
    target, shared_offset = shared_address(emitter, ins, operands[0])
    source, map_offset = _place(emitter, ins, operands[1], rank)
    barrier, barrier_offset = shared_address(emitter, ins, operands[2])
    blocks = emitter.source(operands[3], "u16", ins) if multicast else "None"
    copy = _Copy(emitter.site(ins), shared_offset, map_offset, barrier_offset)
    emitter.line(
        f"bulk_load({emitter.object(copy)}, {target}, {source}, {barrier}, "
        f"{blocks}, {emitter.mask})"
    )


def _store(
    emitter: Emitter, ins: Instruction, words: set[str], operands: list[nodes.Operand], rank: int
) -> None:
    if not words <= _STORE or not {"global", "shared::cta"} <= words or len(operands) != 2:
        raise emitter.fail(ins, "unsupported modifier")
    target, map_offset = _place(emitter, ins, operands[0], rank)
    source, shared_offset = shared_address(emitter, ins, operands[1])
    copy = _Copy(emitter.site(ins), shared_offset, map_offset)
    emitter.line(f"bulk_store({emitter.object(copy)}, {target}, {source}, {emitter.mask})")


def shared_address(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, int]:
    """Source text of an address in shared memory, and its constant offset."""
    if not isinstance(operand, nodes.Address) or operand.extra:
        raise emitter.fail(ins, "an address was expected")
    bits = emitter.bits(operand.base, ins) or 32
    return emitter.source(operand.base, f"u{bits}", ins), operand.offset


def _place(
    emitter: Emitter, ins: Instruction, operand: nodes.Operand, rank: int
) -> tuple[str, int]:
    """Source text of a map's address and the coordinates; the constant offset."""
    if not isinstance(operand, nodes.Address) or len(operand.extra) != 1:
        raise emitter.fail(ins, "a tensor map and coordinates were expected")
    (coordinates,) = operand.extra
    if not isinstance(coordinates, nodes.Vector) or len(coordinates.items) != rank:
        raise emitter.fail(ins, f"coordinates of {rank} dimensions were expected")
    names = [emitter.source(operand.base, "u64", ins)]
    names += [emitter.source(c, "s32", ins) for c in coordinates.items]
    return f"({', '.join(names)})", operand.offset


@semantics(
    "cp.async.bulk.commit_group",
    destinations=0,
    effects=EFFECTS,
    asynchronous=True,
    operands=0,
    exact=True,
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


STORED = 16
"""Bytes in which a store writes a row: the last ones whole, beyond the tensor's last element too.

Measured on an H200: of 556 fp16 columns in rows of 656, a store wrote 560. Loads do not read so.
"""


# -- at run time --


def _lanes(context: Context, mask: Array | None) -> list[int]:
    lanes: list[int] = np.flatnonzero(context.alive if mask is None else mask).tolist()
    return lanes


def _map(context: Context, copy: _Copy, lane: int, place: tuple[Array, ...]) -> PlacedMap | None:
    """The tensor map at a place (its address, then coordinates); None after a finding."""
    address, rank = int(place[0][lane]), len(place) - 1
    offset = address + copy.map_offset - PARAM_WINDOW
    found = context.tensor_maps.get(offset) if 0 <= offset < WINDOW_SIZE else None
    fault = ""
    if found is None:
        fault = "no tensor map at this address"
    elif len(found.map.sizes) != rank:
        fault = f"a copy of {rank} dimensions through a map of {len(found.map.sizes)}"
        found = None
    if fault:
        context.collector.add("bad-descriptor", fault, copy.number, lane, address=address)
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


def _box(placed: PlacedMap, place: tuple[Array, ...], lane: int, granule: int = 1) -> _Box:
    """Where a box lies; a row of the tensor ends at the next multiple of ``granule`` bytes."""
    what = placed.map
    first, *others = (int(c[lane]) for c in place[1:])
    size = what.element_bytes
    row_bytes = what.box[0] * size
    start, end = first * size, -(-what.sizes[0] * size // granule) * granule
    # The widest piece that starts and ends with elements in bounds; the tensor is aligned to 16.
    width = 16
    while start % width or (start < end < start + row_bytes and end % width):
        width //= 2
    columns = start + np.arange(0, row_bytes, width)
    fits = (columns >= 0) & (columns < end)
    # Rows of the box, the dimension after the contiguous one running fastest.
    inside: Array = np.ones(1, bool)
    offset: Array = np.zeros(1, np.int64)
    for at, extent, limit, stride in zip(
        others, what.box[1:], what.sizes[1:], what.strides_bytes, strict=True
    ):
        index = at + np.arange(extent)
        inside = (((index >= 0) & (index < limit))[:, None] & inside).reshape(-1)
        offset = (index[:, None] * stride + offset).reshape(-1)
    inside = (inside[:, None] & fits).reshape(-1)
    address = placed.address + offset[:, None] + columns
    return _Box(width, inside, address.reshape(-1)[inside].astype(np.uint64), row_bytes)


def _shared(
    context: Context, copy: _Copy, lane: int, address: int, placed: PlacedMap
) -> Array | None:
    """Byte offsets in the window of the box's chunks, row by row; None for a bad address."""
    what = placed.map
    row_bytes = what.box[0] * what.element_bytes
    # Rows narrower than the swizzle's pattern are padded to it (CUDA programming guide).
    pitch = what.swizzle_bytes or row_bytes
    count = prod(what.box[1:])
    total = pitch * count
    fault = ""
    if address % (128 if what.swizzle_bytes else 16):
        kind, fault = "misaligned", f"a bulk copy at shared address {address:#x}"
    elif not 0 <= address <= context.shared.nbytes - total:
        kind = "out-of-bounds-access"
        fault = f"a bulk copy of {total} bytes outside the block's {context.shared.nbytes} bytes"
    if fault:
        context.collector.add(kind, fault, copy.number, lane, address=address)
        return None
    rows = np.arange(count)[:, None] * pitch
    flat = (rows + np.arange(0, row_bytes, 16)).reshape(-1)
    return swizzle(address + flat, what.swizzle_bytes)


@runtime
def bulk_load(
    context: Context,
    copy: _Copy,
    target: Array,
    source: tuple[Array, ...],
    barrier: Array,
    blocks: Array | None,
    mask: Array | None,
) -> None:
    """Global to shared memory, zeros where out of bounds; the whole box counts at the mbarrier."""
    for lane in _lanes(context, mask):
        placed = _map(context, copy, lane, source)
        if placed is None:
            continue
        box = _box(placed, source, lane)
        values = np.zeros(box.inside.size, RAW[box.width])
        if box.address.size:
            ids = np.full(box.address.size, (copy.number << SITE_SHIFT) + lane, np.int64)
            values[box.inside] = context.memory.load(box.address, box.width, ids)
        words = values.view(np.complex128)
        target_at = int(target[lane]) + copy.shared_offset
        barrier_at = int(barrier[lane]) + copy.barrier_offset
        chosen = None if blocks is None else int(blocks[lane])
        for place, signal in targets(context, copy.number, lane, (target_at, barrier_at), chosen):
            chunks = _shared(context, copy, lane, place[1], placed)
            deliver(context, copy.number, lane, (place[0], chunks), signal, words)


def targets(
    context: Context, number: int, lane: int, places: tuple[int, int], blocks: int | None
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a copy goes and where it signals, as (block, offset) each.

    Args:
        context: of the batch.
        number: of the instruction.
        lane: that issues it.
        places: addresses of the target and of the mbarrier.
        blocks: ranks of a multicast, a bit each; None for one target.
    """
    state = context.state
    target, barrier = (state.owner(lane, place) for place in places)
    if blocks is None:
        return [(target, barrier)]
    size = state.cluster
    first = lane // context.threads // size * size
    if not 0 < blocks < 1 << size:
        message = f"a multicast to blocks {blocks:#x} of a cluster of {size}"
        context.collector.add("bad-rank", message, number, lane)
    ranks = [r for r in range(size) if blocks >> r & 1]
    return [((first + r, target[1]), (first + r, barrier[1])) for r in ranks]


def deliver(
    context: Context,
    number: int,
    lane: int,
    target: tuple[int, Array | None],
    signal: tuple[int, int],
    words: Array,
) -> Mbarrier | None:
    """Write one block's shared memory, and count the bytes at its mbarrier.

    Args:
        context: of the batch.
        number: of the instruction.
        lane: that issued it.
        target: block, and byte offsets in its window of the chunks; None after a finding.
        signal: block and byte offset of the mbarrier.
        words: the chunks, 16 bytes each.

    Returns:
        The mbarrier; None where nothing was written.
    """
    block, chunks = target
    barrier = find(context, number, signal, lane)
    if chunks is None or barrier is None:
        return None
    if not barrier.fenced:
        context.collector.add(
            "missing-fence",
            "a bulk copy to an mbarrier that no fence.mbarrier_init made visible to it",
            number,
            lane,
            other=(barrier.site, barrier.lane),
            address=barrier.address,
        )
    flat = chunks + block * context.shared.stride
    region = Region(flat, np.array([lane]), number)
    check_phase(context, barrier, region.lanes, number)
    for listener in context.shared.listeners:
        listener.use(barrier, region.lanes, number, "a bulk copy to")
        listener.land(region, barrier)
    context.shared.views[16][flat >> 4] = words
    land_bytes(context, barrier, flat.size * 16, number, lane)
    return barrier


def take_out(context: Context, number: int, lane: int, chunks: Array) -> tuple[Array, int]:
    """Chunks of the lane's block, 16 bytes each, read by a bulk store; its group."""
    flat = chunks + lane // context.threads * context.shared.stride
    words = context.shared.views[16].take(flat >> 4)
    bulk = context.state.bulk_of(lane)
    time = bulk.committed + 1
    bulk.stores.append((time, number))
    region = Region(flat, np.array([lane]), number)
    for listener in context.shared.listeners:
        poison = listener.fetch(region, Agent("bulk", lane), time)
        if poison is not None:
            words.view(np.uint64).reshape(-1, 2)[poison] = np.uint64(2**64 - 1)
    return words, time


@runtime
def bulk_store(
    context: Context,
    copy: _Copy,
    target: tuple[Array, ...],
    source: Array,
    mask: Array | None,
) -> None:
    """Shared to global memory; what lies out of bounds is cut, but for the rest of `STORED`."""
    for lane in _lanes(context, mask):
        placed = _map(context, copy, lane, target)
        if placed is None:
            continue
        chunks = _shared(context, copy, lane, int(source[lane]) + copy.shared_offset, placed)
        if chunks is None:
            continue
        words, group = take_out(context, copy.number, lane, chunks)
        box = _box(placed, target, lane, STORED)
        if box.address.size:
            ids = np.full(box.address.size, (copy.number << SITE_SHIFT) + lane, np.int64)
            values = words.view(RAW[box.width])[box.inside]
            context.memory.store(box.address, box.width, values, ids, group=group)


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
