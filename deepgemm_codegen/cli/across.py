"""``explain --arch all``: one spec over every architecture, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.arch import known_targets, load_arch
from deepgemm_codegen.cli.tables import aligned
from deepgemm_codegen.decide.explain import Explanation, explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Across", "across"]

_WIDTH = 110
"""Columns of text that a table may take."""


@dataclass(frozen=True, slots=True)
class Across:
    """One spec on every target.

    Attributes:
        spec: its line, without an architecture.
        found: by target: the explanation, or why there is no kernel.
    """

    spec: str
    found: Mapping[str, Explanation | str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "spec": self.spec,
            "targets": [
                {"arch": target, "refused": each}
                if isinstance(each, str)
                else {"arch": target, **each.to_dict()}
                for target, each in self.found.items()
            ],
        }

    def __str__(self) -> str:
        """A row a target, as far as the width goes; then who answers the other questions how."""
        good = {t: each for t, each in self.found.items() if isinstance(each, Explanation)}
        refused = {t: each for t, each in self.found.items() if isinstance(each, str)}
        lines = [f"{self.spec}\n"]
        if good:
            lines += _table(good)
        if refused:
            lines.append("\nno kernel on:\n")
            lines += [f"  {target}: {reason}\n" for target, reason in refused.items()]
        return "".join(lines)


def _table(good: Mapping[str, Explanation]) -> list[str]:
    """The table's text, and that of the questions that have no room in it."""
    choices = {
        target: {d.question: d.choice for d in each.decisions} for target, each in good.items()
    }
    questions = dict.fromkeys(q for answers in choices.values() for q in answers)
    columns = [
        ["arch", *good],
        ["GPU", *(each.target.split(", ")[1] for each in good.values())],
        ["predicted", *(f"{each.prediction.us:.1f} us" for each in good.values())],
        ["bound by", *(each.prediction.bound for each in good.values())],
    ]
    rest: list[list[str]] = []
    for question in questions:
        column = [question, *(own.get(question, "-") for own in choices.values())]
        width = sum(max(map(len, each)) + 2 for each in [*columns, column])
        (columns if width <= _WIDTH else rest).append(column)
    lines = ["\n", aligned(list(zip(*columns, strict=True))), "\n" if rest else ""]
    for question, *answers in rest:
        groups: dict[str, list[str]] = {}
        for target, answer in zip(good, answers, strict=True):
            groups.setdefault(answer, []).append(target)
        for answer, targets in groups.items():
            where = "all" if len(targets) == len(good) else ", ".join(targets)
            lines.append(f"{question}: {answer} ({where})\n")
    return lines


def across(spec: GemmSpec) -> Across:
    """Decides a spec for every known target, whatever its own is."""
    fields = spec.to_fields()
    for name in ("arch", "gpu", "sms"):
        fields.pop(name, None)
    found: dict[str, Explanation | str] = {}
    for target in known_targets():
        own = GemmSpec.from_fields({**fields, "arch": target})
        try:
            found[target] = explain(own, load_arch(target))
        except InputError as error:
            found[target] = str(error)
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    return Across(text, found)
