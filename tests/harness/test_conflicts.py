"""No shared-memory access of a generated kernel meets a bank twice: the swizzle's claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.emulator import Checks, run
from deepgemm_codegen.harness import emulate
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.problem import bind
from tests.harness.support import compiled, source_of
from tests.rendering.plans import GOLDEN

if TYPE_CHECKING:
    from deepgemm_codegen.emulator import Report

SPLIT = ("ld.shared.f32", "ld.shared.v2.f32")


@pytest.mark.parametrize("name", GOLDEN)
def test_no_bank_is_met_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = GOLDEN[name]
    plan = program.product
    reports: list[Report] = []

    def recorded(*arguments: Any, **options: Any) -> Report:
        kernel, launch, some, _ = arguments
        reports.append(run(kernel, launch, some, Checks(races=False, costs=True), **options))
        return reports[-1]

    monkeypatch.setattr(emulate, "run", recorded)
    problem = bind(program)
    device = emulate.EmulatorDevice(program, compiled(source_of(program), plan.target))
    blocks = tuple(range(plan.m.cluster * plan.n.cluster))
    outcome = device.launch(problem, inputs_for(problem, "x", "normal", 1), blocks)
    assert outcome.faults == ()
    costs = reports[0].statistics.shared_costs
    assert costs, "the kernel uses shared memory"
    # NVRTC splits some of the slab's 16-byte reads into four in the PTX; ptxas joins them again
    # (LDS.128 in the SASS), so those scalar reads are not what the hardware does.
    conflicts = [c for c in costs if c.excess and not c.place.text.startswith(SPLIT)]
    assert conflicts == []
    assert any(c.place.text.startswith(("ldmatrix", "st.shared", "stmatrix")) for c in costs)
