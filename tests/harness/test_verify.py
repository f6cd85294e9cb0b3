from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.harness import as_json, format_verdict, verify
from deepgemm_codegen.harness.cases import cases_of
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.trials import block_budget
from deepgemm_codegen.harness.verdict import CheckResult, Difference, Verdict
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan import as_program
from tests.harness.reference import ReferenceDevice
from tests.harness.support import (
    SMALL,
    assert_wrong,
    compiled,
    plan_of,
    program_of,
    source_of,
    verdict_of,
)
from tests.rendering.plans import GOLDEN

EVERYTHING = "m=200 n=136 k=100 dtype_c=fp16 epilogue=bias,relu batch=3 lda=103 ldd=139 ldc=141"


def reference(text: Any, **faults: Any) -> Any:
    return judge(ReferenceDevice(**faults), program_of(text))


def hints_of(verdict: Any) -> Any:
    return [hint for check in verdict.checks for hint in check.hints]


# ---- the oracle's own device passes, whatever the spec ------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "m=64 n=64 k=64",
        EVERYTHING,
        "m=200 n=136 k=100 dtype_c=fp16 epilogue=bias,relu batch=3 layout=tt layout_d=t lda=203",
        "m=77 n=200 k=40 dtype=bf16 dtype_c=fp32 dtype_d=fp32 epilogue=bias:row",
        "m=33 n=65 k=0 dtype_c=fp16 epilogue=bias",
        "m=dynamic:300 n=dynamic:200 k=dynamic:500 dtype_c=bf16 dtype=bf16 layout_d=t",
        "m=70 n=200 k=40 batch=2 epilogue=bias,store:fp32,quantize:int8:dynamic",
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_the_reference_passes(text: Any, whole: Any) -> None:
    verdict = reference(text, whole=whole)
    assert verdict.passed, "\n".join(format_verdict(verdict))


# ---- planted faults fail, with a hint that names them -------------------------------------


def last_row_zero(problem: Any, region: Any, found: Any) -> Any:
    found = found.copy()
    if region.row_end == problem.m:
        found[-1] = 0
    return found


def last_column_zero(problem: Any, region: Any, found: Any) -> Any:
    found = found.copy()
    if region.column_end == problem.n:
        found[:, -1] = 0
    return found


def one_element_off(problem: Any, region: Any, found: Any) -> Any:
    found = found.copy()
    found[3, 5] += 1
    return found


def other_tile(problem: Any, d: Any) -> None:
    d[problem.matrix("d").flat(0, 0, 0)] = 0
    d[problem.matrix("d").flat(problem.spec.batch - 1, problem.m - 1, 0)] = 0


def padding(problem: Any, d: Any) -> None:
    d[problem.n] = 0


@pytest.mark.parametrize(
    ("fault", "hint"),
    [
        ({"changes_problem": lambda p: replace(p, beta=0.0)}, "C was ignored"),
        ({"changes_problem": lambda p: replace(p, alpha=float(p.alpha != 0))}, "alpha was ignored"),
        (
            {"changes_values": last_row_zero},
            "only the last 1 rows of a tail are wrong: a boundary in m",
        ),
        (
            {"changes_values": last_column_zero},
            "only the last 1 columns of a tail are wrong: a boundary in n",
        ),
        (
            {"changes_values": one_element_off},
            "a few scattered elements are wrong: synchronisation, or precision",
        ),
        (
            {"changes_values": lambda p, r, v: v + 1},
            "every element of the tile is wrong: index arithmetic, or the epilogue",
        ),
        (
            {"changes_values": lambda p, r, v: v * np.nan},
            (
                "NaN where values were expected (never written, or poison was read): every element"
                " of the tile is wrong: index arithmetic, or the epilogue"
            ),
        ),
    ],
)
def test_a_planted_fault_fails_and_is_named(fault: Any, hint: Any) -> None:
    text = EVERYTHING.replace(" epilogue=bias,relu", "")
    verdict = reference(text, **fault)
    assert not verdict.passed
    assert hint in hints_of(verdict)


def scaled_bias(problem: Any, region: Any, found: Any) -> Any:
    """What alpha * (A * B + bias) gives where relu is absent."""
    columns = np.arange(region.column, region.column_end)
    case = next(c for c in cases_of(problem.plan, 0) if c.problem == problem)
    bias = Oracle(problem, case.inputs, np).operand("bias0", 0, np.zeros_like(columns), columns)
    return found + (problem.alpha - 1) * bias[None, :]


def test_a_bias_scaled_by_alpha_is_named() -> None:
    verdict = reference("m=64 n=64 k=64 epilogue=bias", changes_values=scaled_bias)
    assert not verdict.passed
    assert "bias:fp16 was scaled by alpha" in hints_of(verdict)


