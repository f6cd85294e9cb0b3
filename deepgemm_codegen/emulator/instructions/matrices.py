"""What ldmatrix and stmatrix share: 8x8 matrices between registers and shared memory.

Lanes 8j..8j+7 of a warp give the rows of matrix j, and register j of every lane holds its fragment
of matrix j.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deepgemm_codegen.emulator import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["Matrices", "batch_key", "matrices_of", "whole_warps"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Matrices:
    """Several instructions of one kind; arrays have one element an instruction.

    Attributes:
        count: matrices each: 1, 2 or 4.
        transposed: whether they are transposed on their way.
        bank: of the address registers, 32 or 64 bits wide; ``addresses`` are rows of it.
        registers: rows of the 32-bit bank, shape (instructions, count).
    """

    count: int
    transposed: bool
    sites: Array
    bank: str
    addresses: Array
    offsets: Array
    registers: Array


def batch_key(ins: Instruction) -> tuple[str, ...] | None:
    """What instructions share that run in one call; None for one that runs alone."""
    return None if ins.guard is not None else ins.opcode


def matrices_of(emitter: Emitter, batch: list[Instruction], address: int) -> Iterator[Matrices]:
    """A batch in runs, in order, whose addresses are equally wide.

    Args:
        emitter: knows the registers.
        batch: instructions of one opcode.
        address: which operand is the address, 0 or 1; the other is the registers.

    Raises:
        UnsupportedError: other modifiers or operands.
    """
    first = batch[0]
    words = set(first.opcode[1:-1])
    count = next((c for c in (1, 2, 4) if f"x{c}" in words), 0)
    known = {"sync", "aligned", "m8n8", f"x{count}", "trans", "shared", "shared::cta"}
    if first.opcode[-1] != "b16" or not words <= known or "m8n8" not in words or not count:
        raise emitter.fail(first, "unsupported modifier")
    found = [_operands(emitter, ins, address, count) for ins in batch]
    for bank, run in groupby(found, lambda each: each.bank):
        own = list(run)
        yield Matrices(
            count,
            "trans" in words,
            np.array([emitter.site(each.ins) for each in own], np.int64),
            bank,
            np.array([emitter.row(each.base, bank, each.ins) for each in own]),
            np.array([each.offset for each in own], np.int64),
            np.array([[emitter.row(r, "r", each.ins) for r in each.registers] for each in own]),
        )


class _Operands(NamedTuple):
    """Of one instruction."""

    ins: Instruction
    base: nodes.Operand
    offset: int
    bank: str
    registers: tuple[nodes.Operand, ...]


def _operands(emitter: Emitter, ins: Instruction, address: int, count: int) -> _Operands:
    place, other = ins.operands[address], ins.operands[1 - address]
    if not isinstance(place, nodes.Address) or place.extra:
        raise emitter.fail(ins, "an address was expected")
    registers = other.items if isinstance(other, nodes.Vector) else (other,)
    if len(registers) != count:
        raise emitter.fail(ins, f"{count} registers were expected")
    bank = "d" if emitter.bits(place.base, ins) == 64 else "r"
    return _Operands(ins, place.base, place.offset, bank, registers)


def whole_warps(context: Context, site: int, mask: Array) -> Array:
    """Warps (bool) whose lanes are all active; part of a warp is a finding."""
    warps = mask.reshape(-1, 32)
    whole = np.asarray(warps.all(axis=1))
    partial = np.asarray(warps.any(axis=1)) & ~whole
    if partial.any():
        warp = int(np.flatnonzero(partial)[0])
        lane = warp * 32 + int(np.flatnonzero(warps[warp])[0])
        context.collector.add(
            "divergent-instruction",
            "a warp-wide instruction that a part of a warp reached",
            site,
            lane,
            count=int(partial.sum()),
        )
    return whole
