"""Compiled kernels on disk, each under the digest of everything that shaped it.

An entry is one file, so that it is there whole or not at all: a line of JSON (what it is, and
the digest of the rest), then the bytes. Whatever goes wrong with the cache costs a compile and
never a command: a damaged entry is rebuilt with a warning, a folder that cannot be written or
locked is done without.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.files import atomic_write, cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Cache", "CacheEntry", "CacheInfo", "CacheWarning", "cache_key"]

_FORMAT = 1
_SUFFIX = ".entry"
_LIMIT_BYTES = 256 * 1024 * 1024  # some thousand kernels
_LOCK_WAIT_SECONDS = 60.0  # longer than any compile; a dead holder's lock is free at once
_STALE_SECONDS = 3600.0  # a temporary file this old belongs to a process that was killed


class CacheWarning(UserWarning):
    """A cache entry was damaged and is built again."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry, as a listing shows it."""

    key: str
    label: str  # what was compiled, and for what
    size_bytes: int
    used_at: float  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds; ``folder`` is None when there is no place for one."""

    folder: Path | None
    entries: tuple[CacheEntry, ...]  # most recently used first
    limit_bytes: int

    @property
    def size_bytes(self) -> int:
        """All entries together."""
        return sum(entry.size_bytes for entry in self.entries)

    @property
    def keeps(self) -> bool:
        """Whether kernels can be kept: there is a folder to write to, or room to make it."""
        if self.folder is None:
            return False
        there = next(at for at in (self.folder, *self.folder.parents) if os.path.lexists(at))
        return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def cache_key(**parts: object) -> str:
    """The SHA-256 of named parts, each a JSON value; the order they are named in is no matter.

    Give it what shapes the result and nothing else: no path of an installation, no working
    directory, no time, or two machines never share an entry.
    """
    from hashlib import sha256  # noqa: PLC0415  9 ms that only a cached compile needs

    return sha256(json.dumps([_FORMAT, parts], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Cache:
    """Entries in ``folder``, at most about ``limit_bytes`` of them; no folder, no cache."""

    folder: Path | None
    limit_bytes: int = _LIMIT_BYTES

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Cache:
        """The folder ``DGEMM_CACHE_DIR`` names, or the user's own cache folder."""
        return cls(cache_folder(env))

    def get(self, key: str, *, warn: bool = True) -> bytes | None:
        """The bytes under ``key``; None when there are none, or, with a warning, damaged ones."""
        path = self._path(key)
        if path is None:
            return None
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        header, _, data = raw.partition(b"\n")
        damage = _damage(key, header, data)
        if damage:
            if warn:
                message = f"cache entry {path} is damaged ({damage}); it is built again"
                warnings.warn(message, CacheWarning, stacklevel=2)
            return None
        with contextlib.suppress(OSError):  # it only loses its place among the recently used
            os.utime(path)
        return data

    def put(self, key: str, label: str, data: bytes) -> bool:
        """Stores ``data``; tells whether it could. The latest writer of a key wins."""
        path = self._path(key)
        if path is None:
            return False
        header = {
            "format": _FORMAT,
            "key": key,
            "label": label,
            "length": len(data),
            "sha256": _digest(data),
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(path, json.dumps(header).encode() + b"\n" + data)
        except (OSError, CodegenError):
            return False
        self._evict()
        return True

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Holds back other processes that want to build the same key.

        It only saves double work. Where the folder cannot be locked, or the holder takes longer
        than a minute, the caller goes ahead without: entries are replaced atomically anyway.
        Locks are shared by keys with the same first two digits, so that they need no clean-up.
        """
        if self.folder is None:
            yield
            return
        from filelock import FileLock, Timeout  # noqa: PLC0415  20 ms, only where one compiles

        held = None
        try:
            (self.folder / "locks").mkdir(parents=True, exist_ok=True)
            held = FileLock(self.folder / "locks" / f"{key[:2]}.lock")
            held.acquire(timeout=_LOCK_WAIT_SECONDS, poll_interval=0.02)
        except (OSError, Timeout, NotImplementedError):
            held = None
        try:
            yield
        finally:
            if held is not None:
                with contextlib.suppress(OSError):
                    held.release()

    def info(self) -> CacheInfo:
        """What is there, most recently used first."""
        entries = []
        for path, size, used_at in self._scan():
            label = "(unreadable)"
            with (
                contextlib.suppress(OSError, ValueError, TypeError, KeyError),
                path.open("rb") as file,
            ):
                label = str(json.loads(file.readline(10_000))["label"])
            entries.append(CacheEntry(path.name.removesuffix(_SUFFIX), label, size, used_at))
        return CacheInfo(self.folder, tuple(entries), self.limit_bytes)

    def clear(self) -> int:
        """Removes every entry, and what killed processes left; tells how many entries went.

        Raises:
            EnvironmentLackError: An entry could not be removed.
        """
        removed = 0
        for path, _, _ in self._scan():
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise EnvironmentLackError(
                    f"cannot remove cache entry {path} ({error.strerror}); remove the folder "
                    f"{self.folder} with the rights of its owner"
                ) from error
            removed += 1
        self._remove_stale(0.0)
        return removed

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{key}{_SUFFIX}"

    def _scan(self) -> list[tuple[Path, int, float]]:
        if self.folder is None:
            return []
        found = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                if file.name.endswith(_SUFFIX):
                    with contextlib.suppress(OSError):  # another process removed it just now
                        status = file.stat()
                        found.append((Path(file.path), status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry[2], entry[0]))

    def _evict(self) -> None:
        """Removes the least recently used entries beyond the limit, and stale leftovers."""
        total = 0
        for path, size, _ in self._scan():
            total += size
            if total > self.limit_bytes:
                with contextlib.suppress(OSError):
                    path.unlink()
        self._remove_stale(_STALE_SECONDS)

    def _remove_stale(self, age: float) -> None:
        if self.folder is None:
            return
        with contextlib.suppress(OSError):
            for path in self.folder.glob(".*.tmp"):
                with contextlib.suppress(OSError):
                    if time.time() - path.stat().st_mtime >= age:
                        path.unlink()


def _digest(data: bytes) -> str:
    from hashlib import sha256  # noqa: PLC0415

    return sha256(data).hexdigest()


def _damage(key: str, header: bytes, data: bytes) -> str | None:
    """What is wrong with an entry; None when nothing is."""
    try:
        stated: dict[str, Any] = json.loads(header)
        given, length, digest = stated["key"], stated["length"], stated["sha256"]
    except (ValueError, TypeError, KeyError):
        return "its first line is not readable"
    if given != key:
        return "it belongs to another key"
    if length != len(data):
        return f"{len(data)} of {length} bytes"
    if digest != _digest(data):
        return "its digest differs"
    return None
