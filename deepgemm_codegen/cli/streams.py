"""Data to stdout, everything else to stderr, and neither ever ends in a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from dataclasses import dataclass

from deepgemm_codegen.errors import EnvironmentLackError, InputError

__all__ = [
    "Audience",
    "Console",
    "ReaderGoneError",
    "abandon_stdout",
    "deliver",
    "guard",
    "print_data",
]

_CAUSES = {
    errno.ENOSPC: "the disk is full; free some space, or write to another disk",
    errno.EDQUOT: "the disk quota is used up; free some space, or write to another disk",
    errno.EFBIG: "the file would exceed the size limit; raise it (ulimit -f)",
    errno.EBADF: "it is closed; give -o FILE or redirect it",
}


class ReaderGoneError(Exception):
    """The reader of stdout closed its end, as ``head`` does; nobody needs a message."""


def guard() -> None:
    """Fills closed standard descriptors, so that no file opened later takes their place."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def abandon_stdout() -> None:
    """Stops the interpreter from flushing once more at exit what stdout refused."""
    try:
        descriptor = sys.stdout.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass  # no stdout, or a test's


def print_data(data: str | bytes) -> None:
    """Writes all of ``data`` to stdout.

    Raises:
        ReaderGoneError: the reader closed the pipe.
        EnvironmentLackError: stdout is closed, or its disk is full.
    """
    raw = data.encode() if isinstance(data, str) else data
    stream = sys.stdout
    if stream is None:  # closed when Python started
        raise EnvironmentLackError(f"cannot write to standard output: {_CAUSES[errno.EBADF]}")
    try:
        stream.buffer.write(raw)
        stream.buffer.flush()
    except BrokenPipeError as error:
        abandon_stdout()
        raise ReaderGoneError from error
    except OSError as error:
        abandon_stdout()
        cause = _CAUSES.get(error.errno or 0, f"the system says {error.strerror or error}")
        raise EnvironmentLackError(f"cannot write to standard output: {cause}") from error


class Audience:
    """The reader of stdout, who may go away before a command is done.

    Args:
        needed: whether the command is for the reader alone, and ends without one; what it leaves
            on the disk is worth finishing all the same.
    """

    def __init__(self, *, needed: bool) -> None:
        self._needed = needed
        self._gone = False

    def print(self, text: str) -> None:
        """Writes to stdout, as `print_data`.

        Raises:
            ReaderGoneError: the reader went away, and is needed.
        """
        try:
            print_data(text)
        except ReaderGoneError:
            if self._needed:
                raise
            self._gone = True

    def settled(self, code: int) -> int:
        """The command's exit code, once it is done.

        Raises:
            ReaderGoneError: all went well, but for the reader, who went away.
        """
        if self._gone and code == 0:
            raise ReaderGoneError
        return code


def deliver(data: str | bytes, output: str) -> None:
    """Writes a result to the file ``-o`` names; ``-`` is stdout.

    Raises:
        InputError: bytes would go to a terminal, or the path is wrong.
        EnvironmentLackError: the machine refuses.
    """
    if output != "-":
        from deepgemm_codegen.files import atomic_write  # noqa: PLC0415  stdout does without

        atomic_write(output, data)
        return
    if isinstance(data, bytes) and sys.stdout is not None and sys.stdout.isatty():
        raise InputError("a cubin is not text for a terminal; give -o FILE or redirect stdout")
    print_data(data)


@dataclass(frozen=True, slots=True)
class Console:
    """What a command says to people, on stderr.

    Attributes:
        level: -1 with ``-q``, which keeps only problems; 0; 1 with ``-v``.
    """

    level: int = 0

    def problem(self, text: str) -> None:
        """Something wrong; printed whatever the level."""
        _to_stderr(text)

    def say(self, text: str) -> None:
        """A line that ``-q`` removes."""
        if self.level >= 0:
            _to_stderr(text)

    def note(self, text: str) -> None:
        """A ``note:`` that ``-q`` removes."""
        self.say(f"note: {text}")

    def detail(self, text: str) -> None:
        """A line that only ``-v`` adds."""
        if self.level > 0:
            _to_stderr(text)

    @staticmethod
    def raw(text: str) -> None:
        """Characters for a terminal, as they are."""
        _raw(text)


def _to_stderr(text: str) -> None:
    """Prints a line with control characters and stray bytes spelled out; never fails."""
    lines = text.split("\n")
    shown = "\n".join(line if line.isprintable() else _spelled(line) for line in lines)
    _raw(shown + "\n")


def _spelled(line: str) -> str:
    return "".join(
        c if c.isprintable() or c == "\t" else c.encode("unicode_escape", "surrogatepass").decode()
        for c in line
    )


def _raw(text: str) -> None:
    # What goes wrong on stderr, closed or full, can be told to nobody.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
