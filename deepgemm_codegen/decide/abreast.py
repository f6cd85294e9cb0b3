"""Question: how many tiles does a block compute side by side?

A tiny product is one tile of one or two warps, and a batch has thousands. A GPU starts blocks one
by one, so that blocks this small end sooner than others begin. Several tiles in one block, each
with warps and shared memory of its own, are as many times fewer blocks to start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.refusal import Refusal
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.layout import AREA_ALIGNMENT
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "ABREAST",
    "Block",
    "abreast_answer",
    "abreast_obstacle",
    "few_warps",
    "refusal",
    "tiles_abreast",
]

ABREAST: dict[str, range] = {"abreast": range(1, 17)}
"""Every number that an override may ask for."""

NUMBERS = (1, 2, 4, 8, 16)
"""Numbers that the tree tries."""

MAX_WARPS = 16
"""Warps of a block, as where its warps share a tile."""

START_NS = 1.0
"""Nanoseconds from one block's start to the next on the whole GPU. An estimate."""

WAIT = 0.002
"""Part that each further tile costs, since all wait at every barrier for the last. An estimate."""


class Block(NamedTuple):
    """What a block of one tile takes.

    Attributes:
        warps: of the tile.
        shared_bytes: dynamic shared memory of the tile.
    """

    warps: int
    shared_bytes: int


def abreast_obstacle(spec: GemmSpec) -> Refusal | None:
    """Why no kernel has the user's number of tiles abreast: m or n of run time, or a cut k."""
    given, parts = spec.overrides.abreast, spec.overrides.split_k
    if given in (None, 1):
        return None
    for name, dim in (("m", spec.m), ("n", spec.n)):
        if dim.dynamic:
            text = f"abreast = {given}: {name} is known only at run time"
            return Refusal(text, "abreast", remedy=f"give {name}")
    if spec.norm is not None:
        text = f"abreast = {given}: sums that a norm waits for have blocks of their own"
        return Refusal(text, "abreast")
    if parts not in (None, 1):
        text = f"abreast = {given} with split_k = {parts}: each part of k has blocks of its own"
        return Refusal(text, "abreast")
    return None


def few_warps(
    layouts: tuple[tuple[int, int], ...], given: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """The layouts of warps of which a block has room for as many tiles as the user wants.

    All of them where it has room for none, which is then what is refused.
    """
    if "abreast" not in given:
        return layouts
    most = MAX_WARPS // given["abreast"]
    return tuple(pair for pair in layouts if pair[0] * pair[1] <= most) or layouts


def _miss(block: Block, number: int, machine: Machine) -> str:
    """Why so many tiles do not fit one block; empty where they do."""
    warps = number * block.warps
    if warps > MAX_WARPS:
        return f"{warps} warps a block; the limit is {MAX_WARPS}"
    area = number * (-(-block.shared_bytes // AREA_ALIGNMENT) * AREA_ALIGNMENT)
    if area > machine.shared_per_block:
        return (
            f"{area} bytes of shared memory a block (0 of them static); {machine.name} has"
            f" {machine.shared_per_block}"
        )
    return ""


def refusal(block: Block, number: int, machine: Machine) -> Refusal | None:
    """Why so many tiles do not fit one block; None where they do."""
    miss = _miss(block, number, machine)
    if not miss:
        return None
    most = next(n for n in range(number, 0, -1) if not _miss(block, n, machine))
    return Refusal(f"abreast = {number}: {miss}", "abreast", most)


def _clocks(tiles: int, number: int, machine: Machine, busy: float) -> float:
    """Clocks of a kernel whose blocks hold so many tiles: what it computes, or starts alone."""
    starts = -(-tiles // number) * START_NS * machine.clock_mhz / 1e3
    return max(busy, starts) * (1 + WAIT * (number - 1))


def tiles_abreast(
    problem: Problem, machine: Machine, tiles: int, block: Block, clocks: float, given: int | None
) -> int:
    """The cheapest number of tiles a block, of equal ones the least; 1 but for a batch of tiles.

    0 where the user's number does not fit.

    Args:
        problem: what is computed.
        machine: where.
        tiles: of D, of the whole batch.
        block: of one tile.
        clocks: of the kernel as predicted, launch included.
        given: the user's number.
    """
    if given is not None:
        return 0 if _miss(block, given, machine) else given
    if problem.batch == 1 or tiles != problem.batch or problem.dynamic_m or problem.dynamic_n:
        return 1
    if problem.rows_follow:
        return 1
    busy = clocks - machine.launch
    able = [number for number in NUMBERS if not _miss(block, number, machine)]
    return min(able, key=lambda number: _clocks(tiles, number, machine, busy))


def abreast_answer(tiles: int, warps: int, number: int) -> tuple[Decision, ...]:
    """The question with its answer and reason; nothing where a block has one tile."""
    if number == 1:
        return ()
    threads = WARP * warps
    blocks = -(-tiles // number)
    microseconds = tiles * START_NS / 1e3, blocks * START_NS / 1e3
    reason = (
        f"{tiles} blocks of {threads} threads would take {microseconds[0]:.1f} us to start,"
        f" {blocks} take {microseconds[1]:.1f}"
    )
    return (Decision("D16", "tiles abreast", f"{number} a block", reason),)
