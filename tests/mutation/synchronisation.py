"""Operators on what orders: barriers, waits, fences, groups, mbarriers' counts, registers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from tests.mutation.edits import SPARE, Edit, Listing, Unit, text_of, threads_of, touches_shared
from tests.mutation.instructions import (
    instruction,
    is_arrival,
    is_group_wait,
    is_phase_wait,
    number,
    plus,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "disobeyed",
    "doubled",
    "dropped",
    "loosened",
    "miscounted",
    "misdirected",
    "moved",
    "registers",
    "weakened",
]


def units(listing: Listing, kind: Callable[[nodes.Instruction], bool]) -> Iterator[Unit]:
    return (listing.unit(site) for site in listing.sites if kind(site.instruction))


# -- dropped and moved --


def dropped(kind: Callable[[nodes.Instruction], bool]) -> Callable[[Listing], Iterator[Edit]]:
    def apply(listing: Listing) -> Iterator[Edit]:
        for unit in units(listing, kind):
            text = text_of(unit.site.instruction)
            yield unit.site, f"dropped: {text}", listing.spliced(unit.start, unit.end)

    return apply


def moved(
    kind: Callable[[nodes.Instruction], bool],
    before: Callable[[nodes.Instruction], bool] = touches_shared,
    behind: Callable[[nodes.Instruction], bool] = touches_shared,
) -> Callable[[Listing], Iterator[Edit]]:
    """Moves past one instruction, of those that lose something by it.

    Args:
        kind: what is moved.
        before: what it must pass on its way up, such that less is ordered than was.
        behind: the same on its way down.
    """

    def apply(listing: Listing) -> Iterator[Edit]:
        for unit in units(listing, kind):
            text = text_of(unit.site.instruction)
            up, down = listing.past_previous(unit, before), listing.past_next(unit, behind)
            if up is not None:
                what = f"moved before {text_of(listing.at(up)[0])}: {text}"
                yield unit.site, what, listing.moved(unit, up)
            if down is not None:
                what = f"moved behind {text_of(listing.at(down - 1)[0])}: {text}"
                yield unit.site, what, listing.moved(unit, down)

    return apply


def doubled(kind: Callable[[nodes.Instruction], bool]) -> Callable[[Listing], Iterator[Edit]]:
    def apply(listing: Listing) -> Iterator[Edit]:
        for site in listing.sites:
            if kind(site.instruction):
                module = listing.replaced(site, site.instruction, site.instruction)
                yield site, f"twice: {text_of(site.instruction)}", module

    return apply


# -- weakened --


def loosened(listing: Listing) -> Iterator[Edit]:
    for site in listing.sites:
        ins = site.instruction
        if not is_group_wait(ins):
            continue
        if "wait_all" in ins.opcode:
            words = (*ins.opcode[:2], "wait_group")
            changed = replace(ins, opcode=words, operands=(nodes.Immediate("0"),))
        else:
            changed = replace(ins, operands=(plus(ins.operands[0], 1), *ins.operands[1:]))
        what = f"{text_of(ins)} became {text_of(changed)}"
        yield site, what, listing.replaced(site, changed)


def disobeyed(listing: Listing) -> Iterator[Edit]:
    """The wait is tried once, and its answer ignored."""
    for unit in units(listing, is_phase_wait):
        if unit.end - unit.start > 1:
            what = f"tried once: {text_of(unit.site.instruction)}"
            yield unit.site, what, listing.spliced(unit.end - 1, unit.end)


_WEAKER: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("fence", "proxy", "async"), ("fence", "proxy", "async", "global")),
    (("membar", "sys"), ("membar", "gl")),
    (("membar", "gl"), ("membar", "cta")),
    (("fence", "acq_rel", "sys"), ("fence", "acq_rel", "gpu")),
    (("fence", "acq_rel", "gpu"), ("fence", "acq_rel", "cta")),
    (("fence", "acq_rel", "cluster"), ("fence", "acq_rel", "cta")),
    (("fence", "sc", "gpu"), ("fence", "sc", "cta")),
    (("barrier", "cluster", "arrive", "release"), ("barrier", "cluster", "arrive", "relaxed")),
)
"""Opcodes that begin with the first words order less with the second."""


def weakened(listing: Listing) -> Iterator[Edit]:
    for site in listing.sites:
        ins = site.instruction
        for weaker in _weaker(ins):
            what = f"{text_of(ins)} became {text_of(weaker)}"
            yield site, what, listing.replaced(site, weaker)


def _weaker(ins: nodes.Instruction) -> Iterator[nodes.Instruction]:
    words = ins.opcode
    for strong, weak in _WEAKER:
        if words[: len(strong)] == strong:
            rest = words[len(strong) :]
            kept = () if strong[1] == "proxy" else rest
            yield replace(ins, opcode=(*weak, *kept))
    if words[:3] == ("barrier", "cluster", "arrive") and "release" not in words:
        relaxed = (*words[:3], "relaxed", *words[3:])
        yield replace(ins, opcode=relaxed)
    if is_arrival(ins) and "relaxed" not in words:
        scope = "cluster" if "shared::cluster" in words else "cta"
        at = 3 if "expect_tx" in words else 2
        rest = tuple(word for word in words[at:] if word not in ("release", "cta", "cluster"))
        yield replace(ins, opcode=(*words[:at], "relaxed", scope, *rest))
    if is_phase_wait(ins) and "relaxed" not in words:
        at = 3 if "parity" in words else 2
        rest = tuple(word for word in words[at:] if word not in ("acquire", "cta", "cluster"))
        yield replace(ins, opcode=(*words[:at], "relaxed", "cta", *rest))
    for strong_word in ("acq_rel", "release", "acquire"):
        if words[0] in ("atom", "red", "ld", "st") and strong_word in words:
            yield replace(ins, opcode=tuple("relaxed" if w == strong_word else w for w in words))


# -- counts --


def miscounted(listing: Listing) -> Iterator[Edit]:
    """An mbarrier expects an arrival more or less; a thread announces a chunk more or less."""
    for site in listing.sites:
        ins = site.instruction
        if ins.opcode[:2] == ("mbarrier", "init"):
            which, steps = 1, (-1, 1)
        elif ins.opcode[0] == "mbarrier" and "expect_tx" in ins.opcode:
            which, steps = len(ins.operands) - 1, (-16, 16)
        else:
            continue
        for delta in steps:
            count = ins.operands[which]
            other = instruction(ins, "add.s32", nodes.Name(SPARE), count, number(delta))
            operands = [*ins.operands]
            operands[which] = nodes.Name(SPARE)
            changed = replace(ins, operands=tuple(operands))
            yield site, f"{delta:+d} in {text_of(ins)}", listing.replaced(site, other, changed)


def registers(listing: Listing) -> Iterator[Edit]:
    """A warpgroup takes more registers than there are, gives fewer back, or none.

    Two warpgroups cannot run short: 256 threads may have 256 registers each.
    """
    if threads_of(listing.function) <= 256:
        return
    for site in listing.sites:
        ins = site.instruction
        if ins.opcode[0] != "setmaxnreg":
            continue
        if "dec" in ins.opcode:
            yield site, f"dropped: {text_of(ins)}", listing.replaced(site)
        changed = replace(ins, operands=(plus(ins.operands[0], 8),))
        yield site, f"{text_of(ins)} became {text_of(changed)}", listing.replaced(site, changed)


def misdirected(listing: Listing) -> Iterator[Edit]:
    """A message goes to another block of the cluster; a multicast leaves one out."""
    for site in listing.sites:
        ins = site.instruction
        if ins.opcode[0] == "mapa":
            rank = ins.operands[2]
            other = instruction(ins, "xor.b32", nodes.Name(SPARE), rank, number(1))
            changed = replace(ins, operands=(*ins.operands[:2], nodes.Name(SPARE)))
            yield site, f"the other block: {text_of(ins)}", listing.replaced(site, other, changed)
        elif "multicast::cluster" in ins.opcode:
            words = tuple(w for w in ins.opcode if w != "multicast::cluster")
            operands = (*ins.operands[:3], *ins.operands[4:])
            changed = replace(ins, opcode=words, operands=operands)
            yield site, f"to its own block: {text_of(ins)}", listing.replaced(site, changed)
