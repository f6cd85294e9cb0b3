"""Question: into how many parts is k cut, each summed by blocks of its own?

A product with few tiles and a long k leaves multiprocessors idle. Cut into parts, its tiles are as
many times more; each writes its sums to the workspace, and a second kernel adds them in one
order and applies the epilogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.bodies import Reduce
from deepgemm_codegen.decide.prediction import output_bytes
from deepgemm_codegen.dtypes import FP32
from deepgemm_codegen.expressions import Number, rounded_up, times
from deepgemm_codegen.tiles import PARTIALS
from deepgemm_codegen.workspace import Workspace, workspace_of

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.tiles import Extent

__all__ = [
    "MAX_SPLIT_K",
    "PARTIAL_VECTOR",
    "cut",
    "partial_leading",
    "partials",
    "reduce_body",
    "reduce_clocks",
    "split_reason",
]

MAX_SPLIT_K = 256
"""Parts of k at most; beyond that the second kernel reads more than the first."""

PARTIAL_VECTOR = 4
"""fp32 sums that a lane writes at a time: 16 bytes, on which every row of partial sums starts."""

THREADS = 256
"""Threads of a reducing block."""

BUSY_THREADS = 512
"""Threads a multiprocessor that keep enough reads of partial sums in flight."""

REDUCE_US = 1.6
"""The second kernel's launch, its first read and its last write, beside its bytes. An estimate:
a kernel in a graph starts about a microsecond after the one before it."""

L2_REDUCE_RATE = 30
"""Bytes a clock and multiprocessor at which partial sums come back from the L2. An estimate."""


def cut(problem: Problem, parts: int) -> Problem:
    """The problem as the product kernel sees it: each part of k is a product of its own."""
    if parts == 1:
        return problem
    return problem._replace(
        k=-(-problem.k // parts),
        batch=problem.batch * parts,
        vector=PARTIAL_VECTOR,
        d_bytes=FP32.bytes,
        c_bytes=0,
    )


def partial_leading(n: Extent) -> int | None:
    """Elements from row to row of partial sums; None when known only at run time."""
    return None if n.dynamic else -(-n.size // PARTIAL_VECTOR) * PARTIAL_VECTOR


def partials(m: Extent, n: Extent, batch: int, parts: int) -> Workspace:
    """The workspace of a product whose k is cut."""
    row = rounded_up(n.expression, PARTIAL_VECTOR)
    elements = times(times(m.expression, row), Number(batch * parts))
    return workspace_of([(PARTIALS, FP32, elements)])


def reduce_body(problem: Problem, machine: Machine, parts: int, leading: int | None) -> Reduce:
    """The second kernel: as many threads as keep the multiprocessors busy."""
    vector = problem.vector
    row_threads = 1
    while row_threads < 32 and row_threads * vector < problem.n:
        row_threads *= 2
    vectors = problem.batch * problem.m * -(-problem.n // vector)
    groups = 1
    while groups * 2 <= min(parts, THREADS // row_threads) and (
        vectors * groups < machine.sms * BUSY_THREADS
    ):
        groups *= 2
    return Reduce(
        tile_m=THREADS // row_threads // groups,
        tile_n=row_threads * vector,
        parts=parts,
        groups=groups,
        vector=vector,
        leading=leading,
    )


def reduce_clocks(problem: Problem, machine: Machine, parts: int) -> float:
    """Clocks of the second kernel of a problem whose k is cut; 0 where it is not."""
    if parts == 1:
        return 0.0
    read = parts * problem.batch * problem.m * problem.n * FP32.bytes
    moved = read / (machine.sms * L2_REDUCE_RATE)
    out = output_bytes(problem) / machine.dram_rate
    return REDUCE_US * machine.clock_mhz + max(moved, out)


def split_reason(parts: int, later: float, machine: Machine) -> tuple[str, str]:
    """The answer to the question, and its reason; ``later``: clocks of the second kernel."""
    microseconds = later / machine.clock_mhz
    return f"{parts} parts", f"a second kernel adds them in {microseconds:.1f} us as predicted"
