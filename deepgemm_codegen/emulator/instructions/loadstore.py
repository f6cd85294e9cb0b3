"""ld and st of global, shared, local and generic memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions.move import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from deepgemm_codegen.emulator.memory import RAW
from deepgemm_codegen.emulator.registry import Effects, runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_SPACES = frozenset({"global", "shared", "shared::cta", "local", "const"})
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
# Hints of caching and ordering; on one block at a time in lock step they change nothing.
_HINTS = frozenset(
    {"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "relaxed", "weak", "cta", "gpu"}
    | {"sys", "L2::64B", "L2::128B", "L2::256B", "L1::no_allocate", "L1::evict_first"}
    | {"L1::evict_last", "L1::evict_normal", "L1::evict_unchanged"}
)


def _space(ins: Instruction) -> str:
    for word in ins.opcode:
        if word in _SPACES:
            return word.removesuffix("::cta")
    return "generic"


def _effects(mode: str) -> Any:
    def effects(ins: Instruction) -> Effects:
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


def _check(emitter: Emitter, ins: Instruction) -> tuple[str, int, int]:
    """Space, elements and bytes of an element."""
    words = set(ins.opcode[1:-1]) - _SPACES - set(_VECTORS)
    if not words <= _HINTS:
        raise emitter.fail(ins, f"unsupported modifier {', '.join(sorted(words - _HINTS))}")
    return _space(ins), _vector(ins), int(code_of(ins.opcode[-1])[1:]) // 8


def _address(emitter: Emitter, ins: Instruction, operand: nodes.Operand) -> tuple[str, int]:
    """Source text of the address and its byte offset."""
    if not isinstance(operand, nodes.Address) or operand.extra:
        raise emitter.fail(ins, "an address was expected")
    base = operand.base
    if isinstance(base, nodes.Immediate):
        return emitter.source(base, "u64", ins), operand.offset
    bits = emitter.bits(base, ins) or 64
    return emitter.source(base, f"u{bits}", ins), operand.offset


@semantics("ld", "ldu", effects=_effects("read"), shared_width=_shared_width)
def _ld(emitter: Emitter, ins: Instruction) -> None:
    space, count, width = _check(emitter, ins)
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
    emitter.line(
        f"load_{space}({emitter.site(ins)}, {address}, {offset}, {width}, d_{sign}{width * 8}, "
        f"({', '.join(outs)},), {emitter.mask})"
    )


@semantics("st", destinations=0, effects=_effects("write"), shared_width=_shared_width)
def _st(emitter: Emitter, ins: Instruction) -> None:
    space, count, width = _check(emitter, ins)
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
    emitter.line(
        f"store_{space}({emitter.site(ins)}, {address}, {offset}, {width}, "
        f"({', '.join(sources)},), {emitter.mask})"
    )


# -- at run time --


def _active(
    context: Context, site: int, address: Array, offset: int, mask: Array | None
) -> tuple[Array, Array, Array | None]:
    """Addresses (64 bits) and identities of the active lanes, and their numbers or None."""
    ids = context.ids(site)
    lanes = None
    if mask is not None:
        lanes = np.flatnonzero(mask)
        address, ids = address[lanes], ids[lanes]
    wide = address.astype(np.int64) if address.dtype != np.int64 else address
    return (wide + offset if offset else wide), ids, lanes


def _deliver(
    values: Array, count: int, dtype: np.dtype[Any], outs: tuple[Array, ...], lanes: Array | None
) -> None:
    parts = values.view(dtype).reshape(-1, count)
    for i, out in enumerate(outs):
        if lanes is None:
            out[...] = parts[:, i]
        else:
            out[lanes] = parts[:, i]


def _gather(sources: tuple[Array, ...], width: int, lanes: Array | None) -> Array:
    """The lanes' vectors as raw words of count * width bytes."""
    dtype = RAW[width]
    size = sources[0].size if lanes is None else lanes.size
    words = np.empty((size, len(sources)), dtype)
    for i, source in enumerate(sources):
        # A wider source gives its low bytes.
        chosen = source if lanes is None else source[lanes]
        words[:, i] = chosen.view(dtype) if chosen.itemsize == width else chosen.astype(dtype)
    return words.reshape(-1).view(RAW[width * len(sources)])


