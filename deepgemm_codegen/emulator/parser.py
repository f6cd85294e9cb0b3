"""PTX text to a tree: recursive descent over tokens.

Reads what NVRTC emits in both of its styles ("NVVM 7.0.1" and newer), and what inline assembly
adds to it. It knows no instruction: any opcode parses, and the translator decides.
"""

from __future__ import annotations

import re

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.faults import PtxSyntaxError
from deepgemm_codegen.emulator.lexer import Token, tokenize

__all__ = ["parse"]

_LINKAGE = frozenset({".visible", ".extern", ".weak", ".common"})
_SPACES = frozenset({".shared", ".global", ".const", ".local", ".param"})
_VERSIONS = ("6", "7", "8", "9")
_TARGET = re.compile(r"sm_(\d{2,3})[af]?")
# PTX ISA 9.0, ".target".
_PARTS = [
    "10",
    "11",
    "12",
    "13",
    "20",
    "21",
    "30",
    "32",
    "35",
    "37",
    "50",
    "52",
    "53",
    "60",
    "61",
    "62",
    "70",
    "72",
    "75",
    "80",
    "86",
    "87",
    "88",
    "89",
    "90",
]
_PARTS += ["100", "101", "103", "110", "120", "121"]
_DEEPEST = 64  # nested braces
# The largest constant part of an address: 32 bits (PTX ISA, "Addresses as Operands").
_OFFSET = 1 << 32
# Words that end the list of performance directives of a function.
_BODY_START = frozenset({"{", ";"})


