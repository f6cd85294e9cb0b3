from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.blocks import (
    block_of,
    blocks_for,
    describe_tile,
    region_of,
    tile_of,
    tiles_along,
)
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.teams import choose_blocks, emulated_grid, team_of
from deepgemm_codegen.plan import Grid
from tests.harness.support import plan_of, program_of

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


def persistent(text: str, *, stages: int = 4, cluster: int = 1, **more: int) -> Any:
    choice = WgmmaChoice(64, 64, 1, 1, stages, cluster, 1, 8)
    return bind(program_of(f"{text} layout=nt arch=sm_90a", replace(choice, **more)))


def test_a_cluster_past_d_is_no_tile_to_choose() -> None:
    """Fewer tiles asked for than the grid has blocks, but more than D has: that ends, too."""
    problem = persistent("m=60 n=120 k=64", cluster=2)
    assert tiles_along(problem) == (1, 2)
    assert problem.grid == 4
    assert set(choose_blocks(problem, 3, 0)) >= {block_of(problem, 0, 0, n) for n in (0, 1)}


@pytest.mark.parametrize(
    ("k", "stages", "at_once", "tiles"),
    [
        (64 * 5, 2, 1, 2),  # two tiles of five slices turn two slots often enough
        (64, 6, 1, 13),  # of one slice, thirteen turn six slots twice
        (64 * 4, 8, 1, 5),
        (64 * 9, 4, 2, 4),  # two rounds of two consumers
    ],
)
def test_persistent_blocks_run_as_many_tiles_as_turn_their_ring_twice(
    k: int, stages: int, at_once: int, tiles: int
) -> None:
    more = {"tiles_at_once": at_once, "consumers": at_once}
    problem = persistent(f"m=1024 n=640 k={k}", stages=stages, **more)
    assert problem.grid == 160
    assert emulated_grid(problem, problem.plan) == 160 // tiles


def test_persistent_blocks_begin_a_tile_at_each_panel() -> None:
    problem = persistent("m=1024 n=1600 k=640", tile_n=160)
    assert problem.plan.body.store_panels == (32, 4)  # five panels a tile
    assert emulated_grid(problem, problem.plan) == 160 // 5


@pytest.mark.parametrize(
    ("parts", "slices", "stages", "grid"),
    [
        (2, 9, 9, 80),  # 19 slices turn nine slots twice: of two tiles' halves
        (3, 9, 9, 160),  # thirds of one tile are enough
        (2, 1, 6, 20),  # 13 slices of one each: seven tiles do not divide 160, eight do
        (8, 5, 4, 4 * 160),  # two of eight parts
        (4, 8, 8, 160),  # three of four: one grid of tiles for them all
    ],
)
def test_a_blocks_parts_of_k_turn_its_ring_twice(
    parts: int, slices: int, stages: int, grid: int
) -> None:
    text = f"m=1024 n=640 k={64 * slices * parts}"
    problem = persistent(text, stages=stages, split_k=parts)
    assert emulated_grid(problem, problem.plan) == grid


def test_other_blocks_run_one_tile() -> None:
    problem = bind(plan_of("m=1024 n=640 k=320"))
    assert emulated_grid(problem, problem.plan) == problem.grid == 16 * 10
    assert team_of(problem, 37) == 37


@settings(deadline=None)  # many plans
@given(
    st.integers(1, 60),
    st.integers(0, 5),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 5, 20]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 2]),
)
def test_chosen_tiles_are_all_of_some_thread_blocks(
    count: int, seed: int, cluster: int, slices: int, parts: int, batch: int
) -> None:
    text = f"m=1024 n=640 k={64 * slices} batch={batch}"
    problem = persistent(text, cluster=cluster, split_k=parts)
    kernel = problem.plan
    grid = emulated_grid(problem, kernel)
    assert grid % cluster == 0
    chosen = choose_blocks(problem, count, seed)
    assert list(chosen) == sorted(set(chosen))
    blocks = blocks_for(problem, kernel, chosen)
    assert blocks is not None
    running = {block % grid for block in blocks}
    assert set(blocks) == {b for b in range(problem.blocks_of(kernel)) if b % grid in running}
    assert len({block // cluster for block in running}) * cluster == len(running)
    assert problem.grid - 1 in chosen, "the last tile, where tails meet"
    teams: dict[int, int] = {}
    for tile in chosen:
        for block in blocks_for(problem, kernel, (tile,)) or ():
            assert teams.setdefault(block % grid, team_of(problem, tile)) == team_of(problem, tile)


@settings(deadline=None, max_examples=30)  # many plans
@given(
    st.integers(1, 10),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 5, 20]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 2]),
    st.sampled_from([3, 4, 32]),
)
def test_tiles_judged_by_rows_are_all_of_some_thread_blocks_too(
    count: int, cluster: int, slices: int, parts: int, batch: int, group: int
) -> None:
    text = f"m=1024 n=640 k={64 * slices} batch={batch} epilogue=layer_norm"
    problem = persistent(text, cluster=cluster, split_k=parts, raster_group=group)
    kernel = problem.plan
    grid = emulated_grid(problem, kernel)
    assert grid < problem.blocks_of(kernel), "a block goes from tile to tile"
    chosen = choose_blocks(problem, count, 0)
    blocks = blocks_for(problem, kernel, chosen)
    assert blocks is not None
    running = {block % grid for block in blocks}
    assert set(blocks) == {b for b in range(problem.blocks_of(kernel)) if b % grid in running}
    columns = tiles_along(problem)[1]
    rows = {tile_of(problem, tile)[:2] for tile in chosen}
    assert len(rows) * columns == len(chosen), "whole rows"
    teams: dict[int, int] = {}
    for tile in chosen[::7]:
        team = team_of(problem, tile)
        for block in blocks_for(problem, kernel, (tile,)) or ():
            assert teams.setdefault(block % grid, team) == team


def test_a_block_computes_tiles_of_one_row_or_of_a_row_a_group() -> None:
    one = persistent("m=1024 n=640 k=640 epilogue=layer_norm", raster_group=16)
    assert emulated_grid(one, one.plan) == 16 * 5
    assert choose_blocks(one, 1, 0) == tuple(range(15, 160, 16))
    some = persistent("m=1024 n=640 k=640 epilogue=layer_norm", raster_group=4)
    assert emulated_grid(some, some.plan) == 2 * 4 * 10
    rows = {tile_of(some, tile)[1] for tile in choose_blocks(some, 1, 0)}
    assert rows == {7, 15}


def test_one_tile_is_one_block_and_none_is_no_block() -> None:
    choice = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8)
    plan = plan_of("m=dynamic:64 n=64 k=64 layout=nt arch=sm_90a", choice)
    assert emulated_grid(bind(plan), plan) == 1
    assert emulated_grid(bind(plan, m=0), plan) == 0