@runtime
def load_global(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    dtype: np.dtype[Any],
    outs: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``ld.global``."""
    where, ids, lanes = _active(context, site, address, offset, mask)
    total = width * len(outs)
    if total > 16:
        for i, out in enumerate(outs):
            part = context.memory.load((where + i * width).view(np.uint64), width, ids)
            _deliver(part, 1, dtype, (out,), lanes)
        return
    values = context.memory.load(where.view(np.uint64), total, ids)
    _deliver(values, len(outs), dtype, outs, lanes)


@runtime
def store_global(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    sources: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``st.global``."""
    where, ids, lanes = _active(context, site, address, offset, mask)
    if width * len(sources) > 16:
        for i, source in enumerate(sources):
            part = _gather((source,), width, lanes)
            context.memory.store((where + i * width).view(np.uint64), width, part, ids)
        return
    values = _gather(sources, width, lanes)
    context.memory.store(where.view(np.uint64), width * len(sources), values, ids)


load_const = load_global


@runtime
def load_shared(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    dtype: np.dtype[Any],
    outs: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``ld.shared``."""
    where, ids, lanes = _active(context, site, address, offset, mask)
    base = context.shared.base
    if base is not None and lanes is not None:
        base = base[lanes]
    if where.size:
        values = context.shared.load(where, width * len(outs), base, ids)
        _deliver(values, len(outs), dtype, outs, lanes)


@runtime
def store_shared(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    sources: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``st.shared``."""
    where, ids, lanes = _active(context, site, address, offset, mask)
    base = context.shared.base
    if base is not None and lanes is not None:
        base = base[lanes]
    if where.size:
        values = _gather(sources, width, lanes)
        context.shared.store(where, width * len(sources), base, ids, values)


def _local(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    verb: str,
    mask: Array | None,
) -> tuple[Array, Array]:
    """Lane numbers and byte indices of in-bounds local accesses."""
    where, ids, lanes = _active(context, site, address, offset, mask)
    lanes = context.lane_ids if lanes is None else lanes
    size = context.local.shape[1]
    bad = (where < 0) | (where > size - width)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        context.collector.add(
            f"out-of-bounds-{verb}",
            f"local {verb} outside the thread's {size} bytes",
            site,
            int(lanes[first]),
            address=int(where[first]),
            count=int(bad.sum()),
        )
        lanes, where = lanes[~bad], where[~bad]
    return lanes, where


@runtime
def load_local(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    dtype: np.dtype[Any],
    outs: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``ld.local``."""
    total = width * len(outs)
    lanes, where = _local(context, site, address, offset, total, "read", mask)
    raw = context.local[lanes[:, None], where[:, None] + np.arange(total)]
    _deliver(np.ascontiguousarray(raw).reshape(-1), len(outs), dtype, outs, lanes)


@runtime
def store_local(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    sources: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``st.local``."""
    total = width * len(sources)
    lanes, where = _local(context, site, address, offset, total, "write", mask)
    raw = _gather(sources, width, lanes).view(np.uint8).reshape(-1, total)
    context.local[lanes[:, None], where[:, None] + np.arange(total)] = raw


def _by_window(
    context: Context, address: Array, offset: int, mask: Array | None
) -> list[tuple[str, Array, Array | None]]:
    """Generic addresses by space: its name, addresses in it, and the lanes' mask."""
    where = address.astype(np.uint64)
    result: list[tuple[str, Array, Array | None]] = []
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
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    dtype: np.dtype[Any],
    outs: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``ld`` with a generic address."""
    table = {"shared": load_shared, "local": load_local, "global": load_global}
    for name, where, part in _by_window(context, address, offset, mask):
        table[name](context, site, where, offset, width, dtype, outs, part)


@runtime
def store_generic(
    context: Context,
    site: int,
    address: Array,
    offset: int,
    width: int,
    sources: tuple[Array, ...],
    mask: Array | None,
) -> None:
    """``st`` with a generic address."""
    table = {"shared": store_shared, "local": store_local, "global": store_global}
    for name, where, part in _by_window(context, address, offset, mask):
        table[name](context, site, where, offset, width, sources, part)
