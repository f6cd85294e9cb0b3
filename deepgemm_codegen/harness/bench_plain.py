"""The plain product that a kernel with epilogue steps is timed beside: what the steps cost.

It is a spec like any other, planned and built as one, so that the figure is what a caller would
have who left the steps out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import INT32, parse_dtype
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec.precision import result_of

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["plain_spec"]


def plain_spec(spec: GemmSpec) -> GemmSpec | None:
    """A spec without its steps; None where it has none, or no product beside them.

    All else stays: C, zero points, scales by block, a batch, strides, and the choices made in the
    tree's place, but for that of who has whole rows, for which nothing asks then. What steps read
    or write beside D goes with them. D keeps its type but where a step makes it, see
    `_unquantized`.

    Raises:
        InputError: a step pairs columns, so that the product's D is twice as wide.
    """
    if not spec.epilogue or not spec.multiplies:
        return None
    if spec.pairs is not None:
        raise InputError(f"{spec.pairs.kind} makes D half as wide as the product")
    chosen = replace(spec.overrides, cluster_rows=None)
    if spec.quantizes is None:
        return replace(spec, epilogue=(), overrides=chosen)
    dtype = _unquantized(spec)
    align = max(spec.align_d, dtype.bytes)
    return replace(spec, epilogue=(), overrides=chosen, dtype_d=dtype, align_d=align)


def _unquantized(spec: GemmSpec) -> DType:
    """The type of D without the step that quantizes, as no sums become one of 8 bits by themselves.

    It is the type of a D that a spec does not name: 16 bits of fp16, bf16 and fp8, the int32 sums
    of int8. That is what a caller passes on to a kernel which quantizes apart, so that the ratio
    sets the step, and the bytes that it spares, against that product. To int32 sums no C in floats
    is added: with one D is of C's type.
    """
    dtype = parse_dtype(result_of(spec.op, spec.dtype_a))
    return spec.dtype_c if dtype == INT32 and spec.dtype_c is not None else dtype
