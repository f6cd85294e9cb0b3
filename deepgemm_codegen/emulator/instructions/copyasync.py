"""cp.async (not bulk): copies from global to shared memory that a thread waits for later.

The bytes land at once, but count as in flight until the issuing thread's wait covers them; the
listeners know the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.instructions.several import guard_masks
from deepgemm_codegen.emulator.listeners import SITE_SHIFT
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.listeners import Listener
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["SETTLED", "Pending", "settle"]

Array = np.ndarray[Any, np.dtype[Any]]

_HINTS = frozenset({"L2::64B", "L2::128B", "L2::256B"})


@dataclass(frozen=True, slots=True)
class _Copies:
    """Several cp.async of one width, issued together; arrays have one element an instruction."""

    width: int
    sites: Array
    target_bank: str
    targets: Array
    target_offsets: Array
    sources: Array
    source_offsets: Array
    sizes: tuple[tuple[str, int], ...]  # ("row", n), ("size", bytes) or ("ignore", predicate row)
    guards: tuple[tuple[int, bool] | None, ...]


def _parts(ins: Instruction) -> tuple[int, nodes.Address, nodes.Address, nodes.Operand | None]:
    """Width, target, source and source size or ignore-src predicate."""
    target, source, width, *rest = ins.operands
    if "L2::cache_hint" in ins.opcode:
        rest = rest[:-1]
    if not isinstance(target, nodes.Address) or not isinstance(source, nodes.Address):
        raise TypeError
    if not isinstance(width, nodes.Immediate):
        raise TypeError
    return int(width.text, 0), target, source, rest[0] if rest else None


def _key(ins: Instruction) -> tuple[str, int]:
    try:
        return "cp.async", _parts(ins)[0]
    except (TypeError, ValueError):
        return "cp.async", 0


def _width(ins: Instruction) -> int:
    return _key(ins)[1] or 4


def _emit(emitter: Emitter, batch: list[Instruction]) -> None:
    first = batch[0]
    targets, sources, sizes, guards = [], [], [], []
    bank = ""
    for ins in batch:
        _check(emitter, ins)
        width, target, source, size = _parts(ins)
        bank = "d" if emitter.bits(target.base, ins) == 64 else "r"
        targets.append((emitter.row(target.base, bank, ins), target.offset))
        sources.append((emitter.row(source.base, "d", ins), source.offset))
        sizes.append(_size(emitter, ins, size, width))
        guards.append(
            None
            if ins.guard is None
            else (emitter.register(ins.guard.predicate, ins).row, ins.guard.negated)
        )
    copies = _Copies(
        _key(first)[1],
        np.array([emitter.site(i) for i in batch], np.int64),
        bank,
        np.array([t[0] for t in targets]),
        np.array([t[1] for t in targets], np.int64),
        np.array([s[0] for s in sources]),
        np.array([s[1] for s in sources], np.int64),
        tuple(sizes),
        tuple(guards),
    )
    emitter.line(f"copy_async({emitter.object(copies)}, {emitter.mask})")


def _check(emitter: Emitter, ins: Instruction) -> None:
    words = set(ins.opcode[2:])
    spaces = words & {"shared", "shared::cta"}
    cache = words & {"ca", "cg"}
    rest = words - spaces - cache - {"global", "L2::cache_hint"} - _HINTS
    if rest or len(spaces) != 1 or len(cache) != 1 or "global" not in words:
        raise emitter.fail(ins, "unsupported modifier")
    try:
        width, target, source, _ = _parts(ins)
    except (TypeError, ValueError):
        raise emitter.fail(ins, "unreadable operands") from None
    if width not in (4, 8, 16) or ("cg" in cache and width != 16):
        raise emitter.fail(ins, f"a copy of {width} bytes does not exist")
    if target.extra or source.extra:
        raise emitter.fail(ins, "an address was expected")


def _size(
    emitter: Emitter, ins: Instruction, operand: nodes.Operand | None, width: int
) -> tuple[str, int]:
    if operand is None:
        return "size", width
    if isinstance(operand, nodes.Immediate):
        return "size", int(operand.text, 0)
    if isinstance(operand, nodes.Name) and emitter.bits(operand, ins) == 1:
        return "ignore", emitter.row(operand, "p", ins)
    return "row", emitter.row(operand, "r", ins)


@semantics(
    "cp.async",
    destinations=0,
    effects=(("global", "read"), ("shared", "copy"), ("async", "copy")),
    batch=_key,
    emit_batch=_emit,
    order=1,
    shared_width=_width,
)
def _cp_async(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, [ins])


@semantics(
    "cp.async.commit_group",
    destinations=0,
    effects=(("async", "write"),),
    operands=0,
    exact=True,
)
def _commit(emitter: Emitter, _ins: Instruction) -> None:
    emitter.line(f"commit_group({emitter.mask})")


@semantics(
    "cp.async.wait_group",
    destinations=0,
    effects=(("async", "write"), ("shared", "write")),
    operands=1,
    exact=True,
)
def _wait(emitter: Emitter, ins: Instruction) -> None:
    count = ins.operands[0]
    if not isinstance(count, nodes.Immediate):
        raise emitter.fail(ins, "a constant was expected")
    emitter.line(f"wait_group({int(count.text, 0)}, {emitter.mask})")


@semantics(
    "cp.async.wait_all",
    destinations=0,
    effects=(("async", "write"), ("shared", "write")),
    operands=0,
    exact=True,
)
def _wait_all(emitter: Emitter, _ins: Instruction) -> None:
    emitter.line(f"wait_group(-1, {emitter.mask})")


# -- at run time --


SETTLED = int(np.iinfo(np.int64).max)
"""The group of copies that no wait of their threads concerns any more."""


@dataclass(slots=True)
class Pending:
    """Copies of one batch in flight: their lanes, the group each belongs to, listeners' tokens.

    Of each copy ``ids`` has the lane and the instruction.
    """

    lanes: Array
    groups: Array
    tokens: list[object]
    ids: Array

    def open(self) -> Array:
        """``ids`` of the copies for which nobody waited."""
        found: Array = self.ids[self.groups != SETTLED]
        return found


@runtime
def copy_async(context: Context, copies: _Copies, mask: Array | None) -> None:
    """Issue a batch of copies."""
    count, width = copies.sites.size, copies.width
    source = context.banks["d"][copies.sources].view(np.int64) + copies.source_offsets[:, None]
    target = context.banks[copies.target_bank][copies.targets].astype(np.int64)
    target += copies.target_offsets[:, None]
    key = id(copies)
    ids = context.cache.get(key)
    if ids is None:
        ids = (context.lane_ids + (copies.sites[:, None] << SITE_SHIFT)).reshape(-1)
        base = context.shared.base
        context.cache[key] = ids
        context.cache[key, "base"] = None if base is None else np.tile(base, count)
    base = context.cache[key, "base"]
    source, target = source.reshape(-1), target.reshape(-1)
    sizes = _sizes(context, copies)
    active = guard_masks(context, copies.guards, mask)
    if active is not None:
        where = np.flatnonzero(active)
        if not where.size:
            return
        source, target, ids = source[where], target[where], ids[where]
        sizes = None if sizes is None else sizes[where]
        base = None if base is None else base[where]
    values = _fetch(context, source, width, sizes, ids)
    tokens, ids = context.shared.start_copy(target, width, base, ids, values)
    owners = ids & ((1 << SITE_SHIFT) - 1)
    context.copies.append(Pending(owners, context.committed.take(owners), tokens, ids))


def _sizes(context: Context, copies: _Copies) -> Array | None:
    """Bytes to read for each instruction and lane, flat; None where all read their full width."""
    if all(kind == "size" and value == copies.width for kind, value in copies.sizes):
        return None
    sizes = np.empty((copies.sites.size, context.lanes), np.int64)
    for i, (kind, value) in enumerate(copies.sizes):
        if kind == "size":
            sizes[i] = value
        elif kind == "ignore":
            sizes[i] = np.where(context.banks["p"][value], 0, copies.width)
        else:
            sizes[i] = context.banks["r"][value]
    return None if int(sizes.min()) == int(sizes.max()) == copies.width else sizes.reshape(-1)


def _fetch(context: Context, source: Array, width: int, sizes: Array | None, ids: Array) -> Array:
    """The bytes copied; those past the source size are zero and never read."""
    if sizes is None:
        return context.memory.load(source.view(np.uint64), width, ids)
    values = np.zeros(source.size, RAW[width])
    full = np.flatnonzero(sizes == width)
    values[full] = context.memory.load(source[full].view(np.uint64), width, ids[full])
    partial = np.flatnonzero((sizes > 0) & (sizes != width))
    if partial.size:
        _check_sizes(context, sizes[partial], width, ids[partial])
        source, ids, sizes = source[partial], ids[partial], np.minimum(sizes[partial], width)
        raw = values.view(np.uint8).reshape(-1, width)
        _check_aligned(context, source, width, ids)
        for size in np.unique(sizes).tolist():
            here = np.flatnonzero(sizes == size)
            at = source[here][:, None] + np.arange(size)
            every = np.repeat(ids[here], size)
            got = context.memory.load(at.reshape(-1).view(np.uint64), 1, every)
            raw[partial[here], :size] = got.reshape(-1, size)
    return values


def _check_sizes(context: Context, sizes: Array, width: int, ids: Array) -> None:
    bad = np.flatnonzero((sizes < 0) | (sizes > width))
    if bad.size:
        ident = int(ids[bad[0]])
        context.collector.add(
            "bad-size",
            f"cp.async of {width} bytes with source size {int(sizes[bad[0]])}",
            ident >> SITE_SHIFT,
            ident & ((1 << SITE_SHIFT) - 1),
            count=int(bad.size),
        )


def _check_aligned(context: Context, source: Array, width: int, ids: Array) -> None:
    """The source address is aligned to the copy's full width even when less is read."""
    bad = np.flatnonzero(source & (width - 1))
    if bad.size:
        ident = int(ids[bad[0]])
        context.collector.add(
            "misaligned",
            f"global read of {width} bytes at an address that is no multiple of {width}",
            ident >> SITE_SHIFT,
            ident & ((1 << SITE_SHIFT) - 1),
            address=int(source[bad[0]]),
            count=int(bad.size),
        )


