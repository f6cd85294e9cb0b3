"""A linked kernel to Python: basic blocks, each a function that runs all lanes at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.basicblock import BasicBlock, Terminator
from deepgemm_codegen.emulator.emitter import Emitter, SharedNames
from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.printer import print_instruction
from deepgemm_codegen.emulator.reconverging import reconverging
from deepgemm_codegen.emulator.registry import lookup
from deepgemm_codegen.emulator.schedule import Member, registers_of, schedule

if TYPE_CHECKING:
    from types import CodeType

    from deepgemm_codegen.emulator.generations import Arithmetic
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.program import Program
    from deepgemm_codegen.emulator.registry import Semantics

__all__ = ["Translation", "translate"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class Translation:
    """A kernel as Python source, cached for all launches.

    Attributes:
        blocks: in text order; block i falls through to i + 1.
        names: names and constants that the source uses.
        code: the compiled functions ``b0`` ... of all blocks, for all lanes.
        cell: bytes of the narrowest access to shared memory, 16 where there is none.
        asynchronous: whether an instruction calls for vector clocks.
        forms: by instruction number, what its semantics describe (block barriers).
        masked: block number to the code of its masked function, made when first needed.
        joins: see `reconverging`.
    """

    program: Program
    blocks: list[BasicBlock]
    names: SharedNames
    code: CodeType
    source: str
    cell: int = 16
    asynchronous: bool = False
    forms: dict[int, Any] = field(default_factory=dict)
    masked: dict[int, CodeType] = field(default_factory=dict)
    joins: Array | None = None

    def coming(self, block: int) -> Array:
        """The blocks (bool) from which every way leads to one; see `reconverging`."""
        if self.joins is None:
            self.joins = reconverging(self.blocks)
        found: Array = self.joins[block]
        return found

    def masked_code(self, block: int) -> CodeType:
        """Code that defines ``m<block>``, the block's function under a mask."""
        code = self.masked.get(block)
        if code is None:
            source = _function(self.program, self.blocks[block], block, self.names, masked=True)
            code = compile(source, f"<ptx block {block}, masked>", "exec")
            self.masked[block] = code
        return code


def translate(program: Program, arithmetic: Arithmetic) -> Translation:
    """Translate a kernel for the tensor cores to imitate.

    Raises:
        UnsupportedError: an instruction with no semantics, with its PTX line and text.
    """
    meanings = [lookup(ins) for ins in program.instructions]
    whole = list(zip(program.instructions, meanings, strict=True))
    names = SharedNames(program, arithmetic)
    blocks = _blocks(program, meanings)
    source = "\n".join(
        _function(program, block, i, names, masked=False) for i, block in enumerate(blocks)
    )
    widths = {what.shared_width(ins) for ins, what in whole if what.shared_width is not None}
    cell = min(widths - {0}, default=16)
    code = compile(source, "<ptx>", "exec")
    asynchronous = any(what.needs_clocks(ins) for ins, what in whole)
    forms = {
        i: what.describe(program, ins)
        for i, (ins, what) in enumerate(whole)
        if what.describe is not None
    }
    return Translation(program, blocks, names, code, source, cell, asynchronous, forms)


def _function(
    program: Program, block: BasicBlock, number: int, names: SharedNames, *, masked: bool
) -> str:
    emitter = Emitter(program, masked=masked, shared=names)
    for batch in block.batches:
        _emit(emitter, batch, masked=masked)
    mask = "m" if masked else "None"
    for site, other in block.early:
        emitter.line(f"touch_early({site}, {other}, {mask})")
    for site, other in block.unfenced:
        emitter.line(f"touch_unfenced({site}, {other}, {mask})")
    for site, other in block.overrun:
        emitter.line(f"overrun_operand({site}, {other}, {mask})")
    if block.terminator.predicate >= 0:
        emitter.use(f"p_{block.terminator.predicate}")
    body = "\n    ".join(emitter.lines) or "pass"
    head = f"def m{number}(m):" if masked else f"def b{number}():"
    return f"{head}\n    {body}"


