"""Many specs at once: one ``.cu`` file a kernel, and a manifest that ties them together.

A batch streams: a kernel's source is rendered, compared, written and forgotten before the next,
so ten thousand of them take the memory of one (the manifest's records, a few hundred bytes a
kernel, are what is kept). Files and bytes are a function of the specs alone: no time, no path,
no order of the input.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.batch_report import BatchReport, Outcome
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError, InputError, InternalError
from deepgemm_codegen.files import atomic_write
from deepgemm_codegen.manifest import MANIFEST, listed_files, manifest_text, record
from deepgemm_codegen.naming import kernel_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.specfile import SpecEntry

__all__ = ["BatchReport", "Outcome", "generate", "make"]

_OUR_NAME = re.compile(r"[a-z]\w*_[0-9a-f]{8}(_\w+)?\.cu")
"""A file name that `kernel_name` makes: only such files are ever called orphans."""

_FLYING = 8
"""Kernels in flight for each process, so that none waits and few sources are held."""

Source = tuple[str, str, str]
"""Kernel name, source, manifest record."""

Made = tuple[list[Source], str, int]
"""The sources of one spec, or an error message and its exit code."""


def generate(
    entries: Iterable[SpecEntry],
    out_dir: str | os.PathLike[str],
    *,
    check: bool = False,
    diff: bool = False,
    jobs: int = 1,
    keep_going: bool = True,
    prune: bool = False,
    progress: Callable[[Outcome], None] | None = None,
) -> BatchReport:
    """Generates a batch into a folder, or tells how the folder differs from it.

    Files that are right already are not touched; the file of a kernel that fails keeps its old
    bytes. Finished work is kept whether or not the batch goes on after a failure, and the
    manifest lists what is finished.

    Args:
        entries: the kernels; their order does not matter.
        out_dir: the folder; made when the first file is written.
        check: write nothing; the report's exit code is 1 when something would change.
        diff: give `progress` a unified diff of every changed kernel.
        jobs: processes that decide and render; this one writes.
        keep_going: go on after a kernel that fails; otherwise the rest is skipped. A disk that
            cannot be written ends the batch in any case.
        prune: delete files of ours that the batch does not ask for; without it they are
            reported and stay.
        progress: called with every outcome as it comes, in the order of the file names.

    Raises:
        InputError: no entries; one spec twice; two specs of one name; a folder that is a file
            or holds somebody else's manifest.
        EnvironmentLackError: the folder cannot be made or read.
    """
    given = list(entries)
    named = _named(given)
    folder = _Folder(os.fspath(out_dir), check=check, diff=diff)
    outcomes: list[Outcome] = []
    records: list[tuple[str, str]] = []

    def tell(outcome: Outcome) -> None:
        if progress:
            progress(outcome)
        outcomes.append(replace(outcome, diff="") if outcome.diff else outcome)

    made = _make_all([entry.spec for _, entry in named], jobs)
    lost = stopped = False  # the disk; the rest of the batch
    for name, entry in named:
        if stopped:
            tell(Outcome(f"{name}.cu", "skipped", entry.where))
            continue
        error = None
        for outcome, text, error in _put_kernels(folder, name, entry.where, next(made)):
            tell(outcome)
            if text:
                records.append((name, text))
        lost = isinstance(error, EnvironmentLackError)
        stopped = lost or (error is not None and not keep_going)
    made.close()
    complete = all(outcome.status not in ("failed", "skipped") for outcome in outcomes)
    if records and not lost and (complete or not check):
        tell(folder.put_manifest(records))
    deletes = prune and not check and complete
    for file in folder.orphans({outcome.file for outcome in outcomes}):
        if deletes:
            folder.delete(file)
        tell(Outcome(file, "deleted" if deletes else "orphan"))
    return BatchReport(tuple(outcomes), check, _fix_command(given, outcomes, folder.path))


def make(spec: GemmSpec) -> list[tuple[KernelPlan, str]]:
    """The kernels of one spec with their sources, in launch order."""
    from deepgemm_codegen.arch import load_arch  # noqa: PLC0415  a batch needs them, importing
    from deepgemm_codegen.decide import decide  # noqa: PLC0415  it does not
    from deepgemm_codegen.render import render_kernel  # noqa: PLC0415

    program = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    return [(plan, render_kernel(plan)) for plan in program.kernels]


def _put_kernels(
    folder: _Folder, name: str, where: str, made: Made
) -> Generator[tuple[Outcome, str, CodegenError | None], None, None]:
    """Writes or compares the kernels of one spec.

    Yields:
        The outcome of a file, its manifest record or empty, and the error if it failed.
    """
    sources, message, code = made
    if message:
        yield Outcome(f"{name}.cu", "failed", where, message, code), "", CodegenError(message)
        return
    try:
        _check_names(name, sources)
        for kernel, source, text in sources:
            yield folder.put(f"{kernel}.cu", source, where), text, None
    except CodegenError as error:
        yield Outcome(f"{name}.cu", "failed", where, str(error), error.exit_code), "", error


def _made(spec: GemmSpec) -> Made:
    """What `make` gives, or why it failed: a failure concerns one kernel, not the batch."""
    try:
        sources = [(plan.name, source, record(plan, source)) for plan, source in make(spec)]
    except CodegenError as error:
        return [], str(error) or type(error).__name__, error.exit_code
    except Exception as error:  # noqa: BLE001  a fault of ours in one kernel spares the others
        return [], f"internal error: {type(error).__name__}: {error}", InternalError.exit_code
    return sources, "", 0


def _make_all(specs: Sequence[GemmSpec], jobs: int) -> Generator[Made, None, None]:
    """`_made` of every spec, in order, by `jobs` processes; few are held at a time."""
    if jobs <= 1 or len(specs) < 2:
        yield from map(_made, specs)
        return
    from collections import deque  # noqa: PLC0415  only several processes need these
    from concurrent.futures import BrokenExecutor, ProcessPoolExecutor  # noqa: PLC0415
    from itertools import islice  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    # A fork would copy the caller's threads' locks; a fresh process starts clean everywhere.
    pool = ProcessPoolExecutor(min(jobs, len(specs)), mp_context=get_context("spawn"))
    try:
        waiting = iter(specs)
        flying = deque(pool.submit(_made, spec) for spec in islice(waiting, jobs * _FLYING))
        while flying:
            yield flying.popleft().result()
            flying.extend(pool.submit(_made, spec) for spec in islice(waiting, 1))
    except BrokenExecutor as error:
        raise EnvironmentLackError("a worker process died; try again with one job") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _named(entries: Sequence[SpecEntry]) -> list[tuple[str, SpecEntry]]:
    """The entries with their kernels' names, in the order of the names.

    Raises:
        InputError: none at all, or two that would share a file; every such pair is named.
    """
    if not entries:
        raise InputError("no kernel is asked for; there is nothing to generate")
    first: dict[str, SpecEntry] = {}
    named: list[tuple[str, SpecEntry]] = []
    problems: list[str] = []
    for entry in entries:
        name = kernel_name(entry.spec)
        twin = first.setdefault(name.casefold(), entry)  # some file systems fold case
        if twin is entry:
            named.append((name, entry))
        elif twin.spec == entry.spec:
            problems.append(f"{entry.where}: {twin.where} asks for the same kernel already")
        else:
            problems.append(
                f"{entry.where}: its kernel would share the file {name}.cu with that of"
                f" {twin.where}; give one of them another name"
            )
    if problems:
        raise InputError("\n".join(problems))
    return sorted(named, key=lambda pair: pair[0])


def _check_names(name: str, sources: Sequence[Source]) -> None:
    """A program's further kernels must be named after its spec, so that no two specs share one."""
    names = [kernel for kernel, _, _ in sources]
    strange = [kernel for kernel in names if kernel != name and not kernel.startswith(f"{name}_")]
    if strange or len({kernel.casefold() for kernel in names}) < len(names) or not names:
        raise InternalError(f"kernels of {name} are named {', '.join(names) or 'nothing'}")


