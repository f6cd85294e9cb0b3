"""The GPU device against a cupy whose kernels run on the emulator."""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.decide import Copies, MmaSyncChoice, RepackChoice
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import format_verdict, gpu_oracle, launching, verify
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.gpu import (
    GpuDevice,
    find_gpu,
    launch_arguments,
    pointer_tables,
)
from deepgemm_codegen.harness.gpu_oracle import GpuPrefixSums
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.sums import StepModel, prefix_sums
from deepgemm_codegen.toolchain import compile_ptx
from tests.harness.fake_cupy import FakeCupy
from tests.harness.support import SMALL, compiled, plan_of, program_of, source_of

FULL = "m=100 n=72 k=80 dtype_c=fp16 epilogue=bias,relu batch=2 lda=83 ldd=75 ldc=75"


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle's kernel is not built for the fake."""
    built = type("Built", (), {"cubin": b"oracle"})
    monkeypatch.setattr(gpu_oracle, "build_cubin", lambda *_, **__: built)


def fake(
    monkeypatch: pytest.MonkeyPatch,
    text: str = FULL,
    choice: MmaSyncChoice = SMALL,
    arch: str = "80",
) -> tuple[FakeCupy, Any, str]:
    plan = plan_of(text, choice)
    ptx = compiled(source_of(plan), plan.target)
    cupy = FakeCupy(plan, ptx, arch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy, plan, ptx


def test_every_element_of_every_case_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, ptx = fake(monkeypatch)
    verdict = verify(plan, ptx=ptx, cubin=b"cubin", on="gpu")
    assert verdict.passed, "\n".join(format_verdict(verdict))
    assert verdict.where == "gpu (Paper GPU, sm_80)"
    assert [c.name for c in verdict.checks] == [
        "exact", "random", "exact", "hostile", "hostile", "hostile", "emulator",
    ]  # fmt: skip
    assert all(c.elements == 2 * 100 * 72 for c in verdict.checks[:-1])
    assert verdict.sampled == verdict.grid == 8
    assert cupy.launches[0] == ((8, 1, 1), (128, 1, 1), plan.body.shared_bytes)
    assert len(cupy.launches) == 6 + 1 + 1  # the cases, one repeated, one for the emulator
    assert cupy.attributes == []


def test_a_program_of_several_kernels_shares_its_workspace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = program_of(FULL, replace(SMALL, split_k=2))
    ptx = compiled(source_of(program), program.target)
    cupy = FakeCupy(program, ptx)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    verdict = verify(program, ptx=ptx, cubin=b"cubin", on="gpu")
    assert verdict.passed, "\n".join(format_verdict(verdict))
    product, reduction = (kernel.body for kernel in program.kernels)
    assert cupy.launches[:2] == [
        ((16, 1, 1), (128, 1, 1), product.shared_bytes),
        ((150, 1, 1), (reduction.threads, 1, 1), reduction.shared_bytes),
    ]


def test_copies_and_partial_sums_share_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = RepackChoice(replace(SMALL, split_k=2), Copies(("a", "b")))
    program = program_of("m=dynamic:90 n=75 k=99 dtype_c=fp16 epilogue=bias align_a=2", choice)
    ptx = compiled(source_of(program), program.target)
    cupy = FakeCupy(program, ptx)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    verdict = verify(program, ptx=ptx, cubin=b"cubin", on="gpu")
    assert verdict.passed, "\n".join(format_verdict(verdict))
    # 90 rows of A of 99, tiles of 64x128; 99 of B of 75.
    assert cupy.launches[0] == ((2 + 2, 1, 1), (256, 1, 1), 0)


def test_dynamic_sizes_and_strides_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "m=dynamic:90 n=dynamic:80 k=dynamic:70 dtype=bf16 dtype_c=bf16 layout=tn layout_d=t"
    _, plan, _ = fake(monkeypatch, text)
    verdict = verify(plan, cubin=b"cubin", on="gpu")
    assert verdict.passed, "\n".join(format_verdict(verdict))


def test_a_wrong_kernel_fails_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch, "m=100 n=72 k=80 epilogue=bias")
    source = source_of(plan).replace("__fadd_rn(x, bias)", "x")
    worse = FakeCupy(plan, compiled(source, plan.target))
    monkeypatch.setitem(sys.modules, "cupy", worse)
    verdict = verify(plan, cubin=b"cubin", on="gpu")
    assert not verdict.passed
    assert "bias:fp16 was left out" in verdict.checks[0].hints
    assert cupy.launches == []


