"""YAML scalars to the text that a spec's fields take.

YAML 1.1 guesses types: ``010`` is 8, ``12:30`` is 750, ``NO`` is false, ``1e3`` is text. Here a
value is the text that the user sees; where YAML would have read something else, the message
says so and what to write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import FP16, parse_dtype
from deepgemm_codegen.epilogue import STEPS, parse_epilogue, read_option, step_kind
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import what_to_write
from deepgemm_codegen.spec.batching import STRIDE_WORDS
from deepgemm_codegen.spec.batching import parse as parse_stride
from deepgemm_codegen.specfile.fields import CHOICES, STEP_NAMES, kind_of, written
from deepgemm_codegen.specfile.nodes import Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.epilogue import Option, StepKind
    from deepgemm_codegen.specfile.problems import Mark, Sink

__all__ = ["Given", "convert", "describe", "shorten", "yaml_flavour"]

MAX_LENGTH = 200
"""Characters of one value."""

_BOOLEANS = ("yes", "no", "on", "off", "true", "false")
_NULLS = ("", "~", "null", "Null", "NULL")
_NOT_WHOLE = "not a whole number"


@dataclass(frozen=True, slots=True)
class Given:
    """A value of a field as a file gives it.

    Attributes:
        text: the field's text; None when it was refused.
        mark: its place.
        sink: takes the problems of the file that it stands in.
    """

    text: str | None
    mark: Mark
    sink: Sink


def describe(node: Node) -> str:
    """The node as a message names it."""
    if isinstance(node, Scalar):
        return f"'{shorten(node.text)}'" if node.text else "an empty item"
    return "a list" if isinstance(node, Sequence) else "a mapping"


def shorten(text: str) -> str:
    """`text`, cut where it would drown a message."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def yaml_flavour(node: Scalar) -> str:
    """``null`` or ``boolean`` where other YAML readers would not see text, else empty."""
    if not node.plain:
        return ""
    if node.text in _NULLS:
        return "null"
    return "boolean" if node.text.lower() in _BOOLEANS else ""


def convert(name: str, node: Node, sink: Sink) -> Given:
    """The value of field `name`; what is wrong with it goes to `sink`."""
    try:
        return Given(_READERS[kind_of(name)](name, node), node.mark, sink)
    except _RefusedError as refused:
        sink.add(refused.mark, str(refused))
    except InputError as error:
        sink.add(node.mark, str(error))
    return Given(None, node.mark, sink)


class _RefusedError(Exception):
    """A value is wrong; `mark` may be a part of it."""

    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark


def _word(name: str, node: Node, wanted: str, *, field: bool = True) -> str:
    """The text of a scalar that is not empty, not a boolean and not a page long.

    Args:
        name: of a field, or where ``field`` says so of a step or of one of its options.
        node: the scalar, as it should be.
        wanted: what would do, for messages.
        field: whether it is a kernel's, which can be swept.
    """
    if not isinstance(node, Scalar):
        hint = _list_hint(name, node) if field else ""
        raise _RefusedError(node.mark, f"{name} is {describe(node)}; {wanted}{hint}")
    flavour = yaml_flavour(node)
    if flavour == "null" or not node.text.strip():
        what = "the key" if field else "it"
        leave = "" if name in ("m", "n", "k") else f", or leave {what} out"
        raise _RefusedError(node.mark, f"{name} has no value; {wanted}{leave}")
    if flavour == "boolean" and node.text not in CHOICES.get(name, ()):  # tensor_cores: off
        free = field and kind_of(name) == "text"
        remedy = f"quote it: '{node.text}'" if free else wanted
        raise _RefusedError(
            node.mark, f"{name} = {node.text}: {node.text} is a boolean in YAML; {remedy}"
        )
    if len(node.text) > MAX_LENGTH:
        raise _RefusedError(
            node.mark,
            f"{name} = {shorten(node.text)}: {len(node.text)} characters; the most is {MAX_LENGTH}",
        )
    return node.text.strip()


def _list_hint(name: str, node: Node) -> str:
    if isinstance(node, Sequence) and all(isinstance(item, Scalar) for item in node.items):
        items = ", ".join(shorten(item.text) for item in node.items[:4] if isinstance(item, Scalar))
        more = ", ..." if len(node.items) > 4 else ""
        return f"; for one kernel a value write sweep: {{{name}: [{items}{more}]}}"
    return ""


