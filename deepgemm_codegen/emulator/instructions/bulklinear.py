"""Bulk copies without a tensor map: runs of bytes between global and shared memory, and blocks.

As with tensor copies, the bytes move when the copy is issued; the listeners know when they count
as there. The target in global memory may also be reduced into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.context import DTYPES
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions.atomic import OPERATIONS, combine
from deepgemm_codegen.emulator.instructions.bulk import deliver, shared_address, take_out, targets
from deepgemm_codegen.emulator.instructions.mbarrier import EFFECTS, find
from deepgemm_codegen.emulator.listeners import SITE_SHIFT, Region
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_SIGNAL = "mbarrier::complete_tx::bytes"
_HINT = "L2::cache_hint"


@dataclass(frozen=True, slots=True)
class _Copy:
    """What is fixed of one copy.

    Attributes:
        number: of the instruction.
        target, source, barrier: constant offset of each address.
        operation, kind: of a reduction, or empty.
    """

    number: int
    target: int
    source: int
    barrier: int = 0
    operation: str = ""
    kind: str = ""


@semantics("cp.async.bulk", destinations=0, effects=EFFECTS, asynchronous=True)
def _bulk(emitter: Emitter, ins: Instruction) -> None:
    words = list(ins.opcode[3:])
    operands = list(ins.operands)
    if words[-1:] == [_HINT]:
        words.pop()
        operands.pop()
    match words:
        case ["shared::cluster" | "shared::cta", "global", word, *rest] if word == _SIGNAL:
            _load(emitter, ins, operands, rest, multicast="shared::cluster" in words)
        case ["shared::cluster", "shared::cta", word] if (
            word == _SIGNAL and _HINT not in ins.opcode
        ):
            _load(emitter, ins, operands, [], multicast=False, across=True)
        case ["global", "shared::cta", "bulk_group"]:
            _store(emitter, ins, operands)
        case _:
            raise emitter.fail(ins, "unsupported direction or modifier of a bulk copy")


def _load(
    emitter: Emitter,
    ins: Instruction,
    operands: list[nodes.Operand],
    rest: list[str],
    *,
    multicast: bool,
    across: bool = False,
) -> None:
    many = rest == ["multicast::cluster"] and multicast
    if (rest and not many) or len(operands) != 4 + many:
        raise emitter.fail(ins, "unsupported modifier or number of operands")
    target, target_offset = shared_address(emitter, ins, operands[0])
    source, source_offset = (shared_address if across else _global)(emitter, ins, operands[1])
    size = emitter.source(operands[2], "u32", ins)
    barrier, barrier_offset = shared_address(emitter, ins, operands[3])
    blocks = emitter.source(operands[4], "u16", ins) if many else "None"
    copy = _Copy(emitter.site(ins), target_offset, source_offset, barrier_offset)
    name = "bulk_across" if across else "bulk_in"
    last = "" if across else f", {blocks}"
    emitter.line(
        f"{name}({emitter.object(copy)}, {target}, {source}, {size}, {barrier}{last}, "
        f"{emitter.mask})"
    )


def _store(
    emitter: Emitter,
    ins: Instruction,
    operands: list[nodes.Operand],
    operation: str = "",
    kind: str = "",
) -> None:
    if len(operands) != 3:
        raise emitter.fail(ins, "a target, a source and a size were expected")
    target, target_offset = _global(emitter, ins, operands[0])
    source, source_offset = shared_address(emitter, ins, operands[1])
    size = emitter.source(operands[2], "u32", ins)
    copy = _Copy(emitter.site(ins), target_offset, source_offset, operation=operation, kind=kind)
    emitter.line(f"bulk_out({emitter.object(copy)}, {target}, {source}, {size}, {emitter.mask})")


@semantics("cp.reduce.async.bulk", destinations=0, effects=EFFECTS, asynchronous=True)
def _reduce(emitter: Emitter, ins: Instruction) -> None:
    words = list(ins.opcode[4:])
    operands = list(ins.operands)
    if _HINT in words:
        words.remove(_HINT)
        operands.pop()
    head, tail = words[:3], words[3:]
    if head != ["global", "shared::cta", "bulk_group"] or len(tail) not in (2, 3):
        raise emitter.fail(ins, "only reductions of a run of bytes in global memory are supported")
    operation, *flush, kind = tail
    half = kind in ("f16", "bf16")
    known = kind in OPERATIONS.get(operation, ()) and not kind.endswith("x2")
    if not known or operation in ("exch", "cas") or flush != (["noftz"] if half else []):
        raise emitter.fail(ins, "unsupported operation or type")
    _store(emitter, ins, operands, operation, kind)


@semantics("cp.async.bulk.prefetch", destinations=0)
def _prefetch(emitter: Emitter, ins: Instruction) -> None:
    """A hint; it reads nothing that anybody could see."""
    if ins.opcode[4:5] not in (("L2",), ("tensor",)):
        raise emitter.fail(ins, "unsupported modifier")


def _global(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, int]:
    if not isinstance(operand, nodes.Address) or operand.extra:
        raise emitter.fail(ins, "an address was expected")
    return emitter.source(operand.base, "u64", ins), operand.offset


# -- at run time --


def _lanes(context: Context, mask: Array | None) -> list[int]:
    lanes: list[int] = np.flatnonzero(context.alive if mask is None else mask).tolist()
    return lanes


def _chunks(
    context: Context, copy: _Copy, lane: int, address: int, size: int, what: str
) -> Array | None:
    """Byte offsets in the window of a run's chunks; None after a finding."""
    kind = fault = ""
    if size % 16 or address % 16:
        kind = "misaligned"
        fault = f"a bulk copy of {size} bytes {what} shared address {address:#x}; both are to be "
        fault += "multiples of 16"
    elif not 0 <= address <= context.shared.nbytes - size:
        kind = "out-of-bounds-access"
        fault = f"a bulk copy of {size} bytes outside the block's {context.shared.nbytes} bytes"
    if fault:
        context.collector.add(kind, fault, copy.number, lane, address=address)
        return None
    return address + np.arange(0, size, 16)


