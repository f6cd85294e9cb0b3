"""cvt: between integers, fp64, fp32, tf32, fp16 and bf16, packed pairs included.

The 8-bit floating types are in ``convert8``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes, numeric
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions.convert8 import FLOAT8_TYPES, convert8
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_INTEGERS = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_PACKED = frozenset({"f16x2", "bf16x2"})
_KNOWN = _INTEGERS | _FLOATS | _PACKED | FLOAT8_TYPES | {"tf32"}
_INTEGER_ROUNDING = frozenset({"rni", "rzi", "rmi", "rpi"})
_ROUNDING = frozenset({"rn", "rz", "rm", "rp"})


@semantics("cvt")
def _cvt(emitter: Emitter, ins: Instruction) -> None:
    words = ins.opcode[1:]
    to, source = words[-2:]
    extra = set(words[:-2])
    if not {to, source} <= _KNOWN or len(extra) != len(words) - 2:
        raise emitter.fail(ins, "two known types were expected")
    if len(ins.operands) != (3 if to.endswith("x2") and source == "f32" else 2):
        raise emitter.fail(ins, "another number of operands was expected")
    if to in FLOAT8_TYPES or source in FLOAT8_TYPES:
        convert8(emitter, ins, to, source, extra)
    elif to in _PACKED:
        _packed(emitter, ins, to, source, extra)
    elif to == "tf32":
        _tf32(emitter, ins, source, extra)
    elif to in _INTEGERS and source in _INTEGERS:
        _integer(emitter, ins, to, source, extra)
    elif to in _FLOATS and source in _FLOATS:
        _float(emitter, ins, to, source, extra)
    elif to in _FLOATS and source in _INTEGERS:
        _float_of_integer(emitter, ins, to, source, extra)
    elif to in _INTEGERS and source in _FLOATS:
        _integer_of_float(emitter, ins, to, source, extra)
    else:
        raise emitter.fail(ins, "unsupported types")


def _value(emitter: Emitter, ins: Instruction, kind: str) -> str:
    """The source operand, narrowed to its type where its register is wider."""
    operand = ins.operands[1]
    code = code_of(kind)
    width = int(code[1:])
    bits = emitter.bits(operand, ins)
    if isinstance(operand, nodes.Name) and not bits:
        bits = 32  # a special register
    if bits in (0, width):
        return emitter.source(operand, code, ins)
    if bits < width:
        raise emitter.fail(ins, "the source is narrower than its type")
    raw = emitter.source(operand, f"u{bits}", ins)
    return f"{raw}.astype(d_u{width}).view(d_{code})"


def _integer(emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]) -> None:
    if not extra <= {"sat"}:
        raise emitter.fail(ins, "unsupported modifier")
    value = _value(emitter, ins, source)
    if "sat" in extra:
        value = f"clamp_integer({value}, d_{to})"
    # A register wider than the type gets the value sign- or zero-extended.
    bits = emitter.bits(ins.operands[0], ins) or int(to[1:])
    if bits < int(to[1:]):
        raise emitter.fail(ins, "the destination is narrower than its type")
    if bits > int(to[1:]):
        value = f"{value}.astype(d_{to})"
    out = emitter.target(ins.operands[0], f"{to[0]}{bits}", ins)
    emitter.copy(out, value, unsafe=True)


def _float(emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]) -> None:
    if to in ("f16", "bf16") and source == "f32":
        _narrow(emitter, ins, to, extra)
        return
    narrows = (to, source) == ("f32", "f64")
    allowed = _ROUNDING if narrows else _INTEGER_ROUNDING if to == source else frozenset[str]()
    rounding = extra & allowed
    known = extra <= allowed | {"ftz", "sat"} and len(rounding) <= 1
    if not known or (to in ("f16", "bf16") and to != source):
        raise emitter.fail(ins, "unsupported modifier or types")
    if narrows and not rounding:
        raise emitter.fail(ins, "a rounding was expected")
    value = f"widen({_raw(emitter, ins, source)}, '{source}')"
    if (to, source) == ("f32", "bf16"):
        value = f"widen_bits({_raw(emitter, ins, source)})"
    if "ftz" in extra and source == "f32":
        value = f"canonical_nan(flush_subnormals({value}))"
    if narrows:
        value = f"single_of_double({value}, '{rounding.pop()}')"
        value = f"flush_subnormals({value})" if "ftz" in extra else value
    elif rounding:
        value = f"round_integral({value}, '{rounding.pop()}')"
    if "sat" in extra:
        value = f"saturate({value})" if to != "f64" else f"saturate_f64({value})"
    if to in ("f16", "bf16"):
        value = f"narrow({value}, '{to}', False, False)"
    emitter.copy(
        emitter.target(ins.operands[0], {"f16": "u16", "bf16": "u16"}.get(to, to), ins), value
    )


def _narrow(emitter: Emitter, ins: Instruction, to: str, extra: set[str]) -> None:
    """fp32 to a half."""
    mode = extra & {"rn", "rz"}
    if len(mode) != 1 or not extra - mode <= {"ftz", "sat", "relu", "satfinite"}:
        raise emitter.fail(ins, "unsupported modifier")
    value = emitter.source(ins.operands[1], "f32", ins)
    for word, function in (
        ("ftz", "flush_subnormals"), ("relu", "rectify"), ("sat", "saturate"),
    ):  # fmt: skip
        if word in extra:
            value = f"{function}({value})"
    value = f"narrow({value}, '{to}', {mode == {'rz'}}, {'satfinite' in extra})"
    emitter.copy(emitter.target(ins.operands[0], "u16", ins), value)


def _tf32(emitter: Emitter, ins: Instruction, source: str, extra: set[str]) -> None:
    """fp32 to a 32-bit register whose low 13 bits are zero."""
    mode = extra - {"relu", "satfinite"}
    if source != "f32" or mode not in ({"rna"}, {"rn"}, {"rz"}):
        raise emitter.fail(ins, "unsupported modifier or types")
    value = emitter.source(ins.operands[1], "f32", ins)
    if "relu" in extra:
        value = f"rectify({value})"
    value = f"to_tf32({value}, '{mode.pop()}', {'satfinite' in extra})"
    emitter.copy(emitter.target(ins.operands[0], "u32", ins), value)


def _raw(emitter: Emitter, ins: Instruction, kind: str, index: int = 1) -> str:
    return emitter.source(ins.operands[index], {"bf16": "u16"}.get(kind, kind), ins)


def _packed(emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]) -> None:
    """Two fp32 to a pair: the first source goes into the upper half."""
    mode = extra & {"rn", "rz"}
    if source != "f32" or not extra <= {"rn", "rz", "relu", "satfinite"} or len(mode) != 1:
        raise emitter.fail(ins, "unsupported modifier or types")
    high, low = (emitter.source(o, "f32", ins) for o in ins.operands[1:])
    if "relu" in extra:
        high, low = f"rectify({high})", f"rectify({low})"
    out = emitter.target(ins.operands[0], "u32", ins)
    how = f"'{to[:-2]}', {'rz' in extra}, {'satfinite' in extra}"
    emitter.copy(out, f"narrow_pair({high}, {low}, {how})")


@semantics("cvt.pack.sat")
def _pack(emitter: Emitter, ins: Instruction) -> None:
    """Two integers clamped and packed; the first source is the upper one, c comes above both."""
    to, source, *rest = ins.opcode[3:]
    bits = int(to[1:])
    wanted = (["b32"], 4) if bits == 8 else ([], 3)
    if to not in ("u8", "s8", "u16", "s16") or source != "s32" or rest != wanted[0]:
        raise emitter.fail(ins, "unsupported types")
    if len(ins.operands) != wanted[1]:
        raise emitter.fail(ins, f"{wanted[1]} operands were expected")
    high, low = (emitter.source(o, "s32", ins) for o in ins.operands[1:3])
    above = emitter.source(ins.operands[3], "u32", ins) if bits == 8 else "None"
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"pack_integers({high}, {low}, {above}, d_{to})")


def _float_of_integer(
    emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]
) -> None:
    mode = extra & _ROUNDING
    if len(mode) != 1 or not extra <= _ROUNDING | {"sat"} or "sat" in extra:
        raise emitter.fail(ins, "unsupported modifier")
    (word,) = mode
    value = _value(emitter, ins, source)
    wide = int(source[1:]) > 32
    if to in ("f16", "bf16"):
        # Integers of 32 bits are exact in float64, which then rounds once.
        if wide or word != "rn":
            raise emitter.fail(ins, "unsupported types or rounding")
        out = emitter.target(ins.operands[0], "u16", ins)
        emitter.copy(out, f"narrow_integer({value}, '{to}')")
    elif word == "rn":
        emitter.copy(emitter.target(ins.operands[0], to, ins), value, unsafe=True)
    elif to == "f32" and not wide:
        out = emitter.target(ins.operands[0], "f32", ins)
        emitter.copy(out, f"directed32({value}.astype(d_f64), '{word}')")
    else:
        raise emitter.fail(ins, "unsupported rounding of these types")


def _integer_of_float(
    emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]
) -> None:
    rounding = extra & _INTEGER_ROUNDING
    if len(rounding) != 1 or not extra <= _INTEGER_ROUNDING | {"ftz", "sat"}:
        raise emitter.fail(ins, "unsupported modifier")
    value = f"widen({_raw(emitter, ins, source)}, '{source}')"
    bits = emitter.bits(ins.operands[0], ins) or int(to[1:])
    out = emitter.target(ins.operands[0], f"{to[0]}{bits}", ins)
    if "ftz" in extra and source == "f32":
        value = f"flush_subnormals({value})"
    how = f"'{rounding.pop()}', d_{to}, {source == 'f64'}"
    emitter.copy(out, f"to_integer({value}, {how})", unsafe=True)


# -- at run time --


@runtime
def clamp_integer(_: Context, value: Array, dtype: np.dtype[Any]) -> Array:
    """``.sat``: the nearest value of the type."""
    info = np.iinfo(dtype)
    source = np.iinfo(value.dtype)
    low, high = max(info.min, source.min), min(info.max, source.max)
    result: Array = np.clip(value, value.dtype.type(low), value.dtype.type(high))
    return result


@runtime
def widen(_: Context, value: Array, kind: str) -> Array:
    """fp16 and bf16 to fp32, exact, NaN made canonical; fp32 and fp64 as they are."""
    if kind == "f16":
        return numeric.canonical(value.astype(np.float32))
    if kind == "bf16":
        return numeric.canonical(numeric.widen_bf16(value))
    return value


@runtime
def narrow(_: Context, value: Array, kind: str, truncate: bool, finite: bool) -> Array:
    """To fp16 or bf16 bits; ``finite`` clamps to the largest number."""
    single = value.astype(np.float32) if value.dtype != np.float32 else value
    if finite:
        largest = np.float32(65504.0 if kind == "f16" else 3.3895313892515355e38)
        single = np.where(np.isnan(single), single, np.clip(single, -largest, largest))
    if kind == "f16":
        return numeric.truncate_to_f16(single) if truncate else numeric.round_to_f16(single)
    if truncate:
        bits = (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        result: Array = np.where(np.isnan(single), numeric.NAN16, bits)
        return result
    return numeric.round_to_bf16(single)


@runtime
def narrow_integer(_: Context, value: Array, kind: str) -> Array:
    """An integer of up to 32 bits to fp16 or bf16 bits, rounded once."""
    wide = value.astype(np.float64)
    return numeric.round_to_f16(wide) if kind == "f16" else numeric.narrow_to_bf16(wide)


@runtime
def narrow_pair(
    context: Context, high: Array, low: Array, kind: str, truncate: bool, finite: bool
) -> Array:
    """Two values to a packed pair."""
    result = np.empty((context.lanes, 2), np.uint16)
    result[:, 0] = narrow(context, low, kind, truncate, finite)
    result[:, 1] = narrow(context, high, kind, truncate, finite)
    return result.reshape(-1).view(np.uint32)


@runtime
def to_tf32(_: Context, value: Array, mode: str, finite: bool) -> Array:
    """fp32 with 10 fraction bits: nearest even, nearest with ties away (``rna``), toward zero.

    A NaN becomes 0x7fffe000, but goes through ``rna`` as a number would (seen on an H200).
    """
    bits = value.view(np.uint32)
    kept = {
        "rn": bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1)),
        "rna": bits + np.uint32(0x1000),
        "rz": bits,
    }[mode] & np.uint32(0xFFFFE000)
    kept = np.where(np.isinf(value), bits, kept)
    if finite:
        over = (kept & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
        kept = np.where(over, (bits & np.uint32(0x80000000)) | np.uint32(0x7F7FE000), kept)
    if mode != "rna" or finite:
        kept = np.where(np.isnan(value), np.uint32(0x7FFFE000), kept)
    result: Array = kept
    return result


@runtime
def widen_bits(_: Context, value: Array) -> Array:
    """``cvt.f32.bf16``: the bits moved, those of a NaN too."""
    return numeric.widen_bf16(value)


@runtime
def single_of_double(_: Context, value: Array, mode: str) -> Array:
    """float64 to fp32 in a rounding mode; a NaN keeps its sign and its upper bits."""
    single = numeric.directed(value, mode)
    return np.where(np.isnan(value), value.astype(np.float32), single)


@runtime
def directed32(_: Context, value: Array, mode: str) -> Array:
    """float64 to fp32 in a rounding mode."""
    return numeric.directed(value, mode)


@runtime
def saturate_f64(_: Context, value: Array) -> Array:
    """``.sat`` of fp64."""
    return np.where(value > 0, np.minimum(value, 1.0), 0.0)


@runtime
def pack_integers(
    _: Context, high: Array, low: Array, above: Array | None, dtype: np.dtype[Any]
) -> Array:
    """``cvt.pack.sat``."""
    info, bits = np.iinfo(dtype), dtype.itemsize * 8
    mask = np.uint32((1 << bits) - 1)
    first, second = (np.clip(x, info.min, info.max).astype(np.int32).view(np.uint32) & mask
                     for x in (high, low))  # fmt: skip
    result: Array = first << np.uint32(bits) | second
    return result if above is None else result | above << np.uint32(2 * bits)


@runtime
def rectify(_: Context, value: Array) -> Array:
    """``.relu``: negative values become +0; NaN stays."""
    result: Array = np.where(value > 0, value, np.where(np.isnan(value), value, np.float32(0)))
    return result


@runtime
def round_integral(_: Context, value: Array, mode: str) -> Array:
    """Round to an integral value of the same type."""
    function = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    result: Array = function(value)
    return numeric.canonical(result) if result.dtype == np.float32 else result


@runtime
def to_integer(
    context: Context, value: Array, mode: str, dtype: np.dtype[Any], double: bool
) -> Array:
    """Round, and clamp to the type.

    NaN gives zero, but the type's top bit alone where either side has 64 bits (PTX ISA, "cvt").
    """
    exact = round_integral(context, value.astype(np.float64), mode)
    info = np.iinfo(dtype)
    result = np.zeros(exact.shape, dtype)
    high, low = exact >= float(info.max), exact <= float(info.min)
    inside = ~(high | low | np.isnan(exact))
    result[inside] = exact[inside].astype(dtype)
    result[high] = info.max
    result[low] = info.min
    if double or dtype.itemsize == 8:
        top = 1 << (dtype.itemsize * 8 - 1)
        result[np.isnan(exact)] = info.min or top
    return result
