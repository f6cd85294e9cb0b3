"""Progress: a bar on a terminal, now and then a line elsewhere, nothing with ``-q``."""

from __future__ import annotations

import io
import sys
import time
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.cli.progress import Progress
from deepgemm_codegen.cli.streams import Console

if TYPE_CHECKING:
    from collections.abc import Callable


class Terminal(io.TextIOWrapper):
    """A stderr that says it is a terminal, or not."""

    def __init__(self, *, terminal: bool = True, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="backslashreplace")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What a run of 40 steps, a second each, writes to stderr."""
    for name in ("CI", "TERM", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(stderr: Terminal, level: int = 0) -> str:
        now = [100.0]
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(sys, "stderr", stderr)
        progress = Progress(40, Console(level))
        for _ in range(40):
            now[0] += 1.0
            progress.step()
        progress.done()
        return stderr.text()

    return run


LINES = [f"{count} of 40 kernels" for count in (10, 20, 30, 40)]


def test_a_bar_that_is_cleared_at_the_end(shown: Callable[..., str]) -> None:
    frames = shown(Terminal()).split("\r\x1b[K")
    assert frames[0] == frames[-1] == ""
    assert len(frames) == 42
    assert frames[1].endswith(" 1 of 40 kernels")
    assert "\u2501" in frames[20]
    assert "\x1b[" in frames[20]


def test_no_colour(shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(Terminal()).replace("\r\x1b[K", "")
    assert "\x1b" not in text
    assert "\u2501" in text


@pytest.mark.parametrize("missing", ["rich", "encoding"])
def test_a_plain_bar(
    missing: str, shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing == "rich":
        monkeypatch.setitem(sys.modules, "rich.console", None)
    text = shown(Terminal(encoding="utf-8" if missing == "rich" else "ascii"))
    assert f"[{'#' * 15}{'.' * 15}] 20 of 40 kernels" in text


@pytest.mark.parametrize("setting", ["pipe", "CI=true", "TERM=dumb"])
def test_lines_where_nothing_can_be_overwritten(
    setting: str, shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = setting.partition("=")
    if value:
        monkeypatch.setenv(name, value)
    assert shown(Terminal(terminal=bool(value))).splitlines() == LINES


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_silent(terminal: bool, shown: Callable[..., str]) -> None:
    assert shown(Terminal(terminal=terminal), level=-1) == ""
