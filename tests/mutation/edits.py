"""A kernel's PTX as a list of statements, with places in it and edits of it.

An edit gives a new tree; every statement that it leaves alone keeps its line, so that what the
emulator says of a mutant can be read beside the kernel's own PTX.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes, parse
from deepgemm_codegen.emulator.printer import print_instruction
from deepgemm_codegen.emulator.registry import lookup
from deepgemm_codegen.emulator.schedule import registers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Matters = Callable[[nodes.Instruction], bool]

__all__ = [
    "SPARE",
    "Edit",
    "Listing",
    "Site",
    "Unit",
    "text_of",
    "threads_of",
    "touches_shared",
]

SPARE = "%mutant"
"""A 32-bit register that every listing declares, free for what a mutant inserts."""

_JUMPS = frozenset({"bra", "brx", "ret", "exit", "call", "trap"})
_SYNCHRONISES = frozenset(
    {"bar", "barrier", "fence", "membar", "mbarrier", "wgmma", "atom", "red", "cp"}
)
"""First words of instructions that order memory, or that others order."""


@dataclass(frozen=True)
class Site:
    """An instruction of a listing.

    Attributes:
        index: of its statement.
        inner: its place in the statement's braces; None where it stands alone.
        instruction: itself.
    """

    index: int
    inner: int | None
    instruction: nodes.Instruction

    @property
    def row(self) -> int:
        """The line of the CUDA text, that of the call where one was inlined; 0 for unknown."""
        where = self.instruction.location
        if where is None:
            return 0
        return where.row if where.inlined_at is None else where.inlined_at[1]


Edit = tuple[Site, str, nodes.Module]
"""Where, what was done in words, and the module that it gives."""


@dataclass(frozen=True)
class Unit:
    """Statements that synchronise as one: a barrier, a fence, a wait with the loop that obeys it.

    Attributes:
        start, end: statements [start, end).
        site: the instruction that does it.
    """

    start: int
    end: int
    site: Site


@dataclass(frozen=True)
class Listing:
    """The statements of a module's kernel.

    Attributes:
        module: the whole text.
        entry: the kernel's name.
    """

    module: nodes.Module
    entry: str

    @classmethod
    def of(cls, ptx: str, entry: str) -> Listing:
        """The listing of a PTX text."""
        return cls(parse(ptx), entry)

    @cached_property
    def function(self) -> nodes.Function:
        """The kernel."""
        return next(
            item
            for item in self.module.items
            if isinstance(item, nodes.Function) and item.name == self.entry and item.body
        )

    @cached_property
    def statements(self) -> tuple[nodes.Statement, ...]:
        """The kernel's statements; what stands in braces is one."""
        body = self.function.body
        assert body is not None
        return body.items

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """All instructions in order."""
        return tuple(self._sites())

    def _sites(self) -> Iterator[Site]:
        for index, statement in enumerate(self.statements):
            if isinstance(statement, nodes.Instruction):
                yield Site(index, None, statement)
            elif isinstance(statement, nodes.Block):
                for inner, item in enumerate(statement.items):
                    if isinstance(item, nodes.Instruction):
                        yield Site(index, inner, item)

    @cached_property
    def labels(self) -> dict[str, int]:
        """The statements that are labels, by name."""
        found = enumerate(self.statements)
        return {label.name: index for index, label in found if isinstance(label, nodes.Label)}

    def at(self, index: int) -> list[nodes.Instruction]:
        """The instructions of a statement: one, several where it has braces, or none."""
        statement = self.statements[index]
        if isinstance(statement, nodes.Block):
            return [item for item in statement.items if isinstance(item, nodes.Instruction)]
        return [statement] if isinstance(statement, nodes.Instruction) else []

    # -- edits --

    def with_statements(self, statements: Sequence[nodes.Statement]) -> nodes.Module:
        """The module with another body for the kernel."""
        body = self.function.body
        assert body is not None
        spare = nodes.Registers("b32", SPARE, None)
        function = replace(self.function, body=replace(body, items=(spare, *statements)))
        items = tuple(function if item is self.function else item for item in self.module.items)
        return replace(self.module, items=items)

    def spliced(self, start: int, end: int, *new: nodes.Statement) -> nodes.Module:
        """The module with other statements in place of [start, end)."""
        return self.with_statements([*self.statements[:start], *new, *self.statements[end:]])

    def replaced(self, site: Site, *new: nodes.Instruction) -> nodes.Module:
        """The module with other instructions, or none, in place of one."""
        if site.inner is None:
            return self.spliced(site.index, site.index + 1, *new)
        block = self.statements[site.index]
        assert isinstance(block, nodes.Block)
        items = (*block.items[: site.inner], *new, *block.items[site.inner + 1 :])
        return self.spliced(site.index, site.index + 1, replace(block, items=items))

    def all_replaced(self, changes: Mapping[Site, nodes.Instruction | None]) -> nodes.Module:
        """The module with other instructions, or none, in place of several."""
        statements: list[nodes.Statement | None] = [*self.statements]
        for site, new in changes.items():
            block = statements[site.index]
            if site.inner is None or not isinstance(block, nodes.Block):
                statements[site.index] = new
            else:
                # A copy of braces holds one instruction of a kind, so places do not shift.
                items = [*block.items]
                items[site.inner : site.inner + 1] = [] if new is None else [new]
                statements[site.index] = replace(block, items=tuple(items))
        return self.with_statements([s for s in statements if s is not None])

    def moved(self, unit: Unit, target: int) -> nodes.Module:
        """The module with a unit in front of the statement ``target``."""
        there = self.statements[unit.start : unit.end]
        rest = [*self.statements[: unit.start], *self.statements[unit.end :]]
        place = target if target <= unit.start else target - (unit.end - unit.start)
        return self.with_statements([*rest[:place], *there, *rest[place:]])

    # -- places --

    def unit(self, site: Site) -> Unit:
        """The statements of a site: with the loop round it that it decides on, where there is one.

        Such a loop is a label, the statement, and a branch back to the label with nothing but
        arithmetic between.
        """
        index = site.index
        label = self._before(index)
        if label is not None:
            name = self.statements[label]
            assert isinstance(name, nodes.Label)
            for later in range(index + 1, len(self.statements)):
                for ins in self.at(later):
                    if ins.opcode[0] == "bra":
                        back = ins.operands == (nodes.Name(name.name),)
                        return (
                            Unit(label, later + 1, site) if back else Unit(index, index + 1, site)
                        )
                    if touches_shared(ins):
                        return Unit(index, index + 1, site)
        return Unit(index, index + 1, site)

    def _before(self, index: int) -> int | None:
        """The label in front of a statement, with nothing but locations between."""
        while index > 0:
            index -= 1
            if isinstance(self.statements[index], nodes.Label):
                return index
            if self.at(index):
                return None
        return None

    def past_next(self, unit: Unit, matters: Matters) -> int | None:
        """Where a unit stands once it is behind the next instruction that matters to it."""
        for index in range(unit.end, len(self.statements)):
            if self._stops(index, unit):
                return None
            if any(map(matters, self.at(index))):
                return index + 1
        return None

    def past_previous(self, unit: Unit, matters: Matters) -> int | None:
        """Where a unit stands once it is before the last instruction that mattered to it."""
        for index in range(unit.start - 1, -1, -1):
            if self._stops(index, unit):
                return None
            if any(map(matters, self.at(index))):
                return index
        return None

    def _stops(self, index: int, unit: Unit) -> bool:
        """Whether straight-line code ends at a statement, or the unit depends on it."""
        if isinstance(self.statements[index], nodes.Label):
            return True
        reads, _ = registers_of(unit.site.instruction, 0)
        return any(
            ins.opcode[0] in _JUMPS or reads & registers_of(ins, lookup(ins).destinations)[1]
            for ins in self.at(index)
        )


def touches_shared(ins: nodes.Instruction) -> bool:
    """Whether an instruction touches shared memory or synchronises.

    wgmma.fence does neither: it orders registers.
    """
    if ins.opcode[0] in _SYNCHRONISES:
        return ins.opcode[:2] != ("wgmma", "fence")
    effects = lookup(ins).effects
    return effects is not None and any(what in ("shared", "async") for what, _ in effects(ins))


def text_of(ins: nodes.Instruction) -> str:
    """An instruction as a report shows it: without the long lists of wgmma."""
    words = print_instruction(ins).split(", ")
    return ", ".join(words if len(words) <= 8 else [*words[:2], "...", *words[-2:]])


def threads_of(function: nodes.Function) -> int:
    """Threads of a block that a kernel was compiled for; 0 where it does not say."""
    for directive in function.directives:
        word, *rest = directive.text.replace(",", " ").split()
        if word in (".maxntid", ".reqntid"):
            return prod(map(int, rest))
    return 0
