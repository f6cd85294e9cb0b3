"""What a refusal consists of, before it is known which overrides to leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Refusal", "last_with_nearest", "named"]


class Refusal(NamedTuple):
    """Why nothing serves.

    Attributes:
        text: what was given, and the limit.
        blamed: the override that it blames; empty where the spec is at fault without any.
        nearest: the legal value of that override which is nearest to the given one, with the other
            overrides that the text names kept; None where there is none.
        remedy: another way out, in words.
        tells_nearest: whether the text itself ends with the nearest legal value.
    """

    text: str
    blamed: str = ""
    nearest: int | str | None = None
    remedy: str = ""
    tells_nearest: bool = False


def named(given: Mapping[str, object], blamed: str) -> str:
    """The overrides as a refusal begins: ``stages = 4 with tile_m = 128, tile_n = 128``."""
    rest = ", ".join(f"{name} = {value}" for name, value in given.items() if name != blamed)
    return f"{blamed} = {given[blamed]}{' with ' if rest else ''}{rest}"


def last_with_nearest(
    given: Mapping[str, int], nearest_legal: Callable[[str], int | None]
) -> tuple[str, int | None]:
    """The override to blame and its nearest legal value: the last of which there is one."""
    names = list(given)
    for name in reversed(names):
        found = nearest_legal(name)
        if found is not None:
            return name, found
    return names[-1], None
