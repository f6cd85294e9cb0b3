"""What constraints ruled out of the CUDA-core menu, counted, with the nearest miss of each."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.misses import Branch, Rejection, nearest_misses
from deepgemm_codegen.decide.simt import constraints
from deepgemm_codegen.decide.simt.choice import SimtChoice
from deepgemm_codegen.decide.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.misses import Miss
    from deepgemm_codegen.decide.simt.menu import SimtMenu
    from deepgemm_codegen.decide.simt.task import Task

__all__ = ["rejections"]

OUTER = ("quads", "pairs", "warps", "sums", "grid", "raster", "whole_rows", "copies")
"""Constraints that neither stages nor resident blocks mend: they cut a branch above them."""


def rejections(task: Task, menu: SimtMenu, winner: SimtChoice) -> tuple[Rejection, ...]:
    """What each constraint ruled out, with its nearest miss."""
    cuts = _cuts(task, menu)
    return nearest_misses(cuts, tuple(winner[:7]), constraints.PHRASES, _words, task.machine)


def _cuts(task: Task, menu: SimtMenu) -> Iterator[tuple[str, Miss, Branch]]:
    """(constraint, miss, branch) of every branch that a constraint cuts from the full tree."""
    for tile_m, tile_n, tile_k, (warps_m, warps_n) in product(
        menu.tile_m, menu.tile_n, menu.tile_k, menu.warps
    ):
        outer = tile_m, tile_n, tile_k, warps_m, warps_n
        for stages, blocks in product(menu.stages, menu.min_blocks):
            choice = SimtChoice(*outer, stages, blocks, menu.raster_group[0])
            missed = next(constraints.violations(task, choice), None)
            if missed is None:
                continue
            name, got, limit = missed
            if name in OUTER:
                yield name, (got, limit), (*outer, 0, 0)
                break
            yield name, (got, limit), (*outer, stages, blocks)


def _words(branch: Branch) -> str:
    """A branch as far as it was chosen."""
    tile_m, tile_n, tile_k, warps_m, warps_n, stages, blocks = branch
    words = [f"{tile_m}x{tile_n}x{tile_k}", f"warps {warps_m}x{warps_n}"]
    if stages:
        words += [f"{stages} stages", counted(blocks, "block")]
    return ", ".join(words)
