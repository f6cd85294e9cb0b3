"""Question: can TMA serve the operands, and can it write D?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.operands import matrices_like_d
from deepgemm_codegen.plan.layout import store_panels
from deepgemm_codegen.plan.tma import TMA_ALIGNMENT, TmaOperand

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["place_tma_operand", "store_of", "tma_obstacle"]


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


def store_of(spec: GemmSpec, tile_n: int) -> Literal["tma", "slab"]:
    """How D leaves: TMA for an aligned D whose rows are whole 16 bytes, else by slab.

    TMA writes the last 16 bytes of a row whole, even into the padding behind it. A D of 32 bits is
    left to the slab: its panels would take the ring's room. So is one with other matrices beside
    it, which are written as whole rows there.
    """
    _, columns = spec.stored("d")
    whole = not columns.dynamic and columns.size * spec.dtype_d.bytes % TMA_ALIGNMENT == 0
    panels = store_panels(64, tile_n, spec.dtype_d.bytes)[0] > 0
    fits = spec.dtype_d.bytes <= 2 and panels and whole and not tma_obstacle(spec, "d")
    fits = fits and all(
        leading > 0 and leading % 2 == 0 and apart % 2 == 0 and align >= 2 * dtype.bytes
        for dtype, leading, align, apart in matrices_like_d(spec)
    )
    stores = any(operand.written for step in spec.epilogue for operand in step.operands)
    return "tma" if fits and not stores else "slab"


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
