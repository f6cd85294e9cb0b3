"""Is a generated kernel right? Buffers, oracle, launches, verdicts.

``docs/verification.md`` says how a kernel is judged, and where the judgement ends.
"""

from __future__ import annotations

from deepgemm_codegen.harness.api import gpu_arch, verify
from deepgemm_codegen.harness.verdict import (
    CheckResult,
    Difference,
    Verdict,
    as_json,
    format_verdict,
)

__all__ = [
    "CheckResult",
    "Difference",
    "Verdict",
    "as_json",
    "format_verdict",
    "gpu_arch",
    "verify",
]
