"""Steps from the text that flags use: ``bias:row:fp32``, ``clamp:lo=0:hi=6``."""

from __future__ import annotations

import re
from functools import lru_cache
from math import isinf
from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import DTYPES, FP32, parse_dtype
from deepgemm_codegen.epilogue.kinds import (
    AXIS_WORDS,
    DYNAMIC,
    Access,
    OperandKind,
    Option,
    StepKind,
)
from deepgemm_codegen.epilogue.step import EpilogueStep, StepOperand, setting_value
from deepgemm_codegen.epilogue.table import STEPS
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import (
    DEFAULT_ALIGNMENT,
    MAX_DIMENSION,
    as_fp32,
    check_range,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deepgemm_codegen.dtypes import DType

__all__ = ["check_step", "parse_epilogue", "parse_step", "read_option", "step_kind"]

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def step_kind(name: str) -> StepKind:
    """The row of the table.

    Raises:
        InputError: unknown name; the message lists the known ones and the closest.
    """
    kind = STEPS.get(name)
    if kind is None:
        known = ", ".join(STEPS)
        raise InputError(
            f"unknown epilogue step '{name}'; known: {known}{nearest(name, list(STEPS))}"
        )
    return kind


@lru_cache(maxsize=1024)
def check_step(step: EpilogueStep) -> None:
    """Refuses a step that no text gives: Python code may make any.

    Raises:
        InputError: an unknown kind, an operand or a setting that it has not, or one that it lacks.
    """
    kind = step_kind(step.kind)
    settings = dict(step.settings)
    for name, text in settings.items():
        if read_option(kind, name, text) != text:
            raise InputError(f"epilogue step '{kind.name}': {name} = {text}: give it as text does")
    found = {operand.name for operand in step.operands}
    has = {operand.name for operand in kind.operands}
    told = {operand.axis for operand in kind.operands if operand.axis in settings}
    needs = {o.name for o in kind.operands if not (o.optional or o.switch or o.axis in told)}
    if not needs <= found <= has:
        names = ", ".join(sorted(found ^ needs))
        raise InputError(
            f"epilogue step '{kind.name}': other operands than it has ({names}); let parse_epilogue"
            " make it of text"
        )
    _check_required(kind, settings)
    wrong = kind.check({name: setting_value(kind, name, text) for name, text in settings.items()})
    if wrong:
        raise InputError(f"epilogue step '{kind.name}': {wrong}")


def parse_epilogue(text: str, value_dtype: DType) -> tuple[EpilogueStep, ...]:
    """Steps from their flag form, in the order they run: ``bias,relu`` or ``bias:row:fp32,relu``.

    Args:
        text: comma-separated steps; empty means none.
        value_dtype: operand type where neither step nor table names one: that of D before it is
            quantised.

    Raises:
        InputError: unknown step, option or type; a comma with no step beside it.
    """
    parts = text.split(",") if text.strip() else []
    if any(len(part.split()) > 1 for part in parts):
        steps = ",".join(text.replace(",", " ").split())
        raise InputError(f"epilogue = {text}: a comma stands between steps; give {steps}")
    if not all(part.strip() for part in parts):
        raise InputError(f"epilogue = {text}: a comma with no step beside it; leave the comma out")
    return tuple(parse_step(part, value_dtype) for part in parts)


def parse_step(text: str, value_dtype: DType) -> EpilogueStep:
    """One step: its name and options, ``name=value`` each or the value alone where it is clear."""
    name, *words = text.strip().split(":")
    kind = step_kind(name)
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        option = _named(kind, key) if equals else _meant(kind, word, given)
        if option.name in given:
            raise _twice(kind, option.name)
        given[option.name] = read_option(kind, option.name, value if equals else word)
    return _step(kind, given, value_dtype)


def _named(kind: StepKind, name: str) -> Option:
    for option in kind.options:
        if option.name == name:
            return option
    names = [option.name for option in kind.options]
    raise InputError(
        f"unknown option '{name}' of '{kind.name}'{nearest(name, names)};"
        f" known: {', '.join(names) or 'none'}"
    )


def _meant(kind: StepKind, word: str, given: Mapping[str, str]) -> Option:
    """The option that a word without a name is the value of: the first one open that takes it."""
    for option in kind.options:
        if option.name not in given and _takes(option, word):
            return option
    taken = next((option.name for option in kind.options if _takes(option, word)), None)
    if taken is not None:
        raise _twice(kind, taken)
    number = _NUMBER.fullmatch(word) is not None
    typed = [option for option in kind.options if option.kind == "type"]
    if not number and word not in AXIS_WORDS and typed:
        option = next((o for o in typed if o.name not in given), typed[0])
        raise InputError(f"epilogue step '{kind.name}': {_no_type(option, word)}")
    takes = [
        f"{option.name} ({' or '.join(option.words)})" if option.kind == "axis" else option.name
        for option in kind.options
    ]
    raise InputError(
        f"epilogue step '{kind.name}' does not take '{word}';"
        f" options it takes: {', '.join(takes) or 'none'}"
        f"{'; its numbers are arguments of the launch' if number and kind.operands else ''}"
    )


def _twice(kind: StepKind, option: str) -> InputError:
    return InputError(f"epilogue step '{kind.name}' is given {option} twice; give it once")


def _no_type(option: Option, word: str) -> InputError:
    """The error for a word in the place of a type that is none, or none that the option takes."""
    known = ", ".join(option.words)
    try:
        dtype = parse_dtype(word)
    except InputError:
        close = nearest(word, list(option.words))
        return InputError(f"unknown dtype '{word}'; known: {known}{close}")
    return InputError(f"{option.name} = {dtype}: give one of {known}")


def _takes(option: Option, word: str) -> bool:
    """Whether a word without a name may be an option's value; a size needs its name."""
    number = _NUMBER.fullmatch(word) is not None
    if option.kind == "type":
        try:
            return parse_dtype(word).name in option.words
        except InputError:
            return False
    taken = {
        "switch": word == option.name,
        "word": word in option.words,
        "axis": _access(option, word) is not None
        or (option.constant and number)
        or (word == DYNAMIC and DYNAMIC in option.words),
        "number": number,
    }
    return taken.get(option.kind, False)


def _access(option: Option, word: str) -> Access | None:
    """The access that a word means, where an axis has it."""
    access = AXIS_WORDS.get(word)
    return access if access in {AXIS_WORDS.get(known) for known in option.words} else None


def read_option(kind: StepKind, name: str, text: str) -> str:
    """The value of one option in the form that a step keeps.

    Raises:
        InputError: no such option, or a value it does not take.
    """
    option = _named(kind, name)
    try:
        return _READERS[option.kind](option, text)
    except InputError as error:
        raise InputError(f"epilogue step '{kind.name}': {error}") from error


def _type(option: Option, text: str) -> str:
    if not _takes(option, text):
        raise _no_type(option, text)
    return parse_dtype(text).name


def _axis(option: Option, text: str) -> str:
    access = _access(option, text)
    if access is not None:
        return access
    if text == DYNAMIC and DYNAMIC in option.words:
        return text
    if option.constant and _NUMBER.fullmatch(text):
        return _number(option, text)
    raise _no_word(option, text, (*option.words, "a number") if option.constant else option.words)


def _word(option: Option, text: str) -> str:
    if text not in option.words:
        raise _no_word(option, text, option.words)
    return text


def _no_word(option: Option, text: str, words: tuple[str, ...]) -> InputError:
    close = nearest(text, list(option.words))
    return InputError(f"{option.name} = {text}: give {' or '.join(words)}{close}")


def _size(option: Option, text: str) -> str:
    value = whole_number(text, option.name)
    check_range(value, option.name, 1, MAX_DIMENSION)
    return str(value)


def _switch(option: Option, text: str) -> str:
    word = {"true": "yes", "false": "no", option.name: "yes"}.get(text, text)
    if word not in ("yes", "no"):
        raise InputError(f"{option.name} = {text}: give yes or no")
    return word


def _number(option: Option, text: str) -> str:
    """A finite number as the shortest decimal that gives the same fp32."""
    if _NUMBER.fullmatch(text) is None:
        raise InputError(
            f"{option.name} = {text}: not a finite decimal number; give one, or leave"
            f" {option.name} out"
        )
    value = as_fp32(text)
    if isinf(value):
        raise InputError(f"{option.name} = {text}: beyond fp32, whose largest is 3.4028235e38")
    if value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise InputError(f"{option.name} = {text}: below fp32, whose smallest is 1.4012985e-45")
    forms = (f"{value:.{digits}g}" for digits in range(1, 9))
    return next((short for short in forms if as_fp32(short) == value), f"{value:.9g}")


_READERS: dict[str, Callable[[Option, str], str]] = {
    "type": _type,
    "axis": _axis,
    "word": _word,
    "size": _size,
    "switch": _switch,
    "number": _number,
}


def _check_required(kind: StepKind, given: Mapping[str, str]) -> None:
    for name in kind.required:
        if name not in given:
            words = ", ".join(_named(kind, name).words)
            what = f"one of {words}" if words else f"{name}=VALUE"
            raise InputError(f"epilogue step '{kind.name}': {name} is missing; give {what}")


def _step(kind: StepKind, given: Mapping[str, str], value_dtype: DType) -> EpilogueStep:
    _check_required(kind, given)
    operands = []
    settings = {o.name: given[o.name] for o in kind.settings if o.name in given}
    for operand in kind.operands:
        axis = given.get(operand.axis)
        if axis == DYNAMIC:
            operands.append(StepOperand(operand.name, "row", FP32, written=True))
        elif axis is not None and axis not in AXIS_WORDS:
            settings[operand.axis] = axis  # a number for all of D
        elif operand.switch:
            if given.get(operand.switch, _named(kind, operand.switch).default) == "yes":
                operands.append(_operand(kind, operand, given, value_dtype))
        elif axis is not None or not operand.optional:
            operands.append(_operand(kind, operand, given, value_dtype))
    _check_own_vectors(kind, given, operands)
    told = {**given, **{name: setting_value(kind, name, text) for name, text in settings.items()}}
    wrong = kind.check(told)
    if wrong:
        raise InputError(f"epilogue step '{kind.name}': {wrong}")
    kept = {name: text for name, text in settings.items() if text != _default(_named(kind, name))}
    return EpilogueStep(kind.name, tuple(operands), tuple(kept.items()))


def _check_own_vectors(
    kind: StepKind, given: Mapping[str, str], operands: Sequence[StepOperand]
) -> None:
    """A vector of each product's own is said of a step that reads one."""
    if given.get("per_product") == "yes" and not any(o.per_product for o in operands):
        raise InputError(
            f"epilogue step '{kind.name}': per_product = yes: it reads no vector, and a number is"
            " one for all products; give a value a row or a column, or leave per_product out"
        )


def _default(option: Option) -> str:
    """What a setting is where a spec does not say; empty where that is nothing."""
    return option.words[0] if option.kind == "word" else option.default


def _operand(
    step: StepKind, kind: OperandKind, given: Mapping[str, str], value_dtype: DType
) -> StepOperand:
    access = AXIS_WORDS[given[kind.axis]] if kind.axis in given else kind.accesses[0]
    dtype = {
        "fp32": FP32,
        "value": FP32 if value_dtype.integer else value_dtype,
        "result": DTYPES[given["to"]] if step.quantizes else value_dtype,
    }[kind.dtype]
    if kind.type in given:
        dtype = DTYPES[given[kind.type]]
        if access == "scalar" and dtype != FP32:
            raise InputError(
                f"epilogue step '{step.name}': {kind.type} = {dtype}: a scalar {kind.name} is an"
                " argument of type fp32;"
                f" leave {kind.type} out, or give {kind.axis} row or column"
            )
    return StepOperand(
        name=kind.name,
        access=access,
        dtype=dtype,
        leading=int(given.get("ld", 0)),
        align=int(given.get("align", DEFAULT_ALIGNMENT)),
        written=kind.written,
        per_product=given.get("per_product") == "yes" and access in ("row", "column"),
    )
