"""A kernel file's bytes to its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.specfile.nodes import Node, compose
from deepgemm_codegen.specfile.problems import Mark, split_lines

if TYPE_CHECKING:
    from deepgemm_codegen.specfile.problems import Sink

__all__ = ["MAX_BYTES", "load"]

MAX_BYTES = 16 * 2**20
"""Bytes of one file."""


def load(name: str, sink: Sink, empty: str) -> Node | None:
    """The tree of a file; None when it cannot be read, and then ``sink`` says why.

    Args:
        name: its path.
        sink: takes the problems, and the text that they quote.
        empty: the remedy for a file without a document.
    """
    text = _text(name, sink)
    if text is None:
        return None
    sink.text = text
    root = compose(text, sink)
    if root is None and not sink:
        sink.add(None, f"the file is empty; {empty}")
    return root


def _text(name: str, sink: Sink) -> str | None:
    try:
        with open(name, "rb") as file:  # noqa: PTH123  a str path, and pathlib costs cold time
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        stdin = "; standard input is /dev/stdin" if name == "-" else ""
        sink.add(None, f"cannot be read: {reason}{stdin}")
        return None
    if len(data) > MAX_BYTES:
        sink.add(None, f"larger than {MAX_BYTES // 2**20} MiB; split it into several files")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        sink.text = data.decode("utf-8-sig", "replace")
        lines = split_lines(before)
        mark = Mark(len(lines) - 1, len(lines[-1]), len(lines) - 1, len(lines[-1]) + 1)
        byte = data[error.start]
        sink.add(mark, f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8")
        return None
