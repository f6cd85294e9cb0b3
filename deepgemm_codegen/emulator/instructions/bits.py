"""Bytes and bits of integers: dp4a, dp2a, prmt, lop3, shf, bfe, bfi, popc, clz, bfind, brev."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


@semantics("bfe", types=("u32", "s32", "u64", "s64"), operands=4, exact=True)
def _bfe(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    value = emitter.source(ins.operands[1], code, ins)
    start, length = (emitter.source(o, "u32", ins) for o in ins.operands[2:4])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"extract_bits({value}, {start}, {length})")


@semantics("bfi", types=("b32", "b64"), operands=5, exact=True)
def _bfi(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    low, high = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    start, length = (emitter.source(o, "u32", ins) for o in ins.operands[3:5])
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"insert_bits({low}, {high}, {start}, {length})")


@semantics("lop3", types=("b32",), operands=5, exact=True)
def _lop3(emitter: Emitter, ins: Instruction) -> None:
    a, b, c = (emitter.source(o, "u32", ins) for o in ins.operands[1:4])
    constant = ins.operands[4]
    if not isinstance(constant, nodes.Immediate):
        raise emitter.fail(ins, "a constant was expected")
    table = emitter.literal(constant, "u32", ins)
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"truth_table({a}, {b}, {c}, {table})")


# Which bytes each mode takes, by the selector's lowest two bits; 4 to 7 are the second source's.
_PERMUTATIONS = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


@semantics("prmt.b32", operands=4)
def _prmt(emitter: Emitter, ins: Instruction) -> None:
    mode = ins.opcode[2:]
    if len(mode) > 1 or (mode and mode[0] not in _PERMUTATIONS):
        raise emitter.fail(ins, "unsupported modifier")
    a, b, selector = (emitter.source(o, "u32", ins) for o in ins.operands[1:])
    out = emitter.target(ins.operands[0], "u32", ins)
    if mode:
        table = np.array(
            [sum(byte << 4 * i for i, byte in enumerate(row)) for row in _PERMUTATIONS[mode[0]]],
            np.uint32,
        )
        selector = f"{emitter.object(table)}[{selector} & 3]"
    emitter.copy(out, f"permute_bytes({a}, {b}, {selector})")


@semantics("shf", types=("b32",), operands=4)
def _shf(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"l", "r", "clamp", "wrap"})
    if {*words} not in ({"l", "clamp"}, {"l", "wrap"}, {"r", "clamp"}, {"r", "wrap"}):
        raise emitter.fail(ins, "a direction and clamp or wrap were expected")
    a, b, amount = (emitter.source(o, "u32", ins) for o in ins.operands[1:])
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"funnel({a}, {b}, {amount}, {'l' in words}, {'clamp' in words})")


@semantics("popc", "clz", types=("b32", "b64"), operands=2, exact=True)
def _count(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    value = emitter.source(ins.operands[1], code, ins)
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"count_{ins.opcode[0]}({value})")


@semantics("brev", types=("b32", "b64"), operands=2, exact=True)
def _brev(emitter: Emitter, ins: Instruction) -> None:
    code = code_of(ins.opcode[-1])
    value = emitter.source(ins.operands[1], code, ins)
    emitter.copy(emitter.target(ins.operands[0], code, ins), f"reverse_bits({value})")


@semantics("bfind", types=("u32", "s32", "u64", "s64"), operands=2)
def _bfind(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"shiftamt"})
    value = emitter.source(ins.operands[1], code_of(ins.opcode[-1]), ins)
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"find_bit({value}, {bool(words)})")


@semantics("dp4a", "dp2a", operands=4)
def _dot(emitter: Emitter, ins: Instruction) -> None:
    """Bytes of b by bytes (dp4a) or halfwords (dp2a) of a, added to c."""
    halves = ins.opcode[0] == "dp2a"
    where = ins.opcode[1] if halves and len(ins.opcode) == 4 else ""
    kinds = ins.opcode[-2:]
    right = len(ins.opcode) == 3 + halves and (not halves or where in ("lo", "hi"))
    if not right or not {*kinds} <= {"u32", "s32"}:
        raise emitter.fail(ins, "unsupported modifier or types")
    a, b, c = (emitter.source(o, "u32", ins) for o in ins.operands[1:])
    types = [f"d_{kind[0]}{16 if halves and i == 0 else 8}" for i, kind in enumerate(kinds)]
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"dot_bytes({a}, {b}, {c}, {types[0]}, {types[1]}, {where == 'hi'})")


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
    return (np.uint32(value.dtype.itemsize * 8 - 1) - _highest(value)).astype(np.uint32)


def _highest(value: Array) -> Array:
    """Place of the highest set bit, uint32; all ones where there is none."""
    bits = value.dtype.itemsize * 8
    left = value.copy()
    place = np.full(value.shape, 0, np.uint32)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            more = (left >> value.dtype.type(step)) != 0
            place += more * np.uint32(step)
            left = np.where(more, left >> value.dtype.type(step), left)
    return np.where(value == 0, np.uint32(0xFFFFFFFF), place)


@runtime
def find_bit(_: Context, value: Array, shift: bool) -> Array:
    """``bfind``: the highest bit that is not a copy of the sign; how far from the top if asked."""
    bits = value.dtype.itemsize * 8
    raw = np.where(value < 0, ~value, value).view(f"u{bits // 8}")
    place = _highest(raw)
    if shift:
        place = np.where(place == np.uint32(0xFFFFFFFF), place, np.uint32(bits - 1) - place)
    return place


@runtime
def dot_bytes(
    _: Context,
    a: Array,
    b: Array,
    c: Array,
    left: np.dtype[Any],
    right: np.dtype[Any],
    upper: bool,
) -> Array:
    """``dp4a`` and ``dp2a``; the sum wraps."""
    first = np.ascontiguousarray(a).view(left).reshape(a.size, -1).astype(np.int64)
    second = np.ascontiguousarray(b).view(right).reshape(b.size, 4).astype(np.int64)
    if first.shape[1] == 2:
        second = second[:, 2:] if upper else second[:, :2]
    total = (first * second).sum(axis=1) + c.astype(np.int64)
    result: Array = (total & 0xFFFFFFFF).astype(np.uint32)
    return result


@runtime
def reverse_bits(_: Context, value: Array) -> Array:
    """``brev``."""
    raw = np.ascontiguousarray(value).view(np.uint8).reshape(value.size, -1)
    result: Array = np.packbits(np.unpackbits(raw, axis=1, bitorder="little"), axis=1)
    turned: Array = np.ascontiguousarray(result[:, ::-1]).view(value.dtype)[:, 0]
    return turned
