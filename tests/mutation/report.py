"""The score of many kernels as a page of Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.mutation.operators import OPERATORS
from tests.mutation.plan_operators import PLAN_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutation.explanations import Group
    from tests.mutation.score import Record

__all__ = ["page", "share_killed"]


def share_killed(records: Sequence[Record]) -> float:
    """Killed mutants of those that count: all but those with the kernel's own machine code."""
    deaths = sum(record.deaths for record in records)
    return deaths / max(deaths + sum(len(record.survivors) for record in records), 1)


def page(records: Sequence[Record], groups: Sequence[Group], command: str) -> str:
    """The whole page."""
    families = sorted({record.family for record in records})
    lines = [
        "# Mutation score of the CPU judge",
        "",
        f"- command: {command}",
        f"- {_summary(records)}; {sum(r.seconds for r in records) / 60:.0f} minutes of processor",
        "",
        "A mutant is a kernel with one thing broken. It is killed when `verify`, on the emulator,",
        "fails it; set aside when ptxas makes the unbroken kernel's own machine code of it; and",
        "lives otherwise. Nothing else is set aside. docs/verification.md says what is mutated.",
    ]
    for family in families:
        mine = [record for record in records if record.family == family]
        lines += ["", f"## {family}: {_summary(mine)}", "", *_kernels(mine)]
        lines += ["", *_operators(mine), "", *_causes(mine)]
        lines += ["", *_survivors([g for g in groups if g.family == family])]
    return "\n".join(lines) + "\n"


def _summary(records: Sequence[Record]) -> str:
    deaths = sum(record.deaths for record in records)
    living = sum(len(record.survivors) for record in records)
    aside = sum(len(record.left) for record in records) - living
    return (
        f"{100 * share_killed(records):.1f} % killed: {deaths} of {deaths + living} mutants of "
        f"{len(records)} kernels, {aside} set aside"
    )


def _kernels(records: Sequence[Record]) -> list[str]:
    lines = ["| kernel | from | killed | live |", "| --- | --- | --- | --- |"]
    for record in records:
        killed, live = record.deaths, len(record.survivors)
        lines.append(f"| {record.spec} | {record.file} | {killed} | {live} |")
    return lines


def _operators(records: Sequence[Record]) -> list[str]:
    lines = [
        "| operator | what is broken | killed | live | set aside |",
        "| --- | --- | --- | --- | --- |",
    ]
    meanings = {o.name: o.meaning for o in OPERATORS} | {o.name: o.meaning for o in PLAN_OPERATORS}
    for name, meaning in meanings.items():
        killed = sum(sum(record.killed.get(name, {}).values()) for record in records)
        left = [fate for record in records for fate in record.left if fate.operator == name]
        live = sum(not fate.same_code for fate in left)
        if killed or left:
            counts = f"{killed} | {live} | {len(left) - live}"
            lines.append(f"| {name} | {meaning} | {counts} |")
    return lines


def _causes(records: Sequence[Record]) -> list[str]:
    causes: Counter[str] = Counter()
    for record in records:
        for counts in record.killed.values():
            causes.update(counts)
    lines = ["| killed by | mutants |", "| --- | --- |"]
    return lines + [f"| {cause} | {count} |" for cause, count in causes.most_common()]


def _survivors(groups: Sequence[Group]) -> list[str]:
    if not groups:
        return ["Nothing lives."]
    lines = [
        "| what lives | at | kernels | why |",
        "| --- | --- | --- | --- |",
    ]
    for group in groups:
        kernels = {name for name, _ in group.fates}
        why = "**unexplained**"
        if group.explanation is not None:
            why = f"{group.explanation.kind}: {group.explanation.why}"
        count = f"{len(group.fates)} in {len(kernels)}"
        line = group.line.replace("|", "\\|")
        lines.append(f"| {group.operator} | `{line}` | {count} | {why} |")
    return lines