def parse(text: str) -> nodes.Module:
    """The module that the text holds.

    Raises:
        PtxSyntaxError: ``line N: ...`` for text outside the grammar, or of a version, target or
            address size that nobody here knows.
        TypeError: it is no ``str``.
    """
    if not isinstance(text, str):
        raise TypeError(f"PTX text was expected as str, not {type(text).__name__}; decode bytes")
    return _Parser(tokenize(text)).module()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.location: nodes.Location | None = None
        self.depth = 0

    # -- primitives --

    def peek(self) -> Token:
        return self.tokens[self.position]

    def advance(self) -> Token:
        token = self.tokens[self.position]
        if token.kind == "end":
            raise PtxSyntaxError(token.line, "the text ends too early")
        self.position += 1
        return token

    def accept(self, text: str) -> bool:
        if self.tokens[self.position].text == text:
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        token = self.advance()
        if token.text != text:
            raise PtxSyntaxError(token.line, f"expected '{text}', got '{token.text}'")
        return token

    def kind(self, kind: str) -> Token:
        token = self.advance()
        if token.kind != kind:
            raise PtxSyntaxError(token.line, f"expected a {kind}, got '{token.text}'")
        return token

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        token = self.kind("number")
        try:
            return sign * int(token.text.rstrip("U"), 0)
        except ValueError:
            raise PtxSyntaxError(token.line, f"expected an integer, got '{token.text}'") from None

    # -- module level --

    def module(self) -> nodes.Module:
        version = ""
        target: tuple[str, ...] = ()
        size = 64
        last = self.tokens[-1].line
        items: list[nodes.Item] = []
        while self.peek().kind != "end":
            if self.accept(".version"):
                version = self.version()
            elif self.accept(".target"):
                target = self.target()
            elif self.accept(".address_size"):
                line = self.peek().line
                size = self.integer()
                if size != 64:
                    raise PtxSyntaxError(line, f"addresses of {size} bits; only 64 are supported")
            else:
                items.append(self.item())
        for what, found in ((".version", version), (".target", target)):
            if not found:
                raise PtxSyntaxError(last, f"the text has no {what}")
        return nodes.Module(version, target, size, tuple(items))

    def version(self) -> str:
        token = self.kind("number")
        major, dot, minor = token.text.partition(".")
        if not (dot and major.isdigit() and minor.isdigit() and major in _VERSIONS):
            known = f"{_VERSIONS[0]}.0 to {_VERSIONS[-1]}.x"
            raise PtxSyntaxError(
                token.line, f"PTX version {token.text} is not supported; {known} are"
            )
        return token.text

    def target(self) -> tuple[str, ...]:
        words = [self.advance()]
        while self.accept(","):
            words.append(self.advance())
        first = words[0]
        match = _TARGET.fullmatch(first.text)
        if not match:
            raise PtxSyntaxError(first.line, f"target '{first.text}' is no sm_NN")
        if match[1] not in _PARTS:
            raise PtxSyntaxError(
                first.line, f"target '{first.text}' is unknown; the newest known is sm_{_PARTS[-1]}"
            )
        return tuple(word.text for word in words)

    def item(self) -> nodes.Item:
        token = self.peek()
        if token.text == ".section":
            return self.section()
        if token.text == ".file":
            return self.file()
        linkage = self.linkage()
        word = self.peek().text
        if word in (".entry", ".func"):
            return self.function(linkage)
        if word in _SPACES:
            return self.variable(linkage)
        if word == ".pragma":
            return self.directive()
        raise PtxSyntaxError(token.line, f"unexpected '{word}' at module level")

    def linkage(self) -> str:
        words = []
        while self.peek().text in _LINKAGE:
            words.append(self.advance().text)
        return " ".join(words)

    def file(self) -> nodes.Directive:
        line = self.advance().line
        words = [".file", self.kind("number").text, self.kind("string").text]
        while self.accept(","):
            words[-1] += ","
            words.append(self.kind("number").text)
        return nodes.Directive(" ".join(words), line)

    def section(self) -> nodes.Section:
        line = self.advance().line
        name = self.advance().text
        self.expect("{")
        items: list[nodes.Label | nodes.Data] = []
        while not self.accept("}"):
            token = self.advance()
            if token.kind == "word":
                self.expect(":")
                items.append(nodes.Label(token.text, token.line))
                continue
            values = [self.value()]
            while self.accept(","):
                values.append(self.value())
            items.append(nodes.Data(f"{token.text} {','.join(values)}", token.line))
        return nodes.Section(name, tuple(items), line)

    def value(self) -> str:
        text = self.advance().text
        if text == "-":
            text += self.advance().text
        while self.peek().text in ("+", "-"):
            text += self.advance().text + self.advance().text
        return text

    def function(self, linkage: str) -> nodes.Function:
        token = self.advance()
        kind = token.text[1:]
        results = self.parameters() if kind == "func" and self.peek().text == "(" else ()
        name = self.kind("word").text
        parameters = self.parameters() if self.peek().text == "(" else ()
        directives: list[nodes.Directive] = []
        while self.peek().text not in _BODY_START:
            start = self.kind("directive")
            words = [start.text]
            while self.peek().text not in _BODY_START and self.peek().kind != "directive":
                words.append(self.advance().text)
            text = " ".join(words).replace(" ,", ",")
            directives.append(nodes.Directive(text, start.line))
        body = None
        self.location = None
        if not self.accept(";"):
            body = self.block()
        return nodes.Function(
            linkage, kind, name, results, parameters, tuple(directives), body, token.line
        )

    def parameters(self) -> tuple[nodes.Parameter, ...]:
        self.expect("(")
        found: list[nodes.Parameter] = []
        while not self.accept(")"):
            if found:
                self.expect(",")
            line = self.advance().line  # .param or .reg
            align, kind = 0, ""
            pointer: list[str] = []
            while self.peek().kind == "directive":
                word = self.advance().text
                if word == ".align":
                    align = self.integer()
                    if pointer:
                        pointer.append(f".align {align}")
                        align = 0
                elif not kind:
                    kind = word[1:]
                else:
                    pointer.append(word)
            name = self.kind("word").text
            count = self.count()
            found.append(nodes.Parameter(kind, name, align, count, " ".join(pointer), line))
        return tuple(found)

    def count(self) -> int | None:
        if not self.accept("["):
            return None
        if self.accept("]"):
            return 0
        count = self.integer()
        self.expect("]")
        return count

    def variable(self, linkage: str) -> nodes.Variable:
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

    def directive(self) -> nodes.Directive:
        token = self.advance()
        words = [token.text]
        while self.peek().text != ";":
            words.append(self.advance().text)
        self.expect(";")
        return nodes.Directive(" ".join(words), token.line)

    # -- inside a function --

    def block(self) -> nodes.Block:
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
            if self.peek().text in _SPACES:
                return [self.variable(linkage)]
            return [self.directive()]
        if token.kind == "word" and self.tokens[self.position + 1].text == ":":
            self.position += 2
            return [nodes.Label(token.text, token.line)]
        return [self.instruction()]

    def registers(self) -> list[nodes.Registers]:
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

    def instruction(self) -> nodes.Instruction:
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
        token = self.advance()
        if token.kind == "word":
            return nodes.Name(token.text)
        if token.text == "-":
            return nodes.Immediate("-" + self.kind("number").text)
        if token.kind == "number":
            return nodes.Immediate(token.text)
        raise PtxSyntaxError(token.line, f"expected an operand, got '{token.text}'")

    def vector(self) -> nodes.Vector:
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