def _is_number(text: str) -> bool:
    """Whether `text` is decimal digits with an optional sign and no leading zero."""
    body = text[1:] if text[:1] in ("+", "-") else text
    return body.isascii() and body.isdigit() and (body == "0" or body[0] != "0")


def _digits(name: str, text: str, mark: Mark, wanted: str) -> str:
    """`text` when it is plain decimal digits; otherwise what to write instead."""
    if _is_number(text):
        return text
    remedy = _numeric_remedy(text) or f"{_NOT_WHOLE}; {wanted}"
    raise _RefusedError(mark, f"{name} = {shorten(text)}: {remedy}")


def _numeric_remedy(text: str) -> str:
    """What to write in place of a number in a form that YAML or people read in two ways."""
    for pattern, remedy in _FORMS:
        if re.fullmatch(pattern, text):
            return remedy(text)
    return what_to_write(text)


def _octal(text: str) -> str:
    return f"YAML reads this as octal {int(text, 8)}; write {int(text, 8)} or {int(text)}"


def _leading_zero(text: str) -> str:
    return f"YAML reads this as text, because of the leading zero; write {int(text)}"


def _sexagesimal(text: str) -> str:
    value = 0
    for part in text.split(":"):
        value = value * 60 + int(part)
    return f"YAML reads this as {value}, in base 60; write a plain whole number"


_FORMS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (r"0[0-7]+", _octal),
    (r"0[0-9]+", _leading_zero),
    (r"[0-9]+(?::[0-5]?[0-9])+", _sexagesimal),
)
"""Forms of a number that YAML reads as another, with what to write instead."""


def _dim(name: str, node: Node) -> str:
    if (
        isinstance(node, Mapping)
        and len(node.pairs) == 1
        and node.pairs[0][0].text == "dynamic"
        and isinstance(node.pairs[0][1], Scalar)
    ):
        value = shorten(node.pairs[0][1].text)
        raise _RefusedError(
            node.mark, f"{name} is a mapping; write dynamic:{value}, without a space"
        )
    wanted = "give a whole number, dynamic, or dynamic:MAX"
    text = _word(name, node, wanted)
    word, colon, largest = text.partition(":")
    if word == "dynamic":
        if colon:
            _digits(f"{name} = dynamic, maximum", largest, node.mark, "give a whole number")
        return text
    if not text[:1].isdigit():
        close = nearest(word, ["dynamic"])
        if close and not _is_number(text):
            raise _RefusedError(
                node.mark, f"{name} = {shorten(text)}: {_NOT_WHOLE}{close}; {wanted}"
            )
    return _digits(name, text, node.mark, wanted)


def _number(name: str, node: Node) -> str:
    wanted = "give a whole number"
    return _digits(name, _word(name, node, wanted), node.mark, wanted)


def _stride(name: str, node: Node) -> str:
    wanted = f"give elements, {', '.join(STRIDE_WORDS)}"
    text = _word(name, node, wanted)
    if text[:1].isalpha():
        parse_stride(text, name)
        return text
    return _digits(name, text, node.mark, wanted)


def _zero_point(name: str, node: Node) -> str:
    wanted = f"give {written(name)}"
    text = _word(name, node, wanted)
    return text if text[:1].isalpha() else _digits(name, text, node.mark, wanted)


def _dtype(name: str, node: Node) -> str:
    none = ", or none" if name == "dtype_c" else ""
    text = _word(name, node, f"give a type such as fp16{none}")
    if not (none and text == "none"):
        parse_dtype(text)
    return text


def _text(name: str, node: Node) -> str:
    text = _word(name, node, "give a word")
    if not text.isprintable():
        raise _RefusedError(
            node.mark, f"{name} holds a line break or a control character; give one plain line"
        )
    return text


