"""The errors that the emulator raises, as distinct from what it finds in a kernel.

A fault in the kernel under test is a :class:`~deepgemm_codegen.emulator.findings.Finding`, never
an exception. An exception means that the emulator itself cannot go on: the text is not PTX, or it
holds an instruction whose meaning nobody has written down yet.
"""

from __future__ import annotations

from deepgemm_codegen.errors import InternalError

__all__ = ["LaunchError", "PtxSyntaxError", "UnknownArithmeticError", "UnsupportedError"]


class PtxSyntaxError(InternalError):
    """The text is not PTX that this reader knows; the message starts with ``line N:``."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class UnsupportedError(InternalError):
    """An instruction, modifier or operand with no semantics registered.

    Loud on purpose: skipping an unknown instruction would let a wrong kernel pass.
    """

    def __init__(self, line: int, text: str, reason: str) -> None:
        super().__init__(f"PTX line {line}: {reason}: {text}")
        self.line = line
        self.text = text


class LaunchError(InternalError):
    """A launch that does not fit its kernel: parameters, block shape or shared memory."""


class UnknownArithmeticError(LaunchError):
    """An architecture whose tensor cores nobody has described yet: asked for, not our own fault."""

    exit_code = 2
