"""What constraints ruled out of wgmma's menu, counted, with the nearest miss of each."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.misses import Branch, Rejection, nearest_misses
from deepgemm_codegen.decide.wgmma import constraints
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.misses import Miss
    from deepgemm_codegen.decide.wgmma.menu import WgmmaMenu
    from deepgemm_codegen.decide.wgmma.task import Task

__all__ = ["rejections"]

NO_STAGES = (
    "turns",
    "parts",
    "sums",
    "rows",
    "accumulators",
    "scales",
    "panels",
    "pairs",
    "cluster",
    "alone",
    "long_slice",
    "multicast",
    "grid",
    "raster",
)
"""Constraints that no number of stages mends: they cut a branch above them."""


def rejections(task: Task, menu: WgmmaMenu, winner: WgmmaChoice) -> tuple[Rejection, ...]:
    """What each constraint ruled out, with its nearest miss."""
    own = (
        winner.tile_m, winner.tile_n, winner.consumers, winner.tiles_at_once, winner.cluster_m,
        winner.cluster_n, winner.stages,
    )  # fmt: skip
    cuts = _cuts(task, menu)
    return nearest_misses(cuts, own, constraints.PHRASES, _words, task.machine)


def _cuts(task: Task, menu: WgmmaMenu) -> Iterator[tuple[str, Miss, Branch]]:
    """(constraint, miss, branch) of every branch that a constraint cuts from the full tree."""
    for outer in product(
        menu.tile_m,
        menu.tile_n,
        menu.consumers,
        menu.tiles_at_once,
        menu.cluster_m,
        menu.cluster_n,
    ):
        tile_m, tile_n, consumers, at_once, cluster_m, cluster_n = outer
        for stages in menu.stages:
            choice = WgmmaChoice(
                tile_m,
                tile_n,
                consumers,
                at_once,
                stages,
                cluster_m,
                cluster_n,
                menu.raster_group[0],
                tile_k=task.kind.tile_k * menu.slice_rows[0],
            )
            missed = next(constraints.violations(task, choice), None)
            if missed is None:
                continue
            name, got, limit = missed
            if name in NO_STAGES:
                yield name, (got, limit), (*outer, 0)
                break
            yield name, (got, limit), (*outer, stages)


def _words(branch: Branch) -> str:
    """A branch as far as it was chosen."""
    tile_m, tile_n, consumers, at_once, cluster_m, cluster_n, stages = branch
    words = [f"{tile_m}x{tile_n}", f"{consumers} consumer" + ("s" if consumers > 1 else "")]
    if at_once > 1:
        words[-1] += " in turn"
    if cluster_m * cluster_n > 1:
        words.append(f"clusters {cluster_m}x{cluster_n}")
    if stages:
        words.append(f"{stages} stages")
    return ", ".join(words)
