"""YAML text to nodes with exact marks.

PyYAML (libyaml where it is built in) turns text into events; this module builds the tree
itself. That keeps what its own composer loses or does without asking: duplicate keys are seen,
scalars stay the text that the user wrote, aliases are counted before they are followed, and
nesting has a limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.specfile.problems import Mark, split_lines

if TYPE_CHECKING:
    from deepgemm_codegen.specfile.problems import Sink

__all__ = ["Mapping", "Node", "Scalar", "Sequence", "compose"]

MAX_DEPTH = 16
"""Collections inside each other. The format needs seven."""

MAX_NODES = 1_000_000
"""Nodes of a file with every alias written out."""

_FORBIDDEN = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


@dataclass(frozen=True, slots=True)
class Scalar:
    """One word. `plain` tells that it stood without quotes, where YAML would guess a type."""

    mark: Mark
    text: str
    plain: bool
    size: int = 1
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    mark: Mark
    items: tuple[Node, ...]
    size: int
    depth: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping; no key twice, every key a scalar."""

    mark: Mark
    pairs: tuple[tuple[Scalar, Node], ...]
    size: int
    depth: int


Node = Scalar | Sequence | Mapping


class _StopError(Exception):
    """The text cannot be read further; the problem is in the sink."""


def compose(text: str, sink: Sink) -> Node | None:
    """The tree of a text's only document.

    Returns:
        None when the text holds no document, or cannot be read; then `sink` has the reason.
        Problems that leave the rest readable (a duplicate key, a tag) are added too.
    """
    import yaml  # noqa: PLC0415  10 ms that --help need not pay

    # Nearly all files pass the first test, which compiles no pattern.
    found = None if text.replace("\n", "").isprintable() else re.search(_FORBIDDEN, text)
    if found:
        lines = split_lines(text[: found.start()])
        line, column = len(lines) - 1, len(lines[-1])
        mark = Mark(line, column, line, column + 1)
        sink.add(mark, f"control character U+{ord(found[0]):04X}; YAML text cannot hold it")
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _Builder(sink)
    try:
        for event in yaml.parse(text, Loader=loader):
            handler = builder.handlers.get(type(event).__name__)
            if handler:
                handler(event)
    except _StopError:
        return None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        _explain(error, text, sink)
        return None
    return builder.root


class _Open:
    """A collection whose end has not come yet."""

    __slots__ = ("anchor", "children", "mapping", "mark")

    def __init__(self, mark: Mark, anchor: str | None, *, mapping: bool) -> None:
        self.mark = mark
        self.anchor = anchor
        self.mapping = mapping
        self.children: list[Node] = []