class _Folder:
    """The output folder: compares, and writes unless it only checks."""

    def __init__(self, path: str, *, check: bool, diff: bool) -> None:
        if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
            raise InputError(f"'{path}' is a file; give a folder for the kernels")
        self.path = path
        self.check = check
        self.diff = diff
        self.listed = listed_files(path)

    def put(self, file: str, text: str, where: str = "") -> Outcome:
        """Brings one file up to date, or tells what that would change."""
        data = text.encode()
        path = os.path.join(self.path, file)  # noqa: PTH118  str paths throughout
        old = self._old(path)
        if old == data:
            return Outcome(file, "unchanged", where)
        if not self.check:
            self._write(path, data)
        if old is None:
            return Outcome(file, "missing" if self.check and file in self.listed else "new", where)
        difference = _difference(file, old, text) if self.diff and file != MANIFEST else ""
        return Outcome(file, "changed", where, diff=difference)

    @staticmethod
    def _old(path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None
        except IsADirectoryError as error:
            raise InputError(f"'{path}' is a folder; move it away") from error
        except OSError as error:
            raise EnvironmentLackError(f"cannot read '{path}': {error.strerror}") from error

    def _write(self, path: str, data: bytes) -> None:
        try:
            os.makedirs(self.path, exist_ok=True)  # noqa: PTH103
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(f"'{self.path}' runs through a file; choose another folder") from error
        except OSError as error:
            raise EnvironmentLackError(
                f"cannot make folder '{self.path}': {error.strerror}"
            ) from error
        atomic_write(path, data)

    def orphans(self, wanted: set[str]) -> list[str]:
        """Files named as ours are that are not wanted."""
        try:
            present = os.listdir(self.path)  # noqa: PTH208
        except FileNotFoundError:
            return []
        except OSError as error:
            raise EnvironmentLackError(f"cannot list '{self.path}': {error.strerror}") from error
        known = {file.casefold() for file in wanted}
        return sorted(
            file for file in present if file.casefold() not in known and _OUR_NAME.fullmatch(file)
        )

    def delete(self, file: str) -> None:
        """Deletes an orphan."""
        path = os.path.join(self.path, file)  # noqa: PTH118
        try:
            os.unlink(path)  # noqa: PTH108
        except OSError as error:
            raise EnvironmentLackError(f"cannot delete '{path}': {error.strerror}") from error

    def put_manifest(self, records: list[tuple[str, str]]) -> Outcome:
        """Brings the manifest up to date; that it cannot be written is an outcome too."""
        try:
            return self.put(MANIFEST, manifest_text(records))
        except CodegenError as error:
            return Outcome(MANIFEST, "failed", "", str(error), error.exit_code)


def _difference(file: str, old: bytes, new: str) -> str:
    """Unified diff of a file from the disk's bytes to the batch's."""
    from difflib import unified_diff  # noqa: PLC0415

    before = old.decode("utf-8", "replace").splitlines(keepends=True)
    lines = unified_diff(before, new.splitlines(keepends=True), f"a/{file}", f"b/{file}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _fix_command(entries: Sequence[SpecEntry], outcomes: Sequence[Outcome], folder: str) -> str:
    """The command that makes the folder match the files that the entries came from."""
    files = list(dict.fromkeys(entry.file for entry in entries))
    if not all(files):
        return ""
    words = ["deepgemm_codegen", "generate", *files, "--out", folder]
    if any(outcome.status == "orphan" for outcome in outcomes):
        words.append("--prune")
    return shlex.join(words)
