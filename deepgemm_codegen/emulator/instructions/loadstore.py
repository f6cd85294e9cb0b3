"""ld and st of global, shared, local and generic memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.context import DTYPES
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions import several
from deepgemm_codegen.emulator.instructions.move import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from deepgemm_codegen.emulator.instructions.order import (
    MEMORY,
    SCOPES,
    STRONG,
    order_of,
    orders_blocks,
    synchronise,
)
from deepgemm_codegen.emulator.memory import RAW
from deepgemm_codegen.emulator.registry import Effects, runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.listeners import Order
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["by_window"]

Array = np.ndarray[Any, np.dtype[Any]]

_SPACES = frozenset({"global", "shared", "shared::cta", "local"})
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
# Hints of caching change nothing here.
_LOAD_HINTS = frozenset({"nc", "ca", "cg", "cs", "lu", "cv"})
_STORE_HINTS = frozenset({"wb", "cg", "cs", "wt"})
_HINTS = frozenset(
    {"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"}
    | {"L1::no_allocate", "L1::evict_first", "L1::evict_last", "L1::evict_normal"}
    | {"L1::evict_unchanged", "L2::evict_first", "L2::evict_last", "L2::evict_normal"}
)
_ORDERS = {"ld": {"weak", "volatile", "relaxed", "acquire"}, "ldu": set[str]()}
_ORDERS["st"] = {"weak", "volatile", "relaxed", "release"}


@dataclass(frozen=True, slots=True)
class _Site:
    """What is fixed of one load or store.

    Attributes:
        number: of the instruction.
        offset: bytes added to the address register.
        width: bytes of an element.
        count: elements.
        dtype: numpy type of an element as loaded.
        order: of a strong access, None for an ordinary one.
        volatile: whether it is so by ``.volatile``. That orders nothing by itself, and programs
            that rely on it in shared memory are racy: there it is checked as an ordinary access.
    """

    number: int
    offset: int
    width: int
    count: int
    dtype: np.dtype[Any]
    order: Order | None = None
    volatile: bool = False

    @property
    def shared_order(self) -> Order | None:
        """Order in shared memory."""
        return None if self.volatile else self.order

    @property
    def total(self) -> int:
        """Bytes of a lane's access."""
        return self.width * self.count


def _space(ins: Instruction) -> str:
    for word in ins.opcode:
        if word in _SPACES:
            return word.removesuffix("::cta")
    return "generic"


def _batch_key(ins: Instruction) -> tuple[str, ...] | None:
    """Loads and stores of one kind may share a call; local, generic and strong ones go alone."""
    alone = _space(ins) not in ("global", "shared") or not STRONG.isdisjoint(ins.opcode)
    return None if alone else ins.opcode


def _effects(mode: str) -> Any:
    def effects(ins: Instruction) -> Effects:
        if not STRONG.isdisjoint(ins.opcode):
            return (*MEMORY, ("local", "write"))
        space = _space(ins)
        spaces = ("global", "shared", "local") if space == "generic" else (space,)
        return tuple((s, mode) for s in spaces)

    return effects


def _vector(ins: Instruction) -> int:
    return next((_VECTORS[w] for w in ins.opcode if w in _VECTORS), 1)


