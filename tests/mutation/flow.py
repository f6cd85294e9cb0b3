"""Operators on what decides: predicates, choices, the index of a stage, the parity of a phase."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from tests.mutation.edits import SPARE, Edit, Listing, Site, text_of
from tests.mutation.instructions import instruction, is_phase_wait, number, plus, with_source
from tests.mutation.rings import parities, rings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["flipped", "selected", "shifted", "started", "unfilled", "unguarded", "wrapped"]


def unguarded(listing: Listing) -> Iterator[Edit]:
    """A guarded instruction always runs; a guarded branch is never taken, or always."""
    waits = {
        listing.unit(site).end - 1 for site in listing.sites if is_phase_wait(site.instruction)
    }
    guarded = [s for s in listing.sites if s.instruction.guard is not None]
    for copies in _copies(site for site in guarded if site.index not in waits):
        first = copies[0]
        text = text_of(first.instruction) + _times(copies)
        always = {site: replace(site.instruction, guard=None) for site in copies}
        yield first, f"always: {text}", listing.all_replaced(always)
        if first.instruction.opcode[0] == "bra":
            yield first, f"never: {text}", listing.all_replaced(dict.fromkeys(copies))


def _copies(sites: Iterable[Site]) -> list[list[Site]]:
    """Instructions that come from one place of the CUDA text: a compiler's copies of one.

    Most copies alone say nothing: of an unrolled loop that fills a tile, one pass is ragged.
    """
    found: dict[object, list[Site]] = {}
    for site in sites:
        ins = site.instruction
        negated = ins.guard is not None and ins.guard.negated
        key = site.index if ins.location is None else (ins.location, ins.opcode, negated)
        found.setdefault(key, []).append(site)
    return list(found.values())


def _times(copies: list[Site]) -> str:
    return f", and {len(copies) - 1} copies" if len(copies) > 1 else ""


def selected(listing: Listing) -> Iterator[Edit]:
    """A choice between whole numbers always falls to one side."""
    answers = {s.index for s in listing.sites if is_phase_wait(s.instruction)}
    wraps = {ring.wrap.index for ring in rings(listing)}
    choices = [s for s in listing.sites if s.instruction.opcode[0] == "selp"]
    wanted = (s for s in choices if s.instruction.opcode[-1][0] != "f")
    for copies in _copies(s for s in wanted if s.index not in answers | wraps):
        for which in (1, 2):
            changes = {site: _first_or_second(site.instruction, which) for site in copies}
            what = f"{text_of(copies[0].instruction)} became {text_of(changes[copies[0]])}"
            yield copies[0], what + _times(copies), listing.all_replaced(changes)


def _first_or_second(ins: nodes.Instruction, which: int) -> nodes.Instruction:
    operands = (ins.operands[0], ins.operands[which])
    return replace(ins, opcode=("mov", ins.opcode[-1]), operands=operands)


def unfilled(listing: Listing) -> Iterator[Edit]:
    """A copy that fills with zeros what lies outside reads it instead."""
    filled = [
        s for s in listing.sites
        if {"ca", "cg"} & {*s.instruction.opcode} and s.instruction.operands[3:]
    ]  # fmt: skip
    for copies in _copies(filled):
        first = copies[0]
        changes = {s: replace(s.instruction, operands=s.instruction.operands[:3]) for s in copies}
        what = f"full width: {text_of(first.instruction)}{_times(copies)}"
        yield first, what, listing.all_replaced(changes)


# -- stages and parities --


def wrapped(listing: Listing) -> Iterator[Edit]:
    """A ring of stages goes round one stage too early or too late."""
    for ring in rings(listing):
        ins = ring.test.instruction
        for delta in (-ring.step, ring.step):
            operands = tuple(
                plus(o, delta) if isinstance(o, nodes.Immediate) else o for o in ins.operands
            )
            changed = replace(ins, operands=operands)
            what = f"{text_of(ins)} became {text_of(changed)}"
            yield ring.test, what, listing.replaced(ring.test, changed)


def shifted(listing: Listing) -> Iterator[Edit]:
    """One use of a stage's index means the next stage, or the one before."""
    # Of an unrolled loop several choices reach one use.
    uses = {use: ring.step for ring in rings(listing) for use in ring.uses}
    for (site, register), step in uses.items():
        for delta in (-step, step):
            yield _shift(listing, site, register, delta)


def _shift(listing: Listing, site: Site, register: str, delta: int) -> Edit:
    ins = site.instruction
    other = instruction(ins, "add.s32", nodes.Name(SPARE), nodes.Name(register), number(delta))
    changed = with_source(ins, register, SPARE)
    what = f"{register}{delta:+d} in {text_of(ins)}"
    return site, what, listing.replaced(site, other, changed)


def started(listing: Listing) -> Iterator[Edit]:
    """A ring starts at the next stage."""
    starts = {site: ring.step for ring in rings(listing) for site in ring.starts}
    for site, step in starts.items():
        target = site.instruction.operands[0]
        other = instruction(site.instruction, "add.s32", target, target, number(step))
        what = f"{step} more than {text_of(site.instruction)}"
        yield site, what, listing.replaced(site, site.instruction, other)


def flipped(listing: Listing) -> Iterator[Edit]:
    """A wait is for the other parity; a parity starts as the other, or never changes."""
    for parity in parities(listing):
        for site in parity.waits:
            ins = site.instruction
            operand = ins.operands[2]
            other = instruction(ins, "xor.b32", nodes.Name(SPARE), operand, number(1))
            changed = replace(ins, operands=(*ins.operands[:2], nodes.Name(SPARE)))
            what = f"the other parity: {text_of(ins)}"
            yield site, what, listing.replaced(site, other, changed)
        for site in parity.starts:
            target = site.instruction.operands[0]
            other = instruction(site.instruction, "xor.b32", target, target, number(1))
            what = f"the other of {text_of(site.instruction)}"
            yield site, what, listing.replaced(site, site.instruction, other)
        for site, old in parity.toggles:
            ins = site.instruction
            changed = replace(ins, opcode=("mov", "b32"), operands=(ins.operands[0], old))
            yield site, f"{text_of(ins)} became {text_of(changed)}", listing.replaced(site, changed)
