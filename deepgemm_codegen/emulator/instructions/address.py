"""Addresses: mapa, getctarank, isspacep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.windows import CLUSTER_SHIFT, OFFSET_MASK, SHARED_WINDOW, space_at

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


def _width(emitter: Emitter, ins: Instruction) -> tuple[str, int]:
    """Type of the address, and where its window starts: 0 for shared::cluster addresses."""
    match ins.opcode[1:]:
        case ("shared::cluster", "u32" | "u64" as kind):
            return kind, 0
        case ("u64",):
            return "u64", SHARED_WINDOW
        case _:
            raise emitter.fail(ins, "unsupported modifier")


@semantics("mapa", asynchronous=True, operands=3)
def _mapa(emitter: Emitter, ins: Instruction) -> None:
    """The address of another block's shared memory: its rank + 1 above ``CLUSTER_SHIFT``."""
    kind, window = _width(emitter, ins)
    out = emitter.target(ins.operands[0], kind, ins)
    address = emitter.source(ins.operands[1], kind, ins)
    rank = emitter.source(ins.operands[2], "u32", ins)
    emitter.copy(
        out, f"map_address({emitter.site(ins)}, {address}, {rank}, {window}, {emitter.mask})"
    )


@runtime
def map_address(
    context: Context, site: int, address: Array, rank: Array, window: int, mask: Array | None
) -> Array:
    """The addresses in the shared::cluster window."""
    size = context.state.cluster
    bad = rank >= size
    if mask is not None:
        bad = bad & mask
    if bad.any():
        lane = int(np.flatnonzero(bad)[0])
        context.collector.add(
            "bad-rank",
            f"block {int(rank[lane])} of a cluster of {size}",
            site,
            lane,
            count=int(bad.sum()),
        )
    unit = address.dtype.type
    low = (address - unit(window)) & unit(OFFSET_MASK)
    high = (rank.astype(address.dtype) + unit(1)) << unit(CLUSTER_SHIFT)
    result: Array = unit(window) + (low | high)
    return result


@semantics("getctarank", asynchronous=True, operands=2)
def _getctarank(emitter: Emitter, ins: Instruction) -> None:
    kind, window = _width(emitter, ins)
    address = emitter.source(ins.operands[1], kind, ins)
    out = emitter.target(ins.operands[0], "u32", ins)
    emitter.copy(out, f"rank_of({address}, {window})")


@runtime
def rank_of(context: Context, address: Array, window: int) -> Array:
    """Ranks of the blocks that shared::cluster addresses lie in."""
    above = (address - address.dtype.type(window)) >> address.dtype.type(CLUSTER_SHIFT)
    own = context.special["s_cluster_ctarank"]
    result: Array = np.where(above == 0, own, above.astype(np.uint32) - np.uint32(1))
    return result


@semantics("isspacep", operands=2)
def _isspacep(emitter: Emitter, ins: Instruction) -> None:
    space = ins.opcode[1] if len(ins.opcode) == 2 else ""
    if space not in ("global", "shared", "shared::cta", "shared::cluster", "local", "param"):
        raise emitter.fail(ins, "unknown address space")
    address = emitter.source(ins.operands[1], "u64", ins)
    out = emitter.target(ins.operands[0], "pred", ins)
    emitter.copy(out, f"lies_in('{space}', {address})")


@runtime
def lies_in(context: Context, space: str, address: Array) -> Array:
    """``isspacep``: another block's shared memory is shared::cluster, and not shared(::cta)."""
    inside = space_at(space.partition("::")[0], address)
    if space in ("shared", "shared::cta"):
        rank = rank_of(context, address, SHARED_WINDOW)
        inside = inside & (rank == context.special["s_cluster_ctarank"])
    return inside
