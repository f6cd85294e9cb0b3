"""Why survivors live: ``explanations.yaml``, which a person writes and a run is compared with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutation.score import Fate, Record

__all__ = ["Explanation", "Group", "groups", "read"]

_FILE = Path(__file__).with_name("explanations.yaml")


@dataclass(frozen=True)
class Explanation:
    """Why mutants live: those of some operators at some lines of the CUDA text.

    Attributes:
        families: of the kernels; none for all, where the line tells enough.
        operators: their names.
        lines: as the text has them, without their indentation.
        most: how many may live in one kernel at a line: one more is not explained.
        why: in a sentence or two.
        kind: ``equivalent`` (the kernel does the same), ``here`` (it does the same in these
            kernels, not in others) or ``hole`` (it is a fault that no check sees).
    """

    families: tuple[str, ...]
    operators: tuple[str, ...]
    lines: tuple[str, ...]
    most: int
    why: str
    kind: str

    def covers(self, family: str, operator: str, line: str) -> bool:
        """Whether it is about the survivors of an operator at a line."""
        there = not self.families or family in self.families
        return there and operator in self.operators and line in self.lines


@dataclass(frozen=True)
class Group:
    """The survivors of one operator at one line.

    Attributes:
        family, operator, line: what they have in common.
        fates: the survivors, each with its kernel's name.
        explanation: why; None where nobody said, or too many live.
    """

    family: str
    operator: str
    line: str
    fates: tuple[tuple[str, Fate], ...]
    explanation: Explanation | None


def read(file: Path = _FILE) -> list[Explanation]:
    """The explanations of a file."""
    entries = yaml.safe_load(file.read_text(encoding="utf-8")) or []
    return [
        Explanation(
            tuple(entry.get("families", ())),
            tuple(entry["operators"]),
            tuple(entry["lines"]),
            entry["most"],
            entry["why"],
            entry["kind"],
        )
        for entry in entries
    ]


def groups(records: Sequence[Record], explanations: Sequence[Explanation]) -> list[Group]:
    """The survivors by family, operator and line, each group with its explanation."""
    found: dict[tuple[str, str, str], list[tuple[str, Fate]]] = {}
    for record in records:
        for fate in record.survivors:
            key = (record.family, fate.operator, fate.text)
            found.setdefault(key, []).append((record.name, fate))
    result = []
    for key, fates in sorted(found.items()):
        most = max(Counter(name for name, _ in fates).values())
        known = (e for e in explanations if e.covers(*key) and most <= e.most)
        result.append(Group(*key, tuple(fates), next(known, None)))
    return result
