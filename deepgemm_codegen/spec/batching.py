"""Where the matrices of a batch lie: one behind the other, so far apart, anywhere, or one for all.

A stride is what a spec says of one operand: elements from one product's matrix to the next's,
0 where all products share one, `DENSE` where each follows the one before without a gap, or
`POINTERS` where the caller gives an array of pointers instead, on the device, one a product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import check_range, whole_number

if TYPE_CHECKING:
    from deepgemm_codegen.spec.dimension import Dim

__all__ = [
    "DENSE",
    "MAX_STRIDE",
    "POINTERS",
    "SHARED",
    "STRIDE_WORDS",
    "Stride",
    "checked",
    "parse",
    "written",
]

DENSE: Literal["dense"] = "dense"
POINTERS: Literal["pointers"] = "pointers"
SHARED = 0

Stride = int | Literal["dense", "pointers"]
"""See the module's docstring."""

STRIDE_WORDS = ("dense", "shared", "pointers")
"""Words that stand for a stride."""

MAX_STRIDE = 2**39 // 16
"""Largest stride: of elements of 16 bytes, which none has, the half of what TMA takes."""


def parse(text: str | int, name: str) -> Stride:
    """Reads ``dense``, ``shared``, ``pointers`` or a number of elements.

    Raises:
        InputError: none of them.
    """
    word = str(text).strip()
    if word == "dense":
        return DENSE
    if word == "pointers":
        return POINTERS
    if word == "shared":
        return SHARED
    wanted = f"give elements, {', '.join(STRIDE_WORDS[:-1])} or {STRIDE_WORDS[-1]}"
    if word[:1].isalpha():
        raise InputError(f"{name} = {word}: unknown; {wanted}{nearest(word, list(STRIDE_WORDS))}")
    stride = whole_number(word, name, remedy=wanted)
    check_range(stride, name, 0, MAX_STRIDE)
    return stride


def written(stride: Stride) -> str:
    """The stride as `parse` reads it; empty for a dense one."""
    if stride == DENSE:
        return ""
    return "shared" if stride == SHARED else str(stride)


def checked(
    name: str, stride: Stride, rows: Dim, length: Dim, leading: int, batch: int, *, output: bool
) -> Stride:
    """A stride as it is kept: `DENSE` where it comes to that, or where there is one product.

    Products may lie apart, one whole matrix behind the other, or side by side in the rows of a
    larger one (heads of a sequence: ``stride_a=64 lda=1024``). What overlaps otherwise is refused.

    Args:
        name: the field.
        stride: as given.
        rows: rows as stored.
        length: their contiguous length.
        leading: elements from row to row; 0 when known only at run time.
        batch: products.
        output: whether products write there.

    Raises:
        InputError: no stride, matrices that overlap, or a stride beside a leading dimension of run
            time.
    """
    if stride not in (DENSE, POINTERS):  # Python code may give any text or number
        stride = parse(stride, name)
    if stride == POINTERS:
        if batch == 1:
            raise InputError(
                f"{name} = pointers: there is one product; give batch, or leave it out"
            )
        return POINTERS
    if stride == DENSE or batch == 1:
        return DENSE
    letter = name[-1].upper()
    if stride == SHARED:
        if output:
            raise InputError(f"{name} = 0: {batch} products would write one {letter}; leave it out")
        return SHARED
    if leading == 0:
        raise InputError(
            f"{name} = {stride}: ld{name[-1]} is known only at run time; give ld{name[-1]}, or"
            f" leave {name} out"
        )
    dense = rows.size * leading
    if not rows.dynamic and stride == dense:
        return DENSE
    extent = (rows.size - 1) * leading + length.size
    beside = stride >= length.size and (batch - 1) * stride + length.size <= leading
    if stride < extent and not beside:
        words = "products would overlap" if output else "matrices overlap"
        shared = "" if output else ", or 0 for one that all products share"
        raise InputError(f"{name} = {stride}: {words}; give {extent} elements or more{shared}")
    return stride
