"""atom and red on global, shared and generic addresses.

Lanes take effect one after another, in order of lane: one of the orders a GPU may choose. Sums of
floats whose result depends on that order are therefore no reference for a GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes, numeric
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.context import DTYPES
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions.accesses import shared_places
from deepgemm_codegen.emulator.instructions.half import half
from deepgemm_codegen.emulator.instructions.order import (
    MEMORY,
    SCOPES,
    STRONG,
    order_of,
    orders_blocks,
    synchronise,
)
from deepgemm_codegen.emulator.listeners import LANE_MASK, Order, make_ids
from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.windows import by_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["OPERATIONS", "combine"]

Array = np.ndarray[Any, np.dtype[Any]]

_SPACES = frozenset({"global", "shared", "shared::cta", "shared::cluster"})
_HALVES = {"f16", "f16x2", "bf16", "bf16x2"}  # with .noftz
OPERATIONS: dict[str, set[str]] = {
    "add": {"u32", "s32", "u64", "f32", "f64"} | _HALVES,
    "min": {"u32", "s32", "u64", "s64"}, "max": {"u32", "s32", "u64", "s64"},
    "inc": {"u32"}, "dec": {"u32"},
    "and": {"b32", "b64"}, "or": {"b32", "b64"}, "xor": {"b32", "b64"},
    "exch": {"b32", "b64"}, "cas": {"b16", "b32", "b64"},
}  # fmt: skip

# On integers these give one result in any order, so that numpy may apply them in one call.
_AT_ONCE: dict[str, np.ufunc] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_OTHERS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "inc": lambda old, b, _: np.where(old >= b, 0, old + 1).astype(old.dtype),
    "dec": lambda old, b, _: np.where((old == 0) | (old > b), b, old - 1).astype(old.dtype),
    "exch": lambda _old, b, _: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
}


@dataclass(frozen=True, slots=True)
class _Atomic:
    """What is fixed of one instruction.

    Attributes:
        number: of the instruction.
        operation: ``add`` ...
        kind: PTX type of the memory.
        dtype: numpy type that the operation sees.
        space: ``global``, ``shared`` or ``generic``.
        offset: bytes added to the address register.
        order: of the access.
    """

    number: int
    operation: str
    kind: str
    dtype: np.dtype[Any]
    space: str
    offset: int
    order: Order


def _shared_width(ins: Instruction) -> int:
    return 0 if "global" in ins.opcode else int(code_of(ins.opcode[-1])[1:]) // 8


@semantics(
    "atom", effects=MEMORY, shared_width=_shared_width, polls=True, asynchronous=orders_blocks
)
def _atom(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, ins, ins.operands[0], ins.operands[1:])


@semantics(
    "red", destinations=0, effects=MEMORY, shared_width=_shared_width, asynchronous=orders_blocks
)
def _red(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, ins, None, ins.operands)


def _emit(
    emitter: Emitter,
    ins: Instruction,
    target: nodes.Operand | None,
    operands: tuple[nodes.Operand, ...],
) -> None:
    operation, space, order = _words(emitter, ins)
    if "L2::cache_hint" in ins.opcode:
        operands = operands[:-1]
    address, *values = operands
    if not isinstance(address, nodes.Address) or len(values) != (2 if operation == "cas" else 1):
        raise emitter.fail(ins, "an address and a value were expected")
    kind = ins.opcode[-1]
    code = code_of(kind)
    raw = "u16" if code == "f16" else code
    base = emitter.source(address.base, f"u{emitter.bits(address.base, ins) or 64}", ins)
    what = _Atomic(emitter.site(ins), operation, kind, DTYPES[raw], space, address.offset, order)
    sources = [emitter.source(v, raw, ins) for v in values]
    out = "None"
    if target is not None and target != nodes.Name("_"):
        out = emitter.target(target, raw, ins)
    site = emitter.object(what)
    emitter.line(f"atomic({site}, {base}, ({sources[0]}, {sources[-1]}), {out}, {emitter.mask})")


def _words(emitter: Emitter, ins: Instruction) -> tuple[str, str, Order]:
    """Operation, space and order."""
    words, kind = list(ins.opcode[1:-1]), ins.opcode[-1]
    operations = [w for w in words if w in OPERATIONS]
    spaces = [w for w in words if w in _SPACES]
    hints = {"L2::cache_hint"} | ({"noftz"} if kind in _HALVES else set())
    orders = (STRONG - {"volatile"}) | SCOPES
    unknown = set(words) - {*operations, *spaces} - hints - orders
    if unknown:
        raise emitter.fail(ins, f"unsupported modifier {', '.join(sorted(unknown))}")
    if len(operations) != 1 or len(spaces) > 1 or kind not in OPERATIONS[operations[0]]:
        raise emitter.fail(ins, "an operation, its type and at most one state space were expected")
    if ins.opcode[0] == "red" and operations[0] in ("exch", "cas"):
        raise emitter.fail(ins, "an exchange returns what it found: it is no reduction")
    if (kind in _HALVES) != ("noftz" in words):
        raise emitter.fail(ins, "noftz was expected")
    order = order_of(emitter, ins, set(words), "relaxed") or Order()
    space = spaces[0].partition("::")[0] if spaces else "generic"
    return operations[0], space, order


# -- at run time --


def combine(
    context: Context,
    operation: str,
    kind: str,
    old: Array,
    b: Array,
    c: Array,
    *,
    shared: bool,
) -> Array:
    """The new values of an operation on a PTX type; each rounds once."""
    result: Array
    function = _AT_ONCE.get(operation)
    if kind in _HALVES:
        result = half(context, "add", kind.removesuffix("x2"), (old, b))
    elif kind == "f32":
        # Float additions in global memory flush subnormals, whatever the instruction says.
        flush = np.asarray if shared else numeric.flush
        result = flush(numeric.canonical(flush(old) + flush(b)))
    else:
        result = _OTHERS[operation](old, b, c) if function is None else function(old, b)
    return result


def _rounds(where: Array) -> Iterator[Array]:
    """Accesses (numbers, ascending) in rounds: each address once a round, lanes in order."""
    order = np.argsort(where, kind="stable")
    ordered = where[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    counts = np.diff(np.r_[starts, where.size])
    rank = np.empty(where.size, np.int64)
    rank[order] = np.arange(where.size) - np.repeat(starts, counts)
    for number in range(int(counts.max(initial=0))):
        yield np.flatnonzero(rank == number)


@runtime
def atomic(
    context: Context,
    site: _Atomic,
    address: Array,
    values: tuple[Array, Array],
    out: Array | None,
    mask: Array | None,
) -> None:
    """Read, combine and write, lane after lane where they meet at one address."""
    if site.space == "generic":
        lanes = context.alive if mask is None else mask
        for space, where, part in by_window(address, site.offset, lanes):
            if space in ("local", "param"):
                lane = int(np.flatnonzero(part)[0])
                message = f"an atomic operation on {space} memory"
                context.collector.add("out-of-bounds-write", message, site.number, lane)
            else:
                _apply(context, replace(site, space=space), where, values, out, part)
        return
    _apply(context, site, address, values, out, mask)


def _apply(
    context: Context,
    site: _Atomic,
    address: Array,
    values: tuple[Array, Array],
    out: Array | None,
    mask: Array | None,
) -> None:
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if not lanes.size:
        return
    where = address[lanes].astype(np.int64) + site.offset
    b, c = values[0][lanes], values[1][lanes]
    ids = make_ids(site.number, lanes)
    result = None if out is None else np.empty(lanes.size, site.dtype)
    if result is not None:
        result.view(np.uint8)[...] = 0xFF
    (_shared if site.space == "shared" else _global)(context, site, where, (b, c), ids, result)
    if out is not None:
        out[lanes] = result


def _global(
    context: Context,
    site: _Atomic,
    where: Array,
    values: tuple[Array, Array],
    ids: Array,
    result: Array | None,
) -> None:
    width = site.dtype.itemsize
    for now in _rounds(where):
        at = where[now].view(np.uint64)
        old = context.memory.load(at, width, ids[now], atomic=True).view(site.dtype)
        b, c = values[0][now], values[1][now]
        new = combine(context, site.operation, site.kind, old, b, c, shared=False)
        words = np.ascontiguousarray(new).view(RAW[width])
        context.memory.store(at, width, words, ids[now], strong=True)
        if result is not None:
            result[now] = old
    synchronise(context, where, ids, site.order, reads=True, writes=True)


def _shared(
    context: Context,
    site: _Atomic,
    where: Array,
    values: tuple[Array, Array],
    ids: Array,
    result: Array | None,
) -> None:
    def apply(words: Array, places: Array, which: Array) -> None:
        typed = words.view(site.dtype)
        function = _AT_ONCE.get(site.operation)
        whole = site.dtype.kind in "iu" and site.kind not in _HALVES
        if result is None and function is not None and whole:
            function.at(typed, places, values[0][which])
            return
        for now in _rounds(places):
            old = typed[places[now]]
            mine = which[now]
            b, c = values[0][mine], values[1][mine]
            new = combine(context, site.operation, site.kind, old, b, c, shared=True)
            typed[places[now]] = new
            if result is not None:
                result[mine] = old

    where, base = shared_places(context, site.number, where, ids & LANE_MASK)
    context.shared.update(where, site.dtype.itemsize, base, ids, site.order, apply)