class _Builder:
    """Builds nodes from events."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.root: Node | None = None
        self.open: list[_Open] = []
        self.anchors: dict[str, Node | None] = {}
        self.documents = 0
        self.total = 0
        self.handlers = {
            "DocumentStartEvent": self.document,
            "ScalarEvent": self.scalar,
            "AliasEvent": self.alias,
            "SequenceStartEvent": self.start,
            "MappingStartEvent": self.start,
            "SequenceEndEvent": self.end,
            "MappingEndEvent": self.end,
        }

    def document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._stop(
                _mark(event), "a second document begins; a file holds one, so drop the '---'"
            )

    def scalar(self, event: Any) -> None:
        self._tag(event)
        node = Scalar(_mark(event), event.value, plain=not event.style)
        if event.anchor:
            self.anchors[event.anchor] = node
        self._place(node)

    def start(self, event: Any) -> None:
        self._tag(event)
        if len(self.open) == MAX_DEPTH:
            self._stop(_mark(event), _DEEP)
        if event.anchor:
            self.anchors[event.anchor] = None
        mapping = type(event).__name__ == "MappingStartEvent"
        self.open.append(_Open(_mark(event), event.anchor, mapping=mapping))

    def end(self, event: Any) -> None:
        done = self.open.pop()
        end = event.end_mark
        mark = Mark(done.mark.line, done.mark.column, end.line, end.column)
        size = 1 + sum(child.size for child in done.children)
        depth = 1 + max((child.depth for child in done.children), default=0)
        node: Node
        if done.mapping:
            node = Mapping(mark, self._pairs(done.children), size, depth)
        else:
            node = Sequence(mark, tuple(done.children), size, depth)
        if done.anchor:
            self.anchors[done.anchor] = node
        self._place(node)

    def alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self.anchors:
            self._stop(_mark(event), f"alias '*{name[:40]}' has no anchor '&{name[:40]}' before it")
        node = self.anchors[name]
        if node is None:
            self._stop(_mark(event), f"alias '*{name[:40]}' stands inside its own anchor")
        else:
            if len(self.open) + node.depth > MAX_DEPTH:
                self._stop(_mark(event), f"aliases nest deeper than {MAX_DEPTH} levels")
            self._place(node, _mark(event))

    def _place(self, node: Node, alias: Mark | None = None) -> None:
        self.total += node.size if alias or isinstance(node, Scalar) else 1
        if self.total > MAX_NODES:
            what = "with every alias written out, " if alias else ""
            self._stop(alias or node.mark, f"{what}the file holds more than {MAX_NODES:,} values")
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node

    def _pairs(self, children: list[Node]) -> tuple[tuple[Scalar, Node], ...]:
        pairs: dict[str, tuple[Scalar, Node]] = {}
        for key, value in zip(children[::2], children[1::2], strict=True):
            if not isinstance(key, Scalar):
                self.sink.add(key.mark, "a key must be one word; quote it if it holds '[' or '{'")
            elif key.text == "<<" and key.plain:
                self.sink.add(
                    key.mark,
                    "merge keys (<<) are not read; put what kernels share under 'defaults'",
                )
            elif key.text in pairs:
                line = pairs[key.text][0].mark.line + 1
                self.sink.add(
                    key.mark, f"duplicate key '{key.text[:40]}'; line {line} gives it already"
                )
            else:
                pairs[key.text] = (key, value)
        return tuple(pairs.values())

    def _tag(self, event: Any) -> None:
        if event.tag:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self.sink.add(_mark(event), f"tag '{tag[:40]}' is not read; leave it out")

    def _stop(self, mark: Mark, message: str) -> None:
        self.sink.add(mark, message)
        raise _StopError(message)


def _mark(event: Any) -> Mark:
    start, end = event.start_mark, event.end_mark
    return Mark(start.line, start.column, end.line, end.column)


_TAB = "a tab cannot indent YAML; use spaces"
_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_EXPLANATIONS = (
    # (pattern of PyYAML's or libyaml's words, ours, whether the context's mark is the place)
    (r"\btab\b|'\\t'", _TAB, False),
    (
        r"unexpected end of stream|unexpected document (?:separator|indicator)",
        "this quote is never closed",
        True,
    ),
    (
        r"expected ',' or '([\]}])'",
        "this bracket is not closed with '{0}', or a comma is missing",
        True,
    ),
    (
        r"mapping values are not allowed",
        (
            "a second ': ' in one value; put {{}} round several fields, quote the value, or mend"
            " the indentation of this line"
        ),
        False,
    ),
    (
        r"unknown escape character",
        "this is no escape of a double-quoted text; write '\\\\', or use single quotes",
        False,
    ),
    (r"maximum nesting depth", _DEEP, False),
    (r"cannot start any token", "a value cannot start with this character; quote it", False),
    (
        r"expected key|expected '-' indicator|expected <block end>|could not find expected ':'",
        "this line does not fit the block above; check its indentation, '- ' and ': '",
        False,
    ),
    (
        r"block sequence entries are not allowed",
        "a '- ' list begins here; start it on its own line",
        False,
    ),
    (
        r"expected '?<document start>",
        "the document ended before this; one mapping is the whole file",
        False,
    ),
)


def _explain(error: Exception, text: str, sink: Sink) -> None:
    """Adds the problem that a parser's exception tells of."""
    words = str(getattr(error, "problem", None) or error)
    place = getattr(error, "problem_mark", None)
    message = f"malformed YAML: {words}"
    for pattern, ours, at_context in _EXPLANATIONS:
        match = re.search(pattern, words)
        if match:
            message = ours.format(*match.groups())
            place = (getattr(error, "context_mark", None) if at_context else None) or place
            break
    lines = split_lines(text)
    line, column = (place.line, place.column) if place else (0, 0)
    if line >= len(lines):
        line, column = len(lines) - 1, len(lines[-1])
    char = lines[line][column : column + 1]
    if char == "\t" and "quote it" in message:
        message = _TAB
    elif char in ("]", "}") and "closed" not in message:
        message = "this bracket closes nothing"
    sink.add(Mark(line, column, line, column + 1), message)
