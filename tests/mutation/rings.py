"""Where a kernel keeps the index of a stage and the parity of a phase.

Compilers print a ring as a comparison and a choice: the next index, or zero when that is past the
end. A parity is what an mbarrier's wait names, and an exclusive or changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.registry import lookup
from deepgemm_codegen.emulator.schedule import registers_of

if TYPE_CHECKING:
    from tests.mutation.edits import Listing, Site

__all__ = ["Parity", "Ring", "parities", "rings"]


@dataclass(frozen=True)
class Ring:
    """An index that goes round.

    Attributes:
        step: from one stage to the next: 1, or bytes.
        test: the comparison with the end.
        wrap: the choice.
        uses: instructions that read it for something else than to advance it, each with the
            register. What reads a register before the choice's value is in it, or after another
            has taken its place, reads something else: compilers let a first index, zero, serve as
            a lane or as a count too.
        starts: where it gets its first value.
    """

    step: int
    test: Site
    wrap: Site
    uses: tuple[tuple[Site, str], ...]
    starts: tuple[Site, ...]


@dataclass(frozen=True)
class Parity:
    """A parity that waits name.

    Attributes:
        registers: that hold it.
        waits: the instructions that wait for it.
        toggles: exclusive ors that change it, each with the operand that is the old parity.
        starts: where it gets its first value.
    """

    registers: frozenset[str]
    waits: tuple[Site, ...]
    toggles: tuple[tuple[Site, nodes.Operand], ...]
    starts: tuple[Site, ...]


def _name(operand: nodes.Operand) -> str:
    return operand.text if isinstance(operand, nodes.Name) else ""


def _definitions(listing: Listing) -> dict[str, list[Site]]:
    found: dict[str, list[Site]] = {}
    for site in listing.sites:
        _, writes = registers_of(site.instruction, lookup(site.instruction).destinations)
        for name in writes:
            found.setdefault(name, []).append(site)
    return found


def rings(listing: Listing) -> list[Ring]:
    """The rings of a kernel, in order of their tests."""
    definitions = _definitions(listing)
    found = []
    for wrap in listing.sites:
        ins = wrap.instruction
        if ins.opcode[0] != "selp" or len(ins.operands) != 4:
            continue
        target, *sources, predicate = ins.operands
        if nodes.Immediate("0") not in sources:
            continue
        following = next((_name(o) for o in sources if _name(o)), "")
        test = definitions.get(_name(predicate), [None])[0]
        step = _step(definitions.get(following, []))
        if test is None or not step or test.instruction.opcode[1] not in ("eq", "ne"):
            continue
        if _name(test.instruction.operands[1]) != following:
            continue
        found.append(_ring(listing, _name(target), step, test, wrap))
    return found


def _step(sites: list[Site]) -> int:
    """What the only definition of a register adds to another; 0 for anything else."""
    if len(sites) != 1 or sites[0].instruction.opcode[0] != "add":
        return 0
    last = sites[0].instruction.operands[-1]
    return int(last.text, 0) if isinstance(last, nodes.Immediate) else 0


def _ring(listing: Listing, name: str, step: int, test: Site, wrap: Site) -> Ring:
    held = _held(listing, wrap, name)
    uses, starts = [], []
    for site in listing.sites:
        ins = site.instruction
        reads, writes = registers_of(ins, lookup(ins).destinations)
        read = reads & held[site]
        if ins.opcode[0] == "mov":
            if name in writes and not read:
                starts.append(site)
            continue
        advances = ins.opcode[0] == "add" and _step([site]) == step
        if read and not advances and not _tests_zero(ins):
            uses.append((site, min(read)))
    return Ring(step, test, wrap, tuple(uses), tuple(starts))


def _tests_zero(ins: nodes.Instruction) -> bool:
    """Whether it asks if the ring is at its start: that changes a parity, which is judged there."""
    return ins.opcode[0] == "setp" and ins.operands[-1] == nodes.Immediate("0")


def _held(listing: Listing, wrap: Site, name: str) -> dict[Site, frozenset[str]]:
    """The registers that may hold a choice's value when control comes to an instruction.

    Args:
        listing: the kernel.
        wrap: the choice.
        name: the register that it writes.
    """
    sites = listing.sites
    places = {site: number for number, site in enumerate(sites)}
    held: dict[Site, frozenset[str]] = dict.fromkeys(sites, frozenset())
    pending = [wrap]
    while pending:
        site = pending.pop()
        ins = site.instruction
        _, writes = registers_of(ins, lookup(ins).destinations)
        moves = ins.opcode[0] == "mov" and _name(ins.operands[1]) in held[site]
        fresh = {name} if site == wrap else writes if moves else frozenset[str]()
        kept = held[site] if ins.guard is not None else held[site] - writes
        behind = kept | fresh
        for following in _following(listing, places[site]):
            if not behind <= held[following]:
                held[following] |= behind
                pending.append(following)
    return held


def _following(listing: Listing, place: int) -> list[Site]:
    """The instructions that control may come to from one."""
    sites, ins = listing.sites, listing.sites[place].instruction
    found = []
    if ins.opcode[0] == "bra":  # none jumps out of braces
        label = listing.labels.get(_name(ins.operands[0]), sites[place].index)
        found = [next(site for site in sites if site.index > label)]
    ends = ins.opcode[0] in ("bra", "ret", "exit", "trap") and ins.guard is None
    return found if ends else [*found, *sites[place + 1 : place + 2]]


def parities(listing: Listing) -> list[Parity]:
    """The parities of a kernel, in order of their first waits."""
    definitions = _definitions(listing)
    found: list[Parity] = []
    for site in listing.sites:
        ins = site.instruction
        if ins.opcode[0] == "mbarrier" and "parity" in ins.opcode:
            one = _parity(site, _name(ins.operands[2]), definitions)
            for other in [p for p in found if p.registers & one.registers]:
                found.remove(other)
                one = Parity(
                    other.registers | one.registers,
                    (*other.waits, *one.waits),
                    tuple(dict.fromkeys((*other.toggles, *one.toggles))),
                    tuple(dict.fromkeys((*other.starts, *one.starts))),
                )
            found.append(one)
    return found


def _parity(wait: Site, name: str, definitions: dict[str, list[Site]]) -> Parity:
    """What one wait's parity is made of: followed back from its register."""
    registers = {name}
    toggles: list[tuple[Site, nodes.Operand]] = []
    starts: list[Site] = []
    pending = [name]
    while pending:
        for site in definitions.get(pending.pop(), []):
            ins = site.instruction
            if ins.opcode[0] == "xor":
                source = _changed(ins, definitions)
                toggles.append((site, source))
            elif ins.opcode[0] == "mov":
                source = ins.operands[1]
                if not _is_variable(source, definitions):
                    starts.append(site)
                    continue
            else:
                continue
            pending += {_name(source)} - registers
            registers.add(_name(source))
    return Parity(frozenset(registers), (wait,), tuple(toggles), tuple(starts))


def _changed(toggle: nodes.Instruction, definitions: dict[str, list[Site]]) -> nodes.Operand:
    """The operand that an exclusive or changes: the other one is a choice between 1 and 0."""
    first, second = toggle.operands[1:]
    chosen = definitions.get(_name(first), [])
    return second if chosen and chosen[0].instruction.opcode[0] == "selp" else first


def _is_variable(operand: nodes.Operand, definitions: dict[str, list[Site]]) -> bool:
    """Whether it is a register that holds no constant: one that only one move writes does."""
    sites = definitions.get(_name(operand), [])
    return len(sites) > 1 or (len(sites) == 1 and sites[0].instruction.opcode[0] != "mov")
