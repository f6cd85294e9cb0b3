"""Kernel files from disk: bytes, text, tree, and problems of all files together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.specfile.fields import NAME
from deepgemm_codegen.specfile.nodes import Mark, compose
from deepgemm_codegen.specfile.problems import Problem, Sink, SpecFileError, split_lines
from deepgemm_codegen.specfile.tree import FileReader, SpecEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.spec import GemmSpec

__all__ = ["MAX_BYTES", "read", "read_all"]

MAX_BYTES = 16 * 2**20
"""Bytes of one file."""


def read(path: str | os.PathLike[str]) -> list[SpecEntry]:
    """The kernels of one file, in its order, sweeps multiplied out.

    Raises:
        SpecFileError: every problem of the file.
    """
    return read_all([path])


def read_all(paths: Iterable[str | os.PathLike[str]]) -> list[SpecEntry]:
    """The kernels of several files, in order.

    Raises:
        SpecFileError: every problem of every file; a kernel asked for twice is one, also when
            the second stands in another file.
    """
    entries: list[SpecEntry] = []
    sinks: list[Sink] = []
    first: dict[GemmSpec, SpecEntry] = {}
    opened: set[str] = set()
    for path in paths:
        name = os.fspath(path)
        sink = Sink(name)
        sinks.append(sink)
        real = os.path.abspath(name)  # noqa: PTH100  also of a name with a NUL
        if real in opened:
            sink.add(None, "the file is given twice; give it once")
            continue
        opened.add(real)
        for entry, mark in _read_one(name, sink):
            twin = first.setdefault(entry.spec, entry)
            if twin is entry:
                entries.append(entry)
                continue
            place = f"line {twin.line}" if twin.file == name else twin.where
            sink.add(
                mark,
                f"{place} asks for the same kernel already; give this one another"
                f" {NAME}, or leave it out",
            )
    if not sinks:
        raise InputError("no kernel file is given; give at least one")
    problems: list[Problem] = [problem for sink in sinks for problem in sink.sorted()]
    if problems:
        raise SpecFileError(problems)
    return entries


def _read_one(name: str, sink: Sink) -> list[tuple[SpecEntry, Mark]]:
    text = _load(name, sink)
    if text is None:
        return []
    sink.text = text
    root = compose(text, sink)
    if root is None:
        if not sink:
            sink.add(None, "the file is empty; give a list of kernels under 'kernels:'")
        return []
    return FileReader(name, sink).read(root)


def _load(name: str, sink: Sink) -> str | None:
    """The file's text."""
    try:
        with open(name, "rb") as file:  # noqa: PTH123  a str path, and pathlib costs cold time
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "; give the files in it, such as FOLDER/*.yaml" if os.path.isdir(name) else ""  # noqa: PTH112
        sink.add(None, f"cannot be read: {reason}{remedy}")
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
