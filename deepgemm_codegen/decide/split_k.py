"""Question: into how many parts is k cut, each summed by blocks of its own?

A product with few tiles and a long k leaves multiprocessors idle. Cut into parts, its tiles are as
many times more; each writes its sums to the workspace, and a second kernel adds them in one
order and applies the epilogue. Where a tile's parts are the blocks of one cluster they meet in
shared memory instead, and finish the tile themselves. A family searches once whole, and once for
each cut that would fill the multiprocessors, as long as that can win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from deepgemm_codegen.decide.prediction import output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.plan.expressions import Number, rounded_up, times
from deepgemm_codegen.plan.reduce import Reduce
from deepgemm_codegen.plan.tiles import PARTIALS
from deepgemm_codegen.plan.workspace import Workspace, workspace_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = [
    "PARTIAL_VECTOR",
    "SPLIT_K",
    "WHOLE",
    "WORTH",
    "Cut",
    "cheapest_cut",
    "cluster_obstacle",
    "cut",
    "cuts_to_try",
    "late_clocks",
    "partial_leading",
    "partials",
    "reduce_body",
    "reduce_clocks",
    "split_answer",
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

PROMISING = 1.1
"""A cut is tried where the whole takes so much longer than what no cut can beat."""

SLICE = 64
"""Elements of k that the longest part is counted in: of numbers with equally long a part the least
is tried."""

LEAST_PART = 128
"""Elements of k that a part has at least."""

WORTH = 0.97
"""A program with a workspace has to be so much faster, as predicted: the caller gives memory."""

FEWER = 0.98
"""What is cut into more parts has to be so much faster: the model tells no less apart. At
64x4096x14336 clusters of three took 40 us where pairs, predicted to take 1 % more, took 35."""

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

REDUCE_US = 0.3
"""The second kernel's first read and last write, beside its bytes, where its blocks wait for the
product's end on multiprocessors already.

This and the next two were fitted to 127 programs of 13 shapes, measured on an H200 beside cuBLAS
(``benchmarks/results/program_sweep_split_k_h200.json``): which program of a shape comes first, and
by how much."""

LATE_US = 0.9
"""What it takes longer where they begin only when the product's blocks have gone."""

PARTIALS_RATE = 8.6
"""Bytes a clock and multiprocessor of partial sums, written and read again."""


ROWS_US = 1.4
"""What a second kernel takes longer that norms rows, which waits for all of one twice: what eight
products whose bytes take little took longer than as predicted without, on the average
(``benchmarks/results/program_sweep_whole_rows_h200.json``)."""


class Cut(NamedTuple):
    """How k is cut.

    Attributes:
        parts: how many sum a part each; 1 is all of k.
        together: whether a tile's parts are the blocks of one cluster.
    """

    parts: int
    together: bool = False

    @property
    def apart(self) -> bool:
        """Whether parts meet in a workspace."""
        return self.parts > 1 and not self.together

    @property
    def cluster_k(self) -> int:
        """Blocks of a cluster along k."""
        return self.parts if self.together else 1


WHOLE = Cut(1)
"""k as one part."""


class _Found(Protocol):
    @property
    def clocks(self) -> float: ...


Result = TypeVar("Result", bound=_Found)


