"""What constraints ruled out of the bandwidth family's menu, with the nearest miss of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
from deepgemm_codegen.decide.bandwidth.constraints import PHRASES, violations
from deepgemm_codegen.decide.misses import Branch, Rejection, nearest_misses
from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.bandwidth.menu import BandwidthMenu
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.decide.misses import Miss

__all__ = ["rejections"]

NO_STAGES = ("warps", "grid", "columns")
"""Constraints that no number of stages mends: they cut a branch above them."""


def rejections(task: Task, menu: BandwidthMenu, winner: BandwidthChoice) -> tuple[Rejection, ...]:
    """What each constraint ruled out, with its nearest miss."""
    own = winner.fragments, winner.warps_long, winner.warps_k, winner.stages
    return nearest_misses(_cuts(task, menu), own, PHRASES, _words, task.machine)


def _cuts(task: Task, menu: BandwidthMenu) -> Iterator[tuple[str, Miss, Branch]]:
    """(constraint, miss, branch) of every branch that a constraint cuts from the full tree."""
    blocks = menu.min_blocks[0] if menu.min_blocks else 1
    for fragments, warps_long in menu.tile:
        for warps_k in menu.warps_k:
            for stages in menu.stages:
                numbers = fragments, warps_long, warps_k, stages, blocks
                choice = BandwidthChoice(*numbers, ring=menu.ring)
                missed = next(violations(task, choice), None)
                if missed is None:
                    continue
                name, got, limit = missed
                if name in NO_STAGES:
                    yield name, (got, limit), (fragments, warps_long, warps_k, 0)
                    break
                yield name, (got, limit), (fragments, warps_long, warps_k, stages)


def _words(branch: Branch) -> str:
    """A branch as far as it was chosen."""
    fragments, warps_long, warps_k, stages = branch
    words = [f"{fragments * warps_long * FRAGMENT_LONG} along the long side"]
    words.append(f"warps {warps_long}x{warps_k}")
    if stages:
        words.append(counted(stages, "stage"))
    return ", ".join(words)