def _shared_width(ins: Instruction) -> int:
    if _space(ins) not in ("shared", "generic"):
        return 0
    return min(16, _vector(ins) * (int(code_of(ins.opcode[-1])[1:]) // 8))


def _check(emitter: Emitter, ins: Instruction) -> tuple[str, int, int, Order | None]:
    """Space, elements, bytes of an element and memory order."""
    words = list(ins.opcode[1:-1])
    spaces = [w for w in words if w in _SPACES]
    vectors = [w for w in words if w in _VECTORS]
    orders = _ORDERS[ins.opcode[0]] | SCOPES
    hints = _HINTS | (_STORE_HINTS if ins.opcode[0] == "st" else _LOAD_HINTS)
    unknown = set(words) - set(spaces) - set(vectors) - orders - hints
    if unknown or len(spaces) > 1 or len(vectors) > 1:
        raise emitter.fail(ins, f"unsupported modifier {', '.join(sorted(unknown)) or 'twice'}")
    order = order_of(emitter, ins, set(words))
    return _space(ins), _vector(ins), int(code_of(ins.opcode[-1])[1:]) // 8, order


def _address(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, int]:
    """Source text of the address and its byte offset."""
    if not isinstance(operand, nodes.Address) or operand.extra:
        raise emitter.fail(ins, "an address was expected")
    base = operand.base
    if isinstance(base, nodes.Immediate):
        return emitter.source(base, "u64", ins), operand.offset
    bits = emitter.bits(base, ins) or 64
    return emitter.source(base, f"u{bits}", ins), operand.offset


def _emit_loads(emitter: Emitter, loads: list[Instruction]) -> None:
    if not several.emit(emitter, loads, _space(loads[0]), _vector(loads[0]), store=False):
        for ins in loads:
            emitter.begin(ins)
            _ld(emitter, ins)


def _emit_stores(emitter: Emitter, stores: list[Instruction]) -> None:
    if not several.emit(emitter, stores, _space(stores[0]), _vector(stores[0]), store=True):
        for ins in stores:
            emitter.begin(ins)
            _st(emitter, ins)


@semantics(
    "ld",
    "ldu",
    effects=_effects("read"),
    batch=_batch_key,
    emit_batch=_emit_loads,
    shared_width=_shared_width,
    polls=lambda ins: not STRONG.isdisjoint(ins.opcode),
    asynchronous=orders_blocks,
)
def _ld(emitter: Emitter, ins: Instruction) -> None:
    space, count, width, order = _check(emitter, ins)
    kind = ins.opcode[-1]
    items = ins.operands[0]
    targets = items.items if isinstance(items, nodes.Vector) else (items,)
    if len(targets) != count:
        raise emitter.fail(ins, f"{count} destinations were expected")
    sign = "s" if kind[0] == "s" else "u"
    outs = []
    for target in targets:
        bits = emitter.bits(target, ins) or width * 8
        if bits < width * 8:
            raise emitter.fail(ins, "the destination is narrower than the type")
        outs.append(emitter.target(target, f"{sign}{bits}", ins))
    address, offset = _address(emitter, ins, ins.operands[1])
    dtype = DTYPES[f"{sign}{width * 8}"]
    volatile = "volatile" in ins.opcode
    site = emitter.object(_Site(emitter.site(ins), offset, width, count, dtype, order, volatile))
    emitter.line(f"load_{space}({site}, {address}, ({', '.join(outs)},), {emitter.mask})")


@semantics(
    "st",
    destinations=0,
    effects=_effects("store"),
    batch=_batch_key,
    emit_batch=_emit_stores,
    order=3,
    ordered=True,
    shared_width=_shared_width,
    asynchronous=orders_blocks,
)
def _st(emitter: Emitter, ins: Instruction) -> None:
    space, count, width, order = _check(emitter, ins)
    operand = ins.operands[1]
    items = operand.items if isinstance(operand, nodes.Vector) else (operand,)
    if len(items) != count:
        raise emitter.fail(ins, f"{count} sources were expected")
    sources = []
    for item in items:
        code = code_of(ins.opcode[-1])
        bits = emitter.bits(item, ins)
        if bits and bits < width * 8:
            raise emitter.fail(ins, "the source is narrower than the type")
        if isinstance(item, nodes.Immediate):
            sources.append(emitter.source(item, code, ins))
        else:
            sources.append(emitter.source(item, f"u{bits or width * 8}", ins))
    address, offset = _address(emitter, ins, ins.operands[0])
    volatile = "volatile" in ins.opcode
    dtype = RAW[width]
    site = emitter.object(_Site(emitter.site(ins), offset, width, count, dtype, order, volatile))
    emitter.line(f"store_{space}({site}, {address}, ({', '.join(sources)},), {emitter.mask})")


# -- at run time --


def _active(
    context: Context, site: _Site, address: Array, mask: Array | None
) -> tuple[Array, Array, Array | None]:
    """Addresses (int64) and identities of the active lanes, and their numbers or None for all."""
    ids = context.ids(site.number)
    lanes = None
    if mask is not None:
        lanes = np.flatnonzero(mask)
        address, ids = address[lanes], ids[lanes]
    wide = address.astype(np.int64)
    if site.offset:
        wide += site.offset
    return wide, ids, lanes


def _deliver(values: Array, site: _Site, outs: tuple[Array, ...], lanes: Array | None) -> None:
    """Raw words of whole accesses to the destination registers, extended where those are wider."""
    parts = values.view(site.dtype).reshape(-1, len(outs))
    for i, out in enumerate(outs):
        if lanes is None:
            out[...] = parts[:, i]
        else:
            out[lanes] = parts[:, i]


def _gather(sources: tuple[Array, ...], width: int, lanes: Array | None) -> Array:
    """The lanes' vectors as raw words of all their bytes; a wider source gives its low bytes."""
    dtype = RAW[width]
    size = sources[0].size if lanes is None else lanes.size
    words = np.empty((size, len(sources)), dtype)
    for i, source in enumerate(sources):
        chosen = source if lanes is None else source[lanes]
        words[:, i] = chosen.view(dtype) if chosen.itemsize == width else chosen.astype(dtype)
    return words.reshape(-1).view(RAW[width * len(sources)])


@runtime
def load_global(
    context: Context, site: _Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.global``."""
    where, ids, lanes = _active(context, site, address, mask)
    # A GPU moves at most 16 bytes a lane before sm_100: wider ones go in two.
    step = min(len(outs), 16 // site.width)
    for i in range(0, len(outs), step):
        at = (where + i * site.width).view(np.uint64)
        strong = site.order is not None
        values = context.memory.load(at, site.width * step, ids, strong=strong)
        if site.order is not None:
            synchronise(context, at.view(np.int64), ids, site.order, reads=True, writes=False)
        _deliver(values, site, outs[i : i + step], lanes)


@runtime
def store_global(
    context: Context, site: _Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.global``."""
    where, ids, lanes = _active(context, site, address, mask)
    step = min(len(sources), 16 // site.width)
    for i in range(0, len(sources), step):
        at = (where + i * site.width).view(np.uint64)
        values = _gather(sources[i : i + step], site.width, lanes)
        if site.order is not None:
            synchronise(context, at.view(np.int64), ids, site.order, reads=False, writes=True)
        strong = site.order is not None
        context.memory.store(at, site.width * step, values, ids, strong=strong)


@runtime
def load_shared(
    context: Context, site: _Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.shared``."""
    where, ids, lanes = _active(context, site, address, mask)
    base = context.shared.base
    if base is not None and lanes is not None:
        base = base[lanes]
    if where.size:
        values = context.shared.load(where, site.total, base, ids, site.shared_order)
        _deliver(values, site, outs, lanes)


@runtime
def store_shared(
    context: Context, site: _Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.shared``."""
    where, ids, lanes = _active(context, site, address, mask)
    base = context.shared.base
    if base is not None and lanes is not None:
        base = base[lanes]
    if where.size:
        values = _gather(sources, site.width, lanes)
        context.shared.store(where, site.total, base, ids, values, site.shared_order)


def _local(
    context: Context, site: _Site, address: Array, verb: str, mask: Array | None
) -> tuple[Array, Array]:
    """Lane numbers and byte indices, shape (n, bytes), of the in-bounds local accesses."""
    where, _, lanes = _active(context, site, address, mask)
    lanes = context.lane_ids if lanes is None else lanes
    size = context.local.shape[1]
    bad = (where < 0) | (where > size - site.total)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        context.collector.add(
            f"out-of-bounds-{verb}",
            f"local {verb} outside the thread's {size} bytes",
            site.number,
            int(lanes[first]),
            address=int(where[first]),
            count=int(bad.sum()),
        )
        lanes, where = lanes[~bad], where[~bad]
    return lanes, where[:, None] + np.arange(site.total)


@runtime
def load_local(
    context: Context, site: _Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld.local``."""
    lanes, where = _local(context, site, address, "read", mask)
    raw = np.ascontiguousarray(context.local[lanes[:, None], where])
    _deliver(raw.reshape(-1), site, outs, lanes)


@runtime
def store_local(
    context: Context, site: _Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st.local``."""
    lanes, where = _local(context, site, address, "write", mask)
    raw = _gather(sources, site.width, lanes).view(np.uint8).reshape(-1, site.total)
    context.local[lanes[:, None], where] = raw


def by_window(
    context: Context, offset: int, address: Array, mask: Array | None
) -> list[tuple[str, Array, Array]]:
    """Generic addresses (still without ``offset``) by space: name, addresses in it, lanes."""
    where = address.astype(np.uint64)
    result: list[tuple[str, Array, Array]] = []
    left = np.ones(context.lanes, bool) if mask is None else mask
    at = where + np.uint64(offset & (2**64 - 1))
    for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
        inside = left & (at >= np.uint64(window)) & (at < np.uint64(window + WINDOW_SIZE))
        if inside.any():
            result.append((name, where - np.uint64(window), inside))
            left = left & ~inside
    if left.any():
        result.append(("global", where, left))
    return result


@runtime
def load_generic(
    context: Context, site: _Site, address: Array, outs: tuple[Array, ...], mask: Array | None
) -> None:
    """``ld`` with a generic address."""
    table = {"shared": load_shared, "local": load_local, "global": load_global}
    for name, where, part in by_window(context, site.offset, address, mask):
        table[name](context, site, where, outs, part)


@runtime
def store_generic(
    context: Context, site: _Site, address: Array, sources: tuple[Array, ...], mask: Array | None
) -> None:
    """``st`` with a generic address."""
    table = {"shared": store_shared, "local": store_local, "global": store_global}
    for name, where, part in by_window(context, site.offset, address, mask):
        table[name](context, site, where, sources, part)
