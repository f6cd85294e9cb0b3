"""From kernels to a report, on a device that does what the test says."""

from __future__ import annotations

import pytest

from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.harness.bench import failed_row, run_bench, unit_of
from deepgemm_codegen.harness.bench_data import CUBLAS, CUBLASLT, Entry, Rival, Row
from deepgemm_codegen.harness.bench_stats import Ceilings
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.spec import GemmSpec
from tests.harness.bench_support import CEILINGS, ScriptedDevice, entry_of
from tests.harness.support import plan_of


def test_a_kernel_is_timed_beside_its_rivals() -> None:
    device = ScriptedDevice()
    report = run_bench([entry_of("m=640 n=512 k=512 layout=nt")], device)
    (row,) = report.rows
    assert row.timing is not None
    assert (row.timing.median_us, row.timing.least_us, row.timing.most_us) == (11.0, 10.0, 12.0)
    assert (row.ratio(CUBLAS), row.ratio(CUBLASLT)) == (2.0, 0.5)
    assert (row.shape, row.kind, row.choice) == ("640x512x512", "fp16 nt", "64x64x32 2st 2x2w")
    assert (row.message, row.exit_code, row.notes) == ("", 0, ())
    assert device.timed == [(row.name, ("kernel", "cublas", "lt"), row.launches)]
    assert row.sets == -(-(256 * 2**20) // (2 * (640 * 512 + 512 * 512 + 640 * 512)))
    assert row.launches % row.sets == 0
    assert row.launches >= 20


def test_without_a_rival_there_is_no_ratio() -> None:
    device = ScriptedDevice(rivals=(Rival(CUBLAS, None, "gone"), Rival(CUBLASLT, "lt")))
    (row,) = run_bench([entry_of("m=64 n=64 k=64")], device).rows
    assert row.ratio(CUBLAS) is None
    assert row.ratio(CUBLASLT) == 0.5
    assert device.timed[0][1] == ("kernel", "lt")


def test_a_wrong_kernel_is_not_timed() -> None:
    entry = entry_of("m=64 n=64 k=64")
    device = ScriptedDevice(faults={entry.plan.name: "7 of 9 elements"})
    (row,) = run_bench([entry], device).rows
    assert (row.message, row.exit_code) == ("wrong, not timed: 7 of 9 elements", 1)
    assert row.timing is None
    assert device.timed == []


def test_after_a_fault_on_the_device_nothing_more_runs() -> None:
    entries = [entry_of(f"m=64 n=64 k={k}") for k in (32, 64, 96)]
    bad = entries[1].plan.name
    device = ScriptedDevice(faults={bad: LaunchFailedError("illegal address")})
    report = run_bench(entries, device)
    assert [row.message for row in report.rows] == [
        "",
        "illegal address",
        f"not run: an earlier kernel's launch failed ({bad})",
    ]
    assert [row.exit_code for row in report.rows] == [0, 1, 1]
    assert report.ceilings == CEILINGS  # not measured again on a device that is lost
    assert len(device.measured) == 1


def test_a_kernel_that_does_not_fit_is_a_row_and_the_next_one_runs() -> None:
    small, big = entry_of("m=64 n=64 k=64"), entry_of("m=640 n=640 k=640")
    device = ScriptedDevice(free_bytes=100_000)
    report = run_bench([big, small], device)
    assert report.rows[0].message == (
        f"{big.plan.name} needs 0.0 GB of GPU memory; 0.0 GB are free"
    )
    assert [row.exit_code for row in report.rows] == [3, 0]
    assert device.loads[0][1] == 100_000 // (3 * 64 * 64 * 2)
    lack = ScriptedDevice(faults={small.plan.name: EnvironmentLackError("no room")})
    assert [row.exit_code for row in run_bench([small, big], lack).rows] == [3, 0]


def test_what_could_not_be_made_keeps_its_place() -> None:
    spec = GemmSpec.from_text("m=8 n=8 k=8 label=odd")
    seen: list[str] = []
    failed = failed_row(spec, "gemm_odd", "a.yaml:2", InputError("no plan"))
    entries: list[Entry | Row] = [failed, entry_of("m=64 n=64 k=64")]
    report = run_bench(entries, ScriptedDevice(), progress=lambda row: seen.append(row.name))
    assert (failed.label, failed.exit_code, failed.message) == ("odd", 2, "no plan")
    assert report.rows[0] == failed
    assert seen == [row.name for row in report.rows]


def test_notes_say_what_the_figures_do_not() -> None:
    entry = entry_of(
        "m=dynamic:96 n=64 k=64 dtype_c=fp16 epilogue=bias,relu", built_for="sm_90", spilled=8
    )
    (row,) = run_bench([entry], ScriptedDevice()).rows
    assert row.notes == (
        "planned for sm_80, built for sm_90 from the same source",
        "dynamic m at the planned size",
        "the kernel adds bias:fp16,relu; cuBLAS computes the plain product",
        "8 bytes spilled",
    )
    assert ScriptedDevice().loads == []


def test_c_is_read_and_the_sum_stays_finite() -> None:
    device = ScriptedDevice()
    run_bench([entry_of("m=64 n=64 k=64 dtype_c=fp16"), entry_of("m=64 n=64 k=64")], device)
    assert [problem.beta for problem, _, _ in device.loads] == [0.5, 0.0]


def test_the_higher_ceiling_of_before_and_after_counts() -> None:
    later = Ceilings(4600.0, {"mma.sync": 600.0, "wgmma": 810.0}, ("memory", "wgmma"))
    device = ScriptedDevice(measured=[CEILINGS, later])
    report = run_bench([entry_of("m=64 n=64 k=64")], device)
    assert (report.ceilings.gbs, report.ceilings.tflops["wgmma"]) == (4600.0, 820.0)


def test_groups_have_means_and_all_rows_do_too() -> None:
    texts = ("m=64 n=64 k=64", "m=65 n=64 k=64", "m=512 n=512 k=512")
    report = run_bench([entry_of(text) for text in texts], ScriptedDevice())
    assert [(group.name, group.count) for group in report.groups] == [
        ("short k (k < 512), fp16", 2),
        ("aligned, fp16", 1),
        ("all", 3),
    ]
    for group in report.groups:
        assert dict(group.ratios) == pytest.approx({CUBLAS: 2.0, CUBLASLT: 0.5})
    assert report.slower(2.1) == report.rows
    assert report.slower(1.9) == ()


def test_the_unit_of_a_plan() -> None:
    assert unit_of(plan_of("m=64 n=64 k=64")) == "mma.sync"