def _emit(emitter: Emitter, batch: list[Member], *, masked: bool) -> None:
    """Write a batch.

    Raises:
        UnsupportedError: also where an emitter stumbles over an operand of a shape it never saw.
    """
    first, what = batch[0]
    if what.operands is not None and len(first.operands) != what.operands:
        reason = f"{what.operands} operands were expected"
        raise UnsupportedError(first.line, print_instruction(first), reason)
    try:
        emitter.begin(first)
        if what.emit_batch is not None and what.batch is not None and what.batch(first) is not None:
            emitter.mask = "m" if masked else "None"
            what.emit_batch(emitter, [ins for ins, _ in batch])
        elif what.emit is not None:
            what.emit(emitter, first)
    except (AttributeError, KeyError, IndexError, OverflowError, TypeError, ValueError) as error:
        text = print_instruction(first)
        raise UnsupportedError(
            first.line, text, f"unreadable operands or type ({error})"
        ) from error


def _starts(program: Program, meanings: list[Semantics]) -> set[int]:
    """Instructions that begin a basic block."""
    starts = {0, *program.labels.values()}
    for i, what in enumerate(meanings):
        if what.alone:
            starts.update((i, i + 1))
        if what.ends_block:
            starts.add(i + 1)
            if program.instructions[i].guard is not None and what.ends_block.endswith("barrier"):
                starts.add(i)
    seen = False
    for i, what in enumerate(meanings):
        seen = seen and i not in starts
        if what.collective and not seen:
            # Warpgroups gather before their first common instruction.
            seen = True
            starts.add(i)
    return starts


def _blocks(program: Program, meanings: list[Semantics]) -> list[BasicBlock]:
    starts = _starts(program, meanings)
    shared, held = _deferred_rows(program, meanings)
    total = len(program.instructions)
    order = sorted(s for s in starts if s < total)
    number: dict[int, int] = {}
    plan: list[tuple[int, int, bool]] = []  # start, end, whether a skip precedes a guarded barrier
    for start, end in zip(order, [*order[1:], total][: len(order)], strict=True):
        number[start] = len(plan)
        first = program.instructions[start]
        guarded = first.guard is not None and meanings[start].ends_block.endswith("barrier")
        if guarded:
            plan.append((start, start, True))
        plan.append((start, end, False))
    end_block = len(plan)
    result = []
    for start, end, skip in plan:
        if skip:
            ins = program.instructions[start]
            row, negated = _guard(program, ins)
            after = number.get(start + 1, end_block)
            result.append(BasicBlock([], Terminator("branch", row, not negated, after, start), 0))
            continue
        terminator = _terminator(program, end - 1, meanings[end - 1], number, end_block)
        stop = end - 1 if meanings[end - 1].ends_block else end
        members = list(zip(program.instructions[start:stop], meanings[start:stop], strict=True))
        touches = _Touches(program, members, shared, held)
        result.append(
            BasicBlock(
                schedule(members),
                terminator,
                end - start,
                frozenset(touches.touched),
                tuple((start + i, start + j) for i, j in touches.early),
                start if meanings[start].collective else -1,
                frozenset(touches.written),
                tuple((start + i, start + j) for i, j in touches.unfenced),
                frozenset(touches.overwritten),
                tuple((start + i, start + j) for i, j in touches.overrun),
                terminator.target == len(result) and _polls(program.instructions[end - 1], members),
                any(what.converged for what in meanings[start:end]),
            )
        )
    # Falling off the end is an exit.
    result.append(BasicBlock([], Terminator("exit"), 0))
    return result


def _polls(branch: Instruction, members: list[Member]) -> bool:
    """Whether a branch turns on what an instruction before it in the block polled."""
    polled: set[str] = set()
    for ins, what in members:
        reads, writes = registers_of(ins, what.destinations)
        if what.may_poll(ins) or reads & polled:
            polled |= writes
        else:
            polled -= writes
    return branch.guard is not None and branch.guard.predicate in polled


