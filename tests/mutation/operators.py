"""The operators: each breaks one thing of a kernel's PTX, at every place where it can.

They know PTX and nothing of matrix products. An operator is a function from a listing to edits,
with a row in `OPERATORS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.mutation.flow import (
    flipped,
    selected,
    shifted,
    started,
    unfilled,
    unguarded,
    wrapped,
)
from tests.mutation.instructions import (
    is_arrival,
    is_barrier,
    is_commit,
    is_copy,
    is_fence,
    is_started,
    is_wait,
)
from tests.mutation.synchronisation import (
    disobeyed,
    doubled,
    dropped,
    loosened,
    miscounted,
    misdirected,
    moved,
    registers,
    weakened,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deepgemm_codegen.emulator import nodes
    from tests.mutation.edits import Edit, Listing

__all__ = ["OPERATORS", "Mutant", "Operator", "mutants_of"]


@dataclass(frozen=True)
class Operator:
    """One way to break a kernel.

    Attributes:
        name: as reports have it.
        meaning: one line.
        apply: every mutant of a listing.
    """

    name: str
    meaning: str
    apply: Callable[[Listing], Iterator[Edit]]


@dataclass(frozen=True)
class Mutant:
    """A kernel with one thing broken.

    Attributes:
        operator: the operator's name.
        what: what was done, in words.
        line: the line in the kernel's PTX.
        row: the line in its CUDA text, 0 where that is not known.
        module: the PTX.
    """

    operator: str
    what: str
    line: int
    row: int
    module: nodes.Module


def mutants_of(listing: Listing) -> Iterator[Mutant]:
    """Every mutant of a kernel, operator by operator."""
    for operator in OPERATORS:
        for site, what, module in operator.apply(listing):
            yield Mutant(operator.name, what, site.instruction.line, site.row, module)


MOVED = "it stands before the last instruction that it orders, or behind the first"

OPERATORS: tuple[Operator, ...] = (
    Operator("barrier dropped", "a barrier of any kind is gone", dropped(is_barrier)),
    Operator("barrier moved", MOVED, moved(is_barrier)),
    Operator("wait dropped", "a wait for copies, products or a phase is gone", dropped(is_wait)),
    Operator("wait disobeyed", "a wait for a phase is tried once", disobeyed),
    Operator("wait moved", MOVED, moved(is_wait, before=is_started)),
    Operator("wait loosened", "one more group may be in flight", loosened),
    Operator("fence dropped", "a fence is gone", dropped(is_fence)),
    Operator("fence moved", MOVED, moved(is_fence)),
    Operator("order weakened", "a fence, arrival or wait orders less", weakened),
    Operator("commit dropped", "a group is not closed", dropped(is_commit)),
    Operator(
        "commit moved",
        "it stands before its last copy or product, or behind a wait",
        moved(is_commit, before=is_copy, behind=is_wait),
    ),
    Operator("arrival dropped", "an mbarrier waits for an arrival in vain", dropped(is_arrival)),
    Operator("arrival doubled", "an mbarrier gets one arrival more", doubled(is_arrival)),
    Operator("count off", "an mbarrier's arrivals or bytes are one unit off", miscounted),
    Operator("parity flipped", "a parity is the other, or never changes", flipped),
    Operator("stage wrapped wrong", "a ring goes round one stage early or late", wrapped),
    Operator("stage off by one", "one use of a stage's index is one off", shifted),
    Operator("stage started wrong", "a ring starts one stage late", started),
    Operator("predicate dropped", "a guarded instruction always runs, or never", unguarded),
    Operator("choice fixed", "a choice between whole numbers always falls to one side", selected),
    Operator("filling dropped", "a copy reads what it should fill with zeros", unfilled),
    Operator("registers off", "setmaxnreg is gone, or moves 8 registers more", registers),
    Operator("block mistaken", "a message misses its block of the cluster", misdirected),
)  # fmt: skip
