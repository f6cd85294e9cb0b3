"""Comparison, selection and predicate logic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.registry import semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

_UFUNC = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "lo": "less", "ls": "less_equal", "hi": "greater", "hs": "greater_equal",
}  # fmt: skip
_UNSIGNED = frozenset({"lo", "ls", "hi", "hs"})
# Comparisons that hold when either side is NaN, as the opposite of one that does not.
_UNORDERED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}


@semantics("setp")
def _setp(emitter: Emitter, ins: Instruction) -> None:
    compare, combine = _words(emitter, ins)
    if len(ins.operands) != 3 + bool(combine):
        raise emitter.fail(ins, f"{3 + bool(combine)} operands were expected")
    result = emitter.scratch("pred")
    _compare(emitter, ins, compare, (*_compared(emitter, ins, compare), result))
    target = ins.operands[0]
    first, second = (
        (target.first, target.second) if isinstance(target, nodes.Pair) else (target, None)
    )
    other = ""
    if combine:
        other = emitter.source(ins.operands[3], "pred", ins)
    if second is not None:
        inverse = emitter.scratch("pred", 1)
        emitter.line(f"logical_not({result}, {inverse})")
        if other:
            emitter.line(f"logical_{combine}({inverse}, {other}, {inverse})")
    out = emitter.target(first, "pred", ins)
    if other:
        emitter.line(f"logical_{combine}({result}, {other}, {result})")
    emitter.copy(out, result)
    if second is not None:
        emitter.copy(emitter.target(second, "pred", ins), inverse)


def _words(emitter: Emitter, ins: Instruction) -> tuple[str, str]:
    """The comparison, and how it is combined with another predicate."""
    words = [w for w in ins.opcode[1:-1] if (w, ins.opcode[-1]) != ("ftz", "f32")]
    if len(words) not in (1, 2) or words[1:] not in ([], ["and"], ["or"], ["xor"]):
        raise emitter.fail(ins, "unsupported modifier")
    return words[0], "".join(words[1:])


def _compared(emitter: Emitter, ins: Instruction, compare: str) -> tuple[str, str, str]:
    """The type that is compared, and both sides."""
    kind = ins.opcode[-1]
    code = code_of(kind)
    if compare in _UNSIGNED and code[0] != "u":
        raise emitter.fail(ins, f"{compare} compares unsigned numbers")
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    if kind == "bf16":
        return "f32", f"widen({a}, 'bf16')", f"widen({b}, 'bf16')"
    if "ftz" in ins.opcode:
        return code, f"flush_subnormals({a})", f"flush_subnormals({b})"
    return code, a, b


def _compare(
    emitter: Emitter, ins: Instruction, compare: str, operands: tuple[str, str, str, str]
) -> None:
    code, a, b, out = operands
    floating = code[0] == "f"
    if compare in _UFUNC:
        emitter.line(f"{_UFUNC[compare]}({a}, {b}, {out})")
        if floating and compare == "ne":
            # numpy's not_equal holds for NaN; PTX's ne is ordered.
            emitter.line(f"logical_and({out}, ~(isnan({a}) | isnan({b})), {out})")
    elif floating and compare in _UNORDERED:
        opposite = _UNORDERED[compare]
        if opposite == "ne":
            emitter.line(f"equal({a}, {b}, {out})")
            emitter.line(f"logical_or({out}, isnan({a}) | isnan({b}), {out})")
        else:
            emitter.line(f"{_UFUNC[opposite]}({a}, {b}, {out})")
            emitter.line(f"logical_not({out}, {out})")
    elif floating and compare in ("num", "nan"):
        emitter.line(f"logical_or(isnan({a}), isnan({b}), {out})")
        if compare == "num":
            emitter.line(f"logical_not({out}, {out})")
    else:
        raise emitter.fail(ins, f"unknown comparison {compare}")


@semantics("set")
def _set(emitter: Emitter, ins: Instruction) -> None:
    """A comparison as all ones or 1.0, or zero."""
    if len(ins.opcode) != 4 or len(ins.operands) != 3 or ins.opcode[2] not in ("u32", "s32", "f32"):
        raise emitter.fail(ins, "unsupported modifier or types")
    code = code_of(ins.opcode[3])
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    result = emitter.scratch("pred")
    _compare(emitter, ins, ins.opcode[1], (code, a, b, result))
    out = emitter.target(ins.operands[0], "u32", ins)
    held = emitter.constant("u32", 0x3F800000 if ins.opcode[2] == "f32" else 0xFFFFFFFF)
    emitter.copy(out, f"where({result}, {held}, {emitter.constant('u32', 0)})")


@semantics("slct", operands=4)
def _slct(emitter: Emitter, ins: Instruction) -> None:
    """The first source where the third is >= 0, otherwise the second; -0 is, a NaN is not."""
    if len(ins.opcode) not in (3, 4) or ins.opcode[-1] not in ("s32", "f32"):
        raise emitter.fail(ins, "unsupported modifier or types")
    if len(ins.opcode) == 4 and (ins.opcode[1] != "ftz" or ins.opcode[-1] != "f32"):
        raise emitter.fail(ins, "unsupported modifier")
    code = "u" + code_of(ins.opcode[-2])[1:]
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    c = emitter.source(ins.operands[3], ins.opcode[-1], ins)
    if "ftz" in ins.opcode:
        c = f"flush_subnormals({c})"
    emitter.copy(emitter.target(ins.operands[0], code, ins), f"where({c} >= 0, {a}, {b})")


@semantics("selp", operands=4)
def _selp(emitter: Emitter, ins: Instruction) -> None:
    emitter.modifiers(ins, set())
    code = code_of(ins.opcode[-1])
    a, b = (emitter.source(o, code, ins) for o in ins.operands[1:3])
    predicate = emitter.source(ins.operands[3], "pred", ins)
    emitter.copy(emitter.target(ins.operands[0], code, ins), f"where({predicate}, {a}, {b})")


@semantics("and", "or", "xor", types=("pred",), operands=3, exact=True)
def _logic(emitter: Emitter, ins: Instruction) -> None:
    a, b = (emitter.source(o, "pred", ins) for o in ins.operands[1:3])
    out = emitter.target(ins.operands[0], "pred", ins)
    emitter.ufunc(f"logical_{ins.opcode[0]}", out, a, b)


@semantics("not", types=("pred",), operands=2, exact=True)
def _not(emitter: Emitter, ins: Instruction) -> None:
    out = emitter.target(ins.operands[0], "pred", ins)
    emitter.ufunc("logical_not", out, emitter.source(ins.operands[1], "pred", ins))
