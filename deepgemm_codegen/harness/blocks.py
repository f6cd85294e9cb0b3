"""Which thread blocks to run, and which part of D each computes.

A problem too big to run whole is judged by some of its tiles: the corners, the edges, the seam
of the last raster group, and a few of the interior, drawn by seed. A tile goes by the number of
the block that computes it where one block does; `plan.Grid.tile_of` is the one place that says
which. Where several blocks, or kernels, have a part in a tile, `blocks_for` names them all.

A persistent block computes several tiles, those that lie a grid apart. `emulated_grid` says which
grid, and so which tiles run together.
"""

from __future__ import annotations

import random
from math import gcd
from typing import TYPE_CHECKING

from deepgemm_codegen.harness.problem import Region
from deepgemm_codegen.plan import Persistent, Wgmma
from deepgemm_codegen.repack import Repack
from deepgemm_codegen.zero_points import ZeroPoints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.tiles import Extent

__all__ = [
    "block_of",
    "blocks_for",
    "choose_blocks",
    "describe_tile",
    "emulated_grid",
    "region_of",
    "regions_of",
    "team_of",
    "tile_of",
    "tiles_along",
    "written_by",
]


def tiles_along(problem: Problem, kernel: KernelPlan | None = None) -> tuple[int, int]:
    """Tiles along the plan's m and n at the problem's sizes; of another kernel than the product."""
    sizes = {"M": problem.m, "N": problem.n}
    plan = kernel or problem.plan
    tiles_m = -(-sizes[plan.m.name] // plan.m.tile)
    tiles_n = -(-sizes[plan.n.name] // plan.n.tile)
    return tiles_m, tiles_n


def clusters_along(problem: Problem) -> tuple[int, int]:
    """Clusters of tiles along the plan's m and n: what the raster walks; tiles without clusters."""
    plan = problem.plan
    tiles_m, tiles_n = tiles_along(problem)
    return -(-tiles_m // plan.m.cluster), -(-tiles_n // plan.n.cluster)


def tile_of(problem: Problem, block: int) -> tuple[int, int, int]:
    """(batch, tile row, tile column) in the plan's roles of a block of the grid.

    The last cluster may reach past the last tile.
    """
    plan = problem.plan
    unit, rank = divmod(block, plan.m.cluster * plan.n.cluster)
    batch, row, column = plan.schedule.tile_of(unit, *clusters_along(problem))
    along_n, along_m = divmod(rank, plan.m.cluster)
    return batch, row * plan.m.cluster + along_m, column * plan.n.cluster + along_n


def block_of(problem: Problem, batch: int, tile_m: int, tile_n: int) -> int:
    """The block that computes a tile; the inverse of `tile_of`."""
    plan = problem.plan
    row, along_m = divmod(tile_m, plan.m.cluster)
    column, along_n = divmod(tile_n, plan.n.cluster)
    unit = plan.schedule.block_of(batch, row, column, *clusters_along(problem))
    return unit * plan.m.cluster * plan.n.cluster + along_n * plan.m.cluster + along_m


def region_of(problem: Problem, block: int) -> Region:
    """The part of the caller's D that is a tile."""
    return _tile_region(problem, problem.plan, tile_of(problem, block))


def _tile_region(problem: Problem, kernel: KernelPlan, tile: tuple[int, int, int]) -> Region:
    """The part of the caller's D that is (batch, tile row, tile column) of a kernel."""
    batch, tile_m, tile_n = tile
    rows = (tile_m * kernel.m.tile, (tile_m + 1) * kernel.m.tile)
    columns = (tile_n * kernel.n.tile, (tile_n + 1) * kernel.n.tile)
    if kernel.transposed:
        rows, columns = columns, rows
    first_row, last_row = (min(row, problem.m) for row in rows)
    first_column, last_column = (min(column, problem.n) for column in columns)
    return Region(batch, first_row, last_row, first_column, last_column)


def regions_of(problem: Problem, blocks: tuple[int, ...] | None) -> tuple[Region, ...]:
    """Some tiles of D; all of D for None."""
    if blocks is None:
        return problem.whole
    return tuple(region_of(problem, block) for block in blocks)


def blocks_for(
    problem: Problem, kernel: KernelPlan, tiles: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The blocks of one of the program's kernels that have a part in some tiles, ascending.

    None stands for all, of the tiles and of the blocks.
    """
    if tiles is None:
        return None
    if isinstance(kernel.body, ZeroPoints):
        return _summing_blocks(problem, kernel.body, tiles)
    if isinstance(kernel.body, Repack):
        return _copying_blocks(problem, kernel.body, tiles)
    if kernel is problem.plan or kernel.abreast > 1:
        return _multiplying_blocks(problem, kernel, tiles)
    found: set[int] = set()
    along = tiles_along(problem, kernel)
    for region in regions_of(problem, tiles):
        rows, columns = (region.row, region.row_end), (region.column, region.column_end)
        if kernel.transposed:
            rows, columns = columns, rows
        found.update(
            kernel.schedule.block_of(region.batch, row, column, *along)
            for row in _covering(*rows, kernel.m.tile)
            for column in _covering(*columns, kernel.n.tile)
        )
    return tuple(sorted(found))


def _multiplying_blocks(
    problem: Problem, kernel: KernelPlan, tiles: tuple[int, ...]
) -> tuple[int, ...]:
    """The blocks of a product that compute some tiles, or their parts of k."""
    if kernel.abreast > 1:
        return tuple(sorted({tile // kernel.abreast for tile in tiles}))
    parts = kernel.k.split
    if _cluster_k(kernel):
        return tuple(tile * parts + part for tile in tiles for part in range(parts))
    each = problem.grid // problem.spec.batch
    return tuple(
        sorted(
            (batch * parts + part) * each + tile
            for batch, tile in (divmod(tile, each) for tile in tiles)
            for part in range(parts)
        )
    )


def _cluster_k(kernel: KernelPlan) -> bool:
    """Whether a tile's parts of k are the blocks of one cluster, and so neighbours."""
    return isinstance(kernel.body, Wgmma) and kernel.body.cluster_k > 1


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


def team_of(problem: Problem, tile: int) -> int:
    """A number that tiles have in common which are judged together.

    Some block runs them, or some cluster; or they share rows, which a second kernel needs whole.
    """
    if problem.by_rows:
        return min(_whole_teams(problem, (tile,)))
    return tile % _apart(problem) // _neighbours(problem)


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


def _copying_blocks(problem: Problem, body: Repack, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks of a `Repack` that copy what the product reads for some tiles, all of k."""
    found: set[int] = set()
    first = 0
    for matrix in body.matrices:
        along, across = (each.evaluate(problem.sizes) for each in body.tiles_of(matrix))
        height = matrix.rows.expression.evaluate(problem.sizes)
        for region in regions_of(problem, tiles):
            rows = _read_of(problem, matrix.rows, region)
            columns = _read_of(problem, matrix.columns, region)
            tile_rows, tile_columns = body.tile_of(matrix)
            product = region.batch if matrix.batch > 1 else 0
            if matrix.singly:
                tiles_above, above = product * (along // matrix.batch), 0
            else:
                tiles_above, above = 0, product * height
            found.update(
                first + (tiles_above + row) * across + column
                for start, end in rows
                for row in _covering(above + start, above + end, tile_rows)
                for span in columns
                for column in _covering(*span, tile_columns)
            )
        first += along * across
    return tuple(sorted(found))


def _read_of(problem: Problem, extent: Extent, region: Region) -> tuple[tuple[int, int], ...]:
    """What a tile of D reads along one extent of an operand: both halves where it has two."""
    start, end = {
        "M": (region.row, region.row_end),
        "N": (region.column, region.column_end),
        "K": (0, problem.k),
    }[extent.name]
    beginnings = (0, problem.n) if extent.both else (0,)
    return tuple((half + start, half + end) for half in beginnings)


def _summing_blocks(problem: Problem, body: ZeroPoints, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks of a `ZeroPoints` that the product's tiles need."""
    found: set[int] = set()
    first = 0
    for operand in body.operands:
        each = operand.tiles.evaluate(problem.sizes)
        for region in regions_of(problem, tiles):
            ends = (region.row, region.row_end)
            if operand.source == "b":
                ends = (region.column, region.column_end)
            found.update(first + block for block in _covering(*ends, body.rows))
        first += each
    return tuple(sorted(found))


def _covering(start: int, end: int, step: int) -> range:
    """The tiles of `step` elements that hold some of ``[start, end)``."""
    return range(start // step, -(-end // step)) if start < end else range(0)


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


def written_by(problem: Problem, tiles: tuple[int, ...]) -> tuple[Region, ...]:
    """What of D is written when some tiles are computed: they, or a little more around them."""
    last = problem.program.kernels[-1]
    if last is problem.plan:
        return regions_of(problem, tiles)
    along = tiles_along(problem, last)
    return tuple(
        _tile_region(problem, last, last.schedule.tile_of(block, *along))
        for block in blocks_for(problem, last, tiles) or ()
    )


def describe_tile(problem: Problem, batch: int, row: int, column: int) -> str:
    """``tile (3, 5)`` (with the batch where there are several) of an element of D."""
    plan = problem.plan
    along_m, along_n = (column, row) if plan.transposed else (row, column)
    where = f"tile ({along_m // plan.m.tile}, {along_n // plan.n.tile})"
    return f"batch {batch} {where}" if problem.spec.batch > 1 else where


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
