"""A benchmark's report for a terminal, in colour. Importing it needs rich."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deepgemm_codegen.harness.bench_data import LIBRARIES
from deepgemm_codegen.harness.bench_table import (
    cells,
    columns,
    group_lines,
    head_lines,
    note_lines,
)

if TYPE_CHECKING:
    from deepgemm_codegen.harness.bench_data import Report

__all__ = ["render"]

_LEFT = 3
GOOD, NEAR = 1.0, 0.95
"""A ratio to a library is green from here on, or yellow; below that it is red."""


def render(report: Report, width: int | None = None) -> str:
    """The report with terminal codes; empty where the terminal is too narrow for the table.

    Args:
        report: what to show.
        width: columns of the terminal; None asks it.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    heads = columns(report)
    times = {f"{name} us" for name in LIBRARIES}
    judged = {index + 1 for index, head in enumerate(heads) if head in times}
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index < _LEFT else "right", no_wrap=True)
    for row in report.rows:
        texts = [
            Text(text, style=_style(text) if index in judged else "")
            for index, text in enumerate(cells(report, row))
        ]
        table.add_row(*texts, style="red" if row.timing is None else "")
    room = Console(width=width).width
    target = StringIO()
    console = Console(file=target, force_terminal=True, width=room, highlight=False)
    if table.__rich_measure__(console, console.options.update(max_width=10_000)).maximum > room:
        return ""
    for lines in (head_lines(report), None, group_lines(report), note_lines(report)):
        if lines is None:
            console.print(table)
        elif lines:
            console.print("\n".join(lines), markup=False, soft_wrap=True)
        if lines is None or lines:
            console.print()
    return target.getvalue().rstrip("\n") + "\n"


def _style(ratio: str) -> str:
    try:
        value = float(ratio)
    except ValueError:
        return "dim"
    return "green" if value >= GOOD else "yellow" if value >= NEAR else "red"
