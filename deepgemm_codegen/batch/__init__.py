"""Many specs at once: their kernels in a folder, with what a team keeps beside them.

`generate` writes the sources, ``manifest.json`` (what each is, without a compiler) and a selector
(``dispatch.h``, ``dispatch.json``: which kernel serves a problem). Files and bytes are a function
of the specs alone: no time, no path, no order of the input, no number of processes.
"""

from __future__ import annotations

from deepgemm_codegen.batch.generating import generate
from deepgemm_codegen.batch.report import BatchReport, Outcome
from deepgemm_codegen.batch.workers import make

__all__ = ["BatchReport", "Outcome", "generate", "make"]
