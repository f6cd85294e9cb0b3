"""fp32 and fp64 arithmetic; functions that are only approximated are in ``approximate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import numeric
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["finish", "operands"]

Array = np.ndarray[Any, np.dtype[Any]]

_F32 = ("f32",)
_ROUNDING = frozenset({"rn", "rz", "rm", "rp"})


def operands(emitter: Emitter, ins: Instruction, words: set[str]) -> tuple[str, list[str]]:
    """Target and sources as fp32, flushed where the instruction says ``.ftz``."""
    sources = [emitter.source(o, "f32", ins) for o in ins.operands[1:]]
    if "ftz" in words:
        sources = [f"flush_subnormals({s})" for s in sources]
    return emitter.target(ins.operands[0], "f32", ins), sources


def finish(emitter: Emitter, words: set[str], out: str, value: str) -> None:
    """Store a computed value: flushed, clamped to [0, 1], NaN made canonical, as asked."""
    if "ftz" in words:
        value = f"flush_subnormals({value})"
    if "sat" in words:
        value = f"saturate({value})"
    emitter.copy(out, value)


def _rounding(emitter: Emitter, ins: Instruction, words: set[str]) -> str:
    """The rounding word; ``rn`` where there is none."""
    found = words & _ROUNDING
    if len(found) > 1:
        raise emitter.fail(ins, "two roundings")
    return next(iter(found), "rn")


@semantics("add", "sub", "mul", types=_F32, operands=3)
def _simple(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {*_ROUNDING, "ftz", "sat"})
    mode = _rounding(emitter, ins, words)
    out, (a, b) = operands(emitter, ins, words)
    function = {"add": "add", "sub": "subtract", "mul": "multiply"}[ins.opcode[0]]
    if words <= {"rn"} and emitter.mask == "None":
        emitter.line(f"{function}({a}, {b}, {out})")
        emitter.line(f"canonical_nan({out})")
    elif mode == "rn":
        finish(emitter, words, out, f"canonical_nan({function}({a}, {b}))")
    else:
        finish(emitter, words, out, f"directed('{ins.opcode[0]}', '{mode}', {a}, {b})")


@semantics("div", types=_F32, operands=3)
def _div(emitter: Emitter, ins: Instruction) -> None:
    """Exact for ``.rn``; ``.full`` and ``.approx`` are rounded correctly here, 2 ulp on a GPU."""
    words = emitter.modifiers(ins, {"rn", "full", "approx", "ftz"})
    if len(words - {"ftz"}) != 1:
        raise emitter.fail(ins, "rn, full or approx was expected")
    out, (a, b) = operands(emitter, ins, words)
    finish(emitter, words, out, f"canonical_nan(divide({a}, {b}))")


@semantics("fma", "mad", types=_F32, operands=4)
def _fma(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {*_ROUNDING, "ftz", "sat"})
    mode = _rounding(emitter, ins, words)
    out, (a, b, c) = operands(emitter, ins, words)
    value = f"fused_multiply_add({a}, {b}, {c})"
    if mode != "rn":
        value = f"directed('fma', '{mode}', {a}, {b}, {c})"
    finish(emitter, words, out, value)


@semantics("min", "max", types=_F32)
def _extreme(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"NaN", "ftz", "xorsign", "abs"})
    if len(ins.operands) not in (3, 4):
        raise emitter.fail(ins, "3 or 4 operands were expected")
    if words & {"xorsign", "abs"} and (not {"xorsign", "abs"} <= words or len(ins.operands) != 3):
        raise emitter.fail(ins, "xorsign.abs and two sources were expected")
    out, sources = operands(emitter, ins, words)
    function = "minimum_f32" if ins.opcode[0] == "min" else "maximum_f32"
    value = f"absolute({sources[0]})" if "abs" in words else sources[0]
    for other in sources[1:]:
        second = f"absolute({other})" if "abs" in words else other
        value = f"{function}({value}, {second}, {'NaN' in words})"
    if "abs" in words:
        value = f"xor_signs({value}, {sources[0]}, {sources[1]})"
    finish(emitter, words - {"ftz"}, out, value)


@semantics("neg", "abs", types=_F32, operands=2)
def _sign(emitter: Emitter, ins: Instruction) -> None:
    """The sign bit alone, but of a NaN, which becomes the canonical one."""
    words = emitter.modifiers(ins, {"ftz"})
    out, (a,) = operands(emitter, ins, words)
    emitter.copy(out, f"canonical_nan({'negative' if ins.opcode[0] == 'neg' else 'absolute'}({a}))")


@semantics("copysign", types=_F32, operands=3)
def _copysign(emitter: Emitter, ins: Instruction) -> None:
    """The sign of the first source, the rest of the second."""
    emitter.modifiers(ins, set())
    sign, rest = (emitter.source(o, "u32", ins) for o in ins.operands[1:])
    out = emitter.target(ins.operands[0], "u32", ins)
    top, low = emitter.constant("u32", 0x80000000), emitter.constant("u32", 0x7FFFFFFF)
    emitter.copy(out, f"({sign} & {top}) | ({rest} & {low})")


@semantics("testp", types=_F32, operands=2)
def _testp(emitter: Emitter, ins: Instruction) -> None:
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    if len(ins.opcode) != 3 or ins.opcode[1] not in kinds:
        raise emitter.fail(ins, "unsupported modifier")
    a = emitter.source(ins.operands[1], "f32", ins)
    out = emitter.target(ins.operands[0], "pred", ins)
    emitter.copy(out, f"is_kind('{ins.opcode[1]}', {a})")


# -- fp64: each operation rounds once, to nearest even --


@semantics("add", "sub", "mul", "div", "min", "max", types=("f64",), operands=3)
def _double(emitter: Emitter, ins: Instruction) -> None:
    name = ins.opcode[0]
    emitter.modifiers(ins, {"rn"} if name not in ("min", "max") else set())
    functions = {
        "add": "add", "sub": "subtract", "mul": "multiply", "div": "divide",
        "min": "extreme_f64", "max": "extreme_f64",
    }  # fmt: skip
    a, b = (emitter.source(o, "f64", ins) for o in ins.operands[1:])
    out = emitter.target(ins.operands[0], "f64", ins)
    last = f", {name == 'max'}" if name in ("min", "max") else ""
    emitter.copy(out, f"{functions[name]}({a}, {b}{last})")


@semantics("fma", "mad", types=("f64",), operands=4)
def _double_fma(emitter: Emitter, ins: Instruction) -> None:
    if emitter.modifiers(ins, {"rn"}) != {"rn"}:
        raise emitter.fail(ins, "rn was expected")
    a, b, c = (emitter.source(o, "f64", ins) for o in ins.operands[1:])
    emitter.copy(emitter.target(ins.operands[0], "f64", ins), f"fused_f64({a}, {b}, {c})")


@semantics("neg", "abs", "sqrt", "rcp", types=("f64",), operands=2)
def _double_unary(emitter: Emitter, ins: Instruction) -> None:
    name = ins.opcode[0]
    rounded = name in ("sqrt", "rcp")
    if emitter.modifiers(ins, {"rn"} if rounded else set()) != ({"rn"} if rounded else set()):
        raise emitter.fail(ins, "rn was expected")
    a = emitter.source(ins.operands[1], "f64", ins)
    out = emitter.target(ins.operands[0], "f64", ins)
    text = {"neg": "negative({})", "abs": "absolute({})", "sqrt": "sqrt({})", "rcp": "(1.0 / {})"}
    emitter.copy(out, text[name].format(a))


# -- at run time --


@runtime
def canonical_nan(_: Context, values: Array) -> Array:
    """NaN becomes 0x7fffffff, in place."""
    return numeric.canonical(values)


@runtime
def flush_subnormals(_: Context, values: Array) -> Array:
    """``.ftz``."""
    return numeric.flush(values)


@runtime
def saturate(_: Context, values: Array) -> Array:
    """``.sat``: clamped to [0, 1]; NaN gives +0."""
    clamped = np.where(values > 0, np.minimum(values, np.float32(1)), np.float32(0))
    return clamped.astype(np.float32)


@runtime
def fused_multiply_add(_: Context, a: Array, b: Array, c: Array) -> Array:
    """``fma.rn.f32``."""
    return numeric.fma32(a, b, c)


@runtime
def fused_f64(_: Context, a: Array, b: Array, c: Array) -> Array:
    """``fma.rn.f64``."""
    return numeric.fma64(a, b, c)


@runtime
def extreme_f64(_: Context, a: Array, b: Array, largest: bool) -> Array:
    """``min.f64`` and ``max.f64``: a NaN loses against a number, and -0 < +0."""
    bits = a.view(np.uint64), b.view(np.uint64)
    same = (bits[0] & bits[1] if largest else bits[0] | bits[1]).view(np.float64)
    result: Array = np.where(a == b, same, np.fmax(a, b) if largest else np.fmin(a, b))
    return result


@runtime
def directed(_: Context, name: str, mode: str, a: Array, b: Array, *rest: Array) -> Array:
    """An operation rounded toward zero, down or up."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    if name == "mul":
        return numeric.directed(x * y, mode)
    if name == "fma":
        x, y = x * y, rest[0].astype(np.float64)
    else:
        y = -y if name == "sub" else y
    exact = numeric.odd_sum(x, y)
    if mode == "rm":
        # Numbers of two signs that cancel give -0.
        exact = np.where((exact == 0) & (np.signbit(x) | np.signbit(y)), -0.0, exact)
    return numeric.directed(exact, mode)


@runtime
def minimum_f32(_: Context, a: Array, b: Array, propagate: bool) -> Array:
    """``min.f32``."""
    return numeric.minimum32(a, b, propagate=propagate)


@runtime
def maximum_f32(_: Context, a: Array, b: Array, propagate: bool) -> Array:
    """``max.f32``."""
    return numeric.maximum32(a, b, propagate=propagate)


@runtime
def xor_signs(_: Context, value: Array, a: Array, b: Array) -> Array:
    """The value with the product of the signs; NaN stays."""
    sign = (a.view(np.uint32) ^ b.view(np.uint32)) & np.uint32(0x80000000)
    bits = value.view(np.uint32)
    return np.where(np.isnan(value), bits, bits | sign).view(np.float32)


@runtime
def is_kind(_: Context, kind: str, a: Array) -> Array:
    """``testp``."""
    # Zeros count as normal (PTX ISA, "testp").
    normal = ((np.abs(a) >= np.float32(2.0**-126)) | (a == 0)) & np.isfinite(a)
    tests = {
        "finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a),
        "notanumber": np.isnan(a), "normal": normal,
        "subnormal": np.isfinite(a) & ~normal,
    }  # fmt: skip
    result: Array = tests[kind]
    return result
