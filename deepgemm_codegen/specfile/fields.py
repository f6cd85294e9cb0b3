"""What a kernel file may say: the spec's fields, how YAML writes each, and their groups.

The names and help texts are those of `deepgemm_codegen.spec`; this module adds only how a value
is written in YAML. The reader and the JSON Schema both follow it.
"""

from __future__ import annotations

from typing import Literal

from deepgemm_codegen.checks import REQUIREMENTS
from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import STEPS
from deepgemm_codegen.numbers import MAX_ALIGNMENT, MAX_DIMENSION
from deepgemm_codegen.spec.batching import MAX_STRIDE, STRIDE_WORDS
from deepgemm_codegen.spec.block_scales import SCALE_WORDS
from deepgemm_codegen.spec.overrides import OFF, OVERRIDE_WORDS, OVERRIDES
from deepgemm_codegen.spec.precision import ACCUMULATE
from deepgemm_codegen.spec.text import FIELDS, LAUNCHES, OPS, ZERO_POINT_WORDS

__all__ = [
    "CHOICES",
    "GROUPS",
    "HELP",
    "HINTS",
    "KERNEL_KEYS",
    "NAME",
    "STEP_NAMES",
    "Kind",
    "bounds",
    "example",
    "kind_of",
    "written",
]

Kind = Literal["dim", "number", "stride", "dtype", "choice", "zero_point", "epilogue", "text"]
"""How a value is written: a size or ``dynamic``, a whole number, one or a word for it, a type's
name, one of a few words, one of those or a whole number (a zero point), epilogue steps, or free
text."""

NAME = "name"
"""The YAML key of the spec's ``label``."""

CHOICES: dict[str, tuple[str, ...]] = {
    "op": OPS,
    "layout": ("nn", "nt", "tn", "tt"),
    "layout_d": ("n", "t"),
    "accumulate": ACCUMULATE,
    **{f"scale_{letter}": (word,) for letter, word in SCALE_WORDS.items()},
    "launch": LAUNCHES,
    **OVERRIDE_WORDS,
}

STEP_NAMES = tuple(STEPS)
"""Words that begin an epilogue step."""

HELP: dict[str, str] = {
    NAME: FIELDS["label"],
    **{name: text for name, text in FIELDS.items() if name != "label"},
    **OVERRIDES,
}
"""Help text of every field under its YAML key, the name first."""


_KIND_OF_STEM: dict[str, Kind] = {
    "stride": "stride",
    "dtype": "dtype",
    "zero": "zero_point",
    "epilogue": "epilogue",
}
"""Kinds by the first word of a field's name."""


def kind_of(name: str) -> Kind:
    """How the field's value is written; a field this module has not met is text."""
    if name in ("m", "n", "k"):
        return "dim"
    if name in CHOICES:
        return "choice"
    if name in OVERRIDES or name in ("batch", "sms") or name.startswith(("align_", "ld")):
        return "number"
    return _KIND_OF_STEM.get(name.partition("_")[0], "text")


def bounds(name: str) -> tuple[int, int]:
    """Smallest and largest number of a ``dim``, ``number`` or ``stride`` field."""
    if kind_of(name) == "stride":
        return 0, MAX_STRIDE
    most = MAX_ALIGNMENT if name.startswith("align_") else MAX_DIMENSION
    return (0 if name in ("k", "sms", *OFF) else 1), most


def written(name: str) -> str:
    """How the field's value is written, in words."""
    kind = kind_of(name)
    if kind == "choice":
        return "one of " + ", ".join(CHOICES[name])
    if kind == "dtype":
        return "one of " + ", ".join([*DTYPES, *(["none"] if name == "dtype_c" else [])])
    if kind == "epilogue":
        return f"a list of steps: {', '.join(STEP_NAMES)}"
    if kind in ("text", "zero_point"):
        words = ZERO_POINT_WORDS.get(name[-1], ()) if kind == "zero_point" else ()
        return f"{', '.join(words)}, or a whole number" if words else "text"
    low, high = bounds(name)
    number = f"a whole number from {low} to {high}"
    if kind == "stride":
        return f"{number}, {', '.join(STRIDE_WORDS[:-1])} or {STRIDE_WORDS[-1]}"
    return f"{number}, dynamic, or dynamic:MAX" if kind == "dim" else number


def example(name: str) -> str:
    """A value of a field that may be written in a group."""
    kind = kind_of(name)
    if kind == "choice":
        return CHOICES[name][0]
    return ZERO_POINT_WORDS[name[-1]][-1] if kind == "zero_point" else "64"


def _groups() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name in HELP:
        stem, _, letter = name.rpartition("_")
        if stem and stem not in HELP and letter in ("m", "n", "k", "a", "b", "c", "d"):
            found.setdefault(stem, {})[letter] = name
    return {stem: letters for stem, letters in found.items() if len(letters) > 1}


GROUPS = _groups()
"""Fields that may be written together: ``tile: {m: 128, n: 64}`` is ``tile_m`` and ``tile_n``."""

KERNEL_KEYS = (*HELP, *GROUPS, "sweep", "require")
"""Every key a kernel may have."""

_ARGUMENT = "it is an argument of the kernel, given at each launch; leave it out"
_LAYOUT = "'layout' has one letter for A and one for B: nn, nt, tn or tt"

HINTS: dict[str, str] = {
    "label": f"the key is '{NAME}'",
    "id": f"the key is '{NAME}'",
    "alpha": _ARGUMENT,
    "beta": _ARGUMENT,
    "type": f"the key is 'dtype': {', '.join(DTYPES)}",
    "trans_a": _LAYOUT,
    "trans_b": _LAYOUT,
    "transpose_a": _LAYOUT,
    "transpose_b": _LAYOUT,
    "activation": "activations are steps of 'epilogue'",
    **{word: f"it stands in 'sweep': {{{word}: ..}}" for word in ("zip", "exclude")},
    "matrix": "the key is 'sweep': {m: [..], arch: [..]}",
    **dict.fromkeys(("include", "defaults", "sweeps"), "it stands at the top of the file"),
    **{step: f"it is a step of 'epilogue': [{step}]" for step in STEPS},
    **{name: f"it stands in 'require': {{{name}: ..}}" for name in REQUIREMENTS},
}
"""Remedies for words that people try; a misspelt key gets the nearest one instead."""
