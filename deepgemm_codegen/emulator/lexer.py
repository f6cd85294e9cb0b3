"""PTX text to tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from deepgemm_codegen.emulator.faults import PtxSyntaxError

__all__ = ["Token", "tokenize", "whole_number"]

# A dotted word is one token: opcodes (``cp.async.cg.shared.global.L2::128B``), special registers
# (``%tid.x``) and directives (``.reg``) alike.
_TOKENS = re.compile(
    r"""
      (?P<space>[ \t\r]+|//[^\n]*|/\*.*?\*/)
    | (?P<newline>\n)
    | (?P<number>0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16} | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?
        | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \d+U?)
    | (?P<word>[%$_A-Za-z][\w$]*(?:(?:\.|::)[\w$]+)*)
    | (?P<directive>\.[A-Za-z_][\w$]*(?:(?:\.|::)[\w$]+)*)
    | (?P<string>"[^"\n]*")
    | (?P<punctuation>[{}()\[\];,:|!@<>=+-])
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """One token; ``kind`` is number, word, directive, string, punctuation or end."""

    kind: str
    text: str
    line: int


def whole_number(text: str) -> int:
    """The value of an integer, signed: decimal, octal (``017``), hexadecimal or binary.

    Raises:
        ValueError: it is none.
    """
    digits = text.removesuffix("U")
    octal = digits.lstrip("-")[:1] == "0" and digits.lstrip("-").isdigit()
    return int(digits, 8) if octal else int(digits, 0)


def tokenize(text: str) -> list[Token]:
    """All tokens, the last one of kind ``end``.

    Raises:
        PtxSyntaxError: a character that starts no token.
    """
    tokens: list[Token] = []
    line = 1
    position = 0
    match = _TOKENS.match
    end = len(text)
    while position < end:
        found = match(text, position)
        if found is None:
            if text.startswith("/*", position):
                raise PtxSyntaxError(line, "a comment that nothing ends")
            raise PtxSyntaxError(line, f"unexpected character {text[position]!r}")
        kind = found.lastgroup or ""
        position = found.end()
        if kind == "newline":
            line += 1
        elif kind == "space":
            line += found.group().count("\n")
        else:
            tokens.append(Token(kind, found.group(), line))
    tokens.append(Token("end", "", line))
    return tokens
