"""Question: in which order do blocks walk the tiles of D?

Blocks are numbered through groups of ``raster_group`` tile rows, column by column, so that those
in flight together form a compact patch of D and share rows of A and columns of B in the L2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InternalError

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.misses import Miss
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.problem import Problem

__all__ = [
    "MAX_GRID",
    "RASTER_GROUPS",
    "best_raster",
    "compulsory_bytes",
    "grid",
    "operand_traffic",
    "raster",
    "raster_answer",
]

RASTER_GROUPS = (1, 2, 4, 8, 16, 32)
"""Group heights that the tree tries."""

MAX_GRID = 2**31 - 1
"""Blocks of a one-dimensional grid (CUDA programming guide, technical specifications)."""


def grid(tiles: int) -> Miss | None:
    """One block a tile: their number fits a one-dimensional grid."""
    return (tiles, MAX_GRID) if tiles > MAX_GRID else None


def raster(group: int, tiles_n: int) -> Miss | None:
    """The blocks of one raster group are counted in 32 bits by the kernel."""
    got = group * tiles_n
    return (got, MAX_GRID) if got > MAX_GRID else None


def compulsory_bytes(problem: Problem) -> int:
    """Bytes of A and B: each is read from memory once at least."""
    rows = problem.a_matrices * problem.m + problem.b_matrices * problem.n
    return rows * problem.k * problem.element_bytes


def operand_traffic(
    problem: Problem, machine: Machine, tile_m: int, tile_n: int, blocks: int, group: int
) -> float:
    """Bytes of A and B that device memory delivers.

    Operands that fit the L2 together, or that one wave covers whole, are read once. Else, where
    a group's rows of A stay in the L2, A is read once and B once a group; where even those do
    not stay, each wave reads the rows and columns that its patch of D spans.
    """
    return _traffics(problem, machine, tile_m, tile_n, blocks, (group,))[0]


def _traffics(
    problem: Problem,
    machine: Machine,
    tile_m: int,
    tile_n: int,
    blocks: int,
    groups: tuple[int, ...],
) -> list[float]:
    """`operand_traffic` of each of some groups."""
    tiles_m, tiles_n = -(-problem.m // tile_m), -(-problem.n // tile_n)
    tiles, together = tiles_m * tiles_n, machine.sms * blocks
    row_bytes = problem.k * problem.element_bytes
    one = (problem.m + problem.n) * row_bytes
    if one <= machine.l2_bytes or tiles <= together:
        return [compulsory_bytes(problem)] * len(groups)
    found: list[float] = []
    for group in groups:
        height = min(group, tiles_m)
        if height * tile_m * row_bytes <= machine.l2_bytes:
            times = -(-tiles_m // height)
            found.append(problem.batch * row_bytes * (problem.m + times * problem.n))
            continue
        width = min(-(-together // height), tiles_n)
        patch = tiles / together * (height * tile_m + width * tile_n) * row_bytes
        found.append(problem.batch * max(patch, float(one)))
    return found


def patch_rows(tile_m: int, tile_n: int, together: int, height: int) -> int:
    """Rows and columns that the blocks in flight span: what raster order keeps small."""
    return height * tile_m + -(-together // height) * tile_n


def best_raster(
    problem: Problem,
    machine: Machine,
    tile_m: int,
    tile_n: int,
    blocks: int,
    groups: tuple[int, ...] = RASTER_GROUPS,
    *,
    neighbours: bool = False,
    written: bool = False,
) -> tuple[float, int]:
    """(bytes of A and B from memory, group): least traffic, then compact patch, then low group.

    With `neighbours`, where all tiles run at a time, blocks beside each other share the longer
    side's operand, of which there is more to wait for: 2 to 20 % at 4096x320x320, 784x512x2048 and
    320x4096x1280 (``benchmarks/results/program_sweep_one_wave_h200.json``).

    With `written`, where the writing of D is all there is, whole rows of it lie together in the
    lowest group: 4096x4096x40, 8 products, took 76.0 us with a group of 1, 76.6 with 4, 77.4 with
    8, 78.9 with 16, 83.5 with 32 (``program_sweep_depths_h200.json``).
    """
    tiles_m, tiles_n = -(-problem.m // tile_m), -(-problem.n // tile_n)
    together = min(machine.sms * blocks, tiles_m * tiles_n)
    one_wave = neighbours and tiles_m * tiles_n * problem.batch <= machine.sms * blocks
    legal = tuple([group for group in groups if not raster(group, tiles_n)])
    traffics = _traffics(problem, machine, tile_m, tile_n, blocks, legal)
    best = None
    for group, traffic in zip(legal, traffics, strict=True):
        height = min(group, tiles_m)
        spread = patch_rows(tile_m, tile_n, together, height)
        if one_wave:
            spread = height if problem.m >= problem.n else -height
        elif written:
            spread = height
        key = traffic, spread, group
        if best is None or key < best:
            best = key
    if best is None:
        raise InternalError("no raster group is legal; the constraints should have refused it")
    return best[0], best[2]


def raster_answer(problem: Problem, prediction: Prediction, group: int) -> tuple[str, str]:
    """The answer for a grid of tiles, and its reason."""
    once = compulsory_bytes(problem)
    if prediction.operand_bytes > once:
        reason = f"memory delivers A and B {prediction.operand_bytes / once:.2f} times over"
    else:
        reason = "memory delivers A and B once; neighbours share the rest through the L2"
    return f"{group} tile {'row' if group == 1 else 'rows'}", reason
