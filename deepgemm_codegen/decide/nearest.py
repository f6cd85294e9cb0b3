"""Which of many refused candidates came closest to being legal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["nearest_miss"]

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
