"""A batch: render, compare, write and forget one kernel after the other.

A batch streams, so ten thousand kernels take the memory of one (the manifest's records, a
kilobyte or two a kernel, are what is kept).
"""

from __future__ import annotations

import os
import shlex
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.batch.dispatch import FILES, Entry, dispatch_texts
from deepgemm_codegen.batch.folder import Folder
from deepgemm_codegen.batch.manifest import MANIFEST, manifest_text
from deepgemm_codegen.batch.report import BatchReport, Outcome, Status
from deepgemm_codegen.batch.workers import Made, Source, make_all, processes_for
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError, InputError, InternalError
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from deepgemm_codegen.specfile import SpecEntry

__all__ = ["generate"]


def generate(
    entries: Iterable[SpecEntry],
    out_dir: str | os.PathLike[str],
    *,
    check: bool = False,
    diffs: int = 0,
    jobs: int | None = 1,
    keep_going: bool = True,
    clean: bool = False,
    progress: Callable[[Outcome], None] | None = None,
) -> BatchReport:
    """Generates a batch into a folder, or tells how the folder differs from it.

    Files that are right already are not touched; the file of a kernel that fails keeps its old
    bytes. Finished work is kept whether or not the batch goes on after a failure; the manifest and
    the selector list what is finished.

    Args:
        entries: the kernels; their order does not matter.
        out_dir: the folder; made when the first file is written.
        check: write nothing; the report's exit code is 1 when something would change.
        diffs: give `progress` a unified diff of so many changed files.
        jobs: processes that decide and render, which import the caller's main module; this one
            writes. None takes what serves best.
        keep_going: go on after a kernel that fails; otherwise the rest is skipped. A disk that
            cannot be written ends the batch in any case.
        clean: delete what the manifest says the tool has made and the batch does not ask for;
            without it such files are reported and stay. An edited file stays in any case.
        progress: called with every outcome as it comes, in the order of the file names.

    Raises:
        InputError: no entries; one spec twice; two specs of one name; a folder that is a file
            or holds somebody else's files under our names.
        EnvironmentLackError: the folder cannot be made or read.
    """
    given = list(entries)
    named = _named(given)
    folder = Folder(os.fspath(out_dir), check=check, diffs=diffs)
    folder.refuse_strange(FILES)
    batch = _Batch(folder, progress)
    with batch.kept():
        batch.put_kernels(named, processes_for(len(named)) if jobs is None else jobs, keep_going)
        cleanable = batch.settle(clean=clean)
    fix = _fix_command(given, folder.path, clean=cleanable)
    return BatchReport(tuple(batch.outcomes), check, fix, cleanable)


class _Batch:
    """One run over a folder.

    Attributes:
        outcomes: what became of each file so far, without diffs.
    """

    def __init__(self, folder: Folder, progress: Callable[[Outcome], None] | None) -> None:
        self.outcomes: list[Outcome] = []
        self._folder = folder
        self._progress = progress
        self._listing = _Listing(folder)
        self._lost = False  # the disk refuses

    def _tell(self, outcome: Outcome) -> None:
        if self._progress:
            self._progress(outcome)
        self.outcomes.append(replace(outcome, diff="") if outcome.diff else outcome)

    @contextmanager
    def kept(self) -> Generator[None, None, None]:
        """Leaves the list of what is finished when an interrupt, or a failing reader, comes."""
        try:
            yield
        except BaseException:
            self._listing.keep()
            raise

    def put_kernels(
        self, named: Sequence[tuple[str, SpecEntry]], jobs: int, keep_going: bool
    ) -> None:
        """Makes and writes, or compares, every kernel."""
        stopped = False
        specs = [entry.spec for _, entry in named]
        with closing(make_all(specs, jobs)) as all_made:
            for name, entry in named:
                if stopped:
                    self._tell(Outcome(f"{name}.cu", "skipped", entry.where))
                    continue
                made = next(all_made)
                outcome = _put_program(self._folder, name, entry, made)
                if made.source is not None and outcome.status != "failed":
                    self._listing.add(entry, made.source)
                else:
                    self._lost = outcome.exit_code == EnvironmentLackError.exit_code
                    stopped = self._lost or not keep_going
                self._tell(outcome)

    def settle(self, *, clean: bool) -> bool:
        """Deals with what is left over, then writes the lists; tells whether there is to clean."""
        check = self._folder.check
        complete = all(outcome.status not in ("failed", "skipped") for outcome in self.outcomes)
        leftovers = self._folder.leftovers(self.outcomes)
        for left in leftovers:
            deletes = clean and not check and complete and not left.why_kept
            if deletes:
                self._folder.delete(left.file)
            status: Status = "deleted" if deletes else "orphan"
            self._tell(Outcome(left.file, status, message=left.why_kept))
        if self._listing.records and not self._lost and (complete or not check):
            for outcome in self._listing.put():
                self._tell(outcome)
        if not check:
            self._folder.sweep_up()
        return any(not left.why_kept for left in leftovers)


class _Listing:
    """What is finished, and the files that list it: the selector, and last the manifest."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.records: dict[str, str] = {}
        self._entries: list[Entry] = []

    def add(self, entry: SpecEntry, source: Source) -> None:
        """Takes the program of one spec."""
        self.records[f"{source.name}.cu"] = source.record
        self._entries.append(
            Entry(entry.spec, source.name, source.target, workspace=source.workspace)
        )

    def keep(self) -> None:
        """Lists what is finished as well as it can, on the way out of a run that was stopped."""
        if self.records and not self._folder.check:
            with suppress(CodegenError):
                list(self.put())

    def put(self) -> Generator[Outcome, None, None]:
        """Brings the files up to date; that one cannot be written is an outcome too."""
        texts = dict(zip(FILES, dispatch_texts(self._entries), strict=True))
        left = self._folder.kept(self.records)
        texts[MANIFEST] = manifest_text(self.records.values(), left)
        for file, text in texts.items():
            try:
                yield self._folder.put(file, text, diff=file != MANIFEST)
            except CodegenError as error:
                yield Outcome(file, "failed", "", str(error), error.exit_code)


def _put_program(folder: Folder, name: str, entry: SpecEntry, made: Made) -> Outcome:
    """Writes or compares the program of one spec; what became of it."""
    source, where = made.source, entry.where
    if source is None:
        place = entry.place_of(made.message)
        return Outcome(f"{name}.cu", "failed", place, made.message, made.exit_code)
    try:
        if source.name != name:
            raise InternalError(f"the program of {name} is named {source.name or 'nothing'}")
        return folder.put(f"{name}.cu", source.text, where)
    except CodegenError as error:
        return Outcome(f"{name}.cu", "failed", where, str(error), error.exit_code)


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


def _fix_command(entries: Sequence[SpecEntry], folder: str, *, clean: bool) -> str:
    """The command that makes the folder match the files that the entries came from."""
    files = list(dict.fromkeys(entry.file for entry in entries))
    if not all(files):
        return ""
    words = ["deepgemm_codegen", "generate", *files, "--out", folder]
    if clean:
        words.append("--clean")
    return shlex.join(words)
