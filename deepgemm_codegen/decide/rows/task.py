"""What the search for a row kernel asks about a spec: rows, vectors, and bytes."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.operands import matrices_like_d
from deepgemm_codegen.decide.split_k import PARTIAL_VECTOR

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["RowTask", "row_task"]

VECTOR_BYTES = 16
"""Bytes that a thread moves at a time at most."""

SUM_BYTES = 4
"""Of a partial sum, fp32 or int32."""


class RowTask(NamedTuple):
    """A row kernel's work; sizes of dynamic dimensions are those planned for.

    Attributes:
        machine: where.
        rows: rows of D in the whole batch.
        matrices: of a batch, each of whose rows begin with a block of their own.
        n: elements of a row.
        vector: elements that a thread can take at a time.
        limit: what kept the vector from being wider; empty where its widest matrix fills 16 bytes.
        checked: whether vectors of that many fit is known only at run time.
        parts: partial sums of an element; 0 where A is read.
        read, written: bytes of an element, without what all rows share.
        sums: sums over a row that the norm takes: 0 without one, 1 or 2.
        step_clocks: of a multiprocessor that the steps take for an element.
        wide: whether beside a norm a matrix of the caller's that is read has elements of 32 bits,
            or a step is a polynomial; the latter is not asked where lengths are known only at run
            time, whose text finds its columns anew for each pass.
        bytewise: whether elements of 8 bits are read one by one.
    """

    machine: Machine
    rows: int
    matrices: int
    n: int
    vector: int
    limit: str
    checked: bool
    parts: int
    read: int
    written: int
    sums: int
    step_clocks: float
    wide: bool
    bytewise: bool

    @property
    def crowded(self) -> bool:
        """Whether a kernel with a text for any length has such vectors, or fp32 sums, under way."""
        return self.checked and (self.wide or self.parts > 0)

    def blocks(self, warps_m: int) -> int:
        """Blocks of the grid, of which each has so many rows of a matrix."""
        return self.matrices * -(-self.rows // (self.matrices * warps_m))


def row_task(spec: GemmSpec, machine: Machine, parts: int = 0) -> RowTask:
    """The work of the kernel that makes D of A, or of so many partial sums an element."""
    rows, length = spec.stored("d")  # columns, where A and D lie so and no step minds
    found = matrices_like_d(spec)
    matrices = [(dtype.bytes, leading, align) for dtype, leading, align, _ in found]
    apart = [distance for *_, distance in found]
    if not parts:
        matrices.append((spec.dtype_a.bytes, spec.lda, spec.align_a))
        apart.append(spec.distance("a"))
    widest = max(size for size, _, _ in matrices)
    vector, limit = PARTIAL_VECTOR if parts else VECTOR_BYTES // widest, ""
    limits = [(align // size, f"base alignment of {align} bytes") for size, _, align in matrices]
    if not length.dynamic:
        limits.append((length.size, f"row length of {length.size} elements"))
    if rows.dynamic or rows.size > 1:
        strides = [leading for _, leading, _ in matrices if leading]
        limits += [(leading, f"leading dimension of {leading} elements") for leading in strides]
    limits += [(distance, f"batch stride of {distance} elements") for distance in apart if distance]
    step = None if spec.norm is None else spec.epilogue[spec.norm]
    for operand in () if step is None else step.operands:
        whole = operand.align // operand.dtype.bytes
        if min(vector * operand.dtype.bytes, VECTOR_BYTES) > operand.align:
            limits.append((whole, f"base alignment of {operand.align} bytes of the {operand.name}"))
    for value, why in limits:
        if gcd(vector, value) < vector:
            vector, limit = gcd(vector, value), why
    strided = rows.dynamic or rows.size > 1
    unknown = length.dynamic or (strided and any(not leading for _, leading, _ in matrices))
    stored = sum(o.dtype.bytes for s in spec.epilogue for o in s.operands if o.full and o.written)
    like_d = sum(size for size, _, _ in matrices)
    written = spec.dtype_d.bytes + stored
    read = [o.dtype for s in spec.epilogue for o in s.operands if o.full and not o.written]
    read += [] if parts else [spec.dtype_a]
    read += [] if spec.dtype_c is None else [spec.dtype_c]
    counted = any(each.definition.instructions for each in spec.epilogue)
    return RowTask(
        machine=machine,
        rows=spec.batch * rows.size,
        matrices=spec.batch,
        n=length.size,
        vector=vector,
        limit=limit,
        checked=unknown and vector > 1,
        parts=parts,
        read=like_d - written + parts * SUM_BYTES,
        written=written,
        sums=0 if step is None else 2 if step.kind == "layer_norm" else 1,
        step_clocks=max(
            sum(each.definition.issue for each in spec.epilogue),
            sum(each.definition.special for each in spec.epilogue),
        ),
        wide=step is not None
        and ((counted and not length.dynamic) or any(dtype.bytes == SUM_BYTES for dtype in read)),
        bytewise=not parts and spec.dtype_a.bytes == 1 and vector == 1,
    )
