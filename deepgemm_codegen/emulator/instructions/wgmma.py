"""wgmma: matrix products of a warpgroup, with B in shared memory and A there or in registers.

What the instructions do when they run is in ``warpgroup_run``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.descriptors import Operand
from deepgemm_codegen.emulator.instructions.mbarrier import EFFECTS
from deepgemm_codegen.emulator.instructions.warpgroup_run import A_REGISTERS
from deepgemm_codegen.emulator.registry import semantics
from deepgemm_codegen.emulator.warpgroup import Product

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_FLOAT8 = ("e4m3", "e5m2")
_INTEGERS = ("s8", "u8")
# Operand types that may meet, k of the instruction, and the types that they are summed in.
_KINDS = (
    (("f16",), 16, ("f32", "f16")),
    (("bf16",), 16, ("f32",)),
    (("tf32",), 8, ("f32",)),
    (_FLOAT8, 32, ("f32", "f16")),
    (_INTEGERS, 32, ("s32",)),
)


class _Words(NamedTuple):
    """What an opcode says."""

    columns: int
    k: int
    sums: str
    kinds: tuple[str, str]
    saturate: bool

    @property
    def integers(self) -> bool:
        return self.sums == "s32"

    @property
    def transposable(self) -> bool:
        """Whether operands in shared memory may be MN-major: 16-bit types only."""
        return self.k == 16


def _words(emitter: Emitter, ins: Instruction) -> _Words:
    words = list(ins.opcode[2:])
    saturate = len(words) == 7 and words[3] == "satfinite"
    if saturate:
        del words[3]
    shape = _SHAPE.fullmatch(words[2]) if len(words) == 6 else None
    if words[:2] != ["sync", "aligned"] or shape is None:
        raise emitter.fail(ins, "unsupported shape or modifier")
    columns, k = int(shape.group(1)), int(shape.group(2))
    sums, a, b = words[3:]
    known = any(a in x and b in x and k == depth and sums in s for x, depth, s in _KINDS)
    integers = sums == "s32"
    step = 16 if integers and columns > 32 else 8
    if not known or columns % step or not 8 <= columns <= 256 or (saturate and not integers):
        raise emitter.fail(ins, "unsupported shape or types")
    return _Words(columns, k, sums, (a, b), saturate)


@semantics(
    "wgmma.mma_async", effects=EFFECTS[:2], asynchronous=True, deferred=True, collective=True
)
def _mma(emitter: Emitter, ins: Instruction) -> None:
    words = _words(emitter, ins)
    if len(ins.operands) < 4:
        raise emitter.fail(ins, "sums, A, B and a scale were expected")
    sums, a, b, scale, *flags = ins.operands
    in_registers = isinstance(a, nodes.Vector)
    negate, transposed = _flags(emitter, ins, words, flags, in_registers=in_registers)
    count = words.columns // (4 if words.sums == "f16" else 2)
    if not isinstance(sums, nodes.Vector) or len(sums.items) != count:
        raise emitter.fail(ins, f"{count} accumulators were expected")
    rows = np.array([emitter.row(item, "r", ins) for item in sums.items])
    if np.unique(rows).size != rows.size:
        raise emitter.fail(ins, "an accumulator is named twice")
    a_rows = None
    if isinstance(a, nodes.Vector):
        if len(a.items) != A_REGISTERS:
            raise emitter.fail(ins, f"{A_REGISTERS} registers of A were expected")
        a_rows = np.array([emitter.row(item, "r", ins) for item in a.items])
        if np.intersect1d(rows, a_rows).size:
            raise emitter.fail(ins, "a register of A is an accumulator")
    product = Product(
        emitter.site(ins),
        words.kinds,
        None if words.integers else emitter.sums(words.kinds[0], ins, warpgroup=True),
        words.k,
        words.sums,
        words.saturate,
        rows,
        rows.tobytes(),
        Operand(64, transposed=transposed[0]),
        Operand(words.columns, transposed=transposed[1]),
        negate,
        a_rows,
    )
    keep = "None"
    if isinstance(scale, nodes.Immediate):
        keep = str(int(scale.text, 0) != 0)
    else:
        keep = emitter.source(scale, "pred", ins)
    left = "None" if isinstance(a, nodes.Vector) else emitter.source(a, "u64", ins)
    right = emitter.source(b, "u64", ins)
    emitter.line(
        f"warpgroup_multiply({emitter.object(product)}, {left}, {right}, {keep}, {emitter.mask})"
    )


def _flags(
    emitter: Emitter,
    ins: Instruction,
    words: _Words,
    flags: list[nodes.Operand],
    *,
    in_registers: bool,
) -> tuple[bool, tuple[bool, bool]]:
    """Whether the product is negated, and whether A and B are transposed."""
    numbers = []
    for flag in flags:
        if not isinstance(flag, nodes.Immediate):
            raise emitter.fail(ins, "constants were expected")
        numbers.append(int(flag.text, 0))
    scales = [] if words.integers else numbers[:2]
    turns = numbers[len(scales) :]
    wanted = 0 if not words.transposable else 1 if in_registers else 2
    if len(scales) != (0 if words.integers else 2) or len(turns) != wanted:
        raise emitter.fail(ins, "another number of scales and transpositions was expected")
    if not {*scales} <= {1, -1} or not {*turns} <= {0, 1}:
        raise emitter.fail(ins, "scales of 1 or -1 and transpositions of 0 or 1 were expected")
    turned = [False] * (2 - wanted) + [bool(t) for t in turns]
    return scales.count(-1) == 1, (turned[0], turned[1])


@semantics(
    "wgmma.fence",
    destinations=0,
    effects=EFFECTS[:2],
    asynchronous=True,
    collective=True,
    fences=True,
    operands=0,
)
def _fence(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[2:] != ("sync", "aligned"):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"warpgroup_fence({emitter.site(ins)}, {emitter.mask})")


@semantics(
    "wgmma.commit_group",
    destinations=0,
    effects=EFFECTS,
    asynchronous=True,
    collective=True,
    operands=0,
)
def _commit(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[2:] != ("sync", "aligned"):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"warpgroup_commit({emitter.site(ins)}, {emitter.mask})")


@semantics(
    "wgmma.wait_group",
    destinations=0,
    effects=EFFECTS,
    asynchronous=True,
    alone=True,
    collective=True,
    operands=1,
)
def _wait(emitter: Emitter, ins: Instruction) -> None:
    count = ins.operands[0]
    if ins.opcode[2:] != ("sync", "aligned") or not isinstance(count, nodes.Immediate):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"warpgroup_wait({emitter.site(ins)}, {int(count.text, 0)}, {emitter.mask})")
