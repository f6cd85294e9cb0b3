"""``include``: the files that a kernel file builds on.

An included file holds ``defaults`` and ``sweeps``, and may include further ones. It is read once
however many files include it, so that its problems are told once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deepgemm_codegen.specfile.problems import Sink
from deepgemm_codegen.specfile.text import load
from deepgemm_codegen.specfile.tree import Base, FileReader
from deepgemm_codegen.specfile.values import shorten

if TYPE_CHECKING:
    from deepgemm_codegen.specfile.problems import Mark

__all__ = ["MAX_INCLUDED", "Library"]

MAX_INCLUDED = 100
"""Files that one command may include."""


class Library:
    """The included files of one command.

    Attributes:
        sinks: one a file that was read, in the order of reading.
    """

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self._read: dict[str, Base | None] = {}
        self._open: list[str] = []

    def __call__(self, name: str, mark: Mark, sink: Sink) -> Base | None:
        """The file that ``name`` means in the file of ``sink``.

        Paths are relative to the file that has them. What is wrong with the path is added to
        ``sink``, what is wrong in the file to its own.
        """
        path = os.path.normpath(os.path.join(os.path.dirname(sink.file), name))  # noqa: PTH118, PTH120
        real = os.path.abspath(path)  # noqa: PTH100
        if real in self._open or real == os.path.abspath(sink.file):  # noqa: PTH100
            sink.add(mark, f"'{shorten(name)}' includes itself; take one include out")
            return None
        if real not in self._read:
            if len(self.sinks) == MAX_INCLUDED:
                sink.add(mark, f"more than {MAX_INCLUDED} files are included; join some of them")
                return None
            own = Sink(path)
            self.sinks.append(own)
            self._open.append(real)
            self._read[real] = self._base(path, own)
            self._open.pop()
        return self._read[real]

    def _base(self, path: str, sink: Sink) -> Base | None:
        root = load(path, sink, "give 'defaults' or 'sweeps', or do not include it")
        return None if root is None else FileReader(path, sink, self).read_base(root)
