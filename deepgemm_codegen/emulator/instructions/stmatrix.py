"""stmatrix: fragments of 8x8 matrices from the registers of a warp to shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.instructions.matrices import (
    Matrices,
    batch_key,
    matrices_of,
    whole_warps,
)
from deepgemm_codegen.emulator.listeners import SITE_SHIFT
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


def _emit(emitter: Emitter, batch: list[Instruction]) -> None:
    for store in matrices_of(emitter, batch, address=0):
        emitter.line(f"store_matrices({emitter.object(store)}, {emitter.mask})")


@semantics(
    "stmatrix",
    destinations=0,
    effects=(("shared", "store"),),
    batch=batch_key,
    emit_batch=_emit,
    order=3,
    ordered=True,
    shared_width=lambda _: 16,
    operands=2,
)
def _stmatrix(emitter: Emitter, ins: Instruction) -> None:
    _emit(emitter, [ins])


@runtime
def store_matrices(context: Context, store: Matrices, mask: Array | None) -> None:
    """``stmatrix``: see `matrices`."""
    n, count, warps = store.sites.size, store.count, context.lanes // 32
    address = context.banks[store.bank][store.addresses].astype(np.int64)
    address += store.offsets[:, None]
    flat = address.reshape(n, warps, 32)[:, :, : 8 * count]
    words = context.banks["r"][store.registers].reshape(n, count, warps, 32)
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
