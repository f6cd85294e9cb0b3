"""ld and st of global, shared, local and generic memory; what they do is in ``accesses``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.context import DTYPES
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions import several
from deepgemm_codegen.emulator.instructions.accesses import Site
from deepgemm_codegen.emulator.instructions.order import (
    MEMORY,
    SCOPES,
    STRONG,
    order_of,
    orders_blocks,
)
from deepgemm_codegen.emulator.registry import Effects, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.listeners import Order
    from deepgemm_codegen.emulator.nodes import Instruction

_SPACES = frozenset({"global", "shared", "shared::cta", "shared::cluster", "local", "const"})
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


def _space(ins: Instruction) -> str:
    for word in ins.opcode:
        if word in _SPACES:
            # Constant memory has addresses of its own among the global ones.
            names = {"shared::cluster": "cluster", "const": "global"}
            return names.get(word, word.removesuffix("::cta"))
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
        spaces: tuple[str, ...] = (space,)
        if space == "generic":
            spaces = ("global", "shared", "local")
        elif space == "cluster":
            spaces = ("shared",)
        return tuple((s, mode) for s in spaces)

    return effects


def _vector(ins: Instruction) -> int:
    return next((_VECTORS[w] for w in ins.opcode if w in _VECTORS), 1)


def _shared_width(ins: Instruction) -> int:
    if _space(ins) not in ("shared", "cluster", "generic"):
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
    if spaces == ["const"] and ins.opcode[0] != "ld":
        unknown.add("const")
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
    site = emitter.object(Site(emitter.site(ins), offset, width, count, dtype, order, volatile))
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
    site = emitter.object(Site(emitter.site(ins), offset, width, count, dtype, order, volatile))
    emitter.line(f"store_{space}({site}, {address}, ({', '.join(sources)},), {emitter.mask})")
