"""Exchange within a warp: shfl, vote, match, redux, activemask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


@semantics("shfl.sync", operands=5, converged=True)
def _shfl(emitter: Emitter, ins: Instruction) -> None:
    modes = ("up", "down", "bfly", "idx")
    if len(ins.opcode) != 4 or ins.opcode[2] not in modes or ins.opcode[3] != "b32":
        raise emitter.fail(ins, "unsupported modifier")
    target = ins.operands[0]
    first, second = (
        (target.first, target.second) if isinstance(target, nodes.Pair) else (target, None)
    )
    value, other, limit = (emitter.source(o, "u32", ins) for o in ins.operands[1:4])
    result = emitter.scratch("u32")
    valid = emitter.scratch("pred")
    members = emitter.source(ins.operands[4], "u32", ins)
    emitter.line(f"check_members({emitter.site(ins)}, {members}, {emitter.mask})")
    sources = f"({value}, {other}, {limit})"
    emitter.line(
        f"shuffle({emitter.site(ins)}, '{ins.opcode[2]}', {sources}, ({result}, {valid}), "
        f"{emitter.mask})"
    )
    emitter.copy(emitter.target(first, "u32", ins), result)
    if second is not None:
        emitter.copy(emitter.target(second, "pred", ins), valid)


@runtime
def shuffle(
    context: Context,
    site: int,
    mode: str,
    operands: tuple[Array, Array, Array],
    outs: tuple[Array, Array],
    mask: Array | None,
) -> None:
    """Read another lane of the warp; out of range, a lane reads itself."""
    value, other, limit = operands
    lane = context.lane_ids % 32
    clamp = (limit & 0x1F).astype(np.int64)
    segment = ((limit >> np.uint32(8)) & 0x1F).astype(np.int64)
    b = (other & 0x1F).astype(np.int64)
    low = lane & segment
    high = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source = lane - b
        good = source >= high
    elif mode == "down":
        source = lane + b
        good = source <= high
    elif mode == "bfly":
        source = lane ^ b
        good = source <= high
    else:
        source = low | (b & ~segment)
        good = source <= high
    source = np.where(good, source, lane)
    at = context.lane_ids - lane + source
    if mask is not None:
        dead = mask & ~mask[at]
        if dead.any():
            where = int(np.flatnonzero(dead)[0])
            context.collector.add(
                "divergent-instruction",
                "shfl reads a lane that does not execute it",
                site,
                where,
                count=int(dead.sum()),
            )
    outs[0][...] = value[at]
    outs[1][...] = good


@runtime
def check_members(context: Context, site: int, members: Array, mask: Array | None) -> None:
    """All live threads that a member mask names must execute the instruction together."""
    active = context.alive if mask is None else mask
    lane = (context.lane_ids % 32).astype(np.uint32)
    named = ((_warp_or(members, active) >> lane) & np.uint32(1)) == 1
    bad = (active & ~named) | (context.alive & ~active & named)
    if bad.any():
        context.collector.add(
            "divergent-instruction",
            "a member mask that does not match the threads that execute the instruction",
            site,
            int(np.flatnonzero(bad)[0]),
            count=int(bad.sum()),
        )


def _warp_or(members: Array, active: Array) -> Array:
    """The member masks that a warp's active lanes give, joined; one a lane."""
    masks = np.where(active, members, np.uint32(0)).reshape(-1, 32)
    return np.repeat(np.bitwise_or.reduce(masks, axis=1), 32)


@semantics("activemask", operands=1)
def _activemask(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[1:] != ("b32",):
        raise emitter.fail(ins, "unsupported modifier")
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"ballot(None, {emitter.mask})")


@semantics("vote.sync", operands=3, converged=True)
def _vote(emitter: Emitter, ins: Instruction) -> None:
    if len(ins.opcode) != 4:
        raise emitter.fail(ins, "unsupported modifier")
    mode, kind = ins.opcode[2:]
    if kind != ("b32" if mode == "ballot" else "pred"):
        raise emitter.fail(ins, "unsupported modifier")
    members = emitter.source(ins.operands[2], "u32", ins)
    emitter.line(f"check_members({emitter.site(ins)}, {members}, {emitter.mask})")
    predicate = emitter.source(ins.operands[1], "pred", ins)
    if mode == "ballot":
        out = emitter.target(ins.operands[0], "u32", ins)
        emitter.copy(out, f"ballot({predicate}, {emitter.mask})")
    elif mode in ("all", "any", "uni"):
        out = emitter.target(ins.operands[0], "pred", ins)
        emitter.copy(out, f"vote('{mode}', {predicate}, {emitter.mask})")
    else:
        raise emitter.fail(ins, "unsupported modifier")


