"""Functions that a GPU approximates: rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh, and div.approx.

Here they are computed in float64 and rounded once. The hardware's results are near that and not
equal to it: ``tolerance`` says how near, so that nobody compares their bits. ``rcp.rn`` and
``sqrt.rn`` are exact: float64 carries more than twice the bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator import numeric
from deepgemm_codegen.emulator.instructions.floating import finish, operands
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["Tolerance", "tolerance"]

Array = np.ndarray[Any, np.dtype[Any]]


class Tolerance(NamedTuple):
    """How far a GPU's result may lie from the exact one: absolute + relative * its magnitude.

    Attributes:
        absolute, relative: the two parts.
        within: largest magnitude of the argument for which the bound holds; infinite for any.
    """

    absolute: float
    relative: float
    within: float = float("inf")


# PTX ISA, "Floating Point Instructions" and "Half Precision Floating-Point Instructions", each
# bound rounded up to a power of two or a half of one.
_BOUNDS = {
    "rcp": Tolerance(0, 2**-23),
    "sqrt": Tolerance(0, 2**-22.5),
    "rsqrt": Tolerance(0, 2**-22.5),
    "ex2": Tolerance(0, 2**-22),
    "lg2": Tolerance(2**-22, 2**-22),
    "sin": Tolerance(2**-20.5, 0, 2 * np.pi),
    "cos": Tolerance(2**-20.5, 0, 2 * np.pi),
    "tanh": Tolerance(0, 2**-10.5),
    "div": Tolerance(0, 2**-22),
}
_HALF_BOUNDS = {
    ("ex2", "f16"): Tolerance(2**-24, 2**-9.5),
    ("ex2", "bf16"): Tolerance(0, 2**-7),
    ("tanh", "f16"): Tolerance(2**-10.5, 2**-10),
    ("tanh", "bf16"): Tolerance(2**-8, 2**-7),
}
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "rcp": lambda v: 1.0 / v, "sqrt": np.sqrt, "rsqrt": lambda v: 1.0 / np.sqrt(v),
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
}  # fmt: skip
# Which words may stand between opcode and type; one of ``approx`` and ``rn`` must.
_WORDS = {name: {"approx", "ftz"} for name in ("rsqrt", "ex2", "lg2", "sin", "cos")}
_WORDS |= {"rcp": {"approx", "rn", "ftz"}, "sqrt": {"approx", "rn", "ftz"}, "tanh": {"approx"}}


def tolerance(ins: Instruction) -> Tolerance | None:
    """How near a GPU comes to this instruction's result here; None where the bits are equal."""
    if not {"approx", "full"} & set(ins.opcode):
        return None
    kind = ins.opcode[-1].removesuffix("x2")
    if kind in ("f16", "bf16"):
        return _HALF_BOUNDS.get((ins.opcode[0], kind))
    return _BOUNDS.get(ins.opcode[0])


@semantics(*_FUNCTIONS, types=("f32",), operands=2)
def _unary(emitter: Emitter, ins: Instruction) -> None:
    words = emitter.modifiers(ins, _WORDS[ins.opcode[0]])
    if len(words & {"approx", "rn"}) != 1:
        raise emitter.fail(ins, "approx or rn was expected")
    out, (a,) = operands(emitter, ins, words)
    finish(emitter, words, out, f"unary_f32('{ins.opcode[0]}', {a})")


@semantics("ex2", "tanh", types=("f16", "f16x2", "bf16", "bf16x2"), operands=2)
def _half(emitter: Emitter, ins: Instruction) -> None:
    kind = ins.opcode[-1]
    code = "u32" if kind.endswith("x2") else "u16"
    words = emitter.modifiers(ins, {"approx", "ftz"})
    flushes = ins.opcode[0] == "ex2" and kind.startswith("bf16")
    if words != ({"approx", "ftz"} if flushes else {"approx"}):
        raise emitter.fail(ins, "approx was expected, and ftz with ex2 of bf16 alone")
    a = emitter.source(ins.operands[1], code, ins)
    out = emitter.target(ins.operands[0], code, ins)
    emitter.copy(out, f"unary_half('{ins.opcode[0]}', '{kind.removesuffix('x2')}', {a}, {flushes})")


@runtime
def unary_f32(_: Context, name: str, a: Array) -> Array:
    """A function of fp32, rounded once."""
    result: Array = _FUNCTIONS[name](a.astype(np.float64)).astype(np.float32)
    return numeric.canonical(result)


@runtime
def unary_half(_: Context, name: str, kind: str, a: Array, flush: bool) -> Array:
    """A function of halves, single or packed, rounded once."""
    halves = np.ascontiguousarray(a).view(np.uint16)
    single = halves.view(np.float16).astype(np.float32) if kind == "f16" else None
    if single is None:
        single = numeric.widen_bf16(halves)
        single = numeric.flush(single) if flush else single
    wide = _FUNCTIONS[name](single.astype(np.float64))
    bits = numeric.round_to_f16(wide) if kind == "f16" else numeric.narrow_to_bf16(wide)
    if flush:
        bits = np.where(bits & 0x7F80, bits, bits & 0x8000).astype(np.uint16)
    return bits.view(a.dtype)
