"""What stands within the braces of a PTX function: declarations, labels, instructions, operands.

It knows no instruction: any opcode parses, and the translator decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.cursor import Cursor
from deepgemm_codegen.emulator.faults import PtxSyntaxError

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.lexer import Token

__all__ = ["SPACES", "Body"]

_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
SPACES = frozenset({".shared", ".global", ".const", ".local", ".param"})
"""Words that begin the declaration of a variable."""

_DEEPEST = 64  # nested braces
# The largest constant part of an address: 32 bits (PTX ISA, "Addresses as Operands").
_OFFSET = 1 << 32


class Body(Cursor):
    """Recursive descent through blocks; some of it, such as variables, modules have too."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.location: nodes.Location | None = None  # the last .loc, which instructions remember
        self.depth = 0

    def block(self) -> nodes.Block:
        """Braces and all between."""
        line = self.expect("{").line
        self.depth += 1
        if self.depth > _DEEPEST:
            raise PtxSyntaxError(line, f"more than {_DEEPEST} braces in each other")
        items: list[nodes.Statement] = []
        while not self.accept("}"):
            items.extend(self.statement())
        self.depth -= 1
        return nodes.Block(tuple(items), line)

    def statement(self) -> list[nodes.Statement]:  # noqa: PLR0911  one return a kind
        """One statement; a .reg line declares several at once."""
        token = self.peek()
        if token.kind == "end":
            raise PtxSyntaxError(token.line, "the text ends inside a function")
        if token.text == "{":
            return [self.block()]
        if token.text == ".reg":
            return list(self.registers())
        if token.text == ".loc":
            self.location = self.loc()
            return [self.location]
        if token.kind == "directive":
            linkage = self.linkage()
            if self.peek().text in SPACES:
                return [self.variable(linkage)]
            return [self.directive()]
        if token.kind == "word" and self.tokens[self.position + 1].text == ":":
            self.position += 2
            return [nodes.Label(token.text, token.line)]
        return [self.instruction()]

    # -- declarations --

    def linkage(self) -> str:
        """The words before a declaration that say who sees it."""
        words = []
        while self.peek().text in _LINKAGE:
            words.append(self.advance().text)
        return " ".join(words)

    def variable(self, linkage: str) -> nodes.Variable:
        """A variable, with its initialiser as text."""
        token = self.advance()
        align, kind = 0, ""
        while self.peek().kind == "directive":
            word = self.advance().text
            if word == ".align":
                align = self.integer()
            else:
                kind = word[1:]
        name = self.kind("word").text
        count = self.count()
        initial = ""
        if self.accept("="):
            words = []
            while self.peek().text != ";":
                words.append(self.advance().text)
            initial = " ".join(words)
        self.expect(";")
        return nodes.Variable(
            linkage, token.text[1:], align, kind, name, count, initial, token.line
        )

    def count(self) -> int | None:
        """The elements in brackets behind a name: 0 for `[]`, None where it is no array."""
        if not self.accept("["):
            return None
        if self.accept("]"):
            return 0
        count = self.integer()
        line = self.expect("]").line
        if self.peek().text == "[":
            raise PtxSyntaxError(line, "an array of several dimensions; write it as one of all")
        return count

    def directive(self) -> nodes.Directive:
        """All words up to the semicolon."""
        token = self.advance()
        words = [token.text]
        while self.peek().text != ";":
            words.append(self.advance().text)
        self.expect(";")
        return nodes.Directive(" ".join(words), token.line)

    def registers(self) -> list[nodes.Registers]:
        """A .reg line, a declaration a name."""
        line = self.advance().line
        kind = self.kind("directive").text[1:]
        found = []
        while True:
            name = self.kind("word").text
            count = None
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
            found.append(nodes.Registers(kind, name, count, line))
            if not self.accept(","):
                break
        self.expect(";")
        return found

    def loc(self) -> nodes.Location:
        """A .loc line: the place in the source of what follows."""
        line = self.advance().line
        place = (self.integer(), self.integer(), self.integer())
        function, inlined = "", None
        while self.accept(","):
            word = self.advance().text
            if word == "function_name":
                function = self.value()
            elif word == "inlined_at":
                inlined = (self.integer(), self.integer(), self.integer())
            else:
                raise PtxSyntaxError(line, f"unknown .loc attribute '{word}'")
        return nodes.Location(*place, function, inlined, line)

    def value(self) -> str:
        """A constant expression as text, such as `label+4`."""
        text = self.advance().text
        if text == "-":
            text += self.advance().text
        while self.peek().text in ("+", "-"):
            text += self.advance().text + self.advance().text
        return text

    # -- instructions --

    def instruction(self) -> nodes.Instruction:
        """Guard, opcode, operands."""
        line = self.peek().line
        guard = None
        if self.accept("@"):
            negated = self.accept("!")
            guard = nodes.Guard(self.kind("word").text, negated)
        opcode = self.kind("word")
        operands: list[nodes.Operand] = []
        while not self.accept(";"):
            if operands:
                self.expect(",")
            operands.append(self.operand())
        return nodes.Instruction(
            guard, tuple(opcode.text.split(".")), tuple(operands), line, self.location
        )

    def operand(self) -> nodes.Operand:
        """One operand of any kind."""
        token = self.peek()
        if token.text == "!":
            self.advance()
            return nodes.Negated(nodes.Name(self.kind("word").text))
        if token.text in ("{", "("):
            return self.vector()
        if token.text == "[":
            return self.address()
        first = self.scalar()
        if self.accept("|"):
            return nodes.Pair(first, self.scalar())
        return first

    def scalar(self) -> nodes.Name | nodes.Immediate:
        """A name or a number."""
        token = self.advance()
        if token.kind == "word":
            return nodes.Name(token.text)
        if token.text == "-":
            return nodes.Immediate("-" + self.kind("number").text)
        if token.kind == "number":
            return nodes.Immediate(token.text)
        raise PtxSyntaxError(token.line, f"expected an operand, got '{token.text}'")

    def vector(self) -> nodes.Vector:
        """Operands in braces, or in the round brackets of a call."""
        curly = self.advance().text == "{"
        close = "}" if curly else ")"
        items: list[nodes.Operand] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            token = self.peek()
            if token.text in ("{", "("):
                raise PtxSyntaxError(token.line, "a vector within a vector")
            items.append(self.operand())
        return nodes.Vector(tuple(items), round=not curly)

    def address(self) -> nodes.Address:
        """What stands in square brackets: a base, an offset, coordinates."""
        self.expect("[")
        base = self.scalar()
        offset = 0
        extra: list[nodes.Operand] = []
        while not self.accept("]"):
            token = self.peek()
            if self.accept("+") or token.text == "-":
                offset += self.integer()
                if abs(offset) > _OFFSET:
                    raise PtxSyntaxError(token.line, f"an offset of {offset} bytes")
                continue
            self.expect(",")
            if self.peek().text == "[":
                raise PtxSyntaxError(token.line, "an address within an address")
            extra.append(self.operand())
        return nodes.Address(base, offset, tuple(extra))
