"""Question: can TMA serve the operands, and can it write D?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.operands import matrices_like_d, output_vector
from deepgemm_codegen.plan.layout import SLAB_PANEL_COLUMNS, row_panels, store_panels
from deepgemm_codegen.plan.tma import TMA_ALIGNMENT, TmaOperand

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "LANE_COLUMNS",
    "LANE_VECTOR",
    "place_tma_operand",
    "store_of",
    "sums_leave",
    "sums_of_tile",
    "tma_obstacle",
]

HELD = 1.25
"""How many times what operands in reuse can count on D may take to be held by the L2: of 60 MB 42
(4096x2560) leave a little faster straight from registers, 51 and 57 (50176x256, 6144x2304) in rows
by TMA."""

LANE_COLUMNS, LANE_VECTOR = 16, 4
"""Columns of two fragments, which four lanes hold of a row, and those that each then has."""

LANE_SUMS = 160
"""Sums of a thread up to which it exchanges them: 176 took 5 % longer than by slabs (4096-cubed, of
whose D the L2 does not hold all), 192 spill."""


def tma_obstacle(spec: GemmSpec, letter: str) -> str:
    """Why TMA cannot move the caller's operand ``a``, ``b`` or ``d``; empty when it can.

    A descriptor wants its base and its row stride on 16 bytes (CUDA driver API,
    cuTensorMapEncodeTiled).
    """
    dtype = getattr(spec, f"dtype_{letter}")
    if spec.scattered(letter):
        return f"each product has a pointer to its {letter.upper()}, a tensor map holds one address"
    leading: int = getattr(spec, f"ld{letter}")
    align: int = getattr(spec, f"align_{letter}")
    if align % TMA_ALIGNMENT:
        return f"{letter.upper()} is aligned to {align} bytes, TMA wants {TMA_ALIGNMENT}"
    if leading == 0:
        return f"ld{letter} is known only at run time"
    if leading * dtype.bytes % TMA_ALIGNMENT:
        return f"ld{letter} = {leading} is {leading * dtype.bytes} bytes, no multiple of 16"
    apart = spec.distance(letter)
    if apart * dtype.bytes % TMA_ALIGNMENT:
        return f"stride_{letter} = {apart} is {apart * dtype.bytes} bytes, no multiple of 16"
    return ""


def store_of(
    spec: GemmSpec, tile_n: int, sums: int = 0, l2_bytes: float = 0.0
) -> Literal["tma", "rows", "lanes", "slab"]:
    """How D leaves: TMA for an aligned D whose rows are whole 16 bytes, else by slab.

    TMA writes the last 16 bytes of a row whole, even into the padding behind it. Sums of 32 bits
    alone leave straight from registers, or, where D is more than the L2 holds and its rows are
    whole panels, in rows by TMA; with steps or other matrices beside them, by slab. ``sums`` is
    how many a thread has, and ``l2_bytes`` the machine's, for such.
    """
    if spec.dtype_d.bytes > 2:
        return sums_of_tile(sums_leave(spec, l2_bytes), tile_n, sums)
    _, columns = spec.stored("d")
    whole = not columns.dynamic and columns.size * spec.dtype_d.bytes % TMA_ALIGNMENT == 0
    panels = store_panels(64, tile_n, spec.dtype_d.bytes)[0] > 0
    fits = panels and whole and not tma_obstacle(spec, "d")
    fits = fits and all(
        leading > 0 and leading % 2 == 0 and apart % 2 == 0 and align >= 2 * dtype.bytes
        for dtype, leading, align, apart in matrices_like_d(spec)
    )
    stores = any(operand.written for step in spec.epilogue for operand in step.operands)
    return "tma" if fits and not stores else "slab"


def sums_leave(spec: GemmSpec, l2_bytes: float) -> Literal["rows", "lanes", "slab"]:
    """How sums of 32 bits leave a tile whose columns allow it, see `sums_of_tile`.

    What the L2 holds is not slowed by rows in pieces of 64 bytes; what device memory has to write
    is (``benchmarks/notes.md``).
    """
    rows, columns = spec.stored("d")
    if spec.dtype_d.bytes != 4 or spec.epilogue or spec.dtype_c is not None:
        return "slab"
    if rows.size * columns.size * spec.batch * spec.dtype_d.bytes <= HELD * l2_bytes:
        return "lanes" if output_vector(spec) == LANE_VECTOR else "slab"
    whole = not columns.dynamic and columns.size % SLAB_PANEL_COLUMNS == 0 and spec.batch == 1
    return "rows" if whole and not tma_obstacle(spec, "d") else "slab"


def sums_of_tile(
    leave: Literal["rows", "lanes", "slab"], tile_n: int, sums: int
) -> Literal["rows", "lanes", "slab"]:
    """How they leave a tile of so many columns, of which a thread has so many sums."""
    if leave == "rows":
        return "rows" if row_panels(tile_n)[0] else "slab"
    whole = tile_n % LANE_COLUMNS == 0 and sums <= LANE_SUMS
    return "lanes" if leave == "lanes" and whole else "slab"


def place_tma_operand(
    spec: GemmSpec,
    role: Literal["a", "b"],
    source: Literal["a", "b"],
    extent_mn: Extent,
    extent_k: Extent,
    sharers: int,
) -> TmaOperand:
    """The operand in a given tile; arguments as in `operands.place_operand`.

    ``sharers`` blocks of a cluster read the same tile.
    """
    k_major = spec.k_major(source)
    rows, columns = (extent_mn, extent_k) if k_major else (extent_k, extent_mn)
    return TmaOperand(
        name=role,
        source=source,
        dtype=getattr(spec, f"dtype_{source}"),
        major="k" if k_major else "mn",
        leading=getattr(spec, f"ld{source}") or None,
        rows=rows,
        columns=columns,
        sharers=sharers,
        batch=spec.matrices(source),
    )