@runtime
def commit_group(context: Context, mask: Array | None) -> None:
    """Close the current group of each lane; an empty one counts."""
    if mask is None:
        context.committed += 1
    else:
        context.committed += mask


@runtime
def wait_group(context: Context, allowed: int, mask: Array | None) -> None:
    """Complete all but the newest ``allowed`` groups of each lane; -1: uncommitted ones too."""
    done_before = context.committed - allowed

    def done(pending: Pending) -> Array:
        found: Array = pending.groups < done_before.take(pending.lanes)
        return found if mask is None else found & mask.take(pending.lanes)

    settle(context, done, lambda listener, token, where: listener.complete(token, where))


def settle(
    context: Context,
    chosen: Callable[[Pending], Array],
    tell: Callable[[Listener, object, Array | None], None],
) -> None:
    """Take copies out of those that lanes may wait for, and tell the listeners.

    Args:
        context: of the batch.
        chosen: which copies of a batch (bool).
        tell: the listener, its token and which copies of it; None for all.
    """
    left = []
    for pending in context.copies:
        done = chosen(pending)
        if done.all():
            for listener, token in zip(context.shared.listeners, pending.tokens, strict=True):
                tell(listener, token, None)
            continue
        left.append(pending)
        if done.any():
            # The listeners keep whole batches: split this one lane by lane.
            for listener, token in zip(context.shared.listeners, pending.tokens, strict=True):
                tell(listener, token, done)
            pending.groups = np.where(done, SETTLED, pending.groups)
            if (pending.groups == SETTLED).all():
                left.pop()
    context.copies = left