def test_bases_have_the_promised_alignment_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch, "m=64 n=64 k=64 align_a=2 align_b=4 align_d=1024")
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(cupy, "run", lambda *call: seen.append(call))
    problem = bind(plan)
    GpuDevice(plan, b"cubin", "sm_80").launch(problem, inputs_for(problem, "x", "normal", 1), None)
    a, b, d, alpha = seen[0][3]
    assert (int(a) % 4, int(b) % 8, int(d) % 2048) == (2, 4, 1024)
    assert alpha.dtype == np.float32


def test_a_write_into_a_guard_band_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch, "m=64 n=64 k=64")

    def run(*_: object) -> None:
        store = next(s for s in cupy.stores if s.dtype == np.uint16 and (s == 0x7DA5).all())
        store[5] = 0

    monkeypatch.setattr(cupy, "run", run)
    problem = bind(plan)
    inputs = inputs_for(problem, "x", "normal", 1)
    outcome = GpuDevice(plan, b"cubin", "sm_80").launch(problem, inputs, None)
    assert len(outcome.faults) == 1
    assert outcome.faults[0].startswith("the guard band before 'd' was written: 1 elements")


def test_much_shared_memory_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # P15 of the known faults.
    cupy, plan, _ = fake(monkeypatch, "m=64 n=64 k=64", MmaSyncChoice(64, 64, 64, 2, 2, 4, 1, 8))
    assert plan.body.shared_bytes == 65536
    GpuDevice(plan, b"cubin", "sm_80")
    assert cupy.attributes == [(7, 8, 65536)]


def test_more_shared_memory_than_the_gpu_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan, _ = fake(monkeypatch, "m=64 n=64 k=64", MmaSyncChoice(128, 128, 64, 2, 2, 4, 1, 8))
    with pytest.raises(EnvironmentLackError) as raised:
        GpuDevice(plan, b"cubin", "sm_80")
    assert str(raised.value) == (
        f"{plan.name} needs 131072 bytes of shared memory a block; this sm_80 has 101376"
    )


def test_a_cubin_of_another_architecture_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, plan, ptx = fake(monkeypatch, arch="90")
    with pytest.raises(EnvironmentLackError) as raised:
        verify(plan, ptx=ptx, cubin=b"cubin", on="gpu")
    assert str(raised.value) == (
        f"{plan.name}: built for sm_80, but the device is sm_90: a cubin runs on parts of the same"
        " major number that are not older; build again for sm_90"
    )
    assert verify(plan, ptx=ptx, cubin=b"cubin").where == "emulator"


def test_a_problem_too_large_for_the_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch, "m=64 n=64 k=64")
    device = GpuDevice(plan, b"cubin", "sm_80")
    cupy.free = 1_000_000
    problem = bind(plan)
    with pytest.raises(EnvironmentLackError) as raised:
        device.launch(problem, inputs_for(problem, "x", "normal", 1), None)
    assert str(raised.value) == (
        "m=64 n=64 k=64 alpha=1 needs 0.0 GB of GPU memory; 0.0 GB are free"
    )


def test_an_oracle_too_large_for_the_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch, "m=64 n=64 k=64")

    def full(*_: object, **__: object) -> None:
        raise MemoryError("Out of memory allocating 7 bytes")

    monkeypatch.setattr(cupy, "ascontiguousarray", full)
    with pytest.raises(EnvironmentLackError) as raised:
        verify(plan, cubin=b"cubin", on="gpu")
    assert str(raised.value) == (
        f"{plan.name}: the GPU's memory does not hold the operands and the oracle "
        "(Out of memory allocating 7 bytes)"
    )


def test_a_launch_that_fails_is_an_honest_no(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch)
    cupy.failure = RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
    verdict = verify(plan, cubin=b"cubin", on="gpu")
    assert not verdict.passed
    assert len(verdict.checks) == 1
    assert verdict.checks[0].faults == ("the launch failed: CUDA_ERROR_ILLEGAL_ADDRESS",)


def test_a_kernel_that_never_ends_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch)
    cupy.endless = True
    at_exit: list[Any] = []
    monkeypatch.setattr(launching, "LONGEST", 0.05)
    monkeypatch.setattr(atexit, "register", at_exit.append)
    verdict = verify(plan, cubin=b"cubin", on="gpu")
    assert not verdict.passed
    assert len(verdict.checks) == 1
    (fault,) = verdict.checks[0].faults
    assert fault == (
        "the kernel did not end in 0.05 s: its threads wait for each other; the emulator "
        "(verify --on emulator) tells who waits for what"
    )
    # The process must not wait for the kernel at its own end.
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    (leave,) = at_exit
    leave()
    assert left == [1]


