"""Kernel files from disk: folders to files, files to specs, problems of all files together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.specfile.fields import NAME
from deepgemm_codegen.specfile.include import Library
from deepgemm_codegen.specfile.problems import Problem, Sink, SpecFileError
from deepgemm_codegen.specfile.text import load
from deepgemm_codegen.specfile.tree import FileReader, SpecEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.specfile.problems import Mark

__all__ = ["read", "read_all"]

_ENDINGS = (".yaml", ".yml")


def read(path: str | os.PathLike[str]) -> list[SpecEntry]:
    """The kernels of one file, in its order, sweeps multiplied out.

    Raises:
        SpecFileError: every problem of the file.
    """
    return read_all([path])


def read_all(paths: Iterable[str | os.PathLike[str]]) -> list[SpecEntry]:
    """The kernels of several files, in order; a folder stands for the kernel files below it.

    Raises:
        SpecFileError: every problem of every file; a kernel asked for twice is one, also when
            the second stands in another file.
    """
    entries: list[SpecEntry] = []
    sinks: list[Sink] = []
    first: dict[GemmSpec, SpecEntry] = {}
    opened: set[str] = set()
    library = Library()
    for name, given in _files(paths, sinks):
        sink = Sink(name)
        sinks.append(sink)
        real = os.path.abspath(name)  # noqa: PTH100  also of a name with a NUL
        if real in opened:
            if given:
                sink.add(None, "the file is given twice; give it once")
            continue
        opened.add(real)
        found = _read_one(name, sink, library, given=given)
        doubtful = bool(sink.sorted())  # kernels may be alike for want of what was refused
        for entry, mark in found:
            twin = first.setdefault(entry.spec, entry)
            if twin is entry:
                entries.append(entry)
            if twin is entry or doubtful:
                continue
            place = f"line {twin.line}" if twin.file == name else twin.where
            sink.add(
                mark,
                f"{place} asks for the same kernel already; give this one another"
                f" {NAME}, or leave it out",
            )
    if not sinks:
        raise InputError("no kernel file is given; give at least one")
    problems: list[Problem] = [p for sink in (*sinks, *library.sinks) for p in sink.sorted()]
    if problems:
        raise SpecFileError(problems)
    if not entries:
        raise InputError("no file that was found asks for a kernel; there is nothing to generate")
    return entries


def _files(
    paths: Iterable[str | os.PathLike[str]], sinks: list[Sink]
) -> Iterator[tuple[str, bool]]:
    """Every file with whether it was given itself; those of a folder come in order."""
    for path in paths:
        name = os.fspath(path)
        if not os.path.isdir(name):  # noqa: PTH112
            yield name, True
            continue
        found = sorted(_below(name))
        if not found:
            sink = Sink(name)
            sink.add(None, f"the folder holds no kernel file (*{', *'.join(_ENDINGS)})")
            sinks.append(sink)
        for file in found:
            yield file, False


def _below(folder: str) -> Iterator[str]:
    """Kernel files below a folder, those in folders such as ``.git`` left out."""
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for file in files:
            if file.endswith(_ENDINGS) and not file.startswith("."):
                yield os.path.join(at, file)  # noqa: PTH118


def _read_one(
    name: str, sink: Sink, library: Library, *, given: bool
) -> list[tuple[SpecEntry, Mark]]:
    """The kernels of one file; of a folder's, one that only others include has none."""
    root = load(name, sink, "give a list of kernels under 'kernels:'")
    return [] if root is None else FileReader(name, sink, library).read(root, alone=given)
