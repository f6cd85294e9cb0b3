"""fp32 arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import numeric
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_F32 = ("f32",)


def _operands(emitter: Emitter, ins: Instruction, words: set[str]) -> tuple[str, list[str]]:
    """Target and sources as fp32, flushed where the instruction says ``.ftz``."""
    sources = [emitter.source(o, "f32", ins) for o in ins.operands[1:]]
    if "ftz" in words:
        sources = [f"flush_subnormals({s})" for s in sources]
    return emitter.target(ins.operands[0], "f32", ins), sources


def _finish(emitter: Emitter, words: set[str], out: str, value: str) -> None:
    """Store a computed value: flushed, clamped to [0, 1], NaN made canonical, as asked."""
    if "ftz" in words:
        value = f"flush_subnormals({value})"
    if "sat" in words:
        value = f"saturate({value})"
    emitter.copy(out, value)


@semantics("add", "sub", "mul", types=_F32, operands=3)
def _simple(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"rn", "ftz", "sat"})
    out, (a, b) = _operands(emitter, ins, words)
    function = {"add": "add", "sub": "subtract", "mul": "multiply"}[ins.opcode[0]]
    if words <= {"rn"} and emitter.mask == "None":
        emitter.line(f"{function}({a}, {b}, {out})")
        emitter.line(f"canonical_nan({out})")
        return
    _finish(emitter, words, out, f"canonical_nan({function}({a}, {b}))")


@semantics("div", types=_F32, operands=3)
def _div(emitter: Emitter, ins: Instruction) -> None:
    """Exact for ``.rn``; ``.full`` and ``.approx`` are rounded correctly here, 2 ulp on a GPU."""
    words = emitter.modifiers(ins, {"rn", "full", "approx", "ftz"})
    out, (a, b) = _operands(emitter, ins, words)
    _finish(emitter, words, out, f"canonical_nan(divide({a}, {b}))")


@semantics("fma", "mad", types=_F32, operands=4)
def _fma(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"rn", "ftz", "sat"})
    out, (a, b, c) = _operands(emitter, ins, words)
    _finish(emitter, words, out, f"fused_multiply_add({a}, {b}, {c})")


@semantics("min", "max", types=_F32)
def _extreme(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"NaN", "ftz"})
    out, sources = _operands(emitter, ins, words)
    function = "minimum_f32" if ins.opcode[0] == "min" else "maximum_f32"
    value = sources[0]
    for other in sources[1:]:
        value = f"{function}({value}, {other}, {'NaN' in words})"
    _finish(emitter, words - {"ftz"}, out, value)


@semantics("neg", "abs", types=_F32, operands=2)
def _sign(emitter: Emitter, ins: Instruction) -> None:
    """The sign bit alone, NaN included."""
    emitter.modifiers(ins, set())
    source = emitter.source(ins.operands[1], "u32", ins)
    out = emitter.target(ins.operands[0], "u32", ins)
    mask = emitter.constant("u32", 0x80000000 if ins.opcode[0] == "neg" else 0x7FFFFFFF)
    emitter.ufunc("bitwise_xor" if ins.opcode[0] == "neg" else "bitwise_and", out, source, mask)


@semantics("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", types=_F32, operands=2)
def _unary(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, {"approx", "rn", "ftz"})
    out, (a,) = _operands(emitter, ins, words)
    _finish(emitter, words, out, f"unary_f32('{ins.opcode[0]}', {a})")


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
def minimum_f32(_: Context, a: Array, b: Array, propagate: bool) -> Array:
    """``min.f32``."""
    return numeric.minimum32(a, b, propagate=propagate)


@runtime
def maximum_f32(_: Context, a: Array, b: Array, propagate: bool) -> Array:
    """``max.f32``."""
    return numeric.maximum32(a, b, propagate=propagate)


@runtime
def unary_f32(_: Context, name: str, a: Array) -> Array:
    """Approximate functions, computed in float64 and rounded once.

    The hardware's are within a few ulp of this, and not equal to it: never compare their bits.
    ``rcp.rn`` and ``sqrt.rn`` are exact, because float64 carries more than twice the bits.
    """
    x = a.astype(np.float64)
    functions: dict[str, Any] = {
        "rcp": lambda v: 1.0 / v, "sqrt": np.sqrt, "rsqrt": lambda v: 1.0 / np.sqrt(v),
        "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    }  # fmt: skip
    result: Array = functions[name](x).astype(np.float32)
    return numeric.canonical(result)
