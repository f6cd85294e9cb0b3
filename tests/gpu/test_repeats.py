"""Cases of kind pipeline_smem that many runs tell: every one gives the same bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import parse_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.gpu import GpuDevice, find_gpu
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.toolchain import build_cubin
from tests.harness.support import plan_of, source_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

pytestmark = pytest.mark.gpu


def device_of(plan: KernelPlan, arch: str) -> GpuDevice:
    built = build_cubin(source_of(plan), name=plan.name, arch=arch)
    return GpuDevice(plan, built.cubin, arch)


def test_p01_twenty_runs_equal_a_build_with_fewer_stages(arch: str) -> None:
    text = f"m=8192 n=8192 k=8192 layout=nt arch={arch}"
    deep, flat = (plan_of(text, MmaSyncChoice(128, 128, 32, 2, 2, s, 2, 8)) for s in (3, 2))
    problem = bind(deep)
    inputs = inputs_for(problem, "random", "normal", 1)
    wanted = device_of(flat, arch).launch(bind(flat), inputs, None).d
    device = device_of(deep, arch)
    for _ in range(20):
        assert bool((device.launch(problem, inputs, None).d == wanted).all())


@pytest.mark.parametrize(
    ("case", "choice", "k", "runs"),
    [
        ("P06", WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 8), 9 * 64, 50),
        ("P06", WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8), 9 * 64, 50),
        ("P08", WgmmaChoice(128, 256, 2, 1, 3, 1, 1, 8), 64 * 64, 100),
    ],
)
def test_p06_p08_many_runs_on_a_side_stream(
    case: str, choice: WgmmaChoice, k: int, runs: int, arch: str
) -> None:
    if parse_arch(arch)[0] != 90:
        pytest.skip(f"{case} is about sm_90a")
    plan = plan_of(f"m=2048 n=2048 k={k} layout=nt arch=sm_90a", choice)
    problem = bind(plan)
    inputs = inputs_for(problem, "random", "normal", 1)
    device = device_of(plan, "sm_90a")
    xp = find_gpu()
    first = device.launch(problem, inputs, None).d
    with xp.cuda.Stream(non_blocking=True):
        for _ in range(runs):
            again = device.launch(problem, inputs, None).d
            assert bool((again == first).all())
