"""Basic blocks: straight-line runs of a kernel, and how each ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.schedule import Member

__all__ = ["BasicBlock", "Terminator"]


@dataclass(frozen=True, slots=True)
class Terminator:
    """How a basic block ends.

    Attributes:
        kind: ``next``, ``branch``, ``exit``, ``barrier``, ``warp-barrier``, ``cluster-barrier``.
        predicate: row of the predicate that must hold, or -1; ``negated`` inverts it.
        target: block to branch to, or -1.
        site: instruction number, or -1 for ``next``.
    """

    kind: str
    predicate: int = -1
    negated: bool = False
    target: int = -1
    site: int = -1


@dataclass(slots=True)
class BasicBlock:
    """A straight-line run.

    Attributes:
        batches: what to execute, in order.
        terminator: how it ends.
        count: instructions, the terminator's included.
        touched: rows of the 32-bit bank that its ordinary instructions name.
        early: ordinary instructions that touch what a deferred one before them in the block still
            writes: the pairs of their numbers.
        collective: its first instruction that a warpgroup executes together, or -1.
        written: rows that some deferred instruction writes, and that the block's ordinary ones
            write after its last fence.
        unfenced: deferred instructions that follow such a write in the block with no fence
            between: the pairs of their numbers.
        overwritten: rows that hold an operand of some deferred instruction, and that the block's
            ordinary ones write.
        overrun: ordinary instructions that write an operand of a deferred one before them in the
            block: the pairs of their numbers.
        polls: whether it repeats itself until other threads have written something.
        converged: whether it has an instruction that the threads of a warp execute together.
    """

    batches: list[list[Member]]
    terminator: Terminator
    count: int
    touched: frozenset[int] = frozenset()
    early: tuple[tuple[int, int], ...] = ()
    collective: int = -1
    written: frozenset[int] = frozenset()
    unfenced: tuple[tuple[int, int], ...] = ()
    overwritten: frozenset[int] = frozenset()
    overrun: tuple[tuple[int, int], ...] = ()
    polls: bool = False
    converged: bool = False
