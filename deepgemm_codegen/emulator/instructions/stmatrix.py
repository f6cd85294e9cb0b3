"""stmatrix: fragments of 8x8 matrices from the registers of a warp to shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.instructions.matrix import whole_warps
from deepgemm_codegen.emulator.listeners import SITE_SHIFT
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class _StoreMatrices:
    """Several stmatrix of one kind; arrays have one element an instruction.

    Attributes:
        count: matrices each: 1, 2 or 4.
        sources: rows of the 32-bit bank, shape (instructions, count).
    """

    count: int
    transposed: bool
    sites: Array
    bank: str
    addresses: Array
    offsets: Array
    sources: Array


def _key(ins: Instruction) -> tuple[str, ...] | None:
    return None if ins.guard is not None else ins.opcode


def _emit(emitter: Emitter, batch: list[Instruction]) -> None:
    first = batch[0]
    words = set(first.opcode[1:-1])
    count = next((c for c in (1, 2, 4) if f"x{c}" in words), 0)
    known = {"sync", "aligned", "m8n8", f"x{count}", "trans", "shared", "shared::cta"}
    if first.opcode[-1] != "b16" or not words <= known or "m8n8" not in words or not count:
        raise emitter.fail(first, "unsupported modifier")
    addresses, offsets, sources, bank = [], [], [], ""
    for ins in batch:
        address, source = ins.operands
        if not isinstance(address, nodes.Address) or address.extra:
            raise emitter.fail(ins, "an address was expected")
        items = source.items if isinstance(source, nodes.Vector) else (source,)
        own = "d" if emitter.bits(address.base, ins) == 64 else "r"
        if len(items) != count or bank not in ("", own):
            raise emitter.fail(ins, f"{count} sources were expected")
        bank = own
        addresses.append(emitter.row(address.base, bank, ins))
        offsets.append(address.offset)
        sources.append([emitter.row(item, "r", ins) for item in items])
    store = _StoreMatrices(
        count,
        "trans" in words,
        np.array([emitter.site(i) for i in batch], np.int64),
        bank,
        np.array(addresses),
        np.array(offsets, np.int64),
        np.array(sources),
    )
    emitter.line(f"store_matrices({emitter.object(store)}, {emitter.mask})")


@semantics(
    "stmatrix",
    destinations=0,
    effects=(("shared", "store"),),
    batch=_key,
    emit_batch=_emit,
    order=3,
    ordered=True,
    shared_width=lambda _: 16,
    operands=2,
)
def _stmatrix(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, [ins])


@runtime
def store_matrices(context: Context, store: _StoreMatrices, mask: Array | None) -> None:
    """Lanes 8j..8j+7 of a warp give the rows of matrix j; register j of a lane goes to matrix j."""
    n, count, warps = store.sites.size, store.count, context.lanes // 32
    address = context.banks[store.bank][store.addresses].astype(np.int64)
    address += store.offsets[:, None]
    flat = address.reshape(n, warps, 32)[:, :, : 8 * count]
    words = context.banks["r"][store.sources].reshape(n, count, warps, 32)
    if store.transposed:
        # Lane (g, t) holds rows 2t and 2t + 1 of column g.
        halves = words.view(np.uint16).reshape(n, count, warps, 8, 4, 2)
        rows = halves.transpose(0, 2, 1, 4, 5, 3)
    else:
        rows = words.transpose(0, 2, 1, 3)
    values = np.ascontiguousarray(rows).view(np.complex128).reshape(n, warps, 8 * count)
    lanes = context.lane_ids.reshape(warps, 32)[:, : 8 * count]
    ids = lanes + (store.sites[:, None, None] << SITE_SHIFT)
    base = context.shared.base
    starts = None if base is None else np.broadcast_to(base[lanes], flat.shape)
    if mask is not None:
        whole = np.flatnonzero(whole_warps(context, int(store.sites[0]), mask))
        if not whole.size:
            return
        flat, values, ids = flat[:, whole], values[:, whole], ids[:, whole]
        starts = None if starts is None else starts[:, whole]
    context.shared.store(
        flat.reshape(-1),
        16,
        None if starts is None else starts.reshape(-1),
        ids.reshape(-1),
        values.reshape(-1),
    )
