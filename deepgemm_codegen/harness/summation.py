"""In which order a plan's kernel sums over k: what the bound has to allow for.

mma.sync and wgmma kernels sum k as it rises, in one chain of accumulations. Kernels of the
bandwidth family split k over warps, each a chain of its own, and take the elements of a slice in
the order that whole vectors give each lane; the chains' sums are then added one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.plan import Bandwidth

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

__all__ = ["chains_of"]


def chains_of(plan: KernelPlan, k: int) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Elements of k in the order that each chain takes them.

    Returns:
        int64, shape (chains, steps * 16), where k stands for a zero in an element's place; None
        for one chain of k as it rises. The order inside a step of 16 is that of the instruction.
    """
    body = plan.body
    if not isinstance(body, Bandwidth):
        return None
    whole = k // body.tile_k
    slices = np.arange(whole)
    if plan.k.tail:  # the partial slice comes first; a dynamic k has one even if it is empty
        slices = np.concatenate([[whole], slices])
    # The instruction's k of 16: two neighbours of each of four lanes, then their next two.
    step, half, lane, pair = np.ogrid[: body.warp_k // 16, :2, :4, :2]
    element = 4 * step + 2 * half + pair
    within = element // body.run * (4 * body.run) + lane * body.run + element % body.run
    warp = np.arange(body.warps_k)[:, None, None] * body.warp_k
    taken = warp + slices[None, :, None] * body.tile_k + within.reshape(1, 1, -1)
    found: np.ndarray[Any, np.dtype[np.int64]] = np.minimum(taken.reshape(body.warps_k, -1), k)
    return found