def _epilogue(name: str, node: Node) -> str:
    wanted = "give a list of steps, such as [bias, relu]"
    if isinstance(node, Sequence):
        return ",".join(_step(item) for item in node.items)
    if isinstance(node, Mapping):
        raise _RefusedError(node.mark, f"{name} is a mapping; steps run in order, so {wanted}")
    if not node.plain and not node.text.strip():
        return ""
    text = _word(name, node, wanted)
    if text == "none":
        raise _RefusedError(node.mark, "epilogue = none: for no steps write []")
    for part in text.split(","):
        _check_step(part, node.mark)
    return text


def _known_step(name: str, mark: Mark) -> StepKind:
    """The step of that name."""
    try:
        return step_kind(name)
    except InputError as error:
        raise _RefusedError(mark, str(error)) from error


def _step(node: Node) -> str:
    wanted = f"give a step: {', '.join(STEP_NAMES)}"
    if isinstance(node, Mapping):
        return _step_with_options(node)
    if isinstance(node, Sequence):
        raise _RefusedError(node.mark, f"an epilogue step is a list; {wanted}")
    text = _word("epilogue step", node, wanted, field=False)
    return _check_step(text, node.mark)


def _check_step(text: str, mark: Mark) -> str:
    """`text` when it is one known step with options that it takes."""
    if not text.strip():
        raise _RefusedError(mark, f"an epilogue step is empty; known: {', '.join(STEP_NAMES)}")
    try:
        parse_epilogue(text, FP16)
    except InputError as error:
        raise _RefusedError(mark, str(error)) from error
    return text.strip()


def _step_with_options(node: Mapping) -> str:
    """The flag form of ``{bias: {axis: row, dtype: fp32}}``."""
    if len(node.pairs) != 1:
        raise _RefusedError(
            node.mark, "one step an item: write [bias, relu] or [{bias: {axis: row}}, relu]"
        )
    key, options = node.pairs[0]
    name = _known_step(key.text, key.mark).name
    if not isinstance(options, Mapping):
        if isinstance(options, Scalar) and yaml_flavour(options) == "null":
            raise _RefusedError(key.mark, f"step '{name}' has no options; write just {name}")
        example = STEPS[name].example
        if not example:
            raise _RefusedError(options.mark, f"step '{name}' takes no options; write just {name}")
        raise _RefusedError(options.mark, f"options of '{name}' are a mapping: {example}")
    words = [name]
    for option, value in options.pairs:
        found = next((o for o in STEPS[name].options if o.name == option.text), None)
        if found is None:
            known = [o.name for o in STEPS[name].options]
            raise _RefusedError(
                option.mark,
                f"unknown option '{shorten(option.text)}' of '{name}'{nearest(option.text, known)};"
                f" known: {', '.join(known) or 'none'}",
            )
        words.append(f"{found.name}={_option(name, found, value)}")
    return _check_step(":".join(words), node.mark)


def _option(step: str, option: Option, node: Node) -> str:
    """The text of one option's value."""
    words = option.words if option.kind in ("axis", "word") else (_WANTED[option.kind],)
    wanted = f"give {' or '.join((*words, 'a number') if option.constant else words)}"
    if option.kind == "switch" and isinstance(node, Scalar) and yaml_flavour(node) == "boolean":
        text = {"on": "yes", "off": "no"}.get(node.text.lower(), node.text.lower())
    else:
        text = _word(option.name, node, wanted, field=False)
    if option.kind == "size":
        return _digits(option.name, text, node.mark, wanted)
    remedy = (
        _numeric_remedy(text) if option.kind in ("number", "axis") and not _is_number(text) else ""
    )
    if remedy and not remedy.startswith("a whole number"):
        raise _RefusedError(node.mark, f"{option.name} = {shorten(text)}: {remedy}")
    try:
        read_option(STEPS[step], option.name, text)
    except InputError as error:
        raise _RefusedError(node.mark, str(error)) from error
    return text


_WANTED = {
    "type": "a type such as fp32",
    "size": "a whole number",
    "number": "a number",
    "switch": "yes or no",
}


_READERS: dict[str, Callable[[str, Node], str]] = {
    "dim": _dim,
    "number": _number,
    "stride": _stride,
    "dtype": _dtype,
    "choice": lambda name, node: _word(name, node, "give one of its words"),
    "zero_point": _zero_point,
    "epilogue": _epilogue,
    "text": _text,
}
