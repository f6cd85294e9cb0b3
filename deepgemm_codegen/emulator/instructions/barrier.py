"""Barriers of a block and of a warp: ``bar``, ``barrier``, with counts, arrivals and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.barriers import BARRIERS, BarrierForm, Vote
from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.lexer import whole_number
from deepgemm_codegen.emulator.printer import print_instruction
from deepgemm_codegen.emulator.registry import Semantics, add

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.program import Program

_OPERATIONS = {"popc": "u32", "and": "pred", "or": "pred"}


def _fail(ins: Instruction, reason: str) -> UnsupportedError:
    return UnsupportedError(ins.line, print_instruction(ins), reason)


def _form(program: Program, ins: Instruction) -> BarrierForm:
    """What a barrier of a block says.

    Raises:
        UnsupportedError: a modifier or operand that it cannot have.
    """
    words = [w for w in ins.opcode if w != "cta"]
    name, verb, *rest = words
    aligned = name == "bar" or rest[-1:] == ["aligned"] or "aligned" in rest
    if name == "barrier":
        rest = [w for w in rest if w != "aligned"]
    vote, operands = None, list(ins.operands)
    if verb == "red":
        vote, operands = _vote(program, ins, rest)
    elif rest:
        raise _fail(ins, f"unsupported modifier {', '.join(rest)}")
    if not (2 if verb == "arrive" else 0) <= len(operands) <= 2:
        raise _fail(ins, "a barrier and a count of threads were expected")
    for operand in operands:
        _number(program, ins, operand)
    number = operands[0] if operands else nodes.Immediate("0")
    if isinstance(number, nodes.Immediate) and not 0 <= whole_number(number.text) < BARRIERS:
        raise _fail(ins, f"barrier {number.text} of a block that has {BARRIERS}")
    count = operands[1] if len(operands) > 1 else None
    return BarrierForm(number, count, verb == "arrive", aligned, vote)


def _number(program: Program, ins: Instruction, operand: nodes.Operand) -> None:
    if isinstance(operand, nodes.Name):
        register = program.registers.get(operand.text)
        if register is not None and register.bank == "r":
            return
    elif isinstance(operand, nodes.Immediate):
        try:
            whole_number(operand.text)
        except ValueError:
            pass
        else:
            return
    raise _fail(ins, "a 32-bit register or a whole number was expected")


def _vote(program: Program, ins: Instruction, words: list[str]) -> tuple[Vote, list[nodes.Operand]]:
    """The reduction, and the operands that remain."""
    if len(words) != 2 or _OPERATIONS.get(words[0]) != words[1] or len(ins.operands) < 3:
        raise _fail(ins, "popc.u32, and.pred or or.pred with a predicate was expected")
    target, *middle, source = ins.operands
    negated = isinstance(source, nodes.Negated)
    inner = source.operand if isinstance(source, nodes.Negated) else source
    names = [x.text if isinstance(x, nodes.Name) else "" for x in (target, inner)]
    found = [program.registers.get(name) for name in names]
    out, held = found
    bank = "r" if words[0] == "popc" else "p"
    if out is None or held is None or out.bank != bank or held.bank != "p":
        raise _fail(ins, "registers of other types were expected")
    return Vote(words[0], held.row, negated, out.bank, out.row), middle


def _members(program: Program, ins: Instruction) -> None:
    """A warp's barrier: its only operand is a member mask."""
    if len(ins.opcode) != 3 or len(ins.operands) > 1:
        raise _fail(ins, "a member mask was expected")
    for operand in ins.operands:
        _number(program, ins, operand)


add(
    [
        f"{name}.{verb}"
        for name in ("bar", "bar.cta", "barrier", "barrier.cta")
        for verb in ("sync", "arrive")
    ],
    Semantics(None, 0, ends_block="barrier", describe=_form, converged=True),
)
add(
    [f"{name}.red" for name in ("bar", "bar.cta", "barrier", "barrier.cta")],
    Semantics(None, 1, ends_block="barrier", describe=_form, converged=True),
)
add(("bar.warp.sync",), Semantics(None, 0, ends_block="warp-barrier", describe=_members))