@pytest.mark.parametrize(
    ("steps", "change", "hint"),
    [
        (
            "relu,clamp:1:90",
            lambda v: np.where(v == 1, 2, v),
            r"wrong is what lies below \d\S* before relu, and all of it: that step or one after it",
        ),
        (
            "clamp:-9:9",
            lambda v: np.where(v == 9, 8, v),
            r"wrong is what lies above [78]\S* before clamp:lo=-9:hi=9, and all of it: that step",
        ),
    ],
)
def test_a_step_that_is_wrong_on_one_side_is_named(steps: str, change: Any, hint: str) -> None:
    verdict = reference(
        f"m=64 n=64 k=64 epilogue={steps}", changes_values=lambda p, r, v: change(v)
    )
    assert not verdict.passed
    assert any(re.fullmatch(hint, said) for said in hints_of(verdict)), hints_of(verdict)


def dropped_slice(number: Any, tile_k: Any) -> Any:
    def change(problem: Any, region: Any, found: Any) -> Any:
        case = next(c for c in cases_of(problem.plan, 0) if c.problem == problem)
        rows = np.arange(region.row, region.row_end)[:, None]
        columns = np.arange(region.column, region.column_end)[None, :]
        along = np.arange(number * tile_k, min((number + 1) * tile_k, problem.k))
        if not problem.alpha:
            return found
        a = case.inputs.at("a", 0, rows, along[None, :], np)
        b = case.inputs.at("b", 0, along[:, None], columns, np)
        return found - problem.alpha * (a @ b)

    return change


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "slice 1 of 4 (k 32 to 64) was left out"),
     (3, "the tail of k, slice 3 of 4 (k 96 to 100), was left out")],
)  # fmt: skip
def test_a_dropped_slice_fails_and_is_named(number: Any, name: Any) -> None:
    verdict = reference("m=64 n=64 k=100", changes_values=dropped_slice(number, 32))
    assert not verdict.passed
    assert name in hints_of(verdict)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (other_tile, "D was written outside the tiles that ran: an element of another tile"),
        (padding, "D was written outside the tiles that ran: the padding of a row"),
    ],
)
def test_a_write_outside_fails(change: Any, fault: Any) -> None:
    verdict = reference("m=1000 n=1000 k=32 ldd=1003", changes_memory=change)
    assert not verdict.passed
    assert any(f.startswith(fault) for check in verdict.checks for f in check.faults)


def test_a_relu_that_swallows_nan_fails() -> None:
    def swallow(problem: Any, region: Any, found: Any) -> Any:
        return np.nan_to_num(found, nan=0.0)

    verdict = reference("m=64 n=64 k=64 epilogue=relu", changes_values=swallow)
    assert [check.passed for check in verdict.checks] == [True, True, True, False]


def test_a_second_run_with_other_bits_fails() -> None:
    calls = []

    def drift(problem: Any, region: Any, found: Any) -> Any:
        calls.append(1)
        return found * (1 + 2.0**-8 * (len(calls) > 1 and problem.alpha == np.float32(0.7)))

    plan = plan_of("m=64 n=64 k=64")
    random = next(case for case in cases_of(plan, 0) if case.check == "random")
    verdict = judge(ReferenceDevice(changes_values=drift, whole=True), plan, cases=[random])
    assert verdict.checks[0].faults == ("a second run gave other bits",)


def test_nothing_checked_is_not_a_pass() -> None:
    assert not judge(ReferenceDevice(), plan_of("m=64 n=64 k=64"), cases=[]).passed


# ---- generated kernels on the emulator ----------------------------------------------------


def test_the_smallest_kernel_passes_and_says_so() -> None:
    lines = format_verdict(verdict_of("m=64 n=64 k=64 layout=nt"))
    assert len(lines) == 1
    assert re.fullmatch(
        r"PASS  gemm_fp16_nt_64x64x64_sm_80_3a4c536d  emulator  exact bit-equal, "
        r"random worst 0\.0\d of bound, hostile clean, the one block, 4 input sets",
        lines[0],
    )


WITHOUT_MAPS = [name for name in GOLDEN if not GOLDEN[name].product.tensor_maps]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.full] if number % 3 else [])
        for number, name in enumerate(WITHOUT_MAPS)
    ],
)
def test_the_golden_plans_pass(name: Any) -> None:
    plan = GOLDEN[name]
    verdict = verify(
        plan, ptx=lambda: compiled(source_of(plan), plan.target), settings=Settings(effort=0.3)
    )
    assert verdict.passed, "\n".join(format_verdict(verdict))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("layout_d", ["n", "t"])
def test_every_layout_with_everything_else_passes(layout: Any, layout_d: Any) -> None:
    common = "m=200 n=136 k=100 dtype_c=fp16 epilogue=bias,relu batch=3"
    strides = "lda=203 ldb=139 ldd=205 ldc=207"
    verdict = verdict_of(f"{common} layout={layout} layout_d={layout_d} {strides}")
    assert verdict.passed, "\n".join(format_verdict(verdict))


def test_the_trees_own_choice_passes() -> None:
    verdict = verdict_of("m=1000 n=504 k=200 dtype=bf16 dtype_c=bf16", choice=None)
    assert verdict.passed, "\n".join(format_verdict(verdict))


