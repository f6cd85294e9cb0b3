"""A judge of the part of JSON Schema that the project uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
}


def faults(value: Any, rule: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a value by the part of JSON Schema that the project uses."""
    known = {
        *("$schema", "$defs", "$ref", "title", "description", "type", "properties", "required"),
        *("additionalProperties", "minProperties", "maxProperties", "items", "minItems"),
        *("anyOf", "enum", "pattern", "minimum", "maximum"),
    }
    assert set(rule) <= known, f"the test cannot judge {set(rule) - known}"
    if "$ref" in rule:
        yield from faults(value, root["$defs"][rule["$ref"].removeprefix("#/$defs/")], root)
    if "anyOf" in rule and all(list(faults(value, part, root)) for part in rule["anyOf"]):
        yield f"{value!r} fits none"
    if "enum" in rule and value not in rule["enum"]:
        yield f"{value!r} not in {rule['enum']}"
    if "type" in rule:
        names = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
        fits = "boolean" in names if isinstance(value, bool) else _is_one(value, names)
        if not fits:
            yield f"{value!r} is no {names}"
            return
    if isinstance(value, dict):
        yield from _object_faults(value, rule, root)
    elif isinstance(value, list):
        yield from ["too few items"] * (len(value) < rule.get("minItems", 0))
        yield from (f for item in value for f in faults(item, rule.get("items", {}), root))
    else:
        yield from _scalar_faults(value, rule)


def _is_one(value: Any, names: list[str]) -> bool:
    return any(isinstance(value, TYPES[name]) for name in names if name != "boolean")


def _scalar_faults(value: Any, rule: dict[str, Any]) -> Iterator[str]:
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        yield f"{value!r} does not match"
    low, high = rule.get("minimum", value), rule.get("maximum", value)
    if isinstance(value, int) and not low <= value <= high:
        yield f"{value!r} out of range"


def _object_faults(value: Any, rule: dict[str, Any], root: dict[str, Any]) -> Iterator[str]:
    properties = rule.get("properties", {})
    yield from (f"{key} missing" for key in rule.get("required", []) if key not in value)
    if not rule.get("minProperties", 0) <= len(value) <= rule.get("maxProperties", 99):
        yield "number of keys"
    for key, item in value.items():
        if key in properties:
            yield from faults(item, properties[key], root)
        elif rule.get("additionalProperties") is False:
            yield f"{key} unknown"
        else:
            yield from faults(item, rule.get("additionalProperties", {}), root)
