"""Whether a JSON file that was read again has the shape in which it was written.

Such files lie in a folder of the user's, where merges and editors reach them. What reads them may
then take everything that it asks for as given.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["has_shape", "is_text"]


def has_shape(value: Any, shape: Any) -> bool:
    """Whether a value of JSON is as a shape says.

    Args:
        value: what was read.
        shape: a type, for values of it; a list of one shape, for lists of such items; or a dict of
            shapes by key, for objects that have these keys, of which those that end in ``?`` may
            be missing. Objects may have other keys too.
    """
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            has_shape(value[key], inner) if (key := name.rstrip("?")) in value else name != key
            for name, inner in shape.items()
        )
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(each, shape[0]) for each in value)
    return type(value) is shape


def is_text(value: Any, text: str) -> bool:
    r"""Whether a value can be printed as UTF-8: ``\ud800`` in a JSON text is half a character.

    Args:
        value: what was read.
        text: what it was read from; without an escape there is nothing to look for.
    """
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return False
    return True
