"""The search against the full product, and what every decided plan must satisfy."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, decide
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.mma_sync.constraints import violations
from deepgemm_codegen.decide.mma_sync.menu import Menu, menu_for
from deepgemm_codegen.decide.mma_sync.predict import predict
from deepgemm_codegen.decide.mma_sync.search import cost, search
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.split_k import cut
from deepgemm_codegen.spec import GemmSpec
from tests.decide.brute import least_cost
from tests.decide.specs import fp8_spec, mma_body, multiplied, random_spec, through_mma_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.plan import KernelPlan


def some_of(menu: Menu, rng: random.Random) -> Menu:
    """A random part of a menu, small enough to cost every candidate."""

    def rising(values: tuple[int, ...], count: int) -> tuple[int, ...]:
        return tuple(sorted(rng.sample(values, min(count, len(values)))))

    return Menu(
        tile_m=rising(menu.tile_m, 3),
        tile_n=rising(menu.tile_n, 4),
        tile_k=tuple(rng.sample(menu.tile_k, min(3, len(menu.tile_k)))),
        warps=tuple(rng.sample(menu.warps, 5)),
        stages=rising(menu.stages, 4),
        min_blocks=rising(menu.min_blocks, 4),
        raster_group=rising(menu.raster_group, 2),
    )


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (random_spec, 150),
        (fp8_spec, 40),
        pytest.param(random_spec, 500, marks=pytest.mark.full),
        pytest.param(fp8_spec, 200, marks=pytest.mark.full),
    ],
)
def test_pruning_never_drops_the_optimum(
    make: Callable[[random.Random], GemmSpec], count: int
) -> None:
    rng = random.Random(20)
    for _ in range(count):
        spec = make(rng)
        arch = load_arch(spec.arch)
        problem, machine = problem_of(spec, arch), machine_of(arch, spec.dtype_a.name)
        menu = some_of(menu_for(problem), rng)
        found = search(problem, machine, menu)
        least = least_cost(problem, machine, menu)
        got = None if found is None else cost(problem, machine, found.clocks)
        assert got == least, f"{spec} with {menu}: {found}"


@pytest.mark.parametrize("count", [8, pytest.param(500, marks=pytest.mark.full)])
def test_pruning_never_drops_the_optimum_of_whole_products(count: int) -> None:
    rng = random.Random(21)
    for _ in range(count):
        spec = random_spec(rng)
        arch = load_arch(spec.arch)
        problem, machine = problem_of(spec, arch), machine_of(arch, spec.dtype_a.name)
        menu = menu_for(problem)._replace(raster_group=(rng.choice((2, 8)),))
        found = search(problem, machine, menu)
        assert found is not None
        assert cost(problem, machine, found.clocks) == least_cost(problem, machine, menu), spec


def choice_of(plan: KernelPlan) -> MmaSyncChoice:
    body = mma_body(plan)
    return MmaSyncChoice(
        body.tile_m,
        body.tile_n,
        body.tile_k,
        body.warps_m,
        body.warps_n,
        body.stages,
        body.min_blocks,
        plan.schedule.raster_group,
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_every_decided_plan_is_legal(seed: int) -> None:  # P13, P19, P20
    spec = through_mma_sync(random_spec(random.Random(seed)))
    arch = load_arch(spec.arch)
    program = decide(spec, arch)
    plan = program.product
    body = mma_body(plan)
    problem = problem_of(multiplied(program), arch)
    machine = machine_of(arch, spec.dtype_a.name)
    assert list(violations(cut(problem, plan.k.split), machine, choice_of(plan))) == []
    assert body.shared_bytes <= arch.shared_per_block
    resident = body.min_blocks * (body.shared_bytes + arch.shared_reserved)
    assert resident <= arch.shared_per_sm
    assert body.min_blocks * body.threads <= arch.threads_per_sm
    assert body.accumulators <= 128
    assert body.warp_m * body.warps_m == body.tile_m
    assert body.warp_n * body.warps_n == body.tile_n
    assert body.warp_m % 16 == 0
    assert body.warp_n % 8 == 0
    assert body.tile_k % 16 == 0
    assert plan.blocks.evaluate({"m": spec.m.size, "n": spec.n.size}) <= 2**31 - 1
    for operand in (body.a, body.b):
        assert operand.mechanism == "registers" or operand.vector_bytes >= 4  # A06
        assert operand.mechanism == "registers" or arch.cp_async
        assert operand.pass_bytes % (8 * operand.swizzle_bytes) == 0
        if operand.mechanism == "registers":
            assert body.stages == 2


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_the_prediction_is_the_searchs_cost(seed: int) -> None:
    spec = random_spec(random.Random(seed))
    arch = load_arch(spec.arch)
    problem, machine = problem_of(spec, arch), machine_of(arch, spec.dtype_a.name)
    found = search(problem, machine, menu_for(problem))
    assert found is not None
    predicted = predict(problem, machine, found.choice)
    assert predicted.clocks == pytest.approx(found.clocks, rel=1e-9)
    assert predicted.dram_bytes >= predicted.operand_bytes >= 0


def test_decisions_are_pure() -> None:
    rng = random.Random(22)
    specs = [random_spec(rng) for _ in range(40)]
    first = [decide(spec, load_arch(spec.arch)) for spec in specs]
    again = [decide(spec, load_arch(spec.arch)) for spec in reversed(specs)]
    assert first == again[::-1]


def test_decisions_need_no_gpu_and_no_numpy() -> None:
    code = (
        "import sys\n"
        "from deepgemm_codegen.arch import load_arch\n"
        "from deepgemm_codegen.decide import decide\n"
        "from deepgemm_codegen.spec import GemmSpec\n"
        "decide(GemmSpec.from_text('m=64 n=64 k=64 arch=sm_90'), load_arch('sm_90'))\n"
        "assert not {'numpy', 'cupy', 'torch', 'cuda', 'jinja2'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_more_of_everything_never_costs_less() -> None:
    def clocks(m: int, n: int, k: int) -> float:
        spec = GemmSpec.from_text(f"m={m} n={n} k={k} layout=nt arch=sm_90")
        arch = load_arch("sm_90")
        problem, machine = problem_of(spec, arch), machine_of(arch, spec.dtype_a.name)
        found = search(problem, machine, menu_for(problem))
        assert found is not None
        return found.clocks

    for m, n, k in ((64, 64, 64), (1024, 1024, 1024), (16, 4096, 4096), (4096, 320, 320)):
        base = clocks(m, n, k)
        assert clocks(2 * m, n, k) >= 0.99 * base
        assert clocks(m, 2 * n, k) >= 0.99 * base
        assert clocks(m, n, 2 * k) >= base
