"""The quick check sees what a wrong kernel does, and lets a right one pass."""

from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.harness.bench_check import Sample, check_rows, pick_sample, stray
from deepgemm_codegen.harness.inputs import Inputs, Normal, Values
from deepgemm_codegen.harness.memory import fill
from deepgemm_codegen.harness.numbers import bits_dtype
from deepgemm_codegen.harness.problem import Problem, bind
from deepgemm_codegen.harness.sums import prefix_sums
from tests.harness.reference import ReferenceDevice
from tests.harness.support import plan_of

FULL = "m=70 n=72 k=80 batch=2 dtype_c=fp16 epilogue=bias,relu lda=83 ldd=75 layout=nt"


def sample_of(text: str, *, slices: int = 0, seed: int = 0) -> Sample:
    """A problem with random operands and D as the oracle has it, some last slices of k dropped."""
    problem = bind(plan_of(text), beta=0.5)
    generators: dict[str, Values] = {
        matrix.name: Normal(number)
        for number, matrix in enumerate(problem.matrices)
        if matrix.name != "d"
    }
    inputs = Inputs("random", generators)
    bits = {}
    for matrix in problem.matrices:
        if matrix.name != "d":
            bits[matrix.name] = np.empty(matrix.elements, bits_dtype(matrix.dtype))
            fill(matrix, inputs, bits[matrix.name], np)

    def cut(whole: Problem) -> Problem:
        return bind(
            plan_of(text.replace("k=80", f"k={80 - 16 * slices}").replace("lda=83", "")),
            beta=whole.beta,
        )

    device = ReferenceDevice(changes_problem=cut) if slices else ReferenceDevice()
    bits["d"] = device.launch(problem, inputs, None).d
    return Sample(problem, bits, pick_sample(problem, seed), np)


@pytest.mark.parametrize("text", [FULL, FULL + " layout_d=t", "m=70 n=72 k=80 dtype=bf16"])
def test_a_right_kernel_passes(text: str) -> None:
    text = text.replace(" ldd=75 layout=nt layout_d=t", " layout_d=t")
    assert check_rows(sample_of(text), "sm_90", prefix_sums) == ""


def test_a_dropped_slice_is_found() -> None:
    found = check_rows(sample_of("m=70 n=72 k=80", slices=1), "sm_90", prefix_sums)
    assert " of 1152 sampled elements of D; the worst at row " in found


@pytest.mark.parametrize("value", [0x7E00, 0x7DA5, 0x0001])
def test_one_wrong_element_of_a_sampled_row_is_found(value: int) -> None:
    sample = sample_of("m=70 n=72 k=80 layout=nt")
    d = sample.problem.matrix("d")
    sample.bits["d"][d.flat(0, 69, 3)] = value  # the last row is always sampled
    found = check_rows(sample, "sm_90", prefix_sums)
    assert found.startswith("1 of 1152 sampled elements of D; the worst at row 69, column 3: ")


def test_the_sample_has_the_last_row_and_batch_and_all_columns() -> None:
    problem = bind(plan_of("m=100 n=72 k=80 batch=3"))
    rows = pick_sample(problem, 4)
    assert rows == pick_sample(problem, 4)
    assert {part.batch for part in rows} >= {2}
    assert all(99 in part.picks and len(part.picks) == 16 for part in rows)
    assert all(sorted(set(part.picks)) == list(part.picks) for part in rows)
    assert sum(part.column_end - part.column for part in rows if part.batch == 2) == 72
    few = pick_sample(bind(plan_of("m=3 n=72 k=80")), 0)
    assert few[0].picks == (0, 1, 2)


def test_wide_products_are_looked_at_in_ranges_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgemm_codegen.harness.bench_check.CELLS", 80 * 30)
    sample = sample_of("m=70 n=72 k=80 layout=nt")
    assert [(r.column, r.column_end) for r in sample.rows] == [(0, 30), (30, 60), (60, 72)]
    assert check_rows(sample, "sm_90", prefix_sums) == ""
    d = sample.problem.matrix("d")
    sample.bits["d"][d.flat(0, 69, 71)] = 0x7E00
    assert "row 69, column 71: nan" in check_rows(sample, "sm_90", prefix_sums)


def test_a_library_may_round_as_it_likes_but_not_compute_something_else() -> None:
    plain = sample_of("m=70 n=72 k=80")
    assert stray(plain, prefix_sums) == ""
    plain.bits["d"][5] ^= 1
    assert stray(plain, prefix_sums) == ""
    wrong = sample_of("m=70 n=72 k=80", slices=1)
    assert stray(wrong, prefix_sums).startswith("its D differs from the product by 0.4")
    plain.bits["d"][...] = 0x7E00
    assert stray(plain, prefix_sums) == "its D differs from the product by nan of its size"
