"""Problems of a kernel file: where, what, the line it is on, and all of them at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Mark",
    "Problem",
    "Sink",
    "SpecFileError",
    "printable",
    "split_lines",
    "workflow_command",
]

SHOWN_WITH_SOURCE = 10
"""Problems printed with their source line; those after it take one line each."""

SHOWN = 100
"""Problems printed at all; the rest are counted."""

SOURCE_WIDTH = 96
"""Characters of a source line that are printed; a longer line is cut round the problem."""


def split_lines(text: str) -> list[str]:
    """The lines as YAML counts them."""
    return re.split("\r\n|[\n\r\x85\u2028\u2029]", text)


def printable(text: str) -> str:
    """`text` with what a terminal would act on (escapes, line breaks) spelled out."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of text, zero-based; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file.

    Attributes:
        file: the path as the caller gave it.
        line, column: one-based; both 0 when the file could not be read at all.
        message: what is wrong, and the remedy.
        source: the line the problem is on.
        width: characters that are marked.
    """

    file: str
    line: int
    column: int
    message: str
    source: str = ""
    width: int = 1

    @property
    def summary(self) -> str:
        """``file:line:column: message``."""
        where = f":{self.line}:{self.column}" if self.line else ""
        return f"{printable(self.file)}{where}: {self.message}"

    def __str__(self) -> str:
        """The summary, and below it the source line with a ``~~~^`` marker."""
        if not self.line:
            return self.summary
        start = self.column - 1
        text, before = self.source, start
        if len(text) > SOURCE_WIDTH:
            cut = max(0, min(start - SOURCE_WIDTH // 3, len(text) - SOURCE_WIDTH))
            text = text[cut : cut + SOURCE_WIDTH]
            before = start - cut
        text = "".join(c if c.isprintable() else " " for c in text)
        pad = _cells(text[:before]) + max(0, before - len(text))
        width = max(1, _cells(text[before : before + self.width]))
        gutter = f"{self.line:>5} | "
        marker = " " * pad + "~" * (width - 1) + "^"
        return f"{self.summary}\n{gutter}{text}\n{' ' * (len(gutter) - 2)}| {marker}"

    def annotation(self) -> str:
        """The problem as a GitHub workflow command."""
        return workflow_command("error", self.file, self.line, self.column, self.message)


def workflow_command(level: str, file: str, line: int, column: int, message: str) -> str:
    """A line that GitHub shows beside a file's line.

    Args:
        level: ``error`` or ``warning``.
        file: the path; empty for none.
        line: one-based; 0 for the whole file.
        column: likewise.
        message: what is shown; it may have several lines.
    """

    def escaped(text: str, more: str = "") -> str:
        for char in "%\r\n" + more:
            text = text.replace(char, f"%{ord(char):02X}")
        return text

    place = f" file={escaped(file, ':,')}" if file else ""
    if file and line:
        place += f",line={line},col={column}"
    return f"::{level}{place}::{escaped(message)}"


def _cells(text: str) -> int:
    """Terminal columns that `text` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # noqa: PLC0415  only wide text needs it

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


class SpecFileError(InputError):
    """One or more kernel files are wrong; `problems` has every fault in order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self._text())

    def _text(self) -> str:
        full = [str(problem) for problem in self.problems[:SHOWN_WITH_SOURCE]]
        brief = [problem.summary for problem in self.problems[SHOWN_WITH_SOURCE:SHOWN]]
        lines = full + brief
        count = len(self.problems)
        if count > SHOWN:
            lines.append(f"... and {count - SHOWN} more")
        if count > 1:
            files = len({problem.file for problem in self.problems})
            lines.append(f"{count} problems in {files} file{'s' if files > 1 else ''}")
        return "\n".join(lines)


class Sink:
    """Collects the problems of one file.

    Attributes:
        file: the path as the caller gave it.
        text: the file's text, once it is read.
    """

    __slots__ = ("_found", "_lines", "file", "text")

    def __init__(self, file: str, text: str = "") -> None:
        self.file = file
        self.text = text
        self._lines: list[str] = []
        self._found: dict[tuple[int, int, str], Problem] = {}

    def add(self, mark: Mark | None, message: str) -> None:
        """Adds a problem; one that stands there already (through a sweep) is not repeated."""
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        message = printable(message)
        if (line, column, message) in self._found:
            return
        if not self._lines:
            self._lines = split_lines(self.text)
        source = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        width = 1
        if mark:
            end = mark.end_column if mark.end_line == mark.line else len(source.rstrip())
            width = max(1, end - mark.column)
        problem = Problem(self.file, line, column, message, source, width)
        self._found[line, column, message] = problem

    def __bool__(self) -> bool:
        return bool(self._found)

    def sorted(self) -> list[Problem]:
        """The problems in the order of the file."""
        return sorted(self._found.values(), key=lambda problem: (problem.line, problem.column))
