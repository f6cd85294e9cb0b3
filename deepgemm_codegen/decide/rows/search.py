"""Rows' choice: the cheapest of a small menu, every candidate of which is costed.

The model: a multiprocessor holds some rows at a time. Each waits for its elements, is summed, and
is written; so many rows as do not fit wait for their turn. Nothing can be faster than the bytes of
all rows through device memory, nor than the instructions of all elements.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.occupancy import RESIDENT, registers
from deepgemm_codegen.decide.rows.choice import RowChoice, resident, row_registers
from deepgemm_codegen.decide.schedule import MAX_GRID
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.misses import Violation
    from deepgemm_codegen.decide.rows.task import RowTask
    from deepgemm_codegen.spec.overrides import Overrides

__all__ = [
    "LEGAL",
    "PHRASES",
    "Cost",
    "RowMenu",
    "best_rows",
    "cheapest",
    "cost_of",
    "menu_for",
    "violations",
]

WARPS_M = (1, 2, 4, 8)
WARPS_N = (1, 2, 4, 8, 16, 32)

MOST_HELD, MOST_EIGHTS = 32, 40
"""Elements of a row that a thread holds at most, and where it takes eight at a time, which needs
fewer addresses: with what it is about to read they leave room for half of a multiprocessor's
threads or more. At 8192x5120 five vectors in each of 128 threads leave none idle, where three in
256 do."""

MOST_CROWDED = 16
"""The same where vectors of 32 bits are tested against a length given at run time: ptxas reads
weights ahead until it spills, 16 to 300 bytes with 24 and 32 elements under most caps below 128."""

ROOMY = 16
"""Warps of a block that have registers for `MOST_EIGHTS`."""

INSTRUCTIONS = 8
"""Of an element on its way through a norm: widened, summed, centred, squared, scaled, weighed,
shifted, narrowed."""

ISSUE = 128
"""Lanes of instructions a clock and multiprocessor."""

SHUFFLE_CLOCKS = 30
"""Clocks of one exchange between lanes and the addition behind it."""

BARRIER_CLOCKS = 40
"""Clocks of a barrier of a block whose warps arrive together, beside the exchange behind it."""

STEPS = 100
"""Steps of cost in the floor that memory sets: costs nearer than that are equal."""

COARSE = 20
"""The same of how busy the multiprocessors are."""

USEFUL = 128
"""Threads of a block that are worth its start."""

LEGAL: dict[str, range] = {"warps_m": range(1, 9), "warps_n": range(1, 33)}
"""Every number that an override may ask for."""

PHRASES = {
    "warps": "a row has {got} warps, and sums halve a power of two of them; the next is {limit}",
    "rows": "rows of several warps have a block each, not {got} to a block",
    "grid": "{got} blocks, and a grid has {limit} at most",
    "held": "a thread would hold {got} elements, and {limit} at most are held",
    "registers": RESIDENT["registers"],
}
"""The constraints in the order they are asked, and how a broken one reads."""


class RowMenu(NamedTuple):
    """The values that each question may be answered with."""

    warps_m: tuple[int, ...] = WARPS_M
    warps_n: tuple[int, ...] = WARPS_N


class Cost(NamedTuple):
    """What a choice is predicted to cost, in clocks.

    Attributes:
        clocks: the whole kernel with its launch.
        memory: of all bytes through device memory.
        issue: of all elements' instructions on the busiest multiprocessor.
        rounds: of rows that do not fit at once, one after the other.
        blocks: resident blocks a multiprocessor.
        waves: of blocks, the last one counted by its share.
    """

    clocks: float
    memory: float
    issue: float
    rounds: float
    blocks: int
    waves: float

    @property
    def bound(self) -> str:
        """What takes longest."""
        parts = {"device memory": self.memory, "instructions": self.issue, "latency": self.rounds}
        return max(parts, key=lambda name: parts[name])


def menu_for(overrides: Overrides) -> RowMenu:
    """The tree's menu, filtered by overrides with legal values."""
    given = overrides.numbers()
    chosen = {name: (given[name],) for name in RowMenu._fields if name in given}
    return RowMenu(**chosen)


