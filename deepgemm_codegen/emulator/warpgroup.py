"""wgmma of one warpgroup: groups in flight, and accumulators that live outside the registers.

From issue to wait the sums belong to the tensor core: they are kept here as a matrix, and the
registers hold poison. Operands are taken from shared memory at issue, products are formed when
the sums are wanted: one matrix product then serves many instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.fragments import INTEGERS
from deepgemm_codegen.emulator.numeric import round_to_f16
from deepgemm_codegen.emulator.patterns import element
from deepgemm_codegen.emulator.tensorcore import multiply, multiply_integers

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.descriptors import Operand
    from deepgemm_codegen.emulator.generations import Sums

__all__ = [
    "LANES",
    "Accumulator",
    "Product",
    "Warpgroup",
    "from_registers",
    "to_registers",
]

Array = np.ndarray[Any, np.dtype[Any]]

LANES = 128
POISON = np.uint32(0x7FFFFFFF)
_DEFER = 1024  # k after which products are formed anyway


def from_registers(registers: Array, kind: str) -> Array:
    """Accumulator registers, uint32 (count, 128), to the matrix (64, N): fp32, or int32 of s32.

    Element i of a lane holds row 16 * warp + g + 8 * ((i >> 1) & 1) and column
    8 * (i >> 2) + 2t + (i & 1), with g = lane / 4 and t = lane % 4 (PTX ISA, "Register fragments
    for wgmma.mma_async.m64nNk16"); with fp16 elements 2j and 2j + 1 share register j.
    """
    elements = registers.view(np.int32 if kind == "s32" else np.float32)
    if kind == "f16":
        halves = registers.view(np.float16).reshape(-1, LANES, 2).astype(np.float32)
        elements = np.ascontiguousarray(halves.transpose(0, 2, 1)).reshape(-1, LANES)
    blocks = elements.shape[0] // 4
    parts = elements.reshape(blocks, 2, 2, 4, 8, 4)  # n / 8, half, element, warp, g, t
    return np.ascontiguousarray(parts.transpose(3, 1, 4, 0, 5, 2)).reshape(64, blocks * 8)


def to_registers(matrix: Array, kind: str) -> Array:
    """The inverse of :func:`from_registers`."""
    blocks = matrix.shape[1] // 8
    parts = matrix.reshape(4, 2, 8, blocks, 4, 2)
    elements = np.ascontiguousarray(parts.transpose(3, 1, 5, 0, 2, 4)).reshape(blocks * 4, LANES)
    if kind == "f16":
        halves = round_to_f16(elements.reshape(-1)).reshape(-1, 2, LANES).transpose(0, 2, 1)
        return np.ascontiguousarray(halves).view(np.uint32)[:, :, 0]
    return elements.view(np.uint32)


@dataclass(frozen=True, slots=True)
class Product:
    """What is fixed of one instruction.

    Attributes:
        number: of the instruction.
        kinds: operand types of A and B.
        rules: how floating products are summed; None for integers.
        k: products a sum.
        sums: ``f32``, ``f16`` or ``s32``.
        saturate: whether integer sums clamp.
        rows: accumulator registers, rows of the 32-bit bank; key identifies them.
        a, b: how the operands are read.
        negate: whether one of the two is negated.
        a_rows: registers of A where it lies there, rows of the 32-bit bank.
    """

    number: int
    kinds: tuple[str, str]
    rules: Sums | None
    k: int
    sums: str
    saturate: bool
    rows: Array
    key: bytes
    a: Operand
    b: Operand
    negate: bool
    a_rows: Array | None

    def unit(self, which: int) -> np.dtype[Any]:
        """The unsigned or integer type of an element of A (0) or B (1)."""
        kind = self.kinds[which]
        if kind in INTEGERS:
            return np.dtype(np.int8 if kind == "s8" else np.uint8)
        return element(kind)


@dataclass(slots=True)
class Accumulator:
    """Sums in flight.

    Attributes:
        rows: the registers, rows of the 32-bit bank.
        kind: ``f32``, ``f16`` or ``s32``.
        matrix: fp32 or int32 (64, N), without the products still to be formed.
        group: the last group that adds to it.
        site: the last instruction that does.
        product: the kind of instruction that the waiting operands belong to.
        a, b: their patterns, (k, 64) and (k, N).
    """

    rows: Array
    kind: str
    matrix: Array
    group: int = 0
    site: int = 0
    product: Product | None = None
    a: list[Array] = field(default_factory=list)
    b: list[Array] = field(default_factory=list)

    def add(self, product: Product, a: Array, b: Array) -> None:
        """Add one instruction's product."""
        before = self.product
        if self.a and (
            before is None
            or (before.kinds, before.sums) != (product.kinds, product.sums)
            or len(self.a) * product.k >= _DEFER
        ):
            self.settle()
        self.product = product
        self.a.append(a)
        self.b.append(b)
        if product.saturate:
            self.settle()  # each instruction clamps

    def settle(self) -> None:
        """Form the products that wait."""
        what = self.product
        if not self.a or what is None:
            return
        a, b = np.concatenate(self.a)[:, None], np.concatenate(self.b)[:, None]
        c = self.matrix[None]
        if what.rules is None:
            self.matrix = multiply_integers(a, b, c, saturate=what.saturate)[0]
        else:
            self.matrix = multiply(what.kinds, what.rules, a, b, c, what.k, what.sums)[0]
        self.a, self.b = [], []


@dataclass(slots=True)
class Warpgroup:
    """State of one warpgroup.

    Attributes:
        start: its first lane.
        lanes: all of them.
        committed: groups committed.
        flight: accumulators in flight, by their registers.
        reported: accesses reported already (basic block, accumulator).
        unsettled: last group with reads of shared memory, and its instruction.
        waited: groups waited for.
        fenced: whether it has executed wgmma.fence; dirty: registers of wgmma that ordinary
            instructions wrote since.
        held: registers of A that instructions in flight still read: group, instruction and rows.
    """

    start: int
    lanes: Array
    committed: int = 0
    flight: dict[bytes, Accumulator] = field(default_factory=dict)
    unsettled: tuple[int, int] = (0, 0)
    waited: int = 0
    fenced: bool = False
    dirty: set[int] = field(default_factory=set)
    held: dict[bytes, tuple[int, int, Array]] = field(default_factory=dict)

    @property
    def part(self) -> slice:
        """Its lanes as a slice."""
        return slice(self.start, self.start + LANES)

    def settle(self, done: int, bank: Array) -> None:
        """Deliver the sums of all groups up to ``done``."""
        self.waited = max(self.waited, done)
        self.held = {key: what for key, what in self.held.items() if what[0] > done}
        for key, sums in list(self.flight.items()):
            if sums.group <= done:
                sums.settle()
                bank[sums.rows, self.part] = to_registers(sums.matrix, sums.kind)
                del self.flight[key]
