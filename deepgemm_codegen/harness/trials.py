"""Which launches a judgement consists of: cases, the blocks of each, and what they may cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import KernelLackError
from deepgemm_codegen.harness.cases import Case, cases_of
from deepgemm_codegen.harness.teams import choose_blocks, team_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from deepgemm_codegen.checks import Settings
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["VALUES", "Trial", "block_budget", "refuse_endless", "split", "trials_of"]

VALUES = frozenset({"exact", "random", "hostile"})
"""Checks that compare D with the oracle; each names its cases."""

BLOCK_WORK = 1 << 29
"""Multiply-adds that a case may cost at effort 1: four tiles of 128x128x4096, about a second."""

SLICE_OVERHEAD = 400_000
"""What a slice of k costs whatever the tile's size, in multiply-adds (measured: 0.4 ms)."""

MOST_BLOCKS = 16
"""Blocks of one case at the sampled effort, however small they are."""

MOST_WORK = 64 * BLOCK_WORK
"""What one block may cost on the emulator, about a minute; beyond it a GPU has to judge."""


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One launch of a judgement.

    Attributes:
        number: of its case; parts of one case share it.
        case: what, and how to compare.
        blocks: which blocks; None for the whole grid.
        compare: whether D is compared with the oracle.
    """

    number: int
    case: Case
    blocks: tuple[int, ...] | None
    compare: bool = True


def trials_of(
    plan: Program | KernelPlan,
    settings: Settings,
    *,
    samples: bool,
    cases: Sequence[Case] | None = None,
) -> tuple[Trial, ...]:
    """The launches that judge a program, or a kernel that is one, the most telling first.

    Args:
        plan: the program's or the kernel's.
        settings: see `Settings`; the deadline and the processes do not matter.
        samples: whether the device runs some blocks alone.
        cases: other cases than the plan's own.
    """
    kinds = settings.checks & VALUES
    # Races alone are looked for in the launches with whole numbers.
    wanted = kinds or ({"exact"} if "races" in settings.checks else set())
    found = []
    for number, case in enumerate(cases_of(plan, settings.seed) if cases is None else cases):
        if case.check not in wanted:
            continue
        blocks = None
        if samples:
            count = block_budget(case.problem, case.share, settings.effort)
            inside = case.check == "random"
            blocks = choose_blocks(case.problem, count, settings.seed + number, corners=not inside)
            if len(blocks) == case.problem.grid:
                blocks = None
        found.append(Trial(number, case, blocks, bool(kinds)))
    return tuple(found)


def split(trials: Sequence[Trial], parts: int) -> tuple[Trial, ...]:
    """The same launches in smaller ones, so that ``parts`` processes have about the same to do.

    A cluster's blocks stay together, and so do the tiles of a persistent block. Whole grids
    are small; they stay whole, for only blocks of one launch are compared with each other for
    races.
    """
    return tuple(part for trial in trials for part in _pieces(trial, parts))


def _pieces(trial: Trial, parts: int) -> Iterator[Trial]:
    if trial.blocks is None:
        yield trial
        return
    teams: dict[int, list[int]] = {}
    for block in trial.blocks:
        teams.setdefault(team_of(trial.case.problem, block), []).append(block)
    groups = list(teams.values())
    size = -(-len(groups) // parts)
    for i in range(0, len(groups), size):
        blocks = sorted(block for group in groups[i : i + size] for block in group)
        yield replace(trial, blocks=tuple(blocks))


def refuse_endless(plan: KernelPlan) -> None:
    """Refuses a plan whose single tile, which one block computes, is too much for the emulator.

    Raises:
        KernelLackError: k is so long that one block passes `MOST_WORK`.
    """
    slices = -(-plan.k.size // plan.k.tile)
    work = _block_work(plan, slices)
    if work > MOST_WORK:
        minutes = max(work // MOST_WORK, 2)
        raise KernelLackError(
            f"k = {plan.k.size}: one block alone would take about {minutes} minutes on the"
            " emulator, which gives it one; judge it on a GPU, or a shorter k"
        )


def _block_work(plan: KernelPlan, slices: int) -> int:
    """Multiply-adds that one tile costs, with what each slice costs whatever its size."""
    tile = plan.m.tile * plan.n.tile
    return tile * plan.k.split + slices * (SLICE_OVERHEAD + tile * plan.k.tile)


def block_budget(problem: Problem, share: float, effort: float = 1.0) -> int:
    """Tiles of one case on the emulator: what the work of each affords, and at least one.

    The case with the whole share gets two at least: the first tile and the last, where tails meet.
    """
    plan = problem.plan
    slices = -(-problem.k // plan.k.tile) if problem.alpha else 0
    work = _block_work(plan, slices)
    count = int(min(BLOCK_WORK / work, MOST_BLOCKS) * share * effort)
    return max(count, 2 if share >= 1.0 else 1)
