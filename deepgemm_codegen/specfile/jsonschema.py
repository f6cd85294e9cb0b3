"""The format as JSON Schema, for editors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepgemm_codegen.checks import REQUIREMENTS
from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import AXIS_WORDS, STEPS
from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.spec.batching import STRIDE_WORDS
from deepgemm_codegen.spec.text import ZERO_POINT_WORDS
from deepgemm_codegen.specfile.fields import (
    CHOICES,
    GROUPS,
    HELP,
    KERNEL_KEYS,
    NAME,
    bounds,
    kind_of,
)
from deepgemm_codegen.specfile.require import REQUIRE

if TYPE_CHECKING:
    from deepgemm_codegen.epilogue import Option

__all__ = ["build_schema"]

_DIGITS = "^[-+]?(0|[1-9][0-9]*)$"


def build_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a kernel file, made from the table that the reader uses.

    An editor sees keys, kinds and ranges. What needs the spec's own rules (a leading dimension
    that is too small, steps that do not go together) only reading the file tells.
    """
    references = {name: {"$ref": f"#/$defs/{name}"} for name in KERNEL_KEYS}
    without_name = {name: value for name, value in references.items() if name != NAME}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kernels for deepgemm_codegen",
        "type": "object",
        "properties": {
            "include": {
                "description": "files whose defaults and sweeps this one builds on",
                **_one_or_more({"type": "string"}),
            },
            "sweeps": {
                "description": "sweeps with names, for kernels and defaults to use",
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/sweep_mapping"},
                "minProperties": 1,
            },
            "defaults": {
                "description": "fields that every kernel has unless it gives its own",
                **_mapping(without_name),
            },
            "kernels": {
                "description": "the kernels to generate; only a file that others include has none",
                "type": "array",
                "minItems": 1,
                "items": {**_mapping(references), "minProperties": 1},
            },
        },
        "additionalProperties": False,
        "minProperties": 1,
        "$defs": {
            **{name: _field(name) for name in HELP},
            **{stem: _group(names) for stem, names in GROUPS.items()},
            "step": _step(),
            REQUIRE: _require(),
            **_sweeps(),
        },
    }


def _mapping(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _one_or_more(rule: dict[str, Any]) -> dict[str, Any]:
    """One value, or a list of such values."""
    return {"anyOf": [rule, {"type": "array", "items": rule, "minItems": 1}]}


def _group(names: dict[str, str]) -> dict[str, Any]:
    """Fields that are written together."""
    return {
        "description": f"{', '.join(names.values())} in one mapping",
        **_mapping({letter: {"$ref": f"#/$defs/{name}"} for letter, name in names.items()}),
        "minProperties": 1,
    }


def _require() -> dict[str, Any]:
    """What ``verify`` demands of a kernel."""
    kinds = {"number": "integer", "ratio": "number", "flag": "boolean"}
    rules: dict[str, Any] = {}
    for name, limit in REQUIREMENTS.items():
        rules[name] = {"description": limit.help, "type": kinds[limit.kind]}
        if limit.kind != "flag":
            rules[name] |= {"minimum": limit.low, "maximum": limit.high}
    return {
        "description": "what verify demands beside right values",
        **_mapping(rules),
        "minProperties": 1,
    }


def _sweeps() -> dict[str, Any]:
    """A sweep: a mapping, the name of one, or a list of both."""
    fields = [name for name in HELP if name != NAME]
    lists = {
        name: {"type": "array", "items": {"$ref": f"#/$defs/{name}"}, "minItems": 1}
        for name in fields
    }
    values = {name: _one_or_more({"$ref": f"#/$defs/{name}"}) for name in fields}
    values["epilogue"] = {"$ref": "#/$defs/epilogue"}  # a list is one value there
    together = {**_mapping(lists), "minProperties": 1}
    combination = {**_mapping(values), "minProperties": 1}
    keys = {
        **lists,
        "zip": {
            "description": "fields whose lists have one length and go together",
            **_one_or_more(together),
        },
        "exclude": {
            "description": "combinations to leave out: a value or a list of values a field",
            "anyOf": [combination, {"type": "array", "items": combination}],
        },
    }
    mapping = {
        "description": "lists of values; every combination is a kernel",
        **_mapping(keys),
        "minProperties": 1,
    }
    part = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/sweep_mapping"}]}
    sweep = {
        "description": "lists of values, the name of a sweep, or a list of both",
        **_one_or_more(part),
    }
    return {"sweep_mapping": mapping, "sweep": sweep}


def _field(name: str) -> dict[str, Any]:
    """The schema of one field's value."""
    return {"description": HELP[name], **_value(name)}


def _value(name: str) -> dict[str, Any]:
    kind = kind_of(name)
    if kind in ("dim", "number", "stride"):
        low, high = bounds(name)
        number = {"type": "integer", "minimum": low, "maximum": high}
        patterns = {
            "dim": "^dynamic(:[1-9][0-9]*)?$|",
            "number": "",
            "stride": f"^({'|'.join(STRIDE_WORDS)})$|",
        }
        return {"anyOf": [number, {"type": "string", "pattern": f"{patterns[kind]}{_DIGITS}"}]}
    if kind == "dtype":
        words = [alias for dtype in DTYPES.values() for alias in (dtype.name, *dtype.aliases)]
        return {"enum": [*words, "none"] if name == "dtype_c" else words}
    if kind == "choice":
        return {"enum": list(CHOICES[name])}
    if kind == "zero_point":
        return _zero_point(name)
    steps = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/step"}}]}
    return steps if kind == "epilogue" else {"type": ["string", "number"]}


def _zero_point(name: str) -> dict[str, Any]:
    """Zero points of A or of B: words for what they lie along, or a number of either type."""
    axes = {AXIS_WORDS[word] for word in ZERO_POINT_WORDS[name[-1]]}
    words = [word for word, axis in AXIS_WORDS.items() if axis in axes]
    return {"anyOf": [{"enum": words}, {"type": "integer", "minimum": -128, "maximum": 255}]}


def _step() -> dict[str, Any]:
    """One epilogue step: ``relu``, ``bias:row:fp32`` or ``{bias: {axis: row, dtype: fp32}}``."""
    words = "|".join(STEPS)
    return {
        "description": "; ".join(f"{step.name}: {step.summary}" for step in STEPS.values()),
        "anyOf": [
            {"type": "string", "pattern": f"^({words})(:[-+.=_a-zA-Z0-9]+)*$"},
            {
                "type": "object",
                "properties": {
                    name: {
                        "type": "object",
                        "properties": {option.name: _option(option) for option in step.options},
                        "additionalProperties": False,
                    }
                    for name, step in STEPS.items()
                    if step.options
                },
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ],
    }


def _option(option: Option) -> dict[str, Any]:
    """One option of a step."""
    if option.kind == "type":
        dtypes = [DTYPES[name] for name in option.words]
        value: dict[str, Any] = {"enum": [a for d in dtypes for a in (d.name, *d.aliases)]}
    elif option.kind == "word":
        value = {"enum": list(option.words)}
    elif option.kind == "axis":
        accesses = {AXIS_WORDS.get(word) for word in option.words}
        axes = [word for word, access in AXIS_WORDS.items() if access in accesses]
        value = {"enum": [*axes, *(word for word in option.words if word not in AXIS_WORDS)]}
        if option.constant:
            value = {"anyOf": [value, {"type": "number"}]}
    elif option.kind == "size":
        value = {"type": "integer", "minimum": 1, "maximum": MAX_DIMENSION}
    else:
        value = {"type": "boolean" if option.kind == "switch" else "number"}
    return {"description": option.summary, **value}
