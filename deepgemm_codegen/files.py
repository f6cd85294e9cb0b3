"""Writing a file so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import CodegenError, EnvironmentLackError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["atomic_write", "cache_folder", "check_target", "refusal"]

# What the user typed wrongly (exit code 2); any other cause is the machine's (exit code 3).
_INPUT_CAUSES: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("its folder does not exist", "create the folder first (mkdir -p)"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "choose another path"),
    errno.EISDIR: ("it is a folder", "name a file inside it"),
    errno.EEXIST: ("a file is there", "choose another path"),
    errno.ENAMETOOLONG: ("the name is too long for this file system", "choose a shorter name"),
    errno.ELOOP: ("its symbolic links form a loop", "choose another path"),
    errno.EINVAL: ("the name is not valid on this file system", "choose another name"),
}
_MACHINE_CAUSES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", "free some space, or choose a path on another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or choose another disk"),
    errno.EFBIG: ("the file would exceed the size limit", "raise the limit (ulimit -f)"),
    errno.EACCES: ("permission denied", "choose a folder you may write to"),
    errno.EPERM: ("the operation is not permitted", "choose a folder you may write to"),
    errno.EROFS: ("the file system is read-only", "choose a path on a writable one"),
    errno.EPIPE: ("its reader closed the pipe", "let the reader take all of its input"),
}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}


def atomic_write(path: str | os.PathLike[str], data: str | bytes) -> None:
    """Writes ``data`` to ``path`` whole or not at all.

    A regular file is written beside its target and renamed over it: an existing file keeps its
    mode, a new one honours the umask, a symbolic link keeps pointing where it did, and a failure
    or a kill leaves the old file and nothing else. Devices, FIFOs and ``/dev/stdout`` cannot be
    renamed over and are written directly. Text is written as UTF-8 with its line ends untouched.

    Raises:
        InputError: The path itself is wrong: a missing folder, a folder, a name too long.
        EnvironmentLackError: The machine refuses: a full or read-only disk, no permission.
    """
    shown = os.fspath(path)
    raw = data.encode() if isinstance(data, str) else data
    try:
        _write(shown, raw)
    except ValueError as error:  # a NUL in the path
        raise InputError(f"cannot write {shown!r}: {error}; choose another name") from error
    except OSError as error:
        raise refusal(shown, error) from error


def check_target(path: str) -> None:
    """Refuses a path to which `atomic_write` could not write, before the work that it is for.

    Raises:
        InputError: it is a folder, or its folder is none.
    """
    folder = os.path.dirname(path) or os.curdir  # noqa: PTH120  as in _write
    for code, wrong in (
        (errno.EISDIR, os.path.isdir(path)),  # noqa: PTH112
        (errno.ENOENT, not os.path.exists(folder)),  # noqa: PTH110
        (errno.ENOTDIR, not os.path.isdir(folder)),  # noqa: PTH112
    ):
        if wrong:
            raise refusal(path, OSError(code, os.strerror(code)))


def cache_folder(env: Mapping[str, str] | None = None) -> Path | None:
    """The folder ``DGEMM_CACHE_DIR`` names, or the user's own; None where there is no place."""
    from pathlib import Path  # noqa: PLC0415

    named = (os.environ if env is None else env).get("DGEMM_CACHE_DIR", "")
    if named:
        return Path(named).absolute()
    from platformdirs import user_cache_path  # noqa: PLC0415  not needed where one is named

    try:
        folder = user_cache_path("deepgemm_codegen", appauthor=False)
    except (OSError, KeyError, RuntimeError):  # no home, no password entry
        return None
    # Without a home the path starts with a literal "~": that would be the working directory.
    return folder if folder.is_absolute() else None


def refusal(path: str, error: OSError, doing: str = "write") -> CodegenError:
    """What the system's refusal of a path means: the user's mistake, or the machine's limit.

    Args:
        path: as the user gave it.
        error: the system's.
        doing: the verb, such as ``read`` or ``make folder``.
    """
    code = error.errno or 0
    if code in _INPUT_CAUSES:
        cause, remedy = _INPUT_CAUSES[code]
        return InputError(f"cannot {doing} '{path}': {cause}; {remedy}")
    system = f"the system says {error.strerror or error}"
    cause, remedy = _MACHINE_CAUSES.get(code, (system, "choose another path"))
    return EnvironmentLackError(f"cannot {doing} '{path}': {cause}; {remedy}")


def _write(path: str, data: bytes) -> None:
    descriptor = _descriptor_of(path)
    if descriptor is not None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):  # none, or closed
                stream.flush()  # what was printed before stays before
        _write_all(descriptor, data)
        return
    if not path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    target = os.path.realpath(path)
    if path.endswith(os.sep):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        mode = os.stat(target).st_mode  # noqa: PTH116  os throughout: pathlib costs 10 ms cold
    except FileNotFoundError:
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if mode is not None and not stat.S_ISREG(mode):
        special = os.open(target, os.O_WRONLY)
        try:
            _write_all(special, data)
        finally:
            os.close(special)
        return
    _replace(target, data, None if mode is None else stat.S_IMODE(mode))


def _descriptor_of(path: str) -> int | None:
    if path in _STANDARD_STREAMS:
        return _STANDARD_STREAMS[path]
    match = _DESCRIPTOR.fullmatch(path)
    return int(match[1]) if match else None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _replace(target: str, data: bytes, mode: int | None) -> None:
    """Writes a temporary file in the target's folder and renames it over the target.

    Where nothing is there yet, a nameless file gets the target's name at once: then a kill leaves
    no temporary file either.
    """
    folder, base = os.path.split(target)
    if mode is None and _write_nameless(folder, target, data, mode):
        return
    temporary = os.path.join(  # noqa: PTH118
        folder, f".{base[:32]}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    )
    try:
        if not _write_nameless(folder, temporary, data, mode):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(temporary, flags, 0o666)
            try:
                _fill(descriptor, data, mode)
            finally:
                os.close(descriptor)
        os.replace(temporary, target)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _write_nameless(folder: str, name: str, data: bytes, mode: int | None) -> bool:
    """Writes a file that gets its name when it is complete; tells whether the system can.

    Only Linux can, on most file systems. There even a kill in the middle leaves nothing behind.
    """
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        descriptors = os.open("/proc/self/fd", os.O_RDONLY)
    except OSError:
        return False
    try:
        try:
            descriptor = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o666)
        except OSError:
            return False  # the caller's way gives the better error message, if it fails too
        try:
            _fill(descriptor, data, mode)
            try:
                # With a folder given, Python calls linkat(AT_SYMLINK_FOLLOW), which can do this.
                os.link(str(descriptor), name, src_dir_fd=descriptors, follow_symlinks=True)
            except OSError:
                return False  # a sandbox with another idea of /proc, or the name is taken
        finally:
            os.close(descriptor)
    finally:
        os.close(descriptors)
    return True


def _fill(descriptor: int, data: bytes, mode: int | None) -> None:
    _write_all(descriptor, data)
    if mode is not None:
        with contextlib.suppress(PermissionError):  # some file systems have no modes
            os.fchmod(descriptor, mode)
