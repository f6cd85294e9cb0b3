"""Integer arithmetic with a carry: add.cc, addc, sub.cc, subc, mad.cc, madc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions.integer import high_product
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = ("u32", "s32", "u64", "s64")
_CARRY = (("carry", "write"),)  # they keep their order


@semantics("add.cc", "addc", "sub.cc", "subc", types=_TYPES, effects=_CARRY, operands=3)
def _sum(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"cc"})
    code = "u" + code_of(ins.opcode[-1])[1:]
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:])
    out = emitter.target(ins.operands[0], code, ins)
    name = ins.opcode[0]
    how = f"{name.startswith('sub')}, {name.endswith('c')}, {'cc' in words}, {emitter.mask}"
    emitter.copy(out, f"add_with_carry({a}, {b}, {how})")


@semantics("mad.lo.cc", "mad.hi.cc", "madc", types=_TYPES, effects=_CARRY, operands=4)
def _product(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"lo", "hi", "cc"})
    code = code_of(ins.opcode[-1])
    if len(words & {"lo", "hi"}) != 1:
        raise emitter.fail(ins, "lo or hi was expected")
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    raw = "u" + code[1:]
    c = emitter.source(ins.operands[3], raw, ins)
    out = emitter.target(ins.operands[0], raw, ins)
    product = f"half_product({a}, {b}, {'hi' in words})"
    how = f"False, {ins.opcode[0] == 'madc'}, {'cc' in words}, {emitter.mask}"
    emitter.copy(out, f"add_with_carry({product}, {c}, {how})")


@runtime
def half_product(context: Context, a: Array, b: Array, high: bool) -> Array:
    """The lower or upper half of a full product, as its raw bits."""
    half = high_product(context, a, b) if high else a * b
    return half.astype(a.dtype).view(f"u{a.dtype.itemsize}")


@runtime
def add_with_carry(
    context: Context,
    a: Array,
    b: Array,
    subtract: bool,
    takes: bool,
    gives: bool,
    mask: Array | None,
) -> Array:
    """Sum with the carry, or difference with the borrow; the flag is the one or the other."""
    flag = context.carry if takes else np.zeros(context.lanes, bool)
    one = flag.astype(a.dtype)
    if subtract:
        total = a - b - one
        out = (a < b) | (flag & (a == b))
    else:
        total = a + b + one
        out = (total < a) | (flag & (total == a))
    if gives:
        np.copyto(context.carry, out, where=True if mask is None else mask)
    result: Array = total
    return result
