"""The full product of a menu, costed without any pruning: the search's referee."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.decide.mma_sync.constraints import violations
from deepgemm_codegen.decide.mma_sync.predict import predict
from deepgemm_codegen.decide.mma_sync.search import cost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.mma_sync.menu import Menu
    from deepgemm_codegen.decide.problem import Problem


def product(problem: Problem, machine: Machine, menu: Menu) -> Iterator[MmaSyncChoice]:
    """Every legal choice. What the outer values already forbid is not asked of the inner ones."""
    for tile_m in menu.tile_m:
        for tile_n in menu.tile_n:
            for warps_m, warps_n in menu.warps:
                for tile_k in menu.tile_k:
                    outer = MmaSyncChoice(
                        tile_m, tile_n, tile_k, warps_m, warps_n,
                        menu.stages[0], menu.min_blocks[0], menu.raster_group[0],
                    )  # fmt: skip
                    if any(violations(problem, machine, outer)):
                        continue  # stages and blocks rise from the least
                    for stages in menu.stages:
                        for blocks in menu.min_blocks:
                            inner = MmaSyncChoice(
                                tile_m, tile_n, tile_k, warps_m, warps_n,
                                stages, blocks, menu.raster_group[0],
                            )  # fmt: skip
                            if any(violations(problem, machine, inner)):
                                break
                            for group in menu.raster_group:
                                yield MmaSyncChoice(
                                    tile_m, tile_n, tile_k, warps_m, warps_n,
                                    stages, blocks, group,
                                )  # fmt: skip


def least_cost(problem: Problem, machine: Machine, menu: Menu) -> int | None:
    """The least cost of the product; None when nothing in it is legal."""
    costs = (
        cost(problem, machine, predict(problem, machine, choice).clocks)
        for choice in product(problem, machine, menu)
    )
    return min(costs, default=None)
