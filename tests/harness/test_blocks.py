from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.harness.blocks import (
    block_of,
    choose_blocks,
    describe_tile,
    region_of,
    tile_of,
    tiles_along,
)
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Grid
from tests.harness.support import plan_of

sizes = st.integers(1, 40)


@given(sizes, sizes, st.integers(1, 4), st.integers(1, 16))
def test_blocks_and_tiles_are_one_to_one(
    tiles_m: Any, tiles_n: Any, batch: Any, raster_group: Any
) -> None:
    grid = Grid(raster_group)
    blocks = range(tiles_m * tiles_n * batch)
    tiles = [grid.tile_of(block, tiles_m, tiles_n) for block in blocks]
    assert len(set(tiles)) == len(tiles)
    assert all(0 <= b < batch and 0 <= m < tiles_m and 0 <= n < tiles_n for b, m, n in tiles)
    assert [grid.block_of(*tile, tiles_m, tiles_n) for tile in tiles] == list(blocks)


def test_a_ragged_last_group_is_walked_down_its_columns() -> None:
    # Five tile rows in groups of four: the last group is one row high.
    grid = Grid(4)
    order = [grid.tile_of(block, 5, 3)[1:] for block in range(15)]
    assert order == [(m, n) for n in range(3) for m in range(4)] + [(4, n) for n in range(3)]


@pytest.mark.parametrize("layout_d", ["n", "t"])
def test_regions_cover_d_exactly_once(layout_d: Any) -> None:
    choice = MmaSyncChoice(64, 48, 32, 2, 2, 2, 2, 4)
    problem = bind(plan_of(f"m=500 n=300 k=32 batch=2 layout_d={layout_d}", choice))
    count = np.zeros((2, 500, 300), int)
    for block in range(problem.grid):
        region = region_of(problem, block)
        count[region.batch, region.row : region.row_end, region.column : region.column_end] += 1
    assert (count == 1).all()


def test_a_transposed_plan_swaps_rows_and_columns() -> None:
    choice = MmaSyncChoice(64, 48, 32, 2, 2, 2, 2, 4)
    problem = bind(plan_of("m=500 n=300 k=32 layout_d=t", choice))
    assert tiles_along(problem) == (-(-300 // 64), -(-500 // 48))
    region = region_of(problem, block_of(problem, 0, 1, 2))
    assert (region.row, region.column) == (2 * 48, 64)
    assert describe_tile(problem, 0, 2 * 48, 64) == "tile (1, 2)"


def test_a_small_grid_is_run_whole() -> None:
    problem = bind(plan_of("m=100 n=100 k=32"))
    assert choose_blocks(problem, 16, 0) == (0, 1, 2, 3)


def test_chosen_blocks_begin_with_the_corners() -> None:
    problem = bind(plan_of("m=4000 n=3000 k=32 batch=3"))
    tiles_m, tiles_n = tiles_along(problem)
    chosen = {tile_of(problem, block) for block in choose_blocks(problem, 6, 0)}
    assert (2, tiles_m - 1, tiles_n - 1) in chosen
    assert (0, 0, 0) in chosen
    assert (0, tiles_m - 1, 0) in chosen
    assert (0, 0, tiles_n - 1) in chosen


def test_one_block_alone_is_the_last_tile_or_one_inside() -> None:
    problem = bind(plan_of("m=4001 n=3001 k=32"))
    last = tuple(size - 1 for size in tiles_along(problem))
    assert tile_of(problem, choose_blocks(problem, 1, 0)[0])[1:] == last
    _, tile_m, tile_n = tile_of(problem, choose_blocks(problem, 1, 0, corners=False)[0])
    assert tile_m < last[0]
    assert tile_n < last[1]


@given(st.integers(1, 60), st.integers(0, 5))
def test_as_many_blocks_as_asked_for_and_the_same_for_a_seed(count: Any, seed: Any) -> None:
    problem = bind(plan_of("m=700 n=500 k=32"))
    chosen = choose_blocks(problem, count, seed)
    assert len(chosen) == min(count, problem.grid)
    assert list(chosen) == sorted(set(chosen))
    assert chosen == choose_blocks(problem, count, seed)
