from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks
from tests.emulator.gemms import CASES
from tests.emulator.reference import fused_dot


@pytest.mark.parametrize("name", list(CASES))
def test_whole_numbers_come_out_exactly(name: str) -> None:
    problem, report = CASES[name].run()
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(problem.d, problem.want)


@pytest.mark.parametrize("name", list(CASES))
def test_random_numbers_come_out_closely(name: str) -> None:
    problem, report = CASES[name].run(whole=False)
    assert report.findings == ()
    np.testing.assert_allclose(problem.d.astype(np.float64), problem.want, atol=0.05, rtol=0)


@pytest.mark.parametrize("name", ["gemm_f16_sm80", "gemm_bf16_sm100"])
@pytest.mark.parametrize(
    ("m", "n", "k", "pad"),
    [(64, 64, 8, 0), (65, 67, 40, 8), (130, 64, 96, 0), (1, 1, 16, 8), (63, 130, 200, 16)],
)
def test_tails_in_every_dimension(name: str, m: int, n: int, k: int, pad: int) -> None:
    problem, report = CASES[name].run(m=m, n=n, k=k, pad=pad)
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(problem.d, problem.want)
    # The padding of D is never written.
    d = problem.buffers[2].data
    assert isinstance(d, np.ndarray)
    assert np.isnan(d[:, n:]).all()


def test_a_run_equals_the_chain_of_fused_sums() -> None:
    for arithmetic, group, fraction in (("sm_80", 8, 24), ("sm_90", 16, 25)):
        problem, _ = CASES["gemm_f16_sm80"].run(whole=False, arithmetic=arithmetic)
        a, b = (np.asarray(x.data).view(np.uint16) for x in problem.buffers[:2])
        got: Any = np.ascontiguousarray(problem.d).view(np.uint32)
        for i, j in ((0, 0), (17, 41), (63, 63), (8, 33)):
            want = 0
            for k in range(0, 64, 16):
                want = fused_dot(
                    a[i, k : k + 16].tolist(), b[j, k : k + 16].tolist(), want, "f16", "f32",
                    group=group, fraction=fraction,
                )  # fmt: skip
            assert got[i, j] == want


def test_runs_repeat_bit_for_bit_with_or_without_checks_and_batching() -> None:
    case = CASES["gemm_bf16_sm100"]
    results = []
    for checks in (Checks(), Checks(races=False), Checks(lanes=128), Checks(costs=True)):
        problem, report = case.run(m=130, n=66, k=64, whole=False, checks=checks)
        assert report.findings == ()
        assert report.statistics.blocks == 6
        results.append(problem.d.tobytes())
    assert len(set(results)) == 1


def test_statistics_count_warp_instructions() -> None:
    _, one = CASES["gemm_f16_sm80"].run(k=64)
    _, two = CASES["gemm_f16_sm80"].run(k=96)
    assert 2000 < one.statistics.instructions < 3000
    assert one.statistics.instructions < two.statistics.instructions


def test_alpha_zero_reads_nothing_of_a_and_b() -> None:
    problem, report = CASES["slab_sm80"].run(alpha=0.0)
    assert report.findings == ()
    assert (problem.d == 0).all()
