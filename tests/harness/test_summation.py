"""The order of k that the bound allows for is the one in which kernels sum: to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice
from deepgemm_codegen.emulator.generations import arithmetic
from deepgemm_codegen.emulator.tensorcore import multiply
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.numbers import encode
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.summation import chains_of
from deepgemm_codegen.harness.sums import StepModel
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import device_of, plan_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

Array = np.ndarray[Any, np.dtype[Any]]

KERNELS = {
    "m=3 n=48 k=1024 layout=nt arch=sm_90": BandwidthChoice(2, 1, 4, 3, 1),
    "m=16 n=40 k=1003 layout=nt arch=sm_90 dtype=bf16": BandwidthChoice(1, 2, 4, 2, 1),
    "m=5 n=40 k=300 layout=nt lda=302 ldb=302 arch=sm_80": BandwidthChoice(1, 1, 2, 4, 1),
    "m=2 n=40 k=200 layout=nt lda=201 ldb=203 arch=sm_86": BandwidthChoice(1, 1, 3, 1, 1),
    "m=4 n=64 k=256 layout=nn arch=sm_90": BandwidthChoice(8, 1, 4, 3, 1),
    "m=9 n=33 k=77 layout=tn arch=sm_89": BandwidthChoice(2, 1, 2, 3, 1),
    "m=70 n=6 k=150 layout=nn arch=sm_75": BandwidthChoice(1, 2, 1, 2, 1),
    "m=70 n=6 k=150 layout=tt layout_d=t arch=sm_75": BandwidthChoice(4, 1, 4, 2, 1),
}


def planned(text: str) -> KernelPlan:
    spec = GemmSpec.from_text(f"{text} dtype_d=fp32")
    return KERNELS[text].program(spec, load_arch(spec.arch)).kernels[0]


@pytest.mark.parametrize("text", KERNELS)
def test_every_element_of_k_is_taken_once(text: str) -> None:
    plan = planned(text)
    chains = chains_of(plan, plan.k.size)
    assert chains is not None
    assert chains.shape[0] == KERNELS[text].warps_k
    assert chains.shape[1] % 16 == 0
    taken = chains[chains < plan.k.size]
    assert sorted(taken.tolist()) == list(range(plan.k.size))


def test_other_families_sum_k_as_it_rises() -> None:
    plan = plan_of("m=64 n=64 k=64")
    assert chains_of(plan, 64) is None


@pytest.mark.parametrize("text", KERNELS)
def test_the_kernel_sums_in_that_order(text: str) -> None:
    """Random operands, chains summed by the tensor core's model, added in fp32: D, bit for bit."""
    plan = planned(text)
    problem = bind(plan)
    inputs = inputs_for(problem, "order", "normal", 5)
    outcome = device_of(plan).launch(problem, inputs, None)
    assert outcome.faults == ()
    kind = {"fp16": "f16", "bf16": "bf16"}[plan.spec.dtype_a.name]
    whole = Region(0, 0, problem.m, 0, problem.n)
    a, b = (encode(x, plan.spec.dtype_a, np) for x in Oracle(problem, inputs, np).slices(whole))
    a = np.concatenate([a, np.zeros((problem.m, 1), np.uint16)], axis=1)
    b = np.concatenate([b, np.zeros((1, problem.n), np.uint16)], axis=0)
    total: Array | None = None
    chains = chains_of(plan, problem.k)
    assert chains is not None
    step = 8 if plan.target == "sm_75" else 16
    rules = arithmetic(plan.target).sums(kind)
    assert rules is not None
    for chain in chains:
        part = multiply(
            (kind, kind),
            rules,
            np.ascontiguousarray(a[:, chain].T)[:, None, :],
            np.ascontiguousarray(b[chain])[:, None, :],
            np.zeros((1, problem.m, problem.n), np.float32),
            step,
        )[0]
        total = part if total is None else total + part
    assert total is not None
    wanted = np.zeros_like(outcome.d)
    wanted[problem.matrix("d").flat(*whole.indices(np))] = total.view(np.uint32)
    assert (outcome.d == wanted).all()


def test_chains_are_charged_by_their_own_sums() -> None:
    """What cancels between two chains is lost in each of them all the same."""
    text = "m=1 n=16 k=128 layout=nt dtype_d=fp32 arch=sm_80"
    spec = GemmSpec.from_text(text)
    plan = BandwidthChoice(2, 1, 2, 1, 1).program(spec, load_arch("sm_80")).kernels[0]
    problem = bind(plan)
    inputs = inputs_for(problem, "cancel", "normal", 1)
    oracle = Oracle(problem, inputs, np, StepModel(8, 24))
    a, b = oracle.slices(problem.whole[0])
    chains = chains_of(plan, 128)
    assert chains is not None
    product = oracle.products(problem.whole[0])
    assert np.allclose(product.value, a @ b, rtol=1e-12)
    parts = [a[:, chain] @ b[chain] for chain in chains]
    least = 2.0**-23 * sum(np.abs(part) for part in parts) + 2.0**-24 * np.abs(a @ b)
    assert (product.error >= least).all()
    assert (product.error < 200 * least.max()).all()
