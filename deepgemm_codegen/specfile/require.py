"""``require``: what a file demands of a kernel beside its values, checked by ``verify``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from deepgemm_codegen.checks import REQUIREMENTS, Requirement
from deepgemm_codegen.errors import nearest
from deepgemm_codegen.specfile.nodes import Mapping, Scalar
from deepgemm_codegen.specfile.values import describe, shorten, yaml_flavour

if TYPE_CHECKING:
    from deepgemm_codegen.checks import Limit
    from deepgemm_codegen.specfile.nodes import Node
    from deepgemm_codegen.specfile.problems import Sink

__all__ = ["REQUIRE", "read_require"]

REQUIRE = "require"
"""The key."""

_EXAMPLE = f"{REQUIRE}: {{no_spills: true, bank_conflicts: 0}}"
_WHOLE = r"0|[1-9][0-9]*"
_DECIMAL = rf"(?:{_WHOLE})(?:\.[0-9]+)?"


def read_require(key: Scalar, node: Node, sink: Sink) -> dict[str, Requirement]:
    """The requirements of a mapping, by name; what is wrong with it goes to ``sink``."""
    if not isinstance(node, Mapping) or not node.pairs:
        sink.add(key.mark, f"'{REQUIRE}' wants a mapping: {_EXAMPLE}")
        return {}
    found = {}
    for name, value in node.pairs:
        limit = REQUIREMENTS.get(name.text)
        if limit is None:
            remedy = nearest(name.text, list(REQUIREMENTS))
            known = f"; known: {', '.join(REQUIREMENTS)}"
            sink.add(
                name.mark, f"unknown key '{shorten(name.text)}' in '{REQUIRE}'{remedy or known}"
            )
            continue
        number = _value(name.text, limit, name, value, sink)
        if number is not None:
            found[name.text] = Requirement(name.text, number)
    return found


def _value(name: str, limit: Limit, key: Scalar, node: Node, sink: Sink) -> float | None:
    wanted = {
        "flag": "give true or false",
        "number": f"give a whole number from {limit.low:.0f} to {limit.high:.0f}",
        "ratio": f"give a number from {limit.low:g} to {limit.high:g}, such as 0.95",
    }[limit.kind]
    if not isinstance(node, Scalar):
        sink.add(node.mark, f"{name} is {describe(node)}; {wanted}")
        return None
    if yaml_flavour(node) == "null" or not node.text.strip():
        mark = node.mark if node.text else key.mark  # a null has no place of its own
        sink.add(mark, f"{name} has no value; {wanted}, or leave the key out")
        return None
    text = node.text.strip()
    if limit.kind == "flag":
        if text in ("true", "false"):
            return float(text == "true")
    elif re.fullmatch(_WHOLE if limit.kind == "number" else _DECIMAL, text):
        number = float(text)
        if limit.low <= number <= limit.high:
            return number
    sink.add(node.mark, f"{name} = {shorten(text)}; {wanted}")
    return None
