"""The spec: what is wanted of a product, in the caller's words, checked as it is made.

`gemm` has `GemmSpec`, `checks` what its fields must be to each other, and `text` how it is read
and written, so that ``str()`` round-trips. Beside them, one file each: a dimension, a batch, which
element types go together, scales by block, the choices a user may take over, and kernels' names.
"""

from __future__ import annotations

from deepgemm_codegen.spec.gemm import GemmSpec

__all__ = ["GemmSpec"]
