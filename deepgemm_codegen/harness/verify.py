"""Judging a kernel: run its cases on a device, compare with the oracle, conclude.

Nothing here prints. `verify` chooses the device; `judge` works on any `Device`, which is how the
tests plant faults.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.harness.blocks import describe_tile, regions_of, written_by
from deepgemm_codegen.harness.compare import Comparison, compare
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.diagnose import diagnose
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.memory import read_region, stray_writes
from deepgemm_codegen.harness.numbers import decode
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.sums import StepModel, prefix_sums
from deepgemm_codegen.harness.trials import Trial, trials_of
from deepgemm_codegen.harness.verdict import CheckResult, Difference, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from deepgemm_codegen.harness.cases import Case
    from deepgemm_codegen.harness.device import Device, Outcome
    from deepgemm_codegen.harness.matrix import Matrix
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.sums import Expected
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["Progress", "conclude", "judge", "judge_case", "judge_trial"]

Progress = Callable[[int, int], None]
"""Is told how many launches are done, and of how many."""

MOST_BATCHES = 256
"""Products of a batch whose elements are compared; beyond it some are drawn."""

_CHUNK = 1 << 24
"""Elements of D compared at a time."""

_OPERAND_CHUNK = 1 << 26
"""Elements of A and of B held at a time, as float64."""


def judge(
    device: Device,
    plan: Program | KernelPlan,
    settings: Settings | None = None,
    *,
    cases: Sequence[Case] | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Runs every case of a program, or of a kernel that is one, on a device.

    Args:
        device: where.
        plan: the program's or the kernel's.
        settings: how; None for `Settings()`.
        cases: other cases than the plan's own.
        progress: told of every launch that is done.
    """
    settings = settings or Settings()
    trials = trials_of(plan, settings, samples=device.samples, cases=cases)
    results = []
    for trial in trials:
        if time.monotonic() > settings.deadline:
            break
        result = judge_trial(device, trial)
        results.append((trial, result))
        if progress is not None:
            progress(len(results), len(trials))
        if result.fatal:
            break  # a GPU that met an illegal address runs nothing more
    return conclude(plan.name, device.where, results, trials)


def judge_trial(device: Device, trial: Trial) -> CheckResult:
    """One launch and its comparison, also where it does not end."""
    try:
        return judge_case(device, trial.case, trial.blocks, compare_values=trial.compare)
    except LaunchFailedError as error:
        return CheckResult.fault(trial.case.check, trial.case.problem, error)


def conclude(
    name: str, where: str, results: Sequence[tuple[Trial, CheckResult]], trials: Sequence[Trial]
) -> Verdict:
    """The verdict that some trials come to; those without a result were not judged.

    Args:
        name: the kernel's.
        where: see `Device`.
        results: of the trials that ran, in their order; parts of one case are joined.
        trials: all of them.
    """
    checks: dict[int, CheckResult] = {}
    ran: set[int] = set()  # blocks of the largest grid that computed a product
    grid = 0
    for trial, result in results:
        before = checks.get(trial.number)
        checks[trial.number] = result if before is None else before.joined(result)
        problem = trial.case.problem
        if result.fatal:
            continue
        if problem.grid > grid:
            grid, ran = problem.grid, set()
        if problem.grid == grid and problem.alpha:
            ran.update(range(grid) if trial.blocks is None else trial.blocks)
    fatal = any(result.fatal for _, result in results)
    left = 0 if fatal else len(trials) - len(results)
    return Verdict(name, where, tuple(checks.values()), grid, len(ran), unjudged=left)


def judge_case(
    device: Device,
    case: Case,
    blocks: tuple[int, ...] | None = None,
    *,
    compare_values: bool = True,
) -> CheckResult:
    """One launch (two where the case repeats and the device runs whole grids) and its comparison.

    Args:
        device: where.
        case: what, and how to compare.
        blocks: which blocks; None for the whole grid.
        compare_values: False to look at what the device found alone.
    """
    problem, xp = case.problem, device.xp
    model = None if case.exact else StepModel.of(device.arithmetic, problem.plan)
    outcome = device.launch(problem, case.inputs, blocks, in_place=case.in_place)
    ran = None if blocks is None else regions_of(problem, blocks)
    written = None if blocks is None else written_by(problem, blocks)
    faults = list(outcome.faults)
    count = problem.grid if blocks is None else len(blocks)
    if not outcome.complete or not compare_values:
        name = case.check if compare_values else "races"
        return CheckResult(
            name, passed=not faults, problem=str(problem), faults=tuple(faults), blocks=count
        )
    for name, output in outcome.outputs.items():
        matrix = problem.matrix(name)
        places = written and tuple(problem.place(name, region) for region in written)
        stray = stray_writes(matrix, output.bits, places, xp, output.background)
        if stray:
            place = _place(matrix, stray[0])
            faults.append(f"{_called(name)} was written outside the tiles that ran: {place}")
    oracle = Oracle(problem, case.inputs, xp, model, device.prefix_sums)
    result = _compare_regions(case, outcome, ran or _some_batches(problem), oracle)
    if case.repeat and not device.samples:
        again = device.launch(problem, case.inputs, blocks, in_place=case.in_place)
        same = (again.outputs[name].bits == o.bits for name, o in outcome.outputs.items())
        if not all(bool(bits.all()) for bits in same):
            faults.append("a second run gave other bits")
    return replace(
        result,
        passed=result.passed and not faults,
        faults=tuple(faults),
        blocks=count,
    )


