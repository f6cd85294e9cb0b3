"""Where instruction families register what they mean.

The core knows no operation. A family (one file in ``instructions/``) registers, for each opcode,
an emitter that writes Python source for it, and the run-time functions which that source calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.printer import print_instruction

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.program import Program

__all__ = ["RUNTIME", "Effects", "Semantics", "lookup", "runtime", "semantics"]

# (resource, mode): two accesses to a resource may change places only when both have the same mode,
# and that mode is neither "write" nor "store". Stores keep their order, but may share a batch, in
# which the later one wins. Resources: shared, global, local, async.
Effects = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Semantics:
    """What the translator needs to know of an opcode.

    Attributes:
        emit: writes the Python source of one instruction; None for one that ends a basic block.
        destinations: how many leading operands are written.
        effects: the memory that it touches.
        batch: instructions of a straight-line run with equal keys are emitted by one call of
            ``emit_batch`` once their inputs are ready; a key of None means alone.
        emit_batch: writes the source of a batch.
        ends_block: a word for the machine (``branch``, ``exit``, ``barrier``, ``warp-barrier``).
        describe: checks such an instruction, and says what the machine has to know of it.
        shared_width: bytes of the instruction's accesses to shared memory, 0 for none.
        operands: how many an instruction has, None where that varies.
        ordered: members of a batch may wait for each other; the batch keeps their order.
        order: batches wait for each other: all ready batches of a lower order go first.
        deferred: its destinations are written some time after it; nobody may touch them until
            a later instruction has waited.
        alone: it is a basic block of its own.
        asynchronous: a kernel that has one is checked for races with vector clocks; a function
            where that depends on the modifiers.
        polls: a loop that turns on its result waits for other threads; likewise.
        collective: the four warps of a warpgroup execute it together.
        converged: the threads of a warp that take part execute it together.
        fences: it orders ordinary accesses to registers before deferred ones.
        exact: its opcode has no words but the registered ones and the type.
    """

    emit: Callable[[Emitter, Instruction], None] | None
    destinations: int = 1
    effects: Callable[[Instruction], Effects] | None = None
    batch: Callable[[Instruction], Hashable | None] | None = None
    emit_batch: Callable[[Emitter, list[Instruction]], None] | None = None
    ends_block: str = ""
    describe: Callable[[Program, Instruction], Any] | None = None
    order: int = 0
    shared_width: Callable[[Instruction], int] | None = None
    ordered: bool = False
    operands: int | None = None
    deferred: bool = False
    alone: bool = False
    asynchronous: bool | Callable[[Instruction], bool] = False
    polls: bool | Callable[[Instruction], bool] = False
    collective: bool = False
    converged: bool = False
    fences: bool = False
    exact: bool = False

    def needs_clocks(self, ins: Instruction) -> bool:
        """Whether the instruction calls for vector clocks."""
        wanted = self.asynchronous
        return wanted(ins) if callable(wanted) else wanted

    def may_poll(self, ins: Instruction) -> bool:
        """Whether the instruction reads what other threads write without a barrier."""
        return self.polls(ins) if callable(self.polls) else self.polls


_TABLE: dict[str, list[tuple[frozenset[str] | None, Semantics]]] = {}
RUNTIME: dict[str, Callable[..., Any]] = {}


def semantics(
    *opcodes: str,
    types: Iterable[str] | None = None,
    destinations: int = 1,
    effects: Callable[[Instruction], Effects] | Effects | None = None,
    batch: Callable[[Instruction], Hashable | None] | None = None,
    emit_batch: Callable[[Emitter, list[Instruction]], None] | None = None,
    order: int = 0,
    shared_width: Callable[[Instruction], int] | None = None,
    ordered: bool = False,
    operands: int | None = None,
    deferred: bool = False,
    alone: bool = False,
    asynchronous: bool | Callable[[Instruction], bool] = False,
    polls: bool | Callable[[Instruction], bool] = False,
    collective: bool = False,
    converged: bool = False,
    fences: bool = False,
    exact: bool = False,
) -> Callable[[Callable[[Emitter, Instruction], None]], Callable[[Emitter, Instruction], None]]:
    """Register an emitter for opcodes that begin with these words.

    ``types`` limits it to opcodes whose last word is one of them: ``add`` is one family for
    integers and another for floats.
    """

    def register(
        emit: Callable[[Emitter, Instruction], None],
    ) -> Callable[[Emitter, Instruction], None]:
        fixed = effects if callable(effects) or effects is None else _constant(effects)
        add(
            opcodes,
            Semantics(
                emit,
                destinations,
                fixed,
                batch,
                emit_batch,
                order=order,
                shared_width=shared_width,
                ordered=ordered,
                operands=operands,
                deferred=deferred,
                alone=alone,
                asynchronous=asynchronous,
                polls=polls,
                collective=collective,
                converged=converged,
                fences=fences,
                exact=exact,
            ),
            types=types,
        )
        return emit

    return register


def _constant(effects: Effects) -> Callable[[Instruction], Effects]:
    return lambda _: effects


def add(opcodes: Iterable[str], entry: Semantics, *, types: Iterable[str] | None = None) -> None:
    """Register semantics that need no emitter, such as those that end a block."""
    limit = None if types is None else frozenset(types)
    for opcode in opcodes:
        _TABLE.setdefault(opcode, []).append((limit, entry))


def runtime(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function callable by its name from generated source; it gets the context first."""
    RUNTIME[function.__name__] = function
    return function


def lookup(ins: Instruction) -> Semantics:
    """The semantics of an instruction: the longest registered opcode prefix wins.

    Raises:
        UnsupportedError: nobody registered it, or it has a word too many.
    """
    words = ins.opcode
    for length in range(len(words), 0, -1):
        for limit, entry in _TABLE.get(".".join(words[:length]), ()):
            if limit is None or words[-1] in limit:
                extra = words[length : len(words) - (limit is not None)]
                if entry.exact and extra:
                    reason = f"unsupported modifier {', '.join(extra)}"
                    raise UnsupportedError(ins.line, print_instruction(ins), reason)
                return entry
    raise UnsupportedError(ins.line, print_instruction(ins), "unknown instruction")
