"""Which instruction is what, and instructions made from others."""

from __future__ import annotations

from dataclasses import replace

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.registry import lookup

__all__ = [
    "instruction",
    "is_arrival",
    "is_barrier",
    "is_commit",
    "is_copy",
    "is_fence",
    "is_group_wait",
    "is_phase_wait",
    "is_started",
    "is_wait",
    "number",
    "plus",
    "with_source",
]


def is_barrier(ins: nodes.Instruction) -> bool:
    return ins.opcode[0] == "bar" or ins.opcode[:2] == ("barrier", "cluster")


def is_phase_wait(ins: nodes.Instruction) -> bool:
    return ins.opcode[:2] in (("mbarrier", "try_wait"), ("mbarrier", "test_wait"))


def is_group_wait(ins: nodes.Instruction) -> bool:
    return "wait_group" in ins.opcode or "wait_all" in ins.opcode


def is_wait(ins: nodes.Instruction) -> bool:
    return is_phase_wait(ins) or is_group_wait(ins)


def is_fence(ins: nodes.Instruction) -> bool:
    return ins.opcode[0] in ("fence", "membar") or ins.opcode[:2] == ("wgmma", "fence")


def is_commit(ins: nodes.Instruction) -> bool:
    return "commit_group" in ins.opcode


def is_copy(ins: nodes.Instruction) -> bool:
    """Whether it starts a copy or a product of a group."""
    words = ins.opcode
    group = {"commit_group", "wait_group", "wait_all", "fence"}
    return words[0] in ("cp", "wgmma") and not group & {*words}


def is_started(ins: nodes.Instruction) -> bool:
    """Whether it starts, closes or announces something that others wait for."""
    return is_copy(ins) or is_commit(ins) or is_arrival(ins)


def is_arrival(ins: nodes.Instruction) -> bool:
    return ins.opcode[:2] == ("mbarrier", "arrive")


def plus(operand: nodes.Operand, number: int) -> nodes.Immediate:
    assert isinstance(operand, nodes.Immediate)
    return nodes.Immediate(str(int(operand.text, 0) + number))


def number(value: int) -> nodes.Immediate:
    return nodes.Immediate(str(value))


def instruction(like: nodes.Instruction, words: str, *operands: nodes.Operand) -> nodes.Instruction:
    """A new instruction at the place of another."""
    return replace(like, guard=None, opcode=tuple(words.split(".")), operands=operands)


def with_source(ins: nodes.Instruction, old: str, new: str) -> nodes.Instruction:
    """The instruction with another register where it reads one."""
    first = lookup(ins).destinations
    sources = (_renamed(operand, old, new) for operand in ins.operands[first:])
    return replace(ins, operands=(*ins.operands[:first], *sources))


def _renamed(operand: nodes.Operand, old: str, new: str) -> nodes.Operand:
    if operand == nodes.Name(old):
        return nodes.Name(new)
    if isinstance(operand, nodes.Address):
        extra = tuple(_renamed(o, old, new) for o in operand.extra)
        base = operand.base
        return replace(
            operand, base=nodes.Name(new) if base == nodes.Name(old) else base, extra=extra
        )
    if isinstance(operand, nodes.Vector):
        return replace(operand, items=tuple(_renamed(o, old, new) for o in operand.items))
    return operand
