"""The question that a norm behind a product asks: which kernel has whole rows?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.rows.search import best_rows
from deepgemm_codegen.decide.rows.task import row_task
from deepgemm_codegen.decide.split_k import reduce_clocks
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.rows import SHARING

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["rows_decisions"]


def rows_decisions(
    spec: GemmSpec,
    problem: Problem,
    machine: Machine,
    parts: int,
    tile_n: int,
    *,
    holds_rows: bool = False,
    cluster_rows: int = 0,
) -> tuple[Decision, ...]:
    """The question with its answer and reason; nothing without a norm."""
    if spec.norm is None:
        return ()
    kind = spec.epilogue[spec.norm].kind
    if holds_rows:
        reason = (
            f"a warp holds all {problem.n} columns of its rows, so {kind} needs no second kernel"
        )
        return (Decision("D14", "whole rows", f"the product, {SHARING} lanes a row", reason),)
    if cluster_rows:
        blocks = (
            "a block holds" if cluster_rows == 1 else f"{cluster_rows} blocks of a cluster hold"
        )
        whose = "its" if cluster_rows == 1 else "their"
        reason = (
            f"{blocks} all {problem.n} columns of {whose} rows, so {kind} needs no second kernel"
        )
        return (Decision("D14", "whole rows", "the product, four lanes a row", reason),)
    words = best_rows(row_task(spec, machine, parts)).words
    microseconds = reduce_clocks(problem, machine, parts) / machine.clock_mhz
    reason = f"a tile has {tile_n} of the {problem.n} columns that {kind} needs"
    if tile_n >= problem.n:
        reason = f"{kind} needs whole rows, and a tile's are in many warps"
    sums = "the sums" if parts == 1 else f"the sums of {parts} parts of k"
    reason += f"; a second kernel makes D of {sums}, in {microseconds:.1f} us as predicted"
    return (Decision("D14", "whole rows", f"a second kernel: {words}", reason),)
