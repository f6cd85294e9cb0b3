"""Operands in memory: materialised with numpy or cupy, or computed a page at a time where read.

What lies between a row's end and the next row is poison (see `numbers.poison`), so that a kernel
that reads too far meets NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import KernelLackError
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.numbers import bits_dtype, encode, poison

if TYPE_CHECKING:
    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.matrix import Matrix

__all__ = ["HUGE", "Paged", "fill", "fill_regions", "read_region", "stray_writes", "untouched"]

Array = np.ndarray[Any, np.dtype[Any]]

_CHUNK = 1 << 22
"""Elements computed at a time."""

HUGE = 1 << 27
"""A D of more elements is neither filled nor scanned whole on a CPU."""

MARGIN = 64
"""Rows and columns around a region that are looked at in a D so big."""

PAGE = 128
"""Elements of a page of a lazy operand."""

AHEAD = 8
"""Pages computed together along k: the copy loop's next slices."""

_WIDE = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}
"""Types that move so many raw bytes."""


def _bits_at(matrix: Matrix, inputs: Inputs, flat: Any, xp: Any) -> Any:
    """Bits at flat indices of a matrix's buffer; padding is poison."""
    batch, row, column, inside = matrix.logical(flat)
    found = inputs.at(matrix.name, batch, row, column, xp)
    bits = encode(found, matrix.dtype, xp, saturates=False)
    if matrix.gapless:
        return bits
    nan = xp.asarray(poison(matrix.dtype), dtype=bits.dtype)
    return xp.where(inside, bits, nan)


def untouched(count: int, element: str, what: str) -> Array:
    """Zeros, which cost nothing until they are touched; a D of gigabytes relies on it.

    Args:
        count: elements.
        element: their type, as numpy names it.
        what: names them, with the sizes that they come from.

    Raises:
        KernelLackError: even so the system does not give as much.
    """
    try:
        return np.zeros(count, element)
    except (MemoryError, ValueError) as error:  # the latter beyond 63 bits
        size = count * np.dtype(element).itemsize / 2**30
        raise KernelLackError(
            f"{what} takes {size:,.0f} GiB, which the system does not give this process: however"
            " few blocks run, the emulator keeps its place in memory; verify smaller sizes"
        ) from error


def fill(matrix: Matrix, inputs: Inputs | None, target: Any, xp: Any) -> None:
    """Writes a matrix's buffer into a flat array of its bits; all poison without inputs."""
    target[...] = poison(matrix.dtype)
    if inputs is None:
        return
    for start in range(0, matrix.elements, _CHUNK):
        flat = xp.arange(start, min(start + _CHUNK, matrix.elements), dtype=xp.int64)
        target[start : start + flat.size] = _bits_at(matrix, inputs, flat, xp)


def fill_regions(
    matrix: Matrix, inputs: Inputs, regions: tuple[Region, ...], target: Any, xp: Any
) -> None:
    """Writes some regions of a matrix into its buffer and leaves the rest as it is."""
    for region in regions:
        batch, rows, columns = region.indices(xp)
        found = inputs.at(matrix.name, matrix.owner(batch), rows, columns, xp)
        target[matrix.flat(batch, rows, columns)] = encode(found, matrix.dtype, xp, saturates=False)


