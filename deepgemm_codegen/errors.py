"""The errors of the project, each with the exit code the command line gives it.

Every message names what was given, the limit, and the remedy; nothing above these classes
needs to know which stage raised.
"""

from __future__ import annotations

__all__ = [
    "CodegenError",
    "EnvironmentLackError",
    "InputError",
    "InternalError",
    "KernelLackError",
    "ToolError",
    "nearest",
]


class CodegenError(Exception):
    """Base of all errors that a user is meant to read."""

    exit_code = 70


class InputError(CodegenError):
    """The user's input: usage, YAML, a spec no plan can serve, an empty selection."""

    exit_code = 2


class EnvironmentLackError(CodegenError):
    """The machine lacks something: a wheel, a GPU, a writable folder."""

    exit_code = 3


class KernelLackError(EnvironmentLackError):
    """The machine cannot do this with one kernel, and may do it with the next."""


class InternalError(CodegenError):
    """Our own fault, such as a compiler that rejects text we rendered."""

    exit_code = 70


class ToolError(InternalError):
    """A compiler or disassembler failed; the message carries its captured output."""


def nearest(given: str, known: list[str]) -> str:
    """The suffix of an error message about an unknown word.

    Returns ``" (did you mean 'x'?)"`` when a known word is close to ``given``, otherwise ``""``.
    """
    from difflib import get_close_matches  # noqa: PLC0415  only an error needs it

    close = get_close_matches(given.lower(), known, n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""
