"""Cases of kind verify: the harness's own mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deepgemm_codegen.harness.cases import Case
from deepgemm_codegen.harness.inputs import Inputs, Normal, Values
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import judge
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import assert_right, device_of, launch, plan_of


@dataclass(frozen=True)
class Mirrored:
    """A's second half of k repeats the first; B's does so with the sign changed."""

    values: Values
    k: int
    is_b: bool

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        half = self.k // 2
        if self.is_b:
            sign = xp.where(row < half, xp.float32(1), xp.float32(-1))
            return sign * self.values.at(batch, row % half, column, xp)
        return self.values.at(batch, row, column % half, xp)


@planted(faults.LAST_SLICE_SKIPPED)
def test_v03_sums_that_cancel() -> None:
    """Fault seen: the last slice skipped."""
    plan = plan_of("m=64 n=64 k=8192 dtype=bf16 dtype_d=fp32 layout=nt")
    problem = bind(plan)
    a, b = Mirrored(Normal(1), 8192, is_b=False), Mirrored(Normal(2), 8192, is_b=True)
    case = Case("random", problem, Inputs("cancel", {"a": a, "b": b}), exact=False, share=1.0)
    verdict = judge(device_of(plan), plan, cases=[case])
    assert verdict.passed, "\n".join(format_verdict(verdict))
    # The true result is zero, so any relative tolerance fails what is right.
    assert np.abs(launch(plan, a=a, b=b).d[0]).max() > 0


@planted(faults.text(r"\bLD([AB]) = (\d+)", r"LD\1 = \2 - 1"))
def test_v04_every_layout_with_distinct_sizes() -> None:
    """Fault seen: leading dimensions off by one."""
    for layout in ("nn", "nt", "tn", "tt"):
        for layout_d in ("n", "t"):
            assert_right(f"m=256 n=128 k=64 layout={layout} layout_d={layout_d}", effort=0.3)
