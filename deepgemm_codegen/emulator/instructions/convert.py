"""cvt: between integers, fp32, fp16 and bf16, packed pairs included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes, numeric
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_INTEGERS = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_PACKED = frozenset({"f16x2", "bf16x2"})
_INTEGER_ROUNDING = frozenset({"rni", "rzi", "rmi", "rpi"})


@semantics("cvt")
def _cvt(emitter: Emitter, ins: Instruction) -> None:
    words = list(ins.opcode[1:])
    kinds = [w for w in words if w in _INTEGERS | _FLOATS | _PACKED]
    extra = set(words) - set(kinds)
    if len(kinds) != 2:
        raise emitter.fail(ins, "two known types were expected")
    to, source = kinds
    if to in _PACKED:
        _packed(emitter, ins, to, source, extra)
    elif to in _INTEGERS and source in _INTEGERS:
        _integer(emitter, ins, to, source, extra)
    elif to in _FLOATS and source in _FLOATS:
        _float(emitter, ins, to, source, extra)
    elif to in _FLOATS and source in _INTEGERS:
        _float_of_integer(emitter, ins, to, source, extra)
    else:
        _integer_of_float(emitter, ins, to, source, extra)


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
    if not extra <= {"rn", "ftz", "rni", "rzi", "rmi", "rpi", "rz", "relu"} or (
        "rz" in extra and to != "bf16"
    ):
        raise emitter.fail(ins, "unsupported modifier")
    value = f"widen({_raw(emitter, ins, source)}, '{source}')"
    if "ftz" in extra and source == "f32":
        value = f"flush_subnormals({value})"
    rounding = extra & _INTEGER_ROUNDING
    if rounding:
        value = f"round_integral({value}, '{rounding.pop()}')"
    if "relu" in extra:
        value = f"rectify({value})"
    if to in ("f16", "bf16"):
        narrow = f"narrow({value}, '{to}', {'rz' in extra})"
        emitter.copy(emitter.target(ins.operands[0], "u16", ins), narrow)
    elif to == "f32" and source == "f64":
        emitter.copy(
            emitter.target(ins.operands[0], "f32", ins), f"canonical_nan({value}.astype(d_f32))"
        )
    else:
        emitter.copy(emitter.target(ins.operands[0], to, ins), value)


def _raw(emitter: Emitter, ins: Instruction, kind: str, index: int = 1) -> str:
    return emitter.source(ins.operands[index], {"bf16": "u16"}.get(kind, kind), ins)


def _packed(emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]) -> None:
    """Two fp32 to a pair: the first source goes into the upper half."""
    if source != "f32" or not extra <= {"rn", "rz", "relu", "satfinite"} or len(ins.operands) != 3:
        raise emitter.fail(ins, "unsupported modifier")
    if "satfinite" in extra:
        raise emitter.fail(ins, "unsupported modifier satfinite")
    high, low = (emitter.source(o, "f32", ins) for o in ins.operands[1:])
    if "relu" in extra:
        high, low = f"rectify({high})", f"rectify({low})"
    if "rz" in extra and to == "f16x2":
        raise emitter.fail(ins, "unsupported modifier rz")
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"narrow_pair({high}, {low}, '{to[:-2]}', {'rz' in extra})")


def _float_of_integer(
    emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]
) -> None:
    if extra != {"rn"}:
        raise emitter.fail(ins, "unsupported modifier")
    value = _value(emitter, ins, source)
    if to in ("f16", "bf16"):
        # Integers of 32 bits are exact in float64, which then rounds once.
        if int(source[1:]) > 32 or to == "bf16":
            raise emitter.fail(ins, "unsupported types")
        out = emitter.target(ins.operands[0], "u16", ins)
        emitter.copy(out, f"narrow({value}.astype(d_f64), '{to}', False)")
    else:
        emitter.copy(emitter.target(ins.operands[0], to, ins), value, unsafe=True)


def _integer_of_float(
    emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]
) -> None:
    rounding = extra & _INTEGER_ROUNDING
    if len(rounding) != 1 or not extra <= _INTEGER_ROUNDING | {"ftz", "sat"}:
        raise emitter.fail(ins, "unsupported modifier")
    value = f"widen({_raw(emitter, ins, source)}, '{source}')"
    bits = emitter.bits(ins.operands[0], ins) or int(to[1:])
    out = emitter.target(ins.operands[0], f"{to[0]}{bits}", ins)
    emitter.copy(out, f"to_integer({value}, '{rounding.pop()}', d_{to})", unsafe=True)


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
def narrow(_: Context, value: Array, kind: str, truncate: bool) -> Array:
    """To fp16 or bf16 bits."""
    if kind == "f16":
        return numeric.round_to_f16(value)
    single = value.astype(np.float32) if value.dtype != np.float32 else value
    if truncate:
        bits = (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        result: Array = np.where(np.isnan(single), numeric.NAN16, bits)
        return result
    return numeric.round_to_bf16(single)


@runtime
def narrow_pair(context: Context, high: Array, low: Array, kind: str, truncate: bool) -> Array:
    """Two values to a packed pair."""
    result = np.empty((context.lanes, 2), np.uint16)
    result[:, 0] = narrow(context, low, kind, truncate)
    result[:, 1] = narrow(context, high, kind, truncate)
    return result.reshape(-1).view(np.uint32)


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
    return result


@runtime
def to_integer(context: Context, value: Array, mode: str, dtype: np.dtype[Any]) -> Array:
    """Round, and clamp to the type; NaN gives zero (PTX: for all but 64-bit targets)."""
    exact = round_integral(context, value.astype(np.float64), mode)
    info = np.iinfo(dtype)
    result = np.zeros(exact.shape, dtype)
    high, low = exact >= float(info.max), exact <= float(info.min)
    inside = ~(high | low | np.isnan(exact))
    result[inside] = exact[inside].astype(dtype)
    result[high] = info.max
    result[low] = info.min
    if dtype.itemsize == 8:
        result[np.isnan(exact)] = np.array(1 << 63, np.uint64).view(dtype)
    return result