@pytest.mark.full
@pytest.mark.parametrize("text", ["m=4097 n=4097 k=4097", "m=8192 n=8192 k=8192 layout=nt"])
def test_large_kernels_pass_by_their_sampled_blocks(text: Any) -> None:
    verdict = verdict_of(text, MmaSyncChoice(128, 128, 32, 2, 4, 3, 2, 8))
    assert verdict.passed, "\n".join(format_verdict(verdict))
    assert verdict.sampled < verdict.grid


# ---- the front door -----------------------------------------------------------------------


def test_auto_uses_the_emulator_where_there_is_no_gpu(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    plan = plan_of("m=64 n=64 k=64")
    ptx = compiled(source_of(plan), plan.target)
    verdict = verify(as_program(plan), ptx=ptx, cubin=b"", on="auto")
    assert verdict.passed
    assert verdict.where == "emulator"
    assert verdict.notes[0].startswith("no GPU was used: cupy is missing")


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("gpu", "verifying on a GPU needs a cubin"),
        ("emulator", "verifying on the emulator needs PTX"),
    ],
)
def test_what_a_place_needs_must_be_given(on: Any, message: Any) -> None:
    with pytest.raises(InputError) as raised:
        verify(plan_of("m=64 n=64 k=64"), on=on)
    assert str(raised.value) == message


def test_the_same_seed_gives_the_same_verdict() -> None:
    assert verdict_of("m=200 n=136 k=100") == verdict_of("m=200 n=136 k=100")


def test_the_budget_falls_with_k_and_never_below_two_for_the_exact_case() -> None:
    deep = cases_of(plan_of("m=4096 n=4096 k=100000"), 0)[0].problem
    flat = cases_of(plan_of("m=4096 n=4096 k=64"), 0)[0].problem
    assert block_budget(deep, 1.0) == 2
    assert block_budget(deep, 0.5) == 1
    assert block_budget(flat, 1.0) == 16
    assert SMALL.tile_k == 32


def test_a_failure_reads_from_the_line_to_the_cause() -> None:
    check = CheckResult(
        "exact",
        passed=False,
        problem="m=65 n=64 k=64 alpha=1",
        elements=4160,
        wrong=64,
        blocks=2,
        difference=Difference("tile (1, 0)", 0, 64, 0, float("nan"), 12.0, 12.0, 12.0),
        faults=("out-of-bounds-read: somewhere\n  PTX line 3",),
        hints=("a boundary in m",),
    )
    verdict = Verdict("gemm", "emulator", (check,), 2, 2, ("slow",))
    assert verdict.exit_code == 1
    read = json.loads(json.dumps(as_json(verdict), allow_nan=False))
    assert read["passed"] is False
    assert read["checks"][0]["difference"]["got"] == "nan"
    assert format_verdict(verdict) == [
        "FAIL  gemm  emulator  exact FAILED, all 2 blocks, 1 input set",
        "  exact (m=65 n=64 k=64 alpha=1):",
        "    64 of 4160 elements are wrong; the first:",
        "    tile (1, 0) row 64 column 0: got nan, expected 12",
        "    out-of-bounds-read: somewhere",
        "      PTX line 3",
        "    likely: a boundary in m",
        "  note: slow",
    ]


def test_an_endless_k_is_refused_for_the_emulator() -> None:
    plan = plan_of("m=1 n=1 k=2147482624", choice=MmaSyncChoice(16, 16, 128, 1, 2, 4, 1, 8))
    with pytest.raises(EnvironmentLackError) as caught:
        verify(plan, ptx="unread", on="emulator")
    assert str(caught.value) == (
        "k = 2147482624: one block alone would take about 211 minutes on the emulator, which gives"
        " it one; judge it on a GPU, or a shorter k"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"on": "cpu"}, "on = cpu: give auto, gpu or emulator"),
        ({"ptx": b"x"}, "ptx is bytes, where text is wanted; decode bytes"),
        ({"ptx": lambda: b"x"}, "ptx is bytes, where text is wanted; decode bytes"),
        ({"ptx": 5}, "ptx is int, where text is wanted; decode bytes"),
        ({"ptx": None}, "verifying on the emulator needs PTX"),
    ],
)
def test_what_verify_cannot_take(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        verify(plan_of("m=16 n=16 k=16", SMALL), **{"ptx": "x", "on": "emulator", **given})
    assert str(caught.value) == message


@pytest.mark.parametrize("k", ["0", "dynamic:64"])
def test_an_a_of_no_elements_that_is_read_is_seen(k: str) -> None:
    """Its pointer may be null, as an empty tensor's is: the judge passes one, of address 0."""
    plan = plan_of(f"m=40 n=24 k={k} dtype_c=fp32")
    source = source_of(plan)
    start = source.index("{\n", source.index(f"{plan.name}(\n")) + 2
    read = "if (alpha != 0.0f && reinterpret_cast<const volatile short*>(a)[0] == 7) __trap();\n"
    assert_wrong(plan, source[:start] + read + source[start:], seen="0x0")
