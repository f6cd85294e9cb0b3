"""Columns of plain text, the same on a terminal and in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["aligned"]


def aligned(rows: Sequence[Sequence[str]], *, numbers: int | None = None) -> str:
    """Rows of cells as lines, two spaces between columns and none at their ends.

    Args:
        rows: the first is the head; all have one length.
        numbers: the first column that is set to the right; None sets all to the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if numbers is None or index < numbers else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)
