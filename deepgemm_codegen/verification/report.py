"""An outcome as JSON's types."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness import as_json as verdict_json

if TYPE_CHECKING:
    from deepgemm_codegen.verification.job import Outcome

__all__ = ["as_json"]


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Where it was asked for, its status, the verdict's fields, what memory accesses cost."""
    fields: dict[str, Any] = {
        "source": outcome.job.where,
        "name": outcome.name,
        "status": outcome.status,
        "passed": outcome.status == "passed",
    }
    if outcome.verdict is not None:
        fields |= verdict_json(outcome.verdict)
    if outcome.status == "error":
        fields["error"] = outcome.message
    if outcome.costs is not None and outcome.reported:
        costs = asdict(outcome.costs)
        fields["memory"] = {
            "blocks": costs["blocks"],
            "grid": costs["grid"],
            "shared": costs["shared"],
            "global": costs["in_global"],
        }
    return fields
