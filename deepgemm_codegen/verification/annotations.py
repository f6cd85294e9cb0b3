"""Outcomes as GitHub workflow commands, which GitHub shows beside the lines of a kernel file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.specfile.problems import workflow_command

if TYPE_CHECKING:
    from deepgemm_codegen.verification.job import Outcome

__all__ = ["annotation"]


def annotation(outcome: Outcome) -> str:
    """An error for a kernel that failed, a warning for one not judged; empty for a pass."""
    job = outcome.job
    place = (job.file, job.line, job.column)
    if outcome.status == "passed":
        return ""
    if outcome.status == "unjudged":
        return workflow_command("warning", *place, f"{outcome.name}: not judged for want of time")
    if outcome.verdict is None:
        return workflow_command("error", *place, f"{outcome.name}: {outcome.message}")
    from deepgemm_codegen.harness import format_verdict  # noqa: PLC0415  imports numpy

    lines = [line.strip() for line in format_verdict(outcome.verdict)]
    return workflow_command("error", *place, "\n".join(lines))
