"""What a batch did, as values; `deepgemm_codegen.batch.generate` makes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["STATUSES", "BatchReport", "Outcome", "Status"]

Status = Literal["new", "changed", "missing", "orphan", "deleted", "unchanged", "failed", "skipped"]
"""What became of a file: ``missing``, in a check, is one that the manifest lists and the folder
lacks; ``orphan`` one of ours that the batch does not ask for; ``skipped`` was not reached."""

STATUSES: tuple[Status, ...] = (
    "new",
    "changed",
    "missing",
    "orphan",
    "deleted",
    "unchanged",
    "failed",
    "skipped",
)
"""The order in which they are counted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file.

    Attributes:
        file: name in the output folder.
        status: see `Status`.
        where: ``file:line`` that asked for it, with the column of a value that was refused, or
            empty.
        message: why it failed, or why an orphan is not ours to delete; else empty.
        exit_code: of the failure, else 0.
        diff: unified diff from the disk to the batch, when asked for.
    """

    file: str
    status: Status
    where: str = ""
    message: str = ""
    exit_code: int = 0
    diff: str = ""

    @property
    def source(self) -> str:
        """The kernel file that asked for it, or empty."""
        return re.sub(r"(:[0-9]+){1,2}$", "", self.where)

    def __str__(self) -> str:
        """The status and the file; for a failure also who asked for it, and the reason."""
        text = f"{self.status:<9} {self.file}"
        if self.message:
            text += f"\n    {self.where}: {self.message}" if self.where else f": {self.message}"
        return text


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch did, or would do.

    Attributes:
        outcomes: every file: kernels by name, the manifest, orphans; without diffs.
        check: whether nothing was to be written.
        fix: the command that makes the folder match; empty when specs came from no file.
        cleanable: whether cleaning would delete something, or has.
    """

    outcomes: tuple[Outcome, ...]
    check: bool
    fix: str
    cleanable: bool = False

    def named(self, *statuses: Status) -> list[str]:
        """Names of the files with one of the statuses."""
        return [outcome.file for outcome in self.outcomes if outcome.status in statuses]

    @property
    def failures(self) -> list[Outcome]:
        """What failed."""
        return [outcome for outcome in self.outcomes if outcome.status == "failed"]

    @property
    def drift(self) -> bool:
        """Whether a check found the folder to differ from what the specs ask for."""
        return self.check and bool(self.named("new", "changed", "missing", "orphan"))

    @property
    def exit_code(self) -> int:
        """The gravest failure's code; 1 for a check that found a difference; 0 otherwise."""
        return max((outcome.exit_code for outcome in self.failures), default=int(self.drift))

    @property
    def counts(self) -> str:
        """How many files have each status."""
        statuses = [outcome.status for outcome in self.outcomes]
        counted = ((statuses.count(status), status) for status in STATUSES)
        return ", ".join(f"{count} {status}" for count, status in counted if count)

    def __str__(self) -> str:
        """What is not as it should be, a count, and after a check the command that mends it."""
        lines = [str(outcome) for outcome in self.outcomes if outcome.status != "unchanged"]
        lines.append(self.counts)
        if self.drift and self.fix:
            lines.append(f"to bring the folder up to date: {self.fix}")
        return "\n".join(lines)