def test_a_gpu_runs_whole_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    _, plan, _ = fake(monkeypatch)
    problem = bind(plan)
    device = GpuDevice(plan, b"cubin", "sm_80")
    with pytest.raises(LaunchFailedError, match=r"^a GPU runs whole grids$"):
        device.launch(problem, inputs_for(problem, "x", "normal", 1), (0,))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 0}, "no NVIDIA GPU here; verify --on emulator needs none"),
        ({"arange": lambda _: np.zeros(1)}, "cupy computes wrong sums on this GPU"),
    ],
)
def test_what_is_missing_is_named(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy, _, _ = fake(monkeypatch)
    for name, value in change.items():
        setattr(cupy, name, value)
    with pytest.raises(EnvironmentLackError, match=f"^{message}"):
        find_gpu()


def test_no_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, _, _ = fake(monkeypatch)

    def refuse() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.getDeviceCount = refuse
    with pytest.raises(EnvironmentLackError) as raised:
        find_gpu()
    assert str(raised.value) == (
        "no usable NVIDIA driver (cudaErrorInsufficientDriver); verify --on emulator needs none"
    )


def test_no_cupy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(EnvironmentLackError, match=r"^cupy is missing .*pip install"):
        find_gpu()


MODELS = [None, StepModel(8, 24), StepModel(16, 25), StepModel(32, 13, 13, 128)]


@pytest.mark.parametrize("model", MODELS)
def test_the_gpus_sums_are_the_oracles(
    model: StepModel | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy, _, _ = fake(monkeypatch)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((20, 77)), rng.standard_normal((77, 30))
    here = prefix_sums(a, b, model, np)
    there = GpuPrefixSums(cupy, "sm_80")(a, b, model, cupy)
    assert np.allclose(here.value, there.value, rtol=1e-12)
    # The CPU takes the peaks' product for the largest product, so its bound is a little wider.
    assert (there.error <= here.error * (1 + 1e-9)).all()
    assert (there.error >= here.error * 0.3).all()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_the_oracles_kernel_compiles(arch: str) -> None:
    ptx = compile_ptx(gpu_oracle.SOURCE, name="oracle.cu", arch=arch, cached=False).ptx
    assert f".entry {gpu_oracle.NAME}" in ptx
    assert "fma" not in ptx.replace("fma.rn.f64", "")


def test_a_plan_of_another_target_names_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy, plan, _ = fake(monkeypatch)
    cupy.arch = "86"  # sm_80 code runs there
    assert GpuDevice(replace(plan), b"cubin", plan.target).arithmetic == "sm_86"


def test_a_block_of_several_tiles_has_their_threads_and_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = MmaSyncChoice(32, 32, 32, 2, 1, 2, 1, 2, abreast=4)
    cupy, plan, ptx = fake(monkeypatch, "m=32 n=32 k=32 batch=9", choice)
    verdict = verify(plan, ptx=ptx, cubin=b"cubin", on="gpu")
    assert verdict.passed, "\n".join(format_verdict(verdict))
    assert cupy.launches[0] == ((3, 1, 1), (256, 1, 1), 4 * plan.body.shared_bytes)


def test_arrays_of_pointers() -> None:
    """One address a product, no more aligned than promised; none for what is not given."""
    text = "m=8 n=8 k=8 batch=3 stride_a=pointers stride_b=pointers align_a=4 layout=nt"
    problem = bind(plan_of(text))
    tables = pointer_tables(SimpleNamespace(asarray=np.asarray), problem, {"a": 4100, "d": 0})
    assert list(tables) == ["a_of"]
    apart = problem.matrix("a").stride
    assert tables["a_of"].dtype == np.uint64
    assert tables["a_of"].tolist() == [4100, 4100 + 2 * apart, 4100 + 4 * apart]
    assert apart > 64
    assert apart % 4 == 2  # elements of two bytes, so addresses are multiples of 4 and no more
    addresses = {"a": 4100, "a_of": 512}
    found = launch_arguments(problem, problem.plan, addresses)
    assert [int(value) for value in found[:3]] == [512, 0, 0]