def cuts_to_try(
    problem: Problem, machine: Machine, overrides: Overrides, clusters: tuple[int, ...] = ()
) -> tuple[Cut, ...]:
    """Cuts that may pay beside none, in the order to try them, or the user's alone.

    Args:
        problem: in the plan's roles.
        machine: where.
        overrides: the user's.
        clusters: numbers of parts whose blocks a cluster may hold, ascending.
    """
    wanted = overrides.cluster_k
    if wanted not in (None, 1):
        return (Cut(wanted, together=True),) if overrides.split_k in (None, wanted) else ()
    if wanted == 1 or problem.rows_follow or problem.batch > 1 or problem.halves > 1:
        clusters = ()
    if overrides.split_k is not None:
        return (*(Cut(c, together=True) for c in clusters if c == overrides.split_k),
                Cut(overrides.split_k))  # fmt: skip
    if (overrides.abreast or 1) > 1:  # each part has blocks of its own
        return (WHOLE,)
    start = SPLIT_K_FROM if overrides.split_k_from is None else overrides.split_k_from
    most = min(problem.k // LEAST_PART, MAX_SPLIT_K)
    if start == 0 or problem.k < start or most < 2 or problem.dynamic_k:
        return (WHOLE,)
    found = set()
    for tile_m, tile_n in TILES:
        tiles = problem.batch * -(-problem.m // tile_m) * -(-problem.n // tile_n)
        for share in (1, 2):  # all multiprocessors, or half beside the second kernel
            number = min(max(machine.sms // (tiles * share), 1), most)
            longest = -(-problem.k // (SLICE * number))
            found.add(-(-problem.k // (SLICE * longest)))
    apart = (Cut(number) for number in sorted(found - {1}))
    together = (Cut(number, together=True) for number in clusters if number <= most)
    return (WHOLE, *together, *apart)


def cluster_obstacle(spec: GemmSpec) -> str:
    """Why parts of k cannot meet in the clusters that are asked for; empty where they can."""
    if (spec.overrides.cluster_k or 1) == 1:
        return ""
    if spec.pairs is not None:
        return f"{spec.pairs.kind} pairs sums that are whole"
    if spec.norm is not None:
        return f"{spec.epilogue[spec.norm].kind} wants whole rows"
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
        d_bytes=SUM_BYTES * problem.halves,
        c_bytes=0,
    )


def partial_leading(n: Extent) -> int | None:
    """Elements from row to row of partial sums; None when known only at run time."""
    return None if n.dynamic else -(-n.size // PARTIAL_VECTOR) * PARTIAL_VECTOR


def partials(spec: GemmSpec, m: Extent, n: Extent, parts: int) -> Workspace:
    """The workspace of a product whose k is cut."""
    row = rounded_up(n.expression, PARTIAL_VECTOR)
    elements = times(times(m.expression, row), Number(spec.batch * parts * spec.halves))
    return workspace_of([(PARTIALS, spec.dtype_acc, elements)])


def reduce_body(problem: Problem, machine: Machine, parts: int, leading: int | None) -> Reduce:
    """The second kernel: as many threads as keep the multiprocessors busy."""
    vector, columns = problem.vector, problem.n // problem.halves
    row_threads = 1
    while row_threads < 32 and row_threads * vector < columns:
        row_threads *= 2
    vectors = problem.batch * problem.m * -(-columns // vector)
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
        halves=problem.halves,
    )


def reduce_clocks(problem: Problem, machine: Machine, parts: int) -> float:
    """Clocks of the second kernel: where k is cut, or rows follow; else 0."""
    if parts == 1 and not problem.rows_follow:
        return 0.0
    read = parts * problem.batch * problem.m * problem.n * SUM_BYTES
    moved = read / (machine.sms * PARTIALS_RATE)
    out = output_bytes(problem) / machine.dram_rate
    us = REDUCE_US
    if problem.rows_follow:  # the fuller the L2, the more of the sums come from memory
        out += read / machine.dram_rate * min((read + output_bytes(problem)) / machine.l2_bytes, 1)
        us += ROWS_US
    return us * machine.clock_mhz + max(moved, out)


def late_clocks(machine: Machine, filled: float) -> float:
    """Clocks that the second kernel begins later because the product's blocks leave it no room.

    Args:
        machine: where.
        filled: part of the multiprocessors that a block of the product fills; where the product
            lets the second kernel in at its end only, all of them.
    """
    return LATE_US * machine.clock_mhz * min(filled, 1.0) ** 2


def trailing_clocks(problem: Problem, machine: Machine, parts: int) -> float:
    """Clocks that the product's own model leaves out: those of the second kernel, and the ramp."""
    rate = max(machine.mma_rate, machine.wgmma_rate)
    math = 2 * problem.batch * problem.m * problem.n * problem.k / (rate * machine.sms)
    memory = (compulsory_bytes(problem) + output_bytes(problem)) / machine.dram_rate
    ramp = RAMP_US * machine.clock_mhz * max(0.0, 1 - math / memory) if memory else 0.0
    return reduce_clocks(problem, machine, parts) + ramp


def cheapest_cut(
    cuts: tuple[Cut, ...],
    later: Callable[[Cut], float],
    search: Callable[[Cut, float], Result | None],
    floor: float,
    below: float,
) -> tuple[Cut, Result] | None:
    """The cut whose kernels take least, and what was found for it.

    Two numbers in a row that are no better end the search among those of a kind: the least of them
    lies before.

    Args:
        cuts: as `cuts_to_try` orders them.
        later: clocks of the kernels behind the product.
        search: the product kernel of a cut that takes fewer clocks than given.
        floor: clocks that no product kernel can beat.
        below: clocks that a rival takes.
    """
    best = None
    misses = {True: 0, False: 0}
    for each in cuts:
        kind = each.together
        if misses[kind] == 2:
            continue
        rest = later(each)
        limit = below
        if best is not None and each.apart and not best[0].apart:  # it takes memory
            limit *= WORTH
        elif best is not None and best[0].parts > 1:
            limit *= FEWER
        if each.parts > 1 and limit <= PROMISING * (floor + rest):
            continue
        found = search(each, limit - rest)
        misses[kind] += 1
        if found is not None:
            best, below, misses[kind] = (each, found), found.clocks + rest, 0
    return best


def split_answer(
    problem: Problem,
    machine: Machine,
    overrides: Overrides,
    parts: int,
    tile_k: int,
    cluster_k: int = 1,
) -> tuple[tuple[str, str, str], ...]:
    """The question with its answer and reason; nothing where k stays whole.

    Args:
        problem: whole.
        machine: where.
        overrides: the user's.
        parts: of k, or 1.
        tile_k: elements of k of a slice; a part has whole ones.
        cluster_k: blocks of a cluster along k.
    """
    if parts == 1:
        return ()
    words = f"{parts} parts"
    if cluster_k > 1:
        words += " of a cluster"
        reason = "the blocks of a cluster, which add them through each other's shared memory"
    else:
        microseconds = reduce_clocks(problem, machine, parts) / machine.clock_mhz
        reason = f"a second kernel adds them, in {microseconds:.1f} us as predicted"
    slices = -(-problem.k // tile_k)
    if parts > slices and not problem.dynamic_k:
        reason += (
            f"; k is {slices} slice{'s' * (slices != 1)}: {parts - slices} of them sum nothing"
        )
    if overrides.split_k_from is not None and (overrides.split_k or overrides.cluster_k):
        reason += "; split_k_from decides nothing where the parts are given"
    return (("split k", words, reason),)