def candidates(task: RowTask, menu: RowMenu) -> Iterator[RowChoice]:
    """Every candidate, legal or not: as many vectors held as a row needs, and none."""
    for warps_n in menu.warps_n:
        held = ceil(task.n / (WARP * warps_n * task.vector))
        for warps_m in menu.warps_m:
            yield RowChoice(warps_m, warps_n, held)
            yield RowChoice(warps_m, warps_n, 0)


def violations(task: RowTask, choice: RowChoice) -> Iterator[Violation]:
    """The constraints that a candidate breaks, in their order."""
    warps_m, warps_n, held = choice
    if warps_n & (warps_n - 1):
        yield "warps", warps_n, 1 << warps_n.bit_length()
    if warps_m > 1 and warps_n > 1:
        yield "rows", warps_m, 1
    blocks = task.blocks(warps_m)
    if blocks > MAX_GRID:
        yield "grid", blocks, MAX_GRID
    roomy = task.vector == 8 and warps_m * warps_n <= ROOMY
    most = MOST_CROWDED if task.crowded else MOST_EIGHTS if roomy else MOST_HELD
    if held * task.vector > most:
        yield "held", held * task.vector, most
    beyond = registers(row_registers(task, choice), WARP * warps_m * warps_n, 1, task.machine)
    if held and beyond is not None:
        yield "registers", *beyond


def cost_of(task: RowTask, choice: RowChoice) -> Cost:
    """What a legal candidate is predicted to cost."""
    machine = task.machine
    warps_m, warps_n, held = choice
    passes = 1 if held else task.sums + 1
    blocks = resident(task, choice)
    vectors = held or ceil(task.n / (WARP * warps_n * task.vector))
    padded = vectors * task.vector * WARP * warps_n  # idle lanes take their turns
    each = padded * (INSTRUCTIONS * passes / ISSUE + task.step_clocks)
    tiles = task.blocks(warps_m)
    busiest = -(-tiles // machine.sms)
    summing = SHUFFLE_CLOCKS * (WARP * warps_n - 1).bit_length()
    if warps_n > 1:
        summing += BARRIER_CLOCKS
    own = INSTRUCTIONS * passes * vectors * task.vector
    # The row's elements come together; what is read anew comes from the L2 after that.
    waiting = machine.loaded_latency + (passes - 1) * machine.latency / 2 + machine.latency / 2
    life = waiting + task.sums * summing + own
    issue = busiest * warps_m * each
    rounds = -(-busiest // blocks) * life
    memory = task.rows * task.n * (task.read + task.written) / machine.dram_rate
    clocks = machine.launch + machine.latency + max(memory, issue, rounds)
    return Cost(clocks, memory, issue, rounds, blocks, tiles / (machine.sms * blocks))


def cheapest(task: RowTask, menu: RowMenu) -> tuple[RowChoice, Cost, int] | None:
    """The cheapest legal candidate, its cost, and how many were costed; None where none is legal.

    Costs are compared in steps of memory's share; of equal ones the one that takes the
    multiprocessors least wins, in coarser steps, then that whose blocks have `USEFUL` threads or
    nearly so, then that with the fewest threads a row.
    """
    best: tuple[tuple[float, ...], RowChoice, Cost] | None = None
    costed = 0
    for choice in candidates(task, menu):
        if next(violations(task, choice), None) is not None:
            continue
        costed += 1
        cost = cost_of(task, choice)
        floor = cost.clocks - max(cost.memory, cost.issue, cost.rounds) + cost.memory
        busy = ceil(max(cost.rounds, cost.issue) / (floor / COARSE))
        threads = WARP * choice.warps_m * choice.warps_n
        key = (ceil(cost.clocks / (floor / STEPS)), busy, -min(threads, USEFUL), choice.warps_n)
        if best is None or key < best[0]:
            best = key, choice, cost
    return None if best is None else (best[1], best[2], costed)


def best_rows(task: RowTask) -> RowChoice:
    """The choice for a task that no override narrows."""
    found = cheapest(task, RowMenu())
    if found is None:
        raise InternalError(f"no row kernel for {task.rows} rows of {task.n}")
    return found[0]
