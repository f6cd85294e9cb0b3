"""Judging a kernel: run its cases on a device, compare with the oracle, conclude.

Nothing here prints. `verify` chooses the device; `judge` works on any `Device`, which is how the
tests plant faults.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.harness.blocks import choose_blocks, describe_tile, region_of
from deepgemm_codegen.harness.cases import Case, cases_of
from deepgemm_codegen.harness.compare import Comparison, compare
from deepgemm_codegen.harness.diagnose import diagnose
from deepgemm_codegen.harness.memory import read_region, stray_writes
from deepgemm_codegen.harness.numbers import decode
from deepgemm_codegen.harness.oracle import Oracle, StepModel
from deepgemm_codegen.harness.problem import Region
from deepgemm_codegen.harness.verdict import CheckResult, Difference, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from deepgemm_codegen.harness.device import Device, Outcome
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan

__all__ = ["block_budget", "judge", "judge_case"]

BLOCK_WORK = 1 << 26
"""Multiply-adds that one case emulates at the sampled effort; a tile of 128x128 over k of 4096."""

MOST_BLOCKS = 16
"""Blocks of one case at the sampled effort, however small they are."""

_CHUNK = 1 << 24
"""Elements of D compared at a time."""


def block_budget(problem: Problem, share: float, effort: float = 1.0) -> int:
    """Blocks of one case on the emulator: what the work of each affords, and at least one."""
    plan = problem.plan
    work = (
        plan.m.tile * plan.n.tile * max(problem.k, 1)
        if problem.alpha
        else plan.m.tile * plan.n.tile
    )
    count = min(BLOCK_WORK / work, MOST_BLOCKS) * share * effort
    return max(1, int(count))


def judge(
    device: Device,
    plan: KernelPlan,
    *,
    seed: int = 0,
    effort: float = 1.0,
    cases: Sequence[Case] | None = None,
) -> Verdict:
    """Runs every case of a plan on a device.

    Args:
        device: where.
        plan: the kernel's plan.
        seed: of inputs and sampled blocks.
        effort: factor on the number of sampled blocks.
        cases: other cases than the plan's own.
    """
    results = []
    grid = sampled = 0
    for number, case in enumerate(cases_of(plan, seed) if cases is None else cases):
        blocks = None
        if device.samples:
            blocks = choose_blocks(
                case.problem, block_budget(case.problem, case.share, effort), seed + number
            )
        result = judge_case(device, case, blocks)
        results.append(result)
        if case.problem.grid >= grid:
            grid, sampled = case.problem.grid, max(sampled, result.blocks)
    return Verdict(plan.name, device.where, tuple(results), grid, sampled)


def judge_case(device: Device, case: Case, blocks: tuple[int, ...] | None = None) -> CheckResult:
    """One launch (two where the case repeats and the device runs whole grids) and its comparison.

    Args:
        device: where.
        case: what, and how to compare.
        blocks: which blocks; None for the whole grid.
    """
    problem = case.problem
    model = None if case.exact else StepModel.of(device.arithmetic)
    outcome = device.launch(problem, case.inputs, blocks, in_place=case.in_place)
    regions = (
        problem.whole if blocks is None else tuple(region_of(problem, block) for block in blocks)
    )
    faults = list(outcome.faults)
    d = problem.matrix("d")
    if not case.in_place:
        stray = stray_writes(d, outcome.d, regions, device.xp, outcome.background)
        if stray:
            _, row, column, inside = d.logical(stray[0])
            what = "an element of another tile" if inside else "the padding of a row"
            faults.append(
                f"D was written outside the tiles that ran: {what} at row {row}, column {column}"
            )
    oracle = Oracle(problem, case.inputs, device.xp, model)
    result = _compare_regions(case, outcome, regions, oracle)
    if case.repeat and not device.samples:
        again = device.launch(problem, case.inputs, blocks, in_place=case.in_place)
        if not bool((again.d == outcome.d).all()):
            faults.append("a second run gave other bits")
    ran = problem.grid if blocks is None else len(blocks)
    return replace(
        result,
        passed=result.passed and not faults,
        faults=tuple(faults),
        blocks=ran,
    )


def _pieces(regions: Iterable[Region]) -> Iterable[Region]:
    """The regions cut into bands small enough to compare at once."""
    for region in regions:
        if region.empty:
            continue
        width = region.column_end - region.column
        height = max(_CHUNK // width, 1)
        for row in range(region.row, region.row_end, height):
            yield replace(region, row=row, row_end=min(row + height, region.row_end))


def _compare_regions(
    case: Case, outcome: Outcome, regions: tuple[Region, ...], oracle: Oracle
) -> CheckResult:
    problem, xp = case.problem, oracle.xp
    d = problem.matrix("d")
    worst, wrong, elements = 0.0, 0, 0
    first: tuple[Region, Comparison, Any] | None = None
    for region in _pieces(regions):
        bits = read_region(d, outcome.d, region, xp)
        untouched = None
        if not case.in_place and outcome.background:
            untouched = bits == xp.asarray(outcome.background, bits.dtype)
        got = decode(bits, d.dtype, xp)
        found = compare(got, oracle.expected(region), d.dtype, xp, untouched)
        worst = max(worst, found.worst)
        wrong += found.wrong
        elements += found.elements
        if found.wrong and first is None:
            first = (region, found, got)
    result = CheckResult(
        case.check, wrong == 0, str(problem), worst=worst, elements=elements, wrong=wrong
    )
    if first is None:
        return result
    region, found, got = first
    return replace(
        result,
        difference=_difference(problem, region, found),
        hints=_hints(oracle, region, found, got),
    )


def _difference(problem: Problem, region: Region, found: Comparison) -> Difference:
    row, column = region.row + found.at[0], region.column + found.at[1]
    return Difference(
        tile=describe_tile(problem, region.batch, row, column),
        batch=region.batch,
        row=row,
        column=column,
        got=found.got,
        expected=found.wanted,
        low=found.low,
        high=found.high,
    )


def _hints(oracle: Oracle, region: Region, found: Comparison, got: Any) -> tuple[str, ...]:
    """Diagnoses the tile of the first wrong element, on the CPU."""
    plan = oracle.problem.plan
    tile_rows, tile_columns = plan.m.tile, plan.n.tile
    if plan.transposed:
        tile_rows, tile_columns = tile_columns, tile_rows
    row = (region.row + found.at[0]) // tile_rows * tile_rows
    column = (region.column + found.at[1]) // tile_columns * tile_columns
    tile = Region(
        region.batch,
        max(row, region.row),
        min(row + tile_rows, region.row_end),
        max(column, region.column),
        min(column + tile_columns, region.column_end),
    )
    rows = slice(tile.row - region.row, tile.row_end - region.row)
    columns = slice(tile.column - region.column, tile.column_end - region.column)
    mask, values = found.mask[rows, columns], got[rows, columns]
    if oracle.xp is not np:
        mask, values = oracle.xp.asnumpy(mask), oracle.xp.asnumpy(values)
    return diagnose(replace(oracle, xp=np), tile, values, mask)