class Paged:
    """A read-only operand whose elements are computed when their page is first read.

    Serves as the emulator's lazy array. Nothing but the pages touched is ever held, so an operand
    of many gigabytes costs what the blocks that run read of it.
    """

    def __init__(self, matrix: Matrix, inputs: Inputs, step: int) -> None:
        """``step``: elements from one k to the next, by which pages are computed ahead."""
        self._matrix = matrix
        self._inputs = inputs
        self._step = PAGE if step == 1 else step
        self._size = matrix.dtype.bytes
        pages = -(-matrix.elements // PAGE)
        self._slot = np.zeros(pages, np.int32)  # 0: not computed yet
        self._store: Array = np.zeros((64, PAGE), bits_dtype(matrix.dtype))
        self._used = 1

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._matrix.elements * self._size

    @property
    def pages(self) -> int:
        """Pages computed so far."""
        return self._used - 1

    def read(self, offsets: Array, width: int) -> Array:
        """uint8 of shape (n, width): the bytes at byte offsets."""
        whole = width >= self._size and not np.any(offsets % width)
        page, within = np.divmod(offsets, PAGE * self._size)
        if whole:
            self._need(page)
            view = self._store.reshape(-1).view(_WIDE[width])
            at = self._slot[page] * (PAGE * self._size // width) + within // width
            found: Array = view.take(at).view(np.uint8).reshape(-1, width)
            return found
        every = offsets[:, None] + np.arange(width)
        page, within = np.divmod(every, PAGE * self._size)
        self._need(page.reshape(-1))
        raw = self._store.reshape(-1).view(np.uint8)
        single: Array = raw.take(self._slot[page] * (PAGE * self._size) + within)
        return single

    def _need(self, page: Array) -> None:
        missing = page[self._slot[page] == 0]
        if not missing.size:
            return
        ahead = (missing[:, None] * PAGE + np.arange(AHEAD) * self._step) // PAGE
        wanted = np.unique(ahead[ahead < self._slot.size])
        wanted = wanted[self._slot[wanted] == 0]
        flat = wanted[:, None] * PAGE + np.arange(PAGE)
        bits = _bits_at(self._matrix, self._inputs, flat, np)
        end = self._used + wanted.size
        if end > len(self._store):
            grown = np.zeros((max(end, 2 * len(self._store)), PAGE), self._store.dtype)
            grown[: self._used] = self._store[: self._used]
            self._store = grown
        self._store[self._used : end] = bits
        self._slot[wanted] = np.arange(self._used, end)
        self._used = end


def read_region(matrix: Matrix, flat_bits: Any, region: Region, xp: Any) -> Any:
    """The bits of a region of D, shape (rows, columns)."""
    return flat_bits[matrix.flat(*region.indices(xp))]


def stray_writes(
    matrix: Matrix, flat_bits: Any, regions: tuple[Region, ...] | None, xp: Any, background: int
) -> list[int]:
    """Flat indices (a few) outside the regions that no longer hold what was there before.

    Where the whole matrix may be written (None) only the padding is left to look at; where the
    buffer is too big to scan, a margin around each region.
    """
    if not matrix.elements:
        return []
    if regions is None:
        return _stray_padding(matrix, flat_bits, xp, background)
    if matrix.elements > HUGE:
        return _stray_margin(matrix, flat_bits, regions, xp, background)
    changed = flat_bits != xp.asarray(background, dtype=flat_bits.dtype)
    for region in regions:
        changed[matrix.flat(*region.indices(xp))] = False
    return [int(i) for i in xp.flatnonzero(changed)[:5]]


def _stray_margin(
    matrix: Matrix, flat_bits: Any, regions: tuple[Region, ...], xp: Any, background: int
) -> list[int]:
    written = [matrix.flat(*region.indices(xp)).reshape(-1) for region in regions]
    inside = xp.sort(xp.concatenate(written))  # once, and looked up in for each region
    found: list[int] = []
    for region in regions:
        wider = Region(
            region.batch,
            region.row - MARGIN,
            region.row_end + MARGIN,
            region.column - MARGIN,
            region.column_end + MARGIN,
        )
        around = matrix.flat(*wider.indices(xp)).reshape(-1)
        around = around[(around >= 0) & (around < matrix.elements)]
        changed = around[flat_bits[around] != xp.asarray(background, dtype=flat_bits.dtype)]
        place = xp.minimum(xp.searchsorted(inside, changed), inside.size - 1)
        found.extend(int(i) for i in changed[inside[place] != changed][:5])
    return found[:5]


def _stray_padding(matrix: Matrix, flat_bits: Any, xp: Any, background: int) -> list[int]:
    if matrix.gapless:
        return []
    before = xp.asarray(background, dtype=flat_bits.dtype)
    if matrix.apart is not None:
        return _stray_between(matrix, flat_bits, xp, before)
    rows = matrix.batch * matrix.stored_rows - 1  # the last row has no padding in the buffer
    body = flat_bits[: rows * matrix.leading].reshape(rows, matrix.leading)
    changed = body[:, matrix.stored_columns :] != before
    row, column = xp.nonzero(changed)
    first = (row * matrix.leading + matrix.stored_columns + column)[:5]
    return [int(i) for i in first]


def _stray_between(matrix: Matrix, flat_bits: Any, xp: Any, before: Any) -> list[int]:
    """The same where matrices lie apart, or side by side."""
    found: list[int] = []
    for start in range(0, matrix.elements, _CHUNK):
        flat = xp.arange(start, min(start + _CHUNK, matrix.elements), dtype=xp.int64)
        *_, inside = matrix.logical(flat)
        changed = flat[~inside & (flat_bits[start : start + flat.size] != before)]
        found.extend(int(i) for i in changed[:5])
    return found[:5]
