"""Which thread blocks compute which part of D.

A tile goes by the number of the block that computes it where one block does; `Grid.tile_of` is the
one place that says which. Where several blocks, or kernels, have a part in a tile, `blocks_for`
names them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.plan import Wgmma
from deepgemm_codegen.plan.repack import Repack
from deepgemm_codegen.plan.zero_points import ZeroPoints

if TYPE_CHECKING:
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.plan.tiles import Extent

__all__ = [
    "block_of",
    "blocks_for",
    "clusters_along",
    "describe_tile",
    "region_of",
    "regions_of",
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
    if _meets(kernel):
        return tuple(tile * parts + part for tile in tiles for part in range(parts))
    each = problem.grid // problem.spec.batch
    return tuple(
        sorted(
            (batch * parts + part) * each + tile
            for batch, tile in (divmod(tile, each) for tile in tiles)
            for part in range(parts)
        )
    )


def _meets(kernel: KernelPlan) -> bool:
    """Whether a tile's parts of k are the blocks of one cluster: neighbours."""
    return isinstance(kernel.body, Wgmma) and kernel.body.meets


def _copying_blocks(problem: Problem, body: Repack, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks of a `Repack` that copy what the product reads for some tiles, all of k."""
    found: set[int] = set()
    first = 0
    for matrix in body.matrices:
        along, across = (each.evaluate(problem.sizes) for each in body.tiles_of(matrix))
        height = matrix.rows.expression.evaluate(problem.sizes)
        width = (matrix.columns.expression if matrix.turned else matrix.written).evaluate(
            problem.sizes
        )
        tile_rows, tile_columns = body.tile_of(matrix)
        for tile in (tile_of(problem, number) for number in tiles):
            rows = _read_of(problem, matrix.rows, tile, height)
            columns = _read_of(problem, matrix.columns, tile, width)
            product = tile[0] if matrix.batch > 1 else 0
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


def _read_of(
    problem: Problem, extent: Extent, tile: tuple[int, int, int], length: int
) -> tuple[tuple[int, int], ...]:
    """What a tile of D reads along one extent of an operand: both halves where it has two.

    Boxes of the copy engine are whole at D's edge, too: they end where the copy does, at `length`,
    behind which nothing is there.
    """
    plan = problem.plan
    if extent.name == "K":
        return ((0, length),)
    number, step = (tile[1], plan.m.tile) if extent.name == plan.m.name else (tile[2], plan.n.tile)
    beginnings = (0, problem.n) if extent.both else (0,)
    return tuple(
        (half + number * step, min(half + (number + 1) * step, length)) for half in beginnings
    )


def _summing_blocks(problem: Problem, body: ZeroPoints, tiles: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks of a `ZeroPoints` that the product's tiles need."""
    found: set[int] = set()
    first = 0
    for operand in body.operands:
        each = operand.tiles.evaluate(problem.sizes)
        for region in regions_of(problem, tiles):
            start, end = region.row, region.row_end
            if operand.source == "b":
                start, end = region.column, region.column_end
            halves = (0, problem.n) if operand.across.both else (0,)
            before = first + (region.batch * each if operand.batch > 1 else 0)
            for half in halves:
                covered = _covering(half + start, half + end, body.rows)
                found.update(before + block for block in covered)
        first += operand.batch * each
    return tuple(sorted(found))


def _covering(start: int, end: int, step: int) -> range:
    """The tiles of `step` elements that hold some of ``[start, end)``."""
    return range(start // step, -(-end // step)) if start < end else range(0)


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
