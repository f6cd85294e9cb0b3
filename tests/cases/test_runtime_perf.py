"""Cases of kind runtime_perf that a plan or its PTX tells; the others are about a running GPU."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.plan.bandwidth import Bandwidth
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import compiled, plan_of, source_of


def predicted_us(text: str) -> float:
    spec = GemmSpec.from_text(text)
    us = explain(spec, load_arch(spec.arch, spec.gpu)).prediction.us
    assert us > 0
    return us


def test_u01_one_row_is_bound_by_memory() -> None:
    """Fault seen: 4.6 times the library's time, the k of a single row summed by one block."""
    text = "m=1 n=1792 k=5120 layout=nt arch=sm_90a gpu=H200"
    spec = GemmSpec.from_text(text)
    arch = load_arch("sm_90a", "H200")
    body = decide(spec, arch).product.body
    assert isinstance(body, Bandwidth)
    assert body.warps_k > 1
    machine_bytes = 1792 * 5120 * 2
    assert predicted_us(text) < 2 * machine_bytes / (arch.gpu.memory_gbs * 1e3)


def test_u02_fewer_rows_take_no_longer() -> None:
    """Fault seen: m = 32 slower than m = 64. The prediction may differ by its own grain."""
    times = [
        predicted_us(f"m={m} n=2112 k=7168 dtype=e4m3 layout=nt arch=sm_90a gpu=H200")
        for m in (1, 8, 32, 64, 128, 512)
    ]
    for less, more in pairwise(times):
        assert less < 1.05 * more


@pytest.mark.parametrize("step", ["gelu", "gelu_tanh", "silu"])
def test_u04_activations_do_not_divide(step: str) -> None:
    """Fault seen: GELU by a division and the library's erf took three times the product's time."""
    ptx = compiled(source_of(plan_of(f"m=64 n=64 k=64 epilogue={step} arch=sm_80")), "sm_80")
    assert re.findall(r"\bdiv\.\S*f32", ptx) == []
    assert "call.uni" not in ptx