class _Touches:
    """What the ordinary instructions of a block do to registers that deferred ones write or read.

    ``shared`` are rows that some deferred instruction writes, ``held`` those that one reads.
    """

    def __init__(
        self,
        program: Program,
        members: list[Member],
        shared: frozenset[int],
        held: frozenset[int],
    ) -> None:
        self.program = program
        self.touched: set[int] = set()
        self.overwritten: set[int] = set()
        self.early: list[tuple[int, int]] = []
        self.unfenced: list[tuple[int, int]] = []
        self.overrun: list[tuple[int, int]] = []
        self.written: dict[int, int] = {}  # row to instruction
        self.deferred: dict[int, int] = {}
        self.operands: dict[int, int] = {}
        self.shared, self.held = shared, held
        if shared or held:
            for number, (ins, what) in enumerate(members):
                self.add(number, ins, what)

    def add(self, number: int, ins: Instruction, what: Semantics) -> None:
        reads, writes = (self.rows(names) for names in registers_of(ins, what.destinations))
        if what.deferred:
            used = (writes | reads) & self.written.keys()
            self.unfenced += [(number, self.written[r]) for r in used][:1]
            self.deferred.update(dict.fromkeys(writes, number))
            self.operands.update(dict.fromkeys(reads, number))
            writes = set()
        elif what.fences:
            self.written = {}
        names = reads | writes
        self.early += [(number, self.deferred[r]) for r in names & self.deferred.keys()][:1]
        self.overrun += [(number, self.operands[r]) for r in writes & self.operands.keys()][:1]
        self.touched |= names & self.shared
        self.overwritten |= writes & self.held
        self.written.update(dict.fromkeys(writes & (self.shared | self.held), number))

    def rows(self, names: set[str]) -> set[int]:
        registers = (self.program.registers.get(name) for name in names)
        return {r.row for r in registers if r is not None and r.bank == "r"}


def _deferred_rows(
    program: Program, meanings: list[Semantics]
) -> tuple[frozenset[int], frozenset[int]]:
    """Rows of the 32-bit bank that some deferred instruction writes, and that one reads."""
    rows: tuple[set[int], set[int]] = (set(), set())
    for ins, what in zip(program.instructions, meanings, strict=True):
        if what.deferred:
            reads, writes = registers_of(ins, what.destinations)
            for names, found in zip((writes, reads), rows, strict=True):
                registers = (program.registers.get(name) for name in names)
                found |= {r.row for r in registers if r is not None and r.bank == "r"}
    return frozenset(rows[0]), frozenset(rows[1])


def _terminator(
    program: Program, index: int, what: Semantics, number: dict[int, int], end_block: int
) -> Terminator:
    """How a block ends whose last instruction has this index."""
    if not what.ends_block:
        return Terminator("next")
    ins = program.instructions[index]
    row, negated = _guard(program, ins)
    if what.ends_block.endswith("barrier"):
        row, negated = -1, False  # a guarded one stands behind a branch
    target = _target(program, ins, number, end_block) if what.ends_block == "branch" else -1
    return Terminator(what.ends_block, row, negated, target, index)


def _guard(program: Program, ins: Instruction) -> tuple[int, bool]:
    if ins.guard is None:
        return -1, False
    register = program.registers.get(ins.guard.predicate)
    if register is None or register.bank != "p":
        raise UnsupportedError(ins.line, print_instruction(ins), "guard is not a predicate")
    return register.row, ins.guard.negated


def _target(program: Program, ins: Instruction, number: dict[int, int], end_block: int) -> int:
    operand = ins.operands[0] if ins.operands else None
    if isinstance(operand, nodes.Name) and operand.text in program.labels:
        return number.get(program.labels[operand.text], end_block)
    raise UnsupportedError(ins.line, print_instruction(ins), "branch to an unknown label")
