"""The CUDA-core family: who asks for it, what it refuses, its search against the full product."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide import SimtChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.simt.constraints import PHRASES, violations
from deepgemm_codegen.decide.simt.menu import menu_for
from deepgemm_codegen.decide.simt.predict import predict
from deepgemm_codegen.decide.simt.search import ENOUGH_K, search
from deepgemm_codegen.decide.simt.task import tasks_of
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Simt
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.simt.menu import SimtMenu
    from deepgemm_codegen.decide.simt.task import Task
    from deepgemm_codegen.plan import KernelPlan

SIZES = (1, 7, 16, 77, 128, 320, 1000, 1023, 1024, 4096, 50257)


def plan_of(text: str) -> KernelPlan:
    spec = GemmSpec.from_text(text)
    return decide(spec, load_arch(spec.arch, spec.gpu)).kernels[0]


def random_task(rng: random.Random) -> Task:
    arch = load_arch(rng.choice(known_architectures()))
    fields = {name: str(rng.choice(SIZES)) for name in ("m", "n", "k")}
    if rng.random() < 0.2:
        fields["m"] = f"dynamic:{fields['m']}"
    layout, layout_d = rng.choice(("nn", "nt", "tn", "tt")), rng.choice(("n", "n", "t"))
    spec = GemmSpec.from_fields(
        {**fields, "dtype": "fp32", "layout": layout, "layout_d": layout_d, "arch": arch.name}
    )
    return rng.choice(tasks_of(setting_of(spec, arch)))


def every(task: Task, menu: SimtMenu) -> Iterator[SimtChoice]:
    """The legal candidates of a menu, with the deepest useful ring and every raster."""
    for tile_m, tile_n, tile_k, (warps_m, warps_n), blocks, group in product(
        menu.tile_m, menu.tile_n, menu.tile_k, menu.warps, menu.min_blocks, menu.raster_group
    ):
        rings = []
        for stages in menu.stages:
            choice = SimtChoice(tile_m, tile_n, tile_k, warps_m, warps_n, stages, blocks, group)
            if next(violations(task, choice), None) is None:
                rings.append(choice)
            if stages >= -(-task.problem.k // tile_k) + 1 or stages * tile_k >= ENOUGH_K:
                break
        yield from rings[-1:]


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.full)])
def test_pruning_never_drops_the_optimum(count: int) -> None:
    rng = random.Random(5)
    for _ in range(count):
        task = random_task(rng)
        menu = menu_for(task.problem)
        least = min((predict(task, choice).clocks for choice in every(task, menu)), default=None)
        found = search(task, menu)
        if least is None:
            assert found is None
            continue
        assert found is not None
        assert found.clocks <= least * (1 + 1e-9)
        assert next(violations(task, found.choice), None) is None
        assert predict(task, found.choice).clocks == pytest.approx(found.clocks)


def test_fp32_needs_no_word() -> None:
    plan = plan_of("m=512 n=512 k=512 dtype=fp32 arch=sm_90a")
    assert isinstance(plan.body, Simt)
    assert plan.target == "sm_90"
    assert plan.decisions[0].reason == "fp32 is multiplied on the CUDA cores"


@pytest.mark.parametrize(
    "words", ["tensor_cores=off", "family=simt", "family=simt tensor_cores=off"]
)
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_16_bit_operands_on_request(dtype: str, words: str) -> None:
    plan = plan_of(f"m=512 n=512 k=512 dtype={dtype} arch=sm_80 {words}")
    assert isinstance(plan.body, Simt)
    assert {o.mechanism for o in plan.body.operands} == {"registers"}


def test_tensor_cores_on_is_the_default() -> None:
    given, left = (plan_of(f"m=512 n=512 k=512 {words}") for words in ("tensor_cores=on", ""))
    assert given.body == left.body


REFUSALS = {
    "dtype=int8 tensor_cores=off": (
        "tensor_cores = off: only CUDA cores would do, but int8 operands are not widened to fp32;"
        " leave tensor_cores out"
    ),
    "dtype=fp32 tensor_cores=maybe": "tensor_cores = maybe: unknown; give on or off",
    "dtype=fp32 consumers=2": (
        "consumers = 2: only wgmma has it, but sm_80 has no wgmma; leave consumers out"
    ),
    "dtype=fp32 tile_m=24": (
        "tile_m = 24: not a multiple of 16; the nearest legal are 16 and 32, or leave tile_m out"
    ),
    "dtype=fp32 tile_k=32": (
        "tile_k = 32: too large; the nearest legal is 16, or leave tile_k out"
    ),
    "dtype=fp32 tile_m=256 tile_n=256 warps_m=2 warps_n=2": (
        "tile_n = 256 with tile_m = 256: 256 sums a thread; the limit is 128; the nearest legal "
        "tile_n is 64, or leave tile_n out"
    ),
    "dtype=fp32 tile_m=128 tile_n=128 warps_m=1 warps_n=2": (
        "warps_n = 2 with tile_m = 128, tile_n = 128, warps_m = 1: 256 sums a thread; the limit "
        "is 128; the nearest legal warps_n is 4, or leave warps_n out"
    ),
    "dtype=fp32 family=mma_sync": (
        "family = mma_sync: sm_80 has no mma.sync for fp32; the nearest legal family is simt, or "
        "leave family out"
    ),
    "dtype=fp32 tensor_cores=off family=mma_sync": (
        "family = mma_sync: sm_80 has no mma.sync for fp32; the nearest legal family is simt, or "
        "leave family out"
    ),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_names_limit_and_remedy(text: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(f"m=1024 n=1024 k=1024 {text}")
    assert str(caught.value) == REFUSALS[text]


def test_it_is_explained_like_any_other() -> None:
    spec = GemmSpec.from_text("m=1000 n=1000 k=1000 dtype=fp32 arch=sm_86")
    told = explain(spec, load_arch("sm_86"))
    assert told.prediction.clocks > 0
    assert {r.constraint for r in told.rejections} <= set(PHRASES)
    tile = next(d for d in told.decisions if d.question == "tile")
    assert tile.rival.endswith("x the time")
