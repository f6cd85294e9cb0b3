"""Integer arithmetic, logic and shifts; what works on single bits and bytes is in ``bits``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_BITS = ("b16", "b32", "b64")
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def _sources(emitter: Emitter, ins: Instruction, code: str) -> list[str]:
    return [emitter.source(o, code, ins) for o in ins.operands[1:]]


@semantics("add", "sub", "min", "max", types=_INTEGERS, operands=3, exact=True)
def _simple(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    names = {"add": "add", "sub": "subtract", "min": "minimum", "max": "maximum"}
    function = names[ins.opcode[0]]
    emitter.ufunc(
        function, emitter.target(ins.operands[0], code, ins), *_sources(emitter, ins, code)
    )


@semantics("add.sat", "sub.sat", types=("s32",), operands=3)
def _saturating(emitter: Emitter, ins: Instruction) -> None:
    emitter.modifiers(ins, set(), skip=2)
    out = emitter.target(ins.operands[0], "s32", ins)
    a, b = _sources(emitter, ins, "s32")
    emitter.copy(out, f"saturating_sum({a}, {b}, {ins.opcode[0] == 'sub'})")


@semantics("and", "or", "xor", types=_BITS, operands=3, exact=True)
def _logic(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    emitter.ufunc(
        f"bitwise_{ins.opcode[0]}",
        emitter.target(ins.operands[0], code, ins),
        *_sources(emitter, ins, code),
    )


@semantics("not", types=_BITS, operands=2, exact=True)
def _not(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.ufunc("invert", out, *_sources(emitter, ins, code))


@semantics("cnot", types=_BITS, operands=2, exact=True)
def _cnot(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    (value,) = _sources(emitter, ins, code)
    emitter.copy(emitter.target(ins.operands[0], code, ins), f"({value} == 0)")


@semantics("neg", "abs", types=("s16", "s32", "s64"), operands=2, exact=True)
def _sign(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    function = "negative" if ins.opcode[0] == "neg" else "absolute"
    out = emitter.target(ins.operands[0], code, ins)
    emitter.ufunc(function, out, *_sources(emitter, ins, code))


@semantics("shl", "shr", types=(*_BITS, *_INTEGERS), operands=3, exact=True)
def _shift(emitter: Emitter, ins: Instruction) -> None:
    """Amounts above the width act as the width, in PTX and in numpy alike."""
    code = code_of(ins.opcode[-1])
    value = emitter.source(ins.operands[1], code, ins)
    out = emitter.target(ins.operands[0], code, ins)
    amount = emitter.source(ins.operands[2], "u32", ins)
    if code != "u32":
        # numpy wants both operands of one type; an amount of 64 or more stays one in 8 bits less.
        scratch = emitter.scratch(code)
        emitter.line(f"copyto({scratch}, minimum({amount}, 127), casting='unsafe')")
        amount = scratch
    emitter.ufunc("left_shift" if ins.opcode[0] == "shl" else "right_shift", out, value, amount)


@semantics("mul", types=_INTEGERS, operands=3)
def _mul(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    words = emitter.modifiers(ins, {"lo", "wide", "hi"})
    a, b = _sources(emitter, ins, code)
    if words == {"lo"}:
        emitter.ufunc("multiply", emitter.target(ins.operands[0], code, ins), a, b)
    elif words == {"wide"}:
        wide = _WIDE[code]
        out = emitter.target(ins.operands[0], wide, ins)
        emitter.ufunc("multiply", out, a, b, extra=f"dtype=d_{wide}")
    elif words == {"hi"}:
        emitter.copy(
            emitter.target(ins.operands[0], code, ins), f"high_product({a}, {b})", unsafe=True
        )
    else:
        raise emitter.fail(ins, "lo, hi or wide was expected")


@semantics("mad", types=_INTEGERS, operands=4)
def _mad(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    words = emitter.modifiers(ins, {"lo", "wide", "hi"})
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    wide = _WIDE.get(code, code) if words == {"wide"} else code
    c = emitter.source(ins.operands[3], wide, ins)
    out = emitter.target(ins.operands[0], wide, ins)
    scratch = emitter.scratch(wide)
    if words == {"hi"}:
        emitter.line(f"copyto({scratch}, high_product({a}, {b}), casting='unsafe')")
    else:
        extra = f", dtype=d_{wide}" if wide != code else ""
        emitter.line(f"multiply({a}, {b}, {scratch}{extra})")
    emitter.ufunc("add", out, scratch, c)


@semantics("mul24", types=("u32", "s32"), operands=3)
def _mul24(emitter: Emitter, ins: Instruction) -> None:
    _product24(emitter, ins, "")


@semantics("mad24", types=("u32", "s32"), operands=4)
def _mad24(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    _product24(emitter, ins, f" + {emitter.source(ins.operands[3], code, ins)}")


def _product24(emitter: Emitter, ins: Instruction, more: str) -> None:
    """The lower or upper 32 of the 48 bits of a product of 24-bit numbers."""
    code = code_of(ins.opcode[-1])
    words = emitter.modifiers(ins, {"lo", "hi"})
    if len(words) != 1:
        raise emitter.fail(ins, "lo or hi was expected")
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"product24({a}, {b}, {'hi' in words}){more}")


@semantics("sad", types=_INTEGERS, operands=4, exact=True)
def _sad(emitter: Emitter, ins: Instruction) -> None:
    """Sum of absolute differences: c + |a - b|."""
    code = code_of(ins.opcode[-1])
    a, b, c = _sources(emitter, ins, code)
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"{c} + where({a} < {b}, {b} - {a}, {a} - {b})")


@semantics("div", "rem", types=_INTEGERS, operands=3, exact=True)
def _division(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    a, b = _sources(emitter, ins, code)
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"integer_{ins.opcode[0]}({a}, {b})")


@runtime
def high_product(_: Context, a: Array, b: Array) -> Array:
    """Upper half of the full product."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        result: Array = (a.astype(wide) * b.astype(wide)) >> wide(bits)
        return result
    exact = [int(x) * int(y) >> 64 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return np.array([e & (2**64 - 1) for e in exact], np.uint64).view(a.dtype)


@runtime
def saturating_sum(_: Context, a: Array, b: Array, subtract: bool) -> Array:
    """Sum or difference, clamped to the type's range."""
    wide = a.astype(np.int64)
    exact = wide - b if subtract else wide + b
    limits = np.iinfo(a.dtype)
    result: Array = exact.clip(limits.min, limits.max).astype(a.dtype)
    return result


@runtime
def product24(_: Context, a: Array, b: Array, high: bool) -> Array:
    """``mul24``: of the operands' lower 24 bits, sign-extended for a signed type."""
    wide = [x.astype(np.int64) & 0xFFFFFF for x in (a, b)]
    if a.dtype.kind == "i":
        wide = [(x ^ 0x800000) - 0x800000 for x in wide]
    product = wide[0] * wide[1]
    return ((product >> 16) if high else product).astype(a.dtype)


@runtime
def integer_div(_: Context, a: Array, b: Array) -> Array:
    """Quotient toward zero; division by zero gives all ones, as the hardware does."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        quotient = a // safe
    else:
        quotient = a // safe
        # numpy rounds down.
        quotient += ((a % safe != 0) & ((a < 0) ^ (safe < 0))).astype(a.dtype)
    result: Array = np.where(zero, ~b.dtype.type(0), quotient)
    return result


@runtime
def integer_rem(context: Context, a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend."""
    result: Array = np.where(b == 0, a, a - integer_div(context, a, b) * b)
    return result
