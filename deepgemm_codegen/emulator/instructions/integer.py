"""Integer arithmetic, logic and shifts."""

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


@semantics("add", "sub", "min", "max", types=_INTEGERS, operands=3)
def _simple(emitter: Emitter, ins: Instruction) -> None:
    emitter.modifiers(ins, set())
    code = code_of(ins.opcode[-1])
    names = {"add": "add", "sub": "subtract", "min": "minimum", "max": "maximum"}
    function = names[ins.opcode[0]]
    emitter.ufunc(
        function, emitter.target(ins.operands[0], code, ins), *_sources(emitter, ins, code)
    )


@semantics("and", "or", "xor", types=_BITS, operands=3)
def _logic(emitter: Emitter, ins: Instruction) -> None:
    emitter.modifiers(ins, set())
    code = code_of(ins.opcode[-1])
    emitter.ufunc(
        f"bitwise_{ins.opcode[0]}",
        emitter.target(ins.operands[0], code, ins),
        *_sources(emitter, ins, code),
    )


@semantics("not", types=_BITS, operands=2)
def _not(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.ufunc("invert", out, *_sources(emitter, ins, code))


@semantics("cnot", types=_BITS, operands=2)
def _cnot(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    (value,) = _sources(emitter, ins, code)
    emitter.copy(emitter.target(ins.operands[0], code, ins), f"({value} == 0)")


@semantics("neg", "abs", types=("s16", "s32", "s64"), operands=2)
def _sign(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    function = "negative" if ins.opcode[0] == "neg" else "absolute"
    out = emitter.target(ins.operands[0], code, ins)
    emitter.ufunc(function, out, *_sources(emitter, ins, code))


@semantics("shl", "shr", types=(*_BITS, *_INTEGERS), operands=3)
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


@semantics("div", "rem", types=_INTEGERS, operands=3)
def _division(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    a, b = _sources(emitter, ins, code)
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"integer_{ins.opcode[0]}({a}, {b})")


@semantics("bfe", types=("u32", "s32", "u64", "s64"), operands=4)
def _bfe(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    value = emitter.source(ins.operands[1], code, ins)
    start, length = (emitter.source(o, "u32", ins) for o in ins.operands[2:4])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"extract_bits({value}, {start}, {length})")


@semantics("bfi", types=("b32", "b64"), operands=5)
def _bfi(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    low, high = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    start, length = (emitter.source(o, "u32", ins) for o in ins.operands[3:5])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"insert_bits({low}, {high}, {start}, {length})")


@semantics("lop3", types=("b32",), operands=5)
def _lop3(emitter: Emitter, ins: Instruction) -> None:
    a, b, c = (emitter.source(o, "u32", ins) for o in ins.operands[1:4])
    table = emitter.literal(ins.operands[4], "u32", ins)  # type: ignore[arg-type]
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"truth_table({a}, {b}, {c}, {table})")


@semantics("prmt", types=("b32",), operands=4)
def _prmt(emitter: Emitter, ins: Instruction) -> None:
    a, b, selector = _sources(emitter, ins, "u32")
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"permute_bytes({a}, {b}, {selector})")


@semantics("shf", types=("b32",), operands=4)
def _shf(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"l", "r", "clamp", "wrap"})
    a, b, amount = _sources(emitter, ins, "u32")
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"funnel({a}, {b}, {amount}, {'l' in words}, {'clamp' in words})")


@semantics("popc", "clz", types=("b32", "b64"), operands=2)
def _count(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    value = emitter.source(ins.operands[1], code, ins)
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"count_{ins.opcode[0]}({value})")


@semantics("brev", types=("b32",), operands=2)
def _brev(emitter: Emitter, ins: Instruction) -> None:
    value = emitter.source(ins.operands[1], "u32", ins)
    emitter.copy(emitter.target(ins.operands[0], "u32", ins), f"reverse_bits({value})")


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


