"""A place in a list of tokens, and the primitives by which a parser goes on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.faults import PtxSyntaxError
from deepgemm_codegen.emulator.lexer import whole_number

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.lexer import Token

__all__ = ["Cursor"]


class Cursor:
    """Tokens, the last of which is of the kind ``end``, and the number of the next.

    What takes a token that is not the one wanted raises `PtxSyntaxError` with its line.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def peek(self) -> Token:
        """The next token, which stays the next."""
        return self.tokens[self.position]

    def advance(self) -> Token:
        """The next token, which is taken; never the end."""
        token = self.tokens[self.position]
        if token.kind == "end":
            raise PtxSyntaxError(token.line, "the text ends too early")
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        """Whether the next token is this text; it is then taken."""
        if self.tokens[self.position].text == text:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """The next token, which must be this text."""
        token = self.advance()
        if token.text != text:
            raise PtxSyntaxError(token.line, f"expected '{text}', got '{token.text}'")
        return token

    def kind(self, kind: str) -> Token:
        """The next token, which must be of this kind."""
        token = self.advance()
        if token.kind != kind:
            raise PtxSyntaxError(token.line, f"expected a {kind}, got '{token.text}'")
        return token

    def integer(self) -> int:
        """A whole number, signed, decimal, octal or hexadecimal."""
        sign = -1 if self.accept("-") else 1
        token = self.kind("number")
        try:
            return sign * whole_number(token.text)
        except ValueError:
            raise PtxSyntaxError(token.line, f"expected an integer, got '{token.text}'") from None
