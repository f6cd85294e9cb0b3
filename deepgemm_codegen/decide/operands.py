"""Question: how does each operand travel? Copy width, copy mechanism, and swizzle.

The vector width is what strides and base alignment allow; the mechanism follows from the width
and the architecture; the panel width is the widest that the tile and the copy loop admit.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepgemm_codegen.plan.layout import CHUNK_BYTES, swizzle_bytes_for
from deepgemm_codegen.plan.tiles import Extent, Operand

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "Travel",
    "matrices_like_d",
    "output_vector",
    "place_operand",
    "store_answer",
    "strided",
    "travel_of",
    "widest_vector",
]

CP_ASYNC_LEAST = 4
"""cp.async copies 4, 8 or 16 bytes (PTX ISA)."""

OUTPUT_VECTOR = 4
"""Elements a lane stores at most: one 16-byte read of the fp32 slab."""


class Travel(NamedTuple):
    """How the bytes of one operand travel, whatever the tile.

    Attributes:
        vector_bytes: that one thread copies at a time.
        mechanism: how they get to shared memory.
        limit: what kept the vector from being wider; empty at 16 bytes.
    """

    vector_bytes: int
    mechanism: Literal["cp_async", "registers"]
    limit: str


def strided(spec: GemmSpec, source: str) -> bool:
    """Whether the leading dimension tells where rows of an operand start.

    Not of a single row, unless each product of a batch has one as far from the one before.
    """
    rows, _ = spec.stored(source)
    if rows.dynamic or rows.size > 1:
        return True
    dense = spec.matrices(source) > 1 and not spec.scattered(source)
    return dense and getattr(spec, f"ld{source}") == 0


def widest_vector(
    dtype: DType, align: int, leading: int, stride: int, *, strided: bool
) -> tuple[int, str]:
    """Widest vector in bytes that every row start allows, and what limits it.

    Args:
        dtype: element type.
        align: base alignment, bytes.
        leading: elements from row to row, 0 when known only at run time.
        stride: elements from batch to batch, 0 without a batch.
        strided: whether the leading dimension is to be minded, see the function of that name.
    """
    limits = [(align, f"base alignment of {align} bytes")]
    if strided:
        if leading == 0:
            limits.append((dtype.bytes, "leading dimension known only at run time"))
        else:
            limits.append((leading * dtype.bytes, f"leading dimension of {leading} elements"))
    if stride:
        limits.append((stride * dtype.bytes, f"batch stride of {stride} elements"))
    width = CHUNK_BYTES
    reason = ""
    for value, why in limits:
        common = gcd(width, value)
        if common < width:
            width, reason = common, why
    return width, reason


def travel_of(spec: GemmSpec, source: str, arch: Arch) -> Travel:
    """How the caller's operand ``a`` or ``b`` reaches shared memory, whatever the tile."""
    dtype: DType = getattr(spec, f"dtype_{source}")
    _, columns = spec.stored(source)
    leading: int = getattr(spec, f"ld{source}")
    width, reason = widest_vector(
        dtype,
        getattr(spec, f"align_{source}"),
        leading,
        spec.distance(source),
        strided=strided(spec, source),
    )
    if source == "b" and spec.pairs is not None and spec.layout[1] == "n":
        half = dtype.bytes if spec.n.dynamic else spec.n.size * dtype.bytes
        if width > gcd(width, half):
            width, reason = gcd(width, half), f"B's second half begins at column {spec.n}"
    if arch.cp_async and width >= CP_ASYNC_LEAST:
        return Travel(width, "cp_async", reason)
    # A load into registers cannot be cut short, so its vectors must divide the row.
    length = dtype.bytes if columns.dynamic else max(columns.size, 1) * dtype.bytes
    whole = gcd(width, length)
    if whole < width:
        reason = f"row length of {columns} elements"
    return Travel(whole, "registers", reason)


def place_operand(
    spec: GemmSpec,
    role: Literal["a", "b"],
    source: Literal["a", "b"],
    travel: Travel,
    extent_mn: Extent,
    extent_k: Extent,
    threads: int,
) -> Operand | None:
    """The operand in a given tile; None when no panel width serves it.

    Args:
        spec: the caller's spec.
        role: which operand of the plan it becomes.
        source: which operand of the caller's it is.
        travel: from `travel_of`.
        extent_mn: the plan's m (role a) or n (role b).
        extent_k: the plan's k.
        threads: threads of the block.
    """
    dtype: DType = getattr(spec, f"dtype_{source}")
    k_major = spec.k_major(source)
    rows, columns = (extent_mn, extent_k) if k_major else (extent_k, extent_mn)
    leading: int = getattr(spec, f"ld{source}")
    swizzle = swizzle_bytes_for(columns.tile * dtype.bytes, threads * travel.vector_bytes)
    if swizzle == 0:
        return None
    return Operand(
        name=role,
        source=source,
        dtype=dtype,
        major="k" if k_major else "mn",
        leading=leading or None,
        rows=rows,
        columns=columns,
        vector_bytes=travel.vector_bytes,
        mechanism=travel.mechanism,
        swizzle_bytes=swizzle,
        threads=threads,
    )


def matrices_like_d(spec: GemmSpec) -> list[tuple[DType, int, int, int]]:
    """(type, leading dimension or 0, alignment, elements from product to product).

    Of D, C and the matrices of epilogue steps.
    """
    found = [(spec.dtype_d, spec.ldd, spec.align_d, spec.distance("d"))]
    if spec.dtype_c is not None:
        found.append((spec.dtype_c, spec.ldc, spec.align_c, spec.distance("c")))
    rows = spec.stored("d")[0].size if spec.batch > 1 else 0
    found.extend(
        (operand.dtype, spec.leading_of(operand), operand.align, rows * spec.leading_of(operand))
        for step in spec.epilogue
        for operand in step.operands
        if operand.full
    )
    return found


def output_vector(spec: GemmSpec) -> int:
    """Elements of D that one lane moves at a time, and of all that is read like D: 4, 2 or 1.

    A vector must divide the row, so that a row's end never cuts one, and every row of each of
    these matrices must start on it.
    """
    rows, columns = spec.stored("d")
    vector = OUTPUT_VECTOR
    if columns.dynamic:
        return 1
    vector = gcd(vector, columns.size)
    for dtype, leading, align, stride in matrices_like_d(spec):
        if rows.dynamic or rows.size > 1:
            vector = gcd(vector, leading or 1)
        if stride:
            vector = gcd(vector, stride)
        vector = gcd(vector, align // dtype.bytes)
    for operand in () if spec.norm is None else spec.epilogue[spec.norm].operands:
        vector = gcd(vector, operand.align // operand.dtype.bytes)
    return vector


def store_answer(vector: int, element_bytes: int, *, c: bool) -> tuple[str, str]:
    """How wide a lane stores D, whose elements have so many bytes, and why no wider."""
    where = "C and D" if c else "D"
    reason = f"{vector * element_bytes} bytes of D: the widest that every row of {where} allows"
    return f"{vector} {'element' if vector == 1 else 'elements'}", reason
