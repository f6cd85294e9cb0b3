"""What constraints say of candidates they rule out: misses, the nearest of them, their count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from deepgemm_codegen.decide.machine import Machine

__all__ = ["Branch", "Miss", "Rejection", "Violation", "nearest_miss", "nearest_misses"]

Miss = tuple[int, int]
"""(got, limit) of a broken constraint."""

Violation = tuple[str, int, int]
"""A constraint's name, what the candidate has, and the limit."""


def nearest_miss(missed: Iterable[Sequence[Violation]], phrases: Mapping[str, str]) -> Violation:
    """The first violation of the candidate that passes most of the constraints.

    Args:
        missed: of every candidate, the constraints it breaks in their order; none may be empty.
        phrases: the family's constraints in the order they are checked.

    Raises:
        InternalError: no candidate, or one that breaks nothing.
    """
    order = {name: place for place, name in enumerate(phrases)}
    best = None
    for violations in missed:
        if not violations:
            raise InternalError("a candidate is legal, yet the search found nothing")
        name, got, limit = violations[0]
        key = (-order[name], len(violations), abs(got - limit) / max(limit, 1), name, got, limit)
        if best is None or key < best:
            best = key
    if best is None:
        raise InternalError("an empty menu")
    return best[-3:]


@dataclass(frozen=True, slots=True)
class Rejection:
    """What one constraint ruled out.

    Attributes:
        constraint: its name.
        count: branches of the tree that it cut; an outer one is a cut of many candidates.
        choice: the nearest miss, as far as it was chosen: the branch that shares most answers
            with the winner, and of those the one that misses by least.
        got: the nearest miss's number.
        limit: what it may be at most (at least, for ``panel``).
        text: the same in words.
    """

    constraint: str
    count: int
    choice: str
    got: int
    limit: int
    text: str

    @property
    def excess(self) -> str:
        """By how much the nearest miss missed."""
        return f"{abs(self.got - self.limit)} too {'few' if self.got < self.limit else 'many'}"


Branch = tuple[int, ...]
"""The numbers chosen so far, in the order they are asked; 0 for what was not yet asked."""


def nearest_misses(
    cuts: Iterable[tuple[str, Miss, Branch]],
    winner: Branch,
    phrases: Mapping[str, str],
    words: Callable[[Branch], str],
    machine: Machine,
) -> tuple[Rejection, ...]:
    """The rejections that cuts add up to, in the order of the phrases.

    Args:
        cuts: (constraint, miss, branch) of every branch that was cut.
        winner: the winner's numbers.
        phrases: how a broken constraint reads, by name.
        words: a branch in words, as far as it was chosen.
        machine: where.
    """
    counts: dict[str, int] = {}
    nearest: dict[str, tuple[tuple[int, float], Branch, Miss]] = {}
    for name, miss, branch in cuts:
        counts[name] = counts.get(name, 0) + 1
        strange = sum(value not in (0, mine) for value, mine in zip(branch, winner, strict=True))
        key = strange, abs(miss[0] - miss[1]) / max(miss[1], 1)
        if name not in nearest or key < nearest[name][0]:
            nearest[name] = key, branch, miss
    found = []
    for name, phrase in phrases.items():
        if name in counts:
            _, branch, (got, limit) = nearest[name]
            text = phrase.format(got=got, limit=limit, machine=machine.name)
            found.append(Rejection(name, counts[name], words(branch), got, limit, text))
    return tuple(found)
