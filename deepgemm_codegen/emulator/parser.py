"""PTX text to a tree: recursive descent over tokens.

Reads what NVRTC emits in both of its styles ("NVVM 7.0.1" and newer), and what inline assembly
adds to it. Here is what stands at a module's level; :mod:`body` reads functions' braces.
"""

from __future__ import annotations

import re

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.body import SPACES, Body
from deepgemm_codegen.emulator.faults import PtxSyntaxError
from deepgemm_codegen.emulator.lexer import tokenize

__all__ = ["parse"]

_VERSIONS = ("6", "7", "8", "9")
_TARGET = re.compile(r"sm_(\d{2,3})[af]?")
# PTX ISA 9.0, ".target".
_PARTS = [10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75]
_PARTS += [80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121]
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
    return _Module(tokenize(text)).module()


class _Module(Body):
    """Recursive descent through a module."""

    def module(self) -> nodes.Module:
        version = ""
        target: tuple[str, ...] = ()
        size = 64
        last = self.tokens[-1].line
        items: list[nodes.Item] = []
        bodies: set[str] = set()
        while self.peek().kind != "end":
            line = self.peek().line
            if self.accept(".version"):
                self.once(".version", version, line)
                version = self.version()
            elif self.accept(".target"):
                self.once(".target", target, line)
                target = self.target()
            elif self.accept(".address_size"):
                line = self.peek().line
                size = self.integer()
                if size != 64:
                    raise PtxSyntaxError(line, f"addresses of {size} bits; only 64 are supported")
            else:
                item = self.item()
                if isinstance(item, nodes.Function) and item.body is not None:
                    self.once(f"'{item.name}'", item.name in bodies, line)
                    bodies.add(item.name)
                items.append(item)
        for what, found in ((".version", version), (".target", target)):
            if not found:
                raise PtxSyntaxError(last, f"the text has no {what}")
        return nodes.Module(version, target, size, tuple(items))

    @staticmethod
    def once(what: str, before: object, line: int) -> None:
        if before:
            raise PtxSyntaxError(line, f"{what} stands twice")

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
        if int(match[1]) not in _PARTS:
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
        if word in SPACES:
            return self.variable(linkage)
        if word == ".pragma":
            return self.directive()
        raise PtxSyntaxError(token.line, f"unexpected '{word}' at module level")

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
