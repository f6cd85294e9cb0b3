"""Compiled templates on disk: compiling them costs more than all the rest of a cold start.

An entry's name is the digest of everything that shapes the code (the template's text, the module
that configures the engine, jinja2's and Python's versions), so an edited template is another
entry and nothing goes stale. An entry starts with the digest of its bytes, because unmarshalling
damaged ones can end the interpreter. Whatever goes wrong costs a compile and never a command.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import stat
import sys
from typing import TYPE_CHECKING

import jinja2

from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.files import atomic_write, cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2.bccache import Bucket

__all__ = ["FOLDER", "TemplateCache", "template_cache"]

FOLDER = "templates"
"""Name of the folder inside the cache folder."""

_SUFFIX = ".code"
_MOST_ENTRIES = 1000
_DIGEST_BYTES = 32


def _digest(*parts: bytes) -> bytes:
    from hashlib import sha256  # noqa: PLC0415  jinja2 has imported it

    return sha256(b"\0".join(parts)).digest()


class TemplateCache(jinja2.BytecodeCache):
    """Compiled templates in ``folder``.

    Args:
        folder: made at the first write.
        configuration: bytes that stand for how the engine is configured.
    """

    def __init__(self, folder: str, configuration: bytes) -> None:
        self._folder = folder
        versions = f"{jinja2.__version__} {sys.implementation.cache_tag} {sys.version}"
        self._salt = _digest(configuration, versions.encode())

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills the bucket when there is a whole entry of the same text."""
        try:
            with open(self._path(bucket), "rb") as file:  # noqa: PTH123  pathlib costs cold time
                stated, data = file.read(_DIGEST_BYTES), file.read()
        except OSError:
            return
        if stated == _digest(data):
            with contextlib.suppress(ValueError, EOFError, TypeError):
                bucket.code = marshal.loads(data)  # noqa: S302  the folder is the user's own

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Writes an entry, whole or not at all."""
        data = marshal.dumps(bucket.code)
        with contextlib.suppress(OSError, CodegenError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            if _is_ours(self._folder):
                atomic_write(self._path(bucket), _digest(data) + data)
                self._evict()

    def _path(self, bucket: Bucket) -> str:
        # The checksum is jinja2's, of the template's text; the key tells names apart.
        name = _digest(self._salt, bucket.key.encode(), bucket.checksum.encode()).hex()
        return os.path.join(self._folder, name + _SUFFIX)  # noqa: PTH118

    def _evict(self) -> None:
        """Halves a folder that years of edited templates have filled."""
        with os.scandir(self._folder) as entries:
            found = [entry for entry in entries if entry.name.endswith(_SUFFIX)]
        if len(found) > _MOST_ENTRIES:
            found.sort(key=lambda entry: entry.stat().st_mtime)
            for entry in found[: len(found) // 2]:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108

    def empty(self) -> int:
        """Removes every entry; tells how many went."""
        removed = 0
        for path, _ in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108
                removed += 1
        return removed

    def usage(self) -> tuple[int, int]:
        """Entries and their bytes."""
        sizes = [size for _, size in self._entries()]
        return len(sizes), sum(sizes)

    def _entries(self) -> list[tuple[str, int]]:
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            return [(e.path, e.stat().st_size) for e in entries if e.name.endswith(_SUFFIX)]
        return []


def _is_ours(folder: str) -> bool:
    """Whether nobody else can put code into the folder."""
    if not hasattr(os, "geteuid"):
        return True
    status = os.stat(folder)  # noqa: PTH116
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def template_cache(
    configured_in: str, env: Mapping[str, str] | None = None
) -> TemplateCache | None:
    """The user's cache of compiled templates; None where there is no safe place for one.

    Args:
        configured_in: path of the module that configures the engine.
        env: ``DGEMM_CACHE_DIR``; by default ``os.environ``.
    """
    base = cache_folder(env)
    if base is None:
        return None
    folder = os.path.join(base, FOLDER)  # noqa: PTH118
    try:
        with open(configured_in, "rb") as file:  # noqa: PTH123
            configuration = file.read()
        if os.path.lexists(folder) and not _is_ours(folder):
            return None
    except OSError:
        return None
    return TemplateCache(folder, configuration)
