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
    """Why mutants of one operator at one line of the CUDA text live.

    Attributes:
        family: of the kernel.
        operator: its name.
        line: the line as the text has it, without its indentation.
        most: how many may live in one kernel: one more is not explained.
        why: in a sentence or two.
        kind: ``equivalent`` (the kernel does the same), ``here`` (it does the same in these
            kernels, not in others) or ``hole`` (it is a fault that no check sees).
    """

    family: str
    operator: str
    line: str
    most: int
    why: str
    kind: str


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
    return [Explanation(**entry) for entry in entries]


def groups(records: Sequence[Record], explanations: Sequence[Explanation]) -> list[Group]:
    """The survivors by family, operator and line, each group with its explanation."""
    known = {(e.family, e.operator, e.line): e for e in explanations}
    found: dict[tuple[str, str, str], list[tuple[str, Fate]]] = {}
    for record in records:
        for fate in record.survivors:
            key = (record.family, fate.operator, fate.text)
            found.setdefault(key, []).append((record.name, fate))
    result = []
    for key, fates in sorted(found.items()):
        explanation = known.get(key)
        most = max(Counter(name for name, _ in fates).values())
        if explanation is not None and most > explanation.most:
            explanation = None
        result.append(Group(*key, tuple(fates), explanation))
    return result
