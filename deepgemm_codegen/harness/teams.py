"""Which tiles of D a problem is judged by, and which of them run together.

A problem too big to run whole is judged by some of its tiles: the corners, the edges, the seam
of the last raster group, and a few of the interior, drawn by seed.

A persistent block computes several tiles, those that lie a grid apart. `emulated_grid` says which
grid, and so which tiles run together.
"""

from __future__ import annotations

import random
from math import gcd
from typing import TYPE_CHECKING

from deepgemm_codegen.harness.blocks import block_of, clusters_along, tile_of, tiles_along
from deepgemm_codegen.plan import Persistent, Wgmma

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan

__all__ = ["choose_blocks", "emulated_grid", "team_of"]


def emulated_grid(problem: Problem, kernel: KernelPlan) -> int:
    """Blocks of a kernel's launch on the emulator: blocks that lie so far apart are one.

    A persistent block gets two rounds of tiles at least (or of a tile's parts), and as many as turn
    its ring of stages twice and let D's ring of panels begin at each of them, so that what it
    carries from one to the next is judged. Where tiles are judged by whole rows, those of one block
    lie in few rows.
    """
    grid, body = problem.blocks_of(kernel), kernel.body
    if not grid or not isinstance(kernel.schedule, Persistent):
        return grid
    slices = max(-(-problem.k // kernel.k.tile) // kernel.k.split, 1)  # of the shortest part
    stages, at_once = (body.stages, body.tiles_at_once) if isinstance(body, Wgmma) else (1, 1)
    wanted = max(-(-(2 * stages + 1) // slices), (_beginnings(kernel) + 1) * at_once)
    apart = kernel.m.cluster * kernel.n.cluster
    if kernel.k.split > 1:  # a tile's parts lie all tiles of a product apart
        tiles = problem.grid // problem.spec.batch
        fewer = 0 if problem.by_rows else _fewer(tiles, apart, -(-wanted * tiles // grid))
        return fewer or _spread(grid, tiles, wanted)
    return _spread(grid, _rows_apart(problem) if problem.by_rows else apart, wanted)


def _rows_apart(problem: Problem) -> int:
    """Tiles after which a row goes on, or the raster begins anew: a group's, or a product's.

    A block whose tiles lie a multiple of it apart computes those of few rows.
    """
    rows, columns = clusters_along(problem)
    group = min(problem.plan.schedule.raster_group, rows)
    clusters = group if group == rows else group * columns
    if problem.spec.batch > 1:
        clusters = rows * columns
    return clusters * problem.plan.m.cluster * problem.plan.n.cluster


def _spread(grid: int, apart: int, wanted: int) -> int:
    """The largest multiple of `apart` that leaves each block `wanted` rounds; `apart` for fewer."""
    return max(grid // apart // wanted, 1) * apart


def _fewer(tiles: int, cluster: int, rounds: int) -> int:
    """A grid that divides a product's tiles, so that all parts of a tile fall to one block.

    Args:
        tiles: of a product.
        cluster: blocks of a cluster, which stay together.
        rounds: tiles that a block needs; 0 comes back where one is enough.
    """
    if rounds <= 1:
        return 0
    clusters = tiles // cluster
    counts = (c for c in range(clusters // rounds, 0, -1) if clusters % c == 0)
    return cluster * next(counts, 1)


def _beginnings(kernel: KernelPlan) -> int:
    """Panels of D's ring at which a tile may begin, one after the other."""
    body = kernel.body
    if not isinstance(body, Wgmma) or body.store != "tma":
        return 1
    columns, slots = body.store_panels
    return slots // gcd(slots, body.tile_n // columns)


def choose_blocks(
    problem: Problem, count: int, seed: int, *, corners: bool = True
) -> tuple[int, ...]:
    """About ``count`` tiles, ascending; all of them when there are no more.

    With ``corners``, first the last tile of the last batch, because tails meet there, then the
    other corners, the first tile of the last raster group and the first of the second batch.
    Without, one block drawn from the inside comes first. The rest is drawn by seed, half of it on
    the far edges. A tile brings all that its block or its cluster runs: several, where blocks are
    persistent, so that fewer are chosen.
    """
    grid = problem.grid
    if grid <= count:
        return tuple(range(grid))
    tiles_m, tiles_n = tiles_along(problem)
    if problem.by_rows:
        count = max(count // tiles_n, 1)
    batch = problem.spec.batch
    count = min(count, batch * tiles_m * tiles_n)  # the rest of the grid lies past the edges
    last_m, last_n = tiles_m - 1, tiles_n - 1
    group = problem.plan.schedule.raster_group * problem.plan.m.cluster
    draw = random.Random(f"{seed} {problem}")  # noqa: S311  sampling, not secrets
    wanted = [
        (batch - 1, last_m, last_n),
        (0, 0, 0),
        (0, last_m, 0),
        (0, 0, last_n),
        (batch - 1, last_m // group * group, last_n // 2),
        (min(1, batch - 1), 0, 0),
    ]
    if not corners:
        inside = (draw.randrange(batch), draw.randrange(last_m or 1), draw.randrange(last_n or 1))
        wanted.insert(0, inside)
    found = dict.fromkeys(block_of(problem, *tile) for tile in wanted[:count])
    while len(found) < count:
        tile_m, tile_n = draw.randrange(tiles_m), draw.randrange(tiles_n)
        edge = draw.randrange(4)
        if edge == 0:
            tile_m = last_m
        elif edge == 1:
            tile_n = last_n
        found.setdefault(block_of(problem, draw.randrange(batch), tile_m, tile_n))
    return _whole_teams(problem, found)


def team_of(problem: Problem, tile: int) -> int:
    """A number that tiles have in common which are judged together.

    Some block runs them, or some cluster; or they share rows, which a second kernel needs whole.
    """
    if problem.by_rows:
        return min(_whole_teams(problem, (tile,)))
    return tile % _apart(problem) // _neighbours(problem)


def _whole_teams(problem: Problem, tiles: Iterable[int]) -> tuple[int, ...]:
    """Some tiles with all that run together with one of them, ascending."""
    found = _whole_blocks(problem, tiles)
    while problem.by_rows:  # the blocks of those rows may run tiles of others
        known, found = found, _whole_blocks(problem, _whole_rows(problem, found))
        if found == known:
            break
    return found


def _whole_blocks(problem: Problem, tiles: Iterable[int]) -> tuple[int, ...]:
    """Some tiles with all that the same blocks or clusters run, ascending."""
    together, apart = _neighbours(problem), _apart(problem)
    firsts = {tile % apart // together * together for tile in tiles}
    ranks = (rank for first in firsts for rank in range(first, first + together))
    return tuple(sorted(t for rank in ranks for t in range(rank, problem.grid, apart)))


def _whole_rows(problem: Problem, tiles: Iterable[int]) -> tuple[int, ...]:
    """All tiles of the rows of some tiles, of a cluster's rows together, ascending."""
    height = problem.plan.m.cluster
    tiles_m, tiles_n = (
        along * per
        for along, per in zip(
            clusters_along(problem), (height, problem.plan.n.cluster), strict=True
        )
    )
    rows = {(batch, row // height) for batch, row, _ in (tile_of(problem, t) for t in tiles)}
    return tuple(
        sorted(
            block_of(problem, batch, row, column)
            for batch, group in rows
            for row in range(group * height, min((group + 1) * height, tiles_m))
            for column in range(tiles_n)
        )
    )


def _neighbours(problem: Problem) -> int:
    """Tiles in a row that a cluster runs, or a block with several abreast."""
    kernel = problem.plan
    return kernel.m.cluster * kernel.n.cluster * kernel.abreast


def _apart(problem: Problem) -> int:
    """How far tiles lie apart that one block runs."""
    kernel = problem.plan
    if not isinstance(kernel.schedule, Persistent):
        return problem.grid
    apart = emulated_grid(problem, kernel)
    return min(apart, problem.grid // problem.spec.batch) if kernel.k.split > 1 else apart