@runtime
def ballot(context: Context, predicate: Array | None, mask: Array | None) -> Array:
    """Bits of the active lanes whose predicate holds."""
    held = np.ones(context.lanes, bool) if mask is None else mask
    if predicate is not None:
        held = held & predicate
    bits = held.reshape(-1, 32) * (np.uint32(1) << np.arange(32, dtype=np.uint32))
    return np.repeat(bits.sum(axis=1).astype(np.uint32), 32)


@runtime
def vote(context: Context, mode: str, predicate: Array, mask: Array | None) -> Array:
    """``all``, ``any``, ``uni`` over the active lanes of each warp."""
    active = (np.ones(context.lanes, bool) if mask is None else mask).reshape(-1, 32)
    held = np.broadcast_to(predicate, context.lanes).reshape(-1, 32)
    every, some = (held | ~active).all(axis=1), (held & active).any(axis=1)
    result = {"all": every, "any": some, "uni": every | ~some}[mode]
    return np.repeat(result, 32)


@semantics("match.any.sync", "match.all.sync", types=("b32", "b64"), operands=3, converged=True)
def _match(emitter: Emitter, ins: Instruction) -> None:
    if len(ins.opcode) != 4:
        raise emitter.fail(ins, "unsupported modifier")
    target, pair = ins.operands[0], isinstance(ins.operands[0], nodes.Pair)
    every = ins.opcode[1] == "all"
    first, second = (
        (target.first, target.second) if isinstance(target, nodes.Pair) else (target, None)
    )
    if pair and not every:
        raise emitter.fail(ins, "one destination was expected")
    value = emitter.source(ins.operands[1], "u" + ins.opcode[3][1:], ins)
    members = emitter.source(ins.operands[2], "u32", ins)
    emitter.line(f"check_members({emitter.site(ins)}, {members}, {emitter.mask})")
    same = emitter.scratch("u32")
    emitter.line(f"match({value}, {every}, {same}, {emitter.mask})")
    emitter.copy(emitter.target(first, "u32", ins), same)
    if second is not None:
        emitter.copy(emitter.target(second, "pred", ins), f"{same} != 0")


@runtime
def match(context: Context, value: Array, every: bool, out: Array, mask: Array | None) -> None:
    """``any``: the active lanes with the same value; ``all``: those, or 0 unless all have it."""
    active = (context.alive if mask is None else mask).reshape(-1, 32)
    values = value.reshape(-1, 32)
    same = (values[:, :, None] == values[:, None, :]) & active[:, None, :]
    bits = (same * (np.uint32(1) << np.arange(32, dtype=np.uint32))).sum(axis=2).astype(np.uint32)
    if every:
        alike = (same | ~active[:, None, :]).all(axis=2)
        bits = np.where(alike, bits, np.uint32(0))
    out[...] = bits.reshape(-1)


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


@semantics("redux.sync", operands=3, converged=True)
def _redux(emitter: Emitter, ins: Instruction) -> None:
    if len(ins.opcode) != 4:
        raise emitter.fail(ins, "unsupported modifier")
    operation, kind = ins.opcode[2:]
    logic = operation in ("and", "or", "xor")
    if operation not in _REDUCTIONS or kind not in (("b32",) if logic else ("u32", "s32")):
        raise emitter.fail(ins, "unsupported operation or type")
    code = "s32" if kind == "s32" else "u32"
    members = emitter.source(ins.operands[2], "u32", ins)
    emitter.line(f"check_members({emitter.site(ins)}, {members}, {emitter.mask})")
    value = emitter.source(ins.operands[1], code, ins)
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"reduce_warp('{operation}', {value}, {emitter.mask})")


@runtime
def reduce_warp(context: Context, operation: str, value: Array, mask: Array | None) -> Array:
    """``redux.sync``: the active lanes of each warp combined; sums wrap."""
    active = (context.alive if mask is None else mask).reshape(-1, 32)
    info = np.iinfo(value.dtype)
    neutral = {"min": info.max, "max": info.min, "and": -1 if info.min else info.max}
    padded = np.where(active, value.reshape(-1, 32), value.dtype.type(neutral.get(operation, 0)))
    result: Array = _REDUCTIONS[operation].reduce(padded, axis=1, dtype=value.dtype)
    return np.repeat(result, 32)
