"""Question: how does each operand travel, where shared memory is to hold it k by k, as fp32?

An operand with m or n contiguous is copied in vectors along it. One with k contiguous is turned
round on the way: four k of a row at a time through registers, where rows are whole quads, or an
element at a time, by cp.async. Quads are fewer instructions, but a load into registers has half a
slice's time to arrive, so that the tile decides (`predict`): at 4096-cubed nn quads take 2,668 us
and elements 2,722, at 1024-cubed 64.6 and 55.1 (an H200). What is no fp32 is widened, so it passes
through registers anyway. Where k of both has to turn round, fp32 travels by elements: at 4096-cubed
nt, quads take 2,855 us, elements 2,693.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.operands import Travel, travel_of
from deepgemm_codegen.plan.simt import QUAD, SimtOperand

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["place_simt_operand", "simt_travel"]

CP_ASYNC_ELEMENT = 4
"""Bytes of an element that cp.async may copy alone."""


def simt_travel(spec: GemmSpec, source: str, arch: Arch, *, elements: bool = False) -> Travel:
    """How the caller's operand ``a`` or ``b`` reaches shared memory.

    Args:
        spec: what is asked for.
        source: the operand.
        arch: where.
        elements: whether fp32 that has to turn round does so by elements, even if quads would do.
    """
    dtype: DType = getattr(spec, f"dtype_{source}")
    wide = dtype.bytes == CP_ASYNC_ELEMENT
    mechanism: Literal["cp_async", "registers"] = (
        "cp_async" if wide and arch.cp_async else "registers"
    )
    quad = QUAD * dtype.bytes
    width, _, limit = travel_of(spec, source, arch)
    width = min(width, quad)
    # A load into registers cannot be cut short, so its vectors must divide the row.
    _, columns = spec.stored(source)
    whole = gcd(width, dtype.bytes if columns.dynamic else columns.size * dtype.bytes)
    if spec.k_major(source):
        elements = elements or (spec.k_major("a") and spec.k_major("b"))
        if whole == quad and not (elements and mechanism == "cp_async"):
            return Travel(quad, "registers", "k is contiguous and has to turn round")
        return Travel(dtype.bytes, mechanism, "k is contiguous and has to turn round")
    if mechanism == "registers":
        width = whole
    return Travel(width, mechanism, limit if width < quad else "")


def place_simt_operand(
    spec: GemmSpec,
    role: Literal["a", "b"],
    source: Literal["a", "b"],
    travel: Travel,
    extent_mn: Extent,
    extent_k: Extent,
    threads: int,
) -> SimtOperand:
    """The operand in a given tile; arguments as in `operands.place_operand`."""
    k_major = spec.k_major(source)
    rows, columns = (extent_mn, extent_k) if k_major else (extent_k, extent_mn)
    return SimtOperand(
        name=role,
        source=source,
        dtype=getattr(spec, f"dtype_{source}"),
        major="k" if k_major else "mn",
        leading=getattr(spec, f"ld{source}") or None,
        rows=rows,
        columns=columns,
        vector_bytes=travel.vector_bytes,
        mechanism=travel.mechanism,
        threads=threads,
    )
