"""Names of kernels: readable, C-safe, and never the same for two different specs."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepgemm_codegen.spec.gemm import GemmSpec

__all__ = ["kernel_name", "spec_digest"]

_LABEL_LENGTH = 40
"""Characters of a label kept in a name; the digest tells longer ones apart."""


def spec_digest(spec: GemmSpec) -> str:
    """Sixteen hexadecimal digits that stand for the whole spec, label included."""
    return hashlib.sha256(str(spec).encode()).hexdigest()[:16]


def kernel_name(spec: GemmSpec) -> str:
    """The entry symbol and file stem of a spec's kernel.

    A label is sanitised to ``[a-z0-9_]``; without one, types, layout and sizes are spelled out.
    The digest of the whole spec ends the name, so that specs that differ only in an epilogue, a
    stride, or in a label's punctuation or case get different names, also on a file system that
    folds case.
    """
    if spec.label:
        stem = re.sub(r"[^a-z0-9]+", "_", spec.label.lower()).strip("_")[:_LABEL_LENGTH]
        stem = f"gemm_{stem}" if not stem[:1].isalpha() else stem
    else:
        sizes = "x".join(
            f"dyn{dim.size}" if dim.dynamic else str(dim.size)
            for dim in ((spec.m, spec.n, spec.k) if spec.multiplies else (spec.m, spec.n))
        )
        types = str(spec.dtype_a)
        if spec.dtype_b != spec.dtype_a:
            types += f"_{spec.dtype_b}"
        stem = f"gemm_{types}_{spec.layout}_{sizes}"
        if not spec.multiplies:
            steps = [step.kind for step in spec.epilogue if step.definition.normalizes]
            stem = f"{steps[0] if steps else 'epilogue'}_{types}_{sizes}"
    return f"{stem}_{spec.arch.replace('.', '_')}_{spec_digest(spec)[:8]}"
