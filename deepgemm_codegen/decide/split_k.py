"""Question: into how many parts is k cut, each summed by blocks of its own?

A product with few tiles and a long k leaves multiprocessors idle. Cut into parts, its tiles are as
many times more; each writes its sums to the workspace, and a second kernel adds them in one
order and applies the epilogue. A family searches once whole, and once for each number of parts
that would fill the multiprocessors, as long as that can win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from deepgemm_codegen.bodies import Reduce
from deepgemm_codegen.decide.prediction import output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.expressions import Number, rounded_up, times
from deepgemm_codegen.tiles import PARTIALS
from deepgemm_codegen.workspace import Workspace, workspace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.overrides import Overrides
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.tiles import Extent

__all__ = [
    "PARTIAL_VECTOR",
    "SPLIT_K",
    "WORTH",
    "cheapest_cut",
    "cut",
    "partial_leading",
    "partials",
    "parts_to_try",
    "reduce_body",
    "reduce_clocks",
    "split_answer",
    "split_obstacle",
    "trailing_clocks",
]

SPLIT_K: dict[str, range] = {"split_k": range(1, 257)}
"""Every number that an override may ask for; with more parts the second kernel reads more than the
first."""

MAX_SPLIT_K = SPLIT_K["split_k"][-1]
SPLIT_K_FROM = 512
"""The k from which the tree cuts, unless told otherwise: a part should last longer than what the
second kernel costs."""

TILES = ((32, 64), (64, 64), (64, 128), (128, 128), (128, 256))
"""Tiles that a number of parts is to fill the multiprocessors with."""

PROMISING = 1.2
"""A cut is tried where the whole takes so much longer than what no cut can beat."""

LEAST_PART = 128
"""Elements of k that a part has at least."""

WORTH = 0.97
"""A program with a workspace has to be so much faster, as predicted: the caller gives memory."""

SUM_BYTES = 4
"""Of a partial sum, fp32 or int32."""

PARTIAL_VECTOR = 4
"""Sums that a lane writes at a time: 16 bytes, on which every row of partial sums starts."""

THREADS = 256
"""Threads of a reducing block."""

BUSY_THREADS = 512
"""Threads a multiprocessor that keep enough reads of partial sums in flight."""

RAMP_US = 1.6
"""What a product that waits for device memory takes longer than its bytes: the loads begin and end
one by one. Measured on an H200 over the models' predictions: 1.4 to 1.9 us at 1x4096x4096 through
mma.sync and at 32 to 64 rows by 4096x4096 through wgmma."""

REDUCE_US = 1.6
"""The second kernel's launch, its first read and its last write, beside its bytes. An estimate:
a kernel in a graph starts about a microsecond after the one before it."""

L2_REDUCE_RATE = 30
"""Bytes a clock and multiprocessor at which partial sums come back from the L2. An estimate."""


class _Found(Protocol):
    @property
    def clocks(self) -> float: ...


Result = TypeVar("Result", bound=_Found)


def parts_to_try(problem: Problem, machine: Machine, overrides: Overrides) -> tuple[int, ...]:
    """Numbers of parts that may pay beside 1, or the user's alone."""
    if overrides.split_k is not None:
        return (overrides.split_k,)
    if problem.halves > 1 or (overrides.abreast or 1) > 1:  # each part has blocks of its own
        return (1,)
    start = SPLIT_K_FROM if overrides.split_k_from is None else overrides.split_k_from
    most = min(problem.k // LEAST_PART, MAX_SPLIT_K)
    if start == 0 or problem.k < start or most < 2 or problem.dynamic_k:
        return (1,)
    found = {1}
    for tile_m, tile_n in TILES:
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
        found.add(min(max(machine.sms // tiles, 1), most))
    return tuple(sorted(found))


def split_obstacle(spec: GemmSpec) -> str:
    """Why k cannot be cut into the parts that are asked for; empty where it can."""
    parts = spec.overrides.split_k or 1
    if parts > 1 and spec.pairs is not None:
        return f"split_k = {parts} is given, and {spec.pairs.kind} pairs sums that are whole"
    return ""


def cut(problem: Problem, parts: int) -> Problem:
    """The problem as the product kernel sees it: each part of k is a product of its own.

    Where a part ends, and whether k's tail is in it, is not known when the kernel is written.
    Where rows follow, all of k is a part, too.
    """
    if parts == 1 and not problem.rows_follow:
        return problem
    return problem._replace(
        k=-(-problem.k // parts),
        dynamic_k=problem.dynamic_k or parts > 1,
        batch=problem.batch * parts,
        a_matrices=problem.a_matrices * parts,
        b_matrices=problem.b_matrices * parts,
        vector=PARTIAL_VECTOR,
        d_bytes=SUM_BYTES,
        c_bytes=0,
    )


def partial_leading(n: Extent) -> int | None:
    """Elements from row to row of partial sums; None when known only at run time."""
    return None if n.dynamic else -(-n.size // PARTIAL_VECTOR) * PARTIAL_VECTOR


def partials(spec: GemmSpec, m: Extent, n: Extent, parts: int) -> Workspace:
    """The workspace of a product whose k is cut."""
    row = rounded_up(n.expression, PARTIAL_VECTOR)
    elements = times(times(m.expression, row), Number(spec.batch * parts))
    return workspace_of([(PARTIALS, spec.dtype_acc, elements)])


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
    """Clocks of the second kernel: where k is cut, or rows follow; else 0."""
    if parts == 1 and not problem.rows_follow:
        return 0.0
    read = parts * problem.batch * problem.m * problem.n * SUM_BYTES
    moved = read / (machine.sms * L2_REDUCE_RATE)
    out = output_bytes(problem) / machine.dram_rate
    if problem.rows_follow and read > machine.l2_bytes:  # sums of many rows come from memory
        out += read / machine.dram_rate
    return REDUCE_US * machine.clock_mhz + max(moved, out)


def trailing_clocks(problem: Problem, machine: Machine, parts: int) -> float:
    """Clocks that the product's own model leaves out: those of the second kernel, and the ramp."""
    rate = max(machine.mma_rate, machine.wgmma_rate)
    math = 2 * problem.batch * problem.m * problem.n * problem.k / (rate * machine.sms)
    memory = (compulsory_bytes(problem) + output_bytes(problem)) / machine.dram_rate
    ramp = RAMP_US * machine.clock_mhz * max(0.0, 1 - math / memory) if memory else 0.0
    return reduce_clocks(problem, machine, parts) + ramp


def cheapest_cut(
    numbers: tuple[int, ...],
    later: Callable[[int], float],
    search: Callable[[int, float], Result | None],
    floor: float,
    below: float,
) -> tuple[int, Result] | None:
    """The number of parts whose kernels take least, and what was found for it.

    Two numbers in a row that are no better end the search: the least of them lies before.

    Args:
        numbers: of parts, ascending.
        later: clocks of the kernels behind the product, by the number of parts.
        search: the product kernel for a number of parts that takes fewer clocks than given.
        floor: clocks that no product kernel can beat.
        below: clocks that a rival takes.
    """
    best = None
    misses = 0
    for number in numbers:
        limit = below - later(number)
        if number > 1 and (misses == 2 or below <= PROMISING * (floor + later(number))):
            break
        found = search(number, limit)
        misses += 1
        if found is not None:
            best, below, misses = (number, found), WORTH * (found.clocks + later(number)), 0
    return best


def split_answer(
    problem: Problem, machine: Machine, parts: int
) -> tuple[tuple[str, str, str], ...]:
    """The question with its answer and reason; nothing where k stays whole."""
    if parts == 1:
        return ()
    microseconds = reduce_clocks(problem, machine, parts) / machine.clock_mhz
    reason = f"a second kernel adds them, in {microseconds:.1f} us as predicted"
    return (("split k", f"{parts} parts", reason),)
