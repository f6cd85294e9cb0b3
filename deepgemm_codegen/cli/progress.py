"""How far a long command has come, on stderr: a bar on a terminal, now and then a line elsewhere.

Colour follows NO_COLOR and FORCE_COLOR. TERM=dumb and CI get lines, since they cannot overwrite.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.cli.streams import Console

__all__ = ["LaunchProgress", "Progress"]

_DRAW_SECONDS = 0.1
_LINE_SECONDS = 10.0  # a log that says more often is a log that nobody reads
_WIDTH = 30


class Progress:
    """Counts finished items.

    Args:
        total: how many there are.
        console: says nothing with ``-q``.
        what: what is counted, in the plural.
    """

    def __init__(self, total: int, console: Console, what: str = "kernels") -> None:
        self._total = total
        self._what = what
        self._console = console
        self._count = 0
        self._drawn = False
        dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))
        self._bar = sys.stderr is not None and sys.stderr.isatty() and not dumb
        self._shown = console.level >= 0
        self._next = 0.0
        if self._shown:
            from time import monotonic  # noqa: PLC0415  -q needs no clock

            self._clock = monotonic
            self._next = monotonic() + (0.0 if self._bar else _LINE_SECONDS)

    def step(self) -> None:
        """Counts one more, and shows it when it is time."""
        self._count += 1
        if not self._shown or self._clock() < self._next:
            return
        if self._bar:
            self._next = self._clock() + _DRAW_SECONDS
            self._drawn = True
            self._console.raw(f"\r\x1b[K{self._text()}")
        else:
            self._next = self._clock() + _LINE_SECONDS
            self._console.say(f"{self._count:,} of {self._total:,} {self._what}")

    def done(self) -> None:
        """Clears the bar, so that a message can stand there."""
        if self._drawn:
            self._drawn = False
            self._console.raw("\r\x1b[K")

    def _text(self) -> str:
        count = f"{self._count:,} of {self._total:,} {self._what}"
        return f"{_bar(min(self._count, self._total), self._total)} {count}"


class LaunchProgress:
    """Shows how many launches of a kernel are done; their number comes with the first.

    Args:
        console: says nothing with ``-q``.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        """Counts a launch; the last needs no bar any more."""
        if self._progress is None:
            self._progress = Progress(total, self._console, "launches")
        if done < total:
            self._progress.step()

    def done(self) -> None:
        """See `Progress.done`."""
        if self._progress is not None:
            self._progress.done()


def _bar(count: int, total: int) -> str:
    """A bar by rich; plain characters where it is not installed, or cannot be shown."""
    try:
        "\u2501".encode(sys.stderr.encoding)
        from rich.console import Console  # noqa: PLC0415  0.1 s, on a terminal only
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
    except (ImportError, UnicodeEncodeError):
        full = _WIDTH * count // max(total, 1)
        return f"[{'#' * full}{'.' * (_WIDTH - full)}]"
    from io import StringIO  # noqa: PLC0415

    target = StringIO()
    console = Console(file=target, force_terminal=True, width=_WIDTH + 1)
    console.print(ProgressBar(total=max(total, 1), completed=count, width=_WIDTH), end="")
    return target.getvalue().rstrip("\n")