def _called(name: str) -> str:
    """What a written matrix is called, for people."""
    return "D" if name == "d" else name


def _place(d: Matrix, index: int) -> str:
    """Where in a buffer of D's shape a flat index lies, for people."""
    batch, row, column, inside = d.logical(index)
    what = "an element of another tile" if inside else "the padding of a row"
    prefix = f"batch {batch}, " if d.batch > 1 else ""
    return f"{what}, {prefix}row {row}, column {column}"


def _some_batches(problem: Problem) -> tuple[Region, ...]:
    """All of D; of very many batches the first, the last, those around 2^16, and some drawn."""
    whole = problem.whole
    if len(whole) <= MOST_BATCHES:
        return whole
    last = len(whole) - 1
    draw = random.Random(last)  # noqa: S311  sampling, not secrets
    chosen = {0, 1, last - 1, last, *(b for b in (65534, 65535, 65536) if b <= last)}
    while len(chosen) < MOST_BATCHES:
        chosen.add(draw.randrange(last))
    return tuple(whole[batch] for batch in sorted(chosen))


def _pieces(regions: Iterable[Region], problem: Problem) -> Iterable[Region]:
    """The regions cut small enough that their D, and their A and B over k, fit in memory.

    With a norm, whole rows of them, each row once.
    """
    k, norm = problem.k, problem.spec.norm is not None
    if norm:
        whole = (replace(region, column=0, column_end=problem.n) for region in regions)
        regions = tuple(dict.fromkeys(whole))
    for region in regions:
        rows, columns = region.shape
        width = max(min(columns, _OPERAND_CHUNK // max(k, 1)), 1)
        if norm:
            width = max(columns, 1)
        height = max(min(rows, _OPERAND_CHUNK // max(k, 1), _CHUNK // width), 1)
        for row in range(region.row, region.row_end, height):
            for column in range(region.column, region.column_end, width):
                yield replace(
                    region,
                    row=row,
                    row_end=min(row + height, region.row_end),
                    column=column,
                    column_end=min(column + width, region.column_end),
                )


def _compare_regions(
    case: Case, outcome: Outcome, regions: tuple[Region, ...], oracle: Oracle
) -> CheckResult:
    problem = case.problem
    worst, wrong, elements = 0.0, 0, 0
    first: tuple[str, Region, Comparison, Any] | None = None
    for region in _pieces(regions, problem):
        known = problem.alpha and problem.spec.pairs is None
        product = oracle.products(problem.seen(region)) if known else None
        for name in outcome.outputs:
            expected = oracle.output(name, region, product)
            found, got = _compare_output(problem, name, outcome, region, expected, oracle.xp)
            worst = max(worst, found.worst)
            wrong += found.wrong
            elements += found.elements
            if found.wrong and first is None:
                first = (name, region, found, got)
    result = CheckResult(
        case.check, wrong == 0, str(problem), worst=worst, elements=elements, wrong=wrong
    )
    if first is None:
        return result
    name, region, found, got = first
    return replace(
        result,
        difference=_difference(problem, name, region, found),
        hints=_hints(oracle, region, found, got) if name == "d" else (),
    )


def _compare_output(
    problem: Problem, name: str, outcome: Outcome, region: Region, expected: Expected, xp: Any
) -> tuple[Comparison, Any]:
    """One matrix over a region, and its float64 values."""
    matrix, output = problem.matrix(name), outcome.outputs[name]
    bits = read_region(matrix, output.bits, problem.place(name, region), xp)
    untouched = None
    if output.background:
        untouched = bits == xp.asarray(output.background, bits.dtype)
    got = decode(bits, matrix.dtype, xp)
    saturates = problem.spec.saturates
    return compare(got, expected, matrix.dtype, xp, untouched, saturates=saturates), got


def _difference(problem: Problem, name: str, region: Region, found: Comparison) -> Difference:
    place = problem.place(name, region)
    row, column = region.row + found.at[0], region.column + found.at[1]
    if place is not region:
        row, column = region.row + found.at[1], region.column
    tile = describe_tile(problem, region.batch, row, column)
    return Difference(
        tile=tile if name == "d" else f"{name}, {tile}",
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
    return diagnose(replace(oracle, xp=np, prefix_sums=prefix_sums), tile, values, mask)
