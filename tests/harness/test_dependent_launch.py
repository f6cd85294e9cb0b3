"""Kernels that may begin early wait before they touch memory; a mutant that does not is found."""

from __future__ import annotations

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import device_of, source_of
from tests.rendering.plans import GOLDEN
from tests.toolchain.kernels import needs_nvrtc

WAIT = "wait_for_kernel_before();\n"
EARLY = "early-access: global memory is accessed before griddepcontrol.wait"


@needs_nvrtc
@pytest.mark.parametrize("name", ["wgmma_dependent_nt", "bandwidth_dependent_nt"])
def test_a_kernel_that_does_not_wait_is_found(name: str) -> None:
    program = GOLDEN[name]
    source = source_of(program)
    problem = bind(program)
    inputs = inputs_for(problem, "x", "normal", 1)
    assert device_of(program, source).launch(problem, inputs, (0,)).faults == ()
    calls = source.count(f" {WAIT}")
    assert calls == (2 if "wgmma" in name else 1)
    for call in range(calls):
        pieces = source.split(f" {WAIT}")
        broken = f" {WAIT}".join(pieces[: call + 1]) + "\n" + f" {WAIT}".join(pieces[call + 1 :])
        faults = device_of(program, broken).launch(problem, inputs, (0,)).faults
        assert any(fault.startswith(EARLY) for fault in faults), faults


def test_an_architecture_without_it_is_refused() -> None:
    spec = GemmSpec.from_text("m=64 n=64 k=64 arch=sm_80 launch=dependent")
    with pytest.raises(InputError) as caught:
        decide(spec, load_arch("sm_80"))
    assert str(caught.value) == (
        "launch = dependent: sm_80 has no programmatic dependent launch; give arch sm_90 or later,"
        " or launch plain"
    )
