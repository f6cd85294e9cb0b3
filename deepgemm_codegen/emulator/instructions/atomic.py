"""atom and red on global memory.

Lanes take effect one after another, in order of lane: one of the orders a GPU may choose. Sums of
floats whose result depends on that order are therefore no reference for a GPU's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes, numeric
from deepgemm_codegen.emulator.context import DTYPES
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.memory import RAW
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_ORDER = frozenset({"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"})
_TYPES = {
    "add": {"u32", "s32", "u64", "f32"}, "min": {"u32", "s32", "u64", "s64"},
    "max": {"u32", "s32", "u64", "s64"}, "inc": {"u32"}, "dec": {"u32"}, "and": {"b32", "b64"},
    "or": {"b32", "b64"}, "xor": {"b32", "b64"}, "exch": {"b32", "b64"}, "cas": {"b32", "b64"},
}  # fmt: skip


def _add(old: Array, b: Array) -> Array:
    if old.dtype != np.float32:
        return old + b
    # Float additions in global memory flush subnormals, whatever the instruction says.
    return numeric.flush(numeric.canonical(numeric.flush(old) + numeric.flush(b)))


_FUNCTIONS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "add": lambda old, b, _: _add(old, b),
    "min": lambda old, b, _: np.minimum(old, b),
    "max": lambda old, b, _: np.maximum(old, b),
    "inc": lambda old, b, _: np.where(old >= b, 0, old + 1).astype(old.dtype),
    "dec": lambda old, b, _: np.where((old == 0) | (old > b), b, old - 1).astype(old.dtype),
    "and": lambda old, b, _: old & b,
    "or": lambda old, b, _: old | b,
    "xor": lambda old, b, _: old ^ b,
    "exch": lambda _old, b, _: b,
    "cas": lambda old, b, c: np.where(old == b, c, old),
}


@dataclass(frozen=True, slots=True)
class _Atomic:
    """What is fixed of one instruction."""

    number: int
    operation: str
    offset: int
    dtype: np.dtype[Any]


@semantics("atom", effects=(("global", "write"), ("shared", "write")))
def _atom(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, ins, ins.operands[0], ins.operands[1:])


@semantics("red", destinations=0, effects=(("global", "write"), ("shared", "write")))
def _red(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, ins, None, ins.operands)


def _emit(
    emitter: Emitter,
    ins: Instruction,
    target: nodes.Operand | None,
    operands: tuple[nodes.Operand, ...],
) -> None:
    words = set(ins.opcode[1:-1]) - _ORDER
    operation = next((w for w in words if w in _TYPES), "")
    kind = ins.opcode[-1]
    if words != {"global", operation} or kind not in _TYPES[operation]:
        raise emitter.fail(ins, "only these words are known: global, the operation and its order")
    address, *values = operands
    if not isinstance(address, nodes.Address) or len(values) != (2 if operation == "cas" else 1):
        raise emitter.fail(ins, "an address and a value were expected")
    code = code_of(kind)
    site = emitter.object(_Atomic(emitter.site(ins), operation, address.offset, DTYPES[code]))
    base = emitter.source(address.base, "u64", ins)
    sources = [emitter.source(v, code, ins) for v in values]
    out = "None" if target is None else emitter.target(target, code, ins)
    emitter.line(f"atomic({site}, {base}, ({sources[0]}, {sources[-1]}), {out}, {emitter.mask})")


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
    lanes = context.lane_ids if mask is None else np.flatnonzero(mask)
    where = address[lanes].astype(np.int64) + site.offset
    width = site.dtype.itemsize
    ids = context.ids(site.number)
    while lanes.size:
        # The first lane of each address goes now, the others in later rounds.
        _, first = np.unique(where, return_index=True)
        now, at = lanes[first], where[first].view(np.uint64)
        old = context.memory.load(at, width, ids[now]).view(site.dtype)
        new = _FUNCTIONS[site.operation](old, values[0][now], values[1][now])
        context.memory.store(at, width, np.ascontiguousarray(new).view(RAW[width]), ids[now])
        if out is not None:
            out[now] = old
        left = np.ones(lanes.size, bool)
        left[first] = False
        lanes, where = lanes[left], where[left]
