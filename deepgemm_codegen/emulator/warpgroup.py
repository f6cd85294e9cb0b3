"""wgmma of one warpgroup: groups in flight, and accumulators that live outside the registers.

From issue to wait the sums belong to the tensor core: they are kept here as a matrix, and the
registers hold poison. Operands are taken from shared memory at issue, products are formed when
the sums are wanted: one matrix product then serves many instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.schedule import registers_of
from deepgemm_codegen.emulator.tensorcore import multiply

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.tensorcore import Arithmetic

__all__ = [
    "LANES",
    "Accumulator",
    "Warpgroup",
    "check_untouched",
    "from_registers",
    "note_written",
    "to_registers",
]

Array = np.ndarray[Any, np.dtype[Any]]

LANES = 128
POISON = np.uint32(0x7FFFFFFF)
_DEFER = 1024  # k after which products are formed anyway


def from_registers(registers: Array) -> Array:
    """Accumulator registers to the matrix: (N / 2, 128) to (64, N), fp32.

    Element i of a lane holds row 16 * warp + g + 8 * ((i >> 1) & 1) and column
    8 * (i >> 2) + 2t + (i & 1), with g = lane / 4 and t = lane % 4 (PTX ISA, "Register fragments
    for wgmma.mma_async.m64nNk16").
    """
    blocks = registers.shape[0] // 4
    parts = registers.reshape(blocks, 2, 2, 4, 8, 4)  # n / 8, half, element, warp, g, t
    return np.ascontiguousarray(parts.transpose(3, 1, 4, 0, 5, 2)).reshape(64, blocks * 8)


def to_registers(matrix: Array) -> Array:
    """The inverse of :func:`from_registers`."""
    blocks = matrix.shape[1] // 8
    parts = matrix.reshape(4, 2, 8, blocks, 4, 2)
    return np.ascontiguousarray(parts.transpose(3, 1, 5, 0, 2, 4)).reshape(blocks * 4, LANES)


@dataclass(slots=True)
class Accumulator:
    """Sums in flight.

    Attributes:
        rows: the registers, rows of the 32-bit bank.
        matrix: float32 (64, N), without the products still to be formed.
        group: the last group that adds to it.
        site: the last instruction that does.
        kind: type of the waiting operands; a, b: their patterns, uint16 (k, 64) and (k, N).
    """

    rows: Array
    matrix: Array
    group: int
    site: int
    kind: str = ""
    a: list[Array] = field(default_factory=list)
    b: list[Array] = field(default_factory=list)

    def add(self, kind: str, a: Array, b: Array, rules: Arithmetic) -> None:
        """Add a product of k = 16."""
        if self.a and (kind != self.kind or len(self.a) * 16 >= _DEFER):
            self.settle(rules)
        self.kind = kind
        self.a.append(a)
        self.b.append(b)

    def settle(self, rules: Arithmetic) -> None:
        """Form the products that wait."""
        if self.a:
            a, b = np.concatenate(self.a)[:, None], np.concatenate(self.b)[:, None]
            self.matrix = multiply(self.kind, rules, a, b, self.matrix[None], 16)[0]
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
        fenced: whether it has executed wgmma.fence; dirty: accumulator registers that ordinary
            instructions wrote since.
    """

    start: int
    lanes: Array
    committed: int = 0
    flight: dict[bytes, Accumulator] = field(default_factory=dict)
    unsettled: tuple[int, int] = (0, 0)
    waited: int = 0
    fenced: bool = False
    dirty: set[int] = field(default_factory=set)

    @property
    def part(self) -> slice:
        """Its lanes as a slice."""
        return slice(self.start, self.start + LANES)

    def settle(self, done: int, bank: Array, rules: Arithmetic) -> None:
        """Deliver the sums of all groups up to ``done``."""
        self.waited = max(self.waited, done)
        for key, sums in list(self.flight.items()):
            if sums.group <= done:
                sums.settle(rules)
                bank[sums.rows, self.part] = to_registers(sums.matrix).view(np.uint32)
                del self.flight[key]


def note_written(context: Context, pc: int, mask: Array) -> None:
    """Remember that a basic block wrote accumulator registers after its last fence."""
    written = context.translation.blocks[pc].written
    for group in context.state.warpgroups.values():
        if mask[group.part].any():
            group.dirty |= written


def check_untouched(context: Context, pc: int, mask: Array) -> None:
    """Find ordinary instructions of a basic block that touch accumulators in flight."""
    block = context.translation.blocks[pc]
    if not block.touched:
        return
    for number, group in context.state.hot.items():
        key = (pc, number, *group.flight)
        if key in context.state.checked or not mask[group.part].any():
            continue
        context.state.checked.add(key)
        for sums in group.flight.values():
            rows = block.touched.intersection(sums.rows.tolist())
            if rows:
                context.collector.add(
                    "accumulator-in-flight",
                    "an instruction touches registers that wgmma still writes: no wait_group "
                    "before it",
                    _first_touch(context, pc, rows),
                    group.start + int(np.flatnonzero(mask[group.part])[0]),
                    other=(sums.site, group.start),
                )


def _first_touch(context: Context, pc: int, rows: frozenset[int]) -> int:
    """The first ordinary instruction of a basic block that names one of some rows."""
    program = context.translation.program
    sites = []
    for batch in context.translation.blocks[pc].batches:
        for ins, what in batch:
            reads, writes = registers_of(ins, what.destinations)
            registers = (
                program.registers.get(n) for n in (reads if what.deferred else reads | writes)
            )
            if any(r is not None and r.bank == "r" and r.row in rows for r in registers):
                sites.append(context.translation.names.sites[id(ins)])
    return min(sites)
