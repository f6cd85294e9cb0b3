"""What a benchmark's table calls a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.plan import Bandwidth, MmaSync, Rows, Simt, Wgmma

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

__all__ = ["choice_of"]


def choice_of(plan: KernelPlan) -> str:
    """Tile, stages, warps or consumers, clusters: enough to tell plans apart in a table."""
    body = plan.body
    words = [f"{plan.m.tile}x{plan.n.tile}x{plan.k.tile}"]
    if isinstance(body, MmaSync | Simt):
        words += [f"{body.stages}st", f"{body.warps_m}x{body.warps_n}w"]
    elif isinstance(body, Bandwidth):
        words += [f"{body.stages}st", f"{body.warps_long}x{body.warps_k}w"]
    elif isinstance(body, Wgmma):
        words += [
            f"{body.stages}st",
            f"{body.consumers}c" + ("pp" if body.tiles_at_once > 1 else ""),
        ]
        if body.holds_rows:
            words.append(f"{body.cluster}rows")
        if body.sharers > 1:
            words.append(f"{body.cluster_m}x{body.cluster_n}cl")
    elif isinstance(body, Rows):
        held = f"{body.held}v" if body.held else "streamed"
        words = [f"{body.warps_m}x{body.warps_n}w", held]
    if plan.k.split > 1:
        gathers = isinstance(body, Wgmma) and body.cluster_k > 1
        words.append(f"{plan.k.split}k" + ("cl" if gathers else ""))
    return " ".join(words)
