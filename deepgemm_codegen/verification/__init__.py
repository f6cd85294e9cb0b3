"""Many kernels to verdicts, and verdicts to what a continuous integration reads.

`judge` takes one kernel from spec to outcome: build, launches, requirements; `verify_all` many of
them, by several processes and within a time. `junit` and `annotations` write outcomes down.
``docs/verification.md`` says how a kernel is judged, ``docs/ci.md`` how to have it done for you.
"""

from __future__ import annotations

from deepgemm_codegen.verification.job import Job, Options, Outcome
from deepgemm_codegen.verification.running import exit_code, judge, sample, verify_all

__all__ = ["Job", "Options", "Outcome", "exit_code", "judge", "sample", "verify_all"]
