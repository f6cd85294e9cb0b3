"""wgmma's search against the full product, the family's choice, and what every plan satisfies."""

from __future__ import annotations

import random
from itertools import product
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import WgmmaChoice, decide
from deepgemm_codegen.decide.bandwidth.family import BANDWIDTH
from deepgemm_codegen.decide.families import consider, obstacle_of
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.mma_sync.family import MMA_SYNC
from deepgemm_codegen.decide.mma_sync.search import cost
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.split_k import WHOLE, Cut
from deepgemm_codegen.decide.wgmma.constraints import violations
from deepgemm_codegen.decide.wgmma.family import WGMMA
from deepgemm_codegen.decide.wgmma.menu import WgmmaMenu, menu_for
from deepgemm_codegen.decide.wgmma.predict import predict
from deepgemm_codegen.decide.wgmma.search import ROWS_RING, search
from deepgemm_codegen.decide.wgmma.task import task_of
from deepgemm_codegen.plan import Bandwidth, Wgmma
from tests.decide.specs import hopper_spec

if TYPE_CHECKING:
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.spec import GemmSpec

ARCH = load_arch("sm_90a")


def task_for(spec: GemmSpec, how: Cut = WHOLE) -> Task:
    return task_of(spec, problem_of(spec, ARCH), machine_of(ARCH, spec.dtype_a.name), how)


def served_spec(rng: random.Random) -> GemmSpec:
    while True:
        spec = hopper_spec(rng)
        if not obstacle_of(WGMMA, spec, ARCH):
            return spec


def least_clocks(task: Task, menu: WgmmaMenu) -> float:
    """The least cost of the whole product, unpruned; infinite when nothing in it is legal."""
    least = inf
    for tile_m, tile_n, consumers, at_once, cluster_m, cluster_n, stages, group, rows in product(
        menu.tile_m,
        menu.tile_n,
        menu.consumers,
        menu.tiles_at_once,
        menu.cluster_m,
        menu.cluster_n,
        menu.stages,
        menu.raster_group,
        menu.slice_rows,
    ):
        choice = WgmmaChoice(
            tile_m, tile_n, consumers, at_once, stages, cluster_m, cluster_n, group,
            tile_k=rows * task.kind.tile_k, cluster_k=task.cluster_k,
        )  # fmt: skip
        if rows > 1 and not long_slices_tried(task, choice, menu):
            continue
        if not any(violations(task, choice)) and ring_tried(task, choice, menu):
            least = min(least, predict(task, choice).clocks)
    return least