@runtime
def extract_bits(_: Context, value: Array, start: Array, length: Array) -> Array:
    """``bfe``: bits [start, start + length), sign-extended for a signed type."""
    bits = value.dtype.itemsize * 8
    start, length = start & 0xFF, length & 0xFF
    raw = value.astype(np.uint64) if value.dtype.kind == "u" else value.astype(np.int64)
    top = np.minimum(start + length, bits).astype(np.int64)
    kept = np.minimum(start, bits).astype(np.int64)
    shifted = _shift_down(raw, kept)
    width = np.maximum(top - kept, 0)
    mask = _mask(width)
    field = shifted.view(np.uint64) & mask
    if value.dtype.kind == "i":
        # The sign is the field's top bit, or the value's own where the field runs past it.
        sign_at = np.clip(start.astype(np.int64) + length - 1, 0, bits - 1)
        sign = ((_shift_down(raw, sign_at) & 1) != 0) & (length != 0)
        field = np.where(sign, field | ~mask, field)
        signed: Array = field.view(np.int64).astype(value.dtype)
        return signed
    result: Array = field.astype(value.dtype)
    return result


def _shift_down(value: Array, amount: Array) -> Array:
    result: Array = np.right_shift(value, amount.astype(value.dtype))
    return result


def _mask(width: Array) -> Array:
    one = np.uint64(1)
    w = np.minimum(width, 64).astype(np.uint64)
    result: Array = np.left_shift(one, w) - one
    return result


@runtime
def insert_bits(_: Context, low: Array, high: Array, start: Array, length: Array) -> Array:
    """``bfi``: bits of ``low`` put into ``high`` at [start, start + length)."""
    bits = low.dtype.itemsize * 8
    start, length = start & 0xFF, length & 0xFF
    mask = np.left_shift(_mask(length), np.minimum(start, 64).astype(np.uint64))
    moved = np.left_shift(low.astype(np.uint64), np.minimum(start, 64).astype(np.uint64))
    result = (moved & mask) | (high.astype(np.uint64) & ~mask)
    if bits == 32:
        result = result & np.uint64(0xFFFFFFFF)
    inserted: Array = result.astype(low.dtype)
    return inserted


@runtime
def truth_table(_: Context, a: Array, b: Array, c: Array, table: int) -> Array:
    """``lop3``: any function of three bits; bit (a*4 + b*2 + c) of the table is its value."""
    result = np.zeros_like(a)
    for index in range(8):
        if table >> index & 1:
            term = (a if index & 4 else ~a) & (b if index & 2 else ~b)
            result |= term & (c if index & 1 else ~c)
    return result


@runtime
def permute_bytes(_: Context, a: Array, b: Array, selector: Array) -> Array:
    """``prmt`` in its default mode: four bytes chosen among eight, or their sign spread."""
    both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    result = np.zeros_like(a)
    for i in range(4):
        pick = (selector >> np.uint32(4 * i)) & np.uint32(0xF)
        byte = (both >> ((pick & 7).astype(np.uint64) * np.uint64(8))) & np.uint64(0xFF)
        spread = np.where(byte >= 0x80, np.uint64(0xFF), np.uint64(0))
        byte = np.where(pick & 8, spread, byte)
        result |= byte.astype(np.uint32) << np.uint32(8 * i)
    return result


@runtime
def funnel(_: Context, a: Array, b: Array, amount: Array, left: bool, clamp: bool) -> Array:
    """``shf``: 32 bits out of the 64-bit value {b, a}, shifted left or right."""
    both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    count = (np.minimum(amount, 32) if clamp else amount & 31).astype(np.uint64)
    if left:
        return ((both << count) >> np.uint64(32)).astype(np.uint32)
    return (both >> count).astype(np.uint32)


@runtime
def count_popc(_: Context, value: Array) -> Array:
    """Set bits."""
    result: Array = np.bitwise_count(value)
    return result


@runtime
def count_clz(_: Context, value: Array) -> Array:
    """Leading zeros."""
    bits = value.dtype.itemsize * 8
    return np.array([bits - int(v).bit_length() for v in value.tolist()], np.uint32)


@runtime
def reverse_bits(_: Context, value: Array) -> Array:
    """``brev``."""
    result = value
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        s, m = np.uint32(shift), np.uint32(mask)
        result = ((result >> s) & m) | ((result & m) << s)
    s16 = np.uint32(16)
    final: Array = (result >> s16) | (result << s16)
    return final
