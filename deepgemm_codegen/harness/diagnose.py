"""What a wrong D looks like, and what usually makes it so.

Two ways of asking. By pattern: which elements are wrong (all, only the last rows, only the last
columns, a few, all those that lie on one side of a number before a step). By hypothesis: would D be
right if one slice of k had been left out or added twice, C ignored, alpha applied to the bias,
scales left out, an operand read transposed? A hypothesis is named when it explains every element
of the region.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.harness.compare import compare
from deepgemm_codegen.harness.inputs import Constant, Inputs
from deepgemm_codegen.harness.sums import Expected
from deepgemm_codegen.spec.block_scales import SCALES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.harness.matrix import Region
    from deepgemm_codegen.harness.oracle import Oracle
    from deepgemm_codegen.harness.problem import Problem

__all__ = ["diagnose"]

_MOST_WORK = 1 << 28
"""Multiply-adds up to which hypotheses about k are tried."""

_FEWEST = 8
"""Wrong elements of which it is no chance that their values lie on one side of the right ones'."""


def diagnose(oracle: Oracle, region: Region, got: Any, mask: Any) -> tuple[str, ...]:
    """Likely causes of a wrong region, the most specific first.

    Args:
        oracle: what the region should have been (numpy).
        region: the wrong part of D.
        got: its float64 values.
        mask: which elements are wrong.
    """
    hints = []
    for hint, alternative in _hypotheses(oracle, region):
        spec = oracle.problem.spec
        if compare(got, alternative, spec.dtype_d, np, saturates=spec.saturates).wrong == 0:
            hints.append(hint)
            break
    if np.isnan(oracle.expected(region).value[mask]).all():
        # The input set puts it into one row, so a pattern of rows would say nothing.
        hints.append("a NaN of the operands did not reach D: a step of the epilogue swallows it")
    else:
        hints.append(_by_value(oracle, region, mask) or _pattern(oracle.problem, mask, got))
    return tuple(hints)


def _by_value(oracle: Oracle, region: Region, mask: Any) -> str:
    """The first step whose argument alone tells wrong elements from right ones; empty for none."""
    problem, spec = oracle.problem, oracle.problem.spec
    if spec.pairs is not None or mask.all() or np.count_nonzero(mask) < _FEWEST:
        return ""
    product = oracle.products(problem.seen(region)) if problem.alpha != 0.0 else None
    for index, step in enumerate(spec.epilogue):
        if step.definition.normalizes or spec.computes_scales:
            break  # whole rows: no element is by itself
        before = oracle.expected(region, product, steps=index).value
        wrong, right = before[mask], before[~mask]
        for below, above, side in ((wrong, right, "below"), (right, wrong, "above")):
            if below.max() < above.min():
                bound = right.min() if side == "below" else right.max()
                cause = "that step" + (" or one after it" if spec.epilogue[index + 1 :] else "")
                return (
                    f"wrong is what lies {side} {bound:.4g} before {step}, and all of it: {cause}"
                )
    return ""


def _pattern(problem: Problem, mask: Any, got: Any) -> str:
    """Which elements of a tile are wrong, and what that usually means."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    height, width = mask.shape
    plan = problem.plan
    tile_rows, tile_columns = plan.m.tile, plan.n.tile
    if plan.transposed:
        tile_rows, tile_columns = tile_columns, tile_rows
    if mask.all():
        found = "every element of the tile is wrong: index arithmetic, or the epilogue"
    elif len(rows) < height / 2 and rows[0] >= height - len(rows):
        tail = " of a tail" if height % tile_rows else ""
        found = f"only the last {len(rows)} rows{tail} are wrong: a boundary in m"
    elif len(columns) < width / 2 and columns[0] >= width - len(columns):
        tail = " of a tail" if width % tile_columns else ""
        found = f"only the last {len(columns)} columns{tail} are wrong: a boundary in n"
    elif len(rows) <= height // 2 and len(columns) == width:
        found = f"{len(rows)} of {height} rows are wrong: fragment or swizzle layout along m"
    elif len(columns) <= width // 2 and len(rows) == height:
        found = f"{len(columns)} of {width} columns are wrong: fragment or swizzle layout along n"
    elif mask.mean() < 0.05:
        found = "a few scattered elements are wrong: synchronisation, or precision"
    else:
        found = "parts of the tile are wrong: synchronisation, or the shared-memory layout"
    if np.isnan(got[mask]).all():
        return f"NaN where values were expected (never written, or poison was read): {found}"
    return found


def _hypotheses(oracle: Oracle, region: Region) -> Iterator[tuple[str, Expected]]:
    """(what would be wrong, what D would then be)."""
    problem = oracle.problem
    product = None
    # With alpha 0 neither A nor B is read, and may not exist; of two products none is the one.
    if problem.alpha != 0.0 and problem.spec.pairs is None:
        product = oracle.products(problem.seen(region))

    def otherwise(alpha: float, beta: float) -> Expected:
        changed = replace(problem, alpha=alpha, beta=beta)
        return replace(oracle, problem=changed).expected(region, product)

    if problem.beta != 0.0:
        yield "C was ignored", otherwise(problem.alpha, 0.0)
        yield "beta was applied as 1", otherwise(problem.alpha, 1.0)
    if problem.alpha not in (0.0, 1.0):
        yield "alpha was ignored", otherwise(1.0, problem.beta)
    for index, step in enumerate(problem.spec.epilogue):
        yield f"{step} was left out", replace(oracle, skipped=(index,)).expected(region, product)
        for operand in (o for o in step.operands if not o.written):
            scaled = replace(oracle, factors={operand.argument(index): problem.alpha})
            yield f"{step} was scaled by alpha", scaled.expected(region, product)
    if product is not None and problem.k:
        yield from _unscaled(oracle, region)
        yield from _wrong_products(oracle, region, product)


def _unscaled(oracle: Oracle, region: Region) -> Iterator[tuple[str, Expected]]:
    """Scales by block left out."""
    inputs = oracle.inputs
    for name in SCALES if oracle.problem.spec.block_scaled else ():
        ones = Inputs(inputs.name, {**inputs.values, name: Constant(1.0)})
        yield f"{name} was left out", replace(oracle, inputs=ones).expected(region)


def _wrong_products(
    oracle: Oracle, region: Region, product: Expected
) -> Iterator[tuple[str, Expected]]:
    """One slice of k left out or added twice; an operand read transposed."""
    problem = oracle.problem
    rows, columns = region.shape
    if rows * columns * problem.k > _MOST_WORK:
        return
    tile_k = problem.plan.k.tile
    a, b = oracle.slices(problem.seen(region))
    slices = -(-problem.k // tile_k)
    for s in range(slices):
        start, end = s * tile_k, min((s + 1) * tile_k, problem.k)
        share = a[:, start:end] @ b[start:end]
        name = f"slice {s} of {slices} (k {start} to {end})"
        if end - start < tile_k:
            name = f"the tail of k, {name},"
        for sign, what in ((-1.0, "was left out"), (1.0, "was added twice")):
            changed = Expected.around(product.value + sign * share, product.error)
            yield f"{name} {what}", oracle.expected(region, changed)
    if (rows, problem.k) == (problem.k, columns) == (problem.m, problem.n):
        for name, value in (("A", a.T @ b), ("B", a @ b.T)):
            changed = Expected.around(value, product.error)
            yield f"{name} was read transposed", oracle.expected(region, changed)