def long_slices_tried(task: Task, choice: WgmmaChoice, menu: WgmmaMenu) -> bool:
    """Whether the tree tries a choice with two rows of k in a slice."""
    problem = task.problem
    tiles = -(-problem.m // choice.tile_m) * -(-problem.n // choice.tile_n) * task.units
    alone = choice.consumers == 1 and task.parts == 1 and tiles <= task.machine.sms
    return alone and choice.stages >= 5 and len(menu.stages) > 1


def ring_tried(task: Task, choice: WgmmaChoice, menu: WgmmaMenu) -> bool:
    """Whether the tree tries a ring so deep beside rows of D that TMA writes."""
    rows = choice.tile_m * choice.tiles_at_once // choice.consumers
    by_rows = task.leaves(rows, choice.tile_n, whole_panels=False) == "rows"
    if not by_rows or not task.outlast or len(menu.stages) == 1:
        return True
    slot = (choice.tile_m + task.landed_columns(choice.tile_n)) * 128 + 16
    return choice.stages * choice.tile_k // task.kind.tile_k * slot <= ROWS_RING


def some_of(menu: WgmmaMenu, rng: random.Random) -> WgmmaMenu:
    """A random part of a menu, small enough to cost every candidate."""

    def rising(values: tuple[int, ...], count: int) -> tuple[int, ...]:
        return tuple(sorted(rng.sample(values, min(count, len(values)))))

    return WgmmaMenu(
        tile_m=rising(menu.tile_m, 2),
        tile_n=rising(menu.tile_n, 5),
        consumers=rising(menu.consumers, rng.choice((1, 2))),
        tiles_at_once=rising(menu.tiles_at_once, rng.choice((1, 2))),
        stages=rising(menu.stages, 3),
        cluster_m=rising(menu.cluster_m, rng.choice((1, 2))),
        cluster_n=rising(menu.cluster_n, rng.choice((1, 2))),
        raster_group=rising(menu.raster_group, 2),
    )


def assert_optimal(task: Task, menu: WgmmaMenu, spec: GemmSpec) -> None:
    found = search(task, menu)
    least = least_clocks(task, menu)
    got = inf if found is None else found.clocks
    assert got == pytest.approx(least, rel=1e-9), f"{spec} with {menu}: {found}"
    if found is not None:
        assert list(violations(task, found.choice)) == []
        assert predict(task, found.choice).clocks == pytest.approx(found.clocks, rel=1e-9)


def test_pruning_never_drops_the_optimum_of_500_products() -> None:
    rng = random.Random(60)
    for _ in range(500):
        spec = served_spec(rng)
        parts = rng.choice((1, 1, 2, 3, 8))
        task = task_for(spec, Cut(parts, together=parts > 1 and rng.random() < 0.6))
        assert_optimal(task, some_of(menu_for(task.problem, {}), rng), spec)


@pytest.mark.parametrize("count", [3, pytest.param(100, marks=pytest.mark.full)])
def test_pruning_never_drops_the_optimum_of_whole_products(count: int) -> None:
    rng = random.Random(61)
    for _ in range(count):
        spec = served_spec(rng)
        task = task_for(spec)
        menu = menu_for(task.problem, {})._replace(raster_group=(rng.choice((2, 8)),))
        assert_optimal(task, menu, spec)


@pytest.mark.parametrize("count", [40, pytest.param(400, marks=pytest.mark.full)])
def test_the_cheaper_family_wins(count: int) -> None:
    """A family's search starts with the others' cost as its bound; alone it would find the same."""
    rng = random.Random(62)
    for _ in range(count):
        spec = served_spec(rng)
        setting = setting_of(spec, ARCH)
        alone, fast = MMA_SYNC.best(setting), WGMMA.best(setting)
        winner = consider(setting).winner
        assert alone is not None
        assert fast is not None
        assert winner is not None
        if any(getattr(answer.choice, "split_k", 1) > 1 for answer in (alone, fast)):
            # Cuts are left untried where they promise little beside the rival.
            assert winner.clocks <= min(alone.clocks, fast.clocks) * 1.1
            continue
        problem, machine = setting.problem, setting.machine
        if not BANDWIDTH.obstacle(spec, ARCH):
            streamed = BANDWIDTH.best(setting)
            assert streamed is not None
            fast = min(streamed, fast, key=lambda answer: answer.clocks)
        # Families compete by steps of cost, with the most stages first: of two that are a step
        # apart either may win.
        least = min(cost(problem, machine, answer.clocks) for answer in (alone, fast))
        assert winner.choice in (alone.choice, fast.choice)
        assert cost(problem, machine, winner.clocks) <= least + 1


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_every_decided_plan_is_legal(seed: int) -> None:
    spec = hopper_spec(random.Random(seed))
    program = decide(spec, ARCH)
    plan = program.product
    left_out = {7, 10} if isinstance(plan.body, Bandwidth) else set()
    numbers = [n for n in range(1, 12 + (plan.k.split > 1)) if n not in left_out]
    if program.kernels[0] is not plan:
        numbers.append(13)
    assert [decision.id for decision in plan.decisions] == [f"D{i:02}" for i in numbers]
    assert all(len(decision.reason) <= 90 for decision in plan.decisions)
    assert all(len(decision.choice) <= 40 for decision in plan.decisions)
    body = plan.body
    if not isinstance(body, Wgmma):
        return
    task = task_for(spec, Cut(plan.k.split, together=body.cluster_k > 1))
    choice = WgmmaChoice(
        body.tile_m,
        body.tile_n,
        body.consumers,
        body.tiles_at_once,
        body.stages,
        body.cluster_m,
        body.cluster_n,
        plan.schedule.raster_group,
        plan.k.split,
        tile_k=body.tile_k,
        cluster_k=body.cluster_k,
    )
    assert list(violations(task, choice)) == []
    shape = body.tile_m, body.tile_n, body.consumers, body.tiles_at_once
    rows = body.tile_k // task.kind.tile_k
    assert body.shared_bytes == task.shared_bytes(*shape, body.stages, rows)
    assert body.turns == task.turns(body.stages * rows)
    assert body.shared_bytes <= ARCH.shared_per_block
    assert body.accumulators <= 192
    assert body.fragments_m in (1, 2)
    assert body.fragments_m * 64 * body.consumers == body.tile_m * body.tiles_at_once
    assert body.sharers in (1, 2)
    assert body.cluster_k in (1, plan.k.split)
    assert 1 in (body.sharers, body.cluster_k)
    producer, consumer = body.registers
    assert 128 * (producer + body.consumers * consumer) <= ARCH.registers_per_sm
    for tensor_map in plan.tensor_maps:
        assert 0 < tensor_map.box_outer <= 256
        assert tensor_map.swizzle_bytes in (128, 64, 32)
    for operand in body.operands:
        assert (operand.box_rows + operand.idle_rows) * operand.sharers == operand.rows.tile
        assert operand.box_rows % 8 == 0
        past = operand.panels * operand.panel_columns - operand.columns.tile
        assert 0 <= past < operand.panel_columns
        assert not past or body.consumers > body.tiles_at_once
    blocks = plan.blocks.evaluate({"m": spec.m.size, "n": spec.n.size, "sms": 132})
    assert blocks <= 132 or body.cluster_k > 1
    assert blocks % body.cluster == 0


def test_decisions_are_pure() -> None:
    rng = random.Random(63)
    specs = [hopper_spec(rng) for _ in range(40)]
    first = [decide(spec, ARCH) for spec in specs]
    again = [decide(spec, ARCH) for spec in reversed(specs)]
    assert first == again[::-1]