def _run_of(copy: _Copy, lane: int, address: int, size: int) -> tuple[Array, Array]:
    """Global addresses of a run's chunks, and their identities."""
    at = (address + np.arange(0, size, 16)).astype(np.uint64)
    return at, np.full(at.size, (copy.number << SITE_SHIFT) + lane, np.int64)


@runtime
def bulk_in(
    context: Context,
    copy: _Copy,
    target: Array,
    source: Array,
    size: Array,
    barrier: Array,
    blocks: Array | None,
    mask: Array | None,
) -> None:
    """Global to shared memory, of one block or several."""
    for lane in _lanes(context, mask):
        count = int(size[lane])
        room = min(count, context.shared.nbytes) // 16 * 16  # more is a finding below
        at, ids = _run_of(copy, lane, int(source[lane]) + copy.source, room)
        words = context.memory.load(at, 16, ids)
        places = (int(target[lane]) + copy.target, int(barrier[lane]) + copy.barrier)
        chosen = None if blocks is None else int(blocks[lane])
        for (block, offset), signal in targets(context, copy.number, lane, places, chosen):
            chunks = _chunks(context, copy, lane, offset, count, "to")
            deliver(context, copy.number, lane, (block, chunks), signal, words)


@runtime
def bulk_across(
    context: Context,
    copy: _Copy,
    target: Array,
    source: Array,
    size: Array,
    barrier: Array,
    mask: Array | None,
) -> None:
    """One block's shared memory to another's, whose mbarrier completes the read, too."""
    for lane in _lanes(context, mask):
        count = int(size[lane])
        places = (int(target[lane]) + copy.target, int(barrier[lane]) + copy.barrier)
        ((block, offset), signal) = targets(context, copy.number, lane, places, None)[0]
        own = _chunks(context, copy, lane, int(source[lane]) + copy.source, count, "from")
        chunks = _chunks(context, copy, lane, offset, count, "to")
        completes = find(context, copy.number, signal, lane)
        if own is None or chunks is None or completes is None:
            continue
        flat = own + lane // context.threads * context.shared.stride
        words = context.shared.views[16].take(flat >> 4)
        region = Region(flat, np.array([lane]), copy.number)
        for listener in context.shared.listeners:
            poison = listener.fetch_until(region, completes)
            if poison is not None:
                words.view(np.uint64).reshape(-1, 2)[poison] = np.uint64(2**64 - 1)
        deliver(context, copy.number, lane, (block, chunks), signal, words)


@runtime
def bulk_out(
    context: Context,
    copy: _Copy,
    target: Array,
    source: Array,
    size: Array,
    mask: Array | None,
) -> None:
    """Shared to global memory, written or reduced into."""
    for lane in _lanes(context, mask):
        count = int(size[lane])
        chunks = _chunks(context, copy, lane, int(source[lane]) + copy.source, count, "from")
        if chunks is None:
            continue
        words, group = take_out(context, copy.number, lane, chunks)
        start = int(target[lane]) + copy.target
        if not copy.operation:
            at, ids = _run_of(copy, lane, start, count)
            context.memory.store(at, 16, words, ids, group=group)
            continue
        code = code_of(copy.kind)
        dtype = DTYPES["u16" if code == "f16" else code]
        width = dtype.itemsize
        at = (start + np.arange(0, count, width)).astype(np.uint64)
        ids = np.full(at.size, (copy.number << SITE_SHIFT) + lane, np.int64)
        old = context.memory.load(at, width, ids, atomic=True).view(dtype)
        value = words.view(dtype)
        new = combine(context, copy.operation, copy.kind, old, value, value, shared=False)
        raw = np.ascontiguousarray(new).view(RAW[width])
        context.memory.store(at, width, raw, ids, strong=True, group=group)
