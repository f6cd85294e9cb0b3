"""Variables of a module: the bytes that their initialisers give."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.lexer import whole_number

if TYPE_CHECKING:
    from deepgemm_codegen.emulator import nodes

__all__ = ["initial_bytes"]


def initial_bytes(variable: nodes.Variable, element: int) -> bytes:
    """The bytes of a variable of elements of so many bytes; zeros where nothing is said.

    Raises:
        UnsupportedError: an initialiser that holds anything but numbers, or too many of them.
    """
    values = [
        _value(variable, word, element)
        for word in variable.initial.replace("- ", "-").split()
        if word not in ("{", "}", ",")
    ]
    count = len(values) if variable.count == 0 else 1 if variable.count is None else variable.count
    if len(values) > count:
        reason = f"{len(values)} values for {count} elements"
        raise UnsupportedError(variable.line, variable.name, reason)
    return b"".join(values).ljust(count * element, b"\0")


def _value(variable: nodes.Variable, word: str, element: int) -> bytes:
    """One element."""
    negative = word.startswith("-")
    digits = word.lstrip("-")
    try:
        if digits[:2].lower() in ("0f", "0d"):
            single = digits[1] in "fF"
            number = struct.unpack(">f" if single else ">d", bytes.fromhex(digits[2:]))[0]
            return struct.pack({4: "<f", 8: "<d"}[element], -number if negative else number)
        if variable.type.startswith("f"):
            return struct.pack({4: "<f", 8: "<d"}[element], float(word))
        value = whole_number(word)
    except (KeyError, ValueError, OverflowError, struct.error):
        reason = f"an initialiser that is no number: '{word}'"
        raise UnsupportedError(variable.line, variable.name, reason) from None
    return (value & ((1 << 8 * element) - 1)).to_bytes(element, "little")
