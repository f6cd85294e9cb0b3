"""Generated kernels on the GPU: every element, guard bands, and the emulator's bits."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np
import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import format_verdict, verify
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.gpu import GpuDevice, find_gpu
from deepgemm_codegen.harness.gpu_oracle import GpuPrefixSums
from deepgemm_codegen.harness.inputs import Normal
from deepgemm_codegen.harness.numbers import encode, quantum, round_to
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.sums import StepModel, prefix_sums
from deepgemm_codegen.toolchain import build_cubin
from tests.harness.support import SMALL, plan_of, program_of, source_of
from tests.harness.test_mutants import KINDS, MUTANTS

if TYPE_CHECKING:
    from deepgemm_codegen.harness.verdict import Verdict
    from deepgemm_codegen.plan import KernelPlan, Program

pytestmark = pytest.mark.gpu

TALL = MmaSyncChoice(128, 128, 32, 2, 4, 3, 2, 8)


def judged(
    plan: Program | KernelPlan, arch: str, source: str = "", *, emulate: bool = True
) -> Verdict:
    """Builds for the GPU here and judges there."""
    built = build_cubin(source or source_of(plan), name=plan.name, arch=arch)
    return verify(
        plan, ptx=built.ptx if emulate else None, cubin=built.cubin, built_for=arch, on="gpu",
        settings=Settings(effort=0.3),
    )  # fmt: skip


def demand(verdict: Verdict) -> None:
    assert verdict.passed, "\n".join(format_verdict(verdict))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(
    "text",
    [
        "m=64 n=64 k=64",
        "m=1000 n=504 k=328 dtype=bf16 dtype_c=bf16 epilogue=bias,relu",
        "m=1001 n=999 k=1003 dtype_c=fp32 dtype_d=fp32 layout_d=t epilogue=bias:row",
        "m=200 n=136 k=100 batch=3 align_a=2 align_b=2 align_d=2 ldd=211 layout_d=t",
        "m=dynamic:700 n=dynamic:300 k=dynamic:500 dtype_c=fp16",
    ],
)
def test_kernels_pass(text: str, layout: str, arch: str) -> None:
    demand(judged(plan_of(f"{text} layout={layout} arch={arch}"), arch))


@pytest.mark.parametrize(
    "text",
    [
        "m=300 n=520 k=256 layout=nt epilogue=bias,swiglu",
        "m=300 n=520 k=256 layout=nn epilogue=geglu,quantize:int8:per_channel",
        "m=dynamic:500 n=1000 k=136 epilogue=bias,store,quantize:int8:dynamic",
        "m=33 n=20000 k=64 epilogue=quantize:e4m3:dynamic batch=2",
        "m=300 n=512 k=4096 layout=nt epilogue=swiglu,quantize:int8:dynamic",
        "m=70 n=136 k=200 batch=3 epilogue=bias:per_product,quantize:int8:per_token:per_product",
        "m=300 n=136 k=1000 dtype=int8 layout=nn zero_point_a=per_token zero_point_b=per_channel",
        "m=70 n=136 k=8192 dtype=uint8 dtype_b=int8 layout=nt zero_point_a=128 split_k=4",
        (
            "m=70 n=133 k=200 batch=5 dtype=int8 layout=nn stride_a=pointers stride_b=shared"
            " zero_point_a=per_token zero_point_b=per_channel"
        ),
        (
            "m=300 n=136 k=272 batch=3 dtype=int8 layout=nt zero_point_a=per_token"
            " zero_point_b=per_channel epilogue=scale:column dtype_d=fp16"
        ),
    ],
)
def test_programs_that_quantise_pass(text: str, arch: str) -> None:
    demand(judged(program_of(f"{text} arch={arch}", None), arch))


@pytest.mark.parametrize(
    "text",
    [
        "m=dynamic:70 n=1000 batch=7 lda=1008 epilogue=residual,store,rms_norm",
        "m=33 n=128 batch=12 lda=1536 stride_a=128 stride_d=pointers epilogue=layer_norm",
        "m=5 n=9000 batch=3 stride_a=shared epilogue=residual,rms_norm,quantize:int8:dynamic",
        "m=70 n=72 batch=3 epilogue=bias,silu,quantize:int8:dynamic",
    ],
)
def test_rows_of_a_batch_pass(text: str, arch: str) -> None:
    demand(judged(program_of(f"op=epilogue {text} arch={arch}", None), arch))


@pytest.mark.parametrize(
    "text",
    [
        "m=1001 n=520 k=256 layout=nt dtype_c=fp32 ldc=1004 epilogue=residual,store:fp32,rms_norm",
        "m=dynamic:700 n=dynamic:300 k=dynamic:500 dtype=bf16 dtype_c=bf16 epilogue=layer_norm",
        "m=1000 n=136 k=4096 layout=nt batch=2 epilogue=bias,layer_norm,quantize:int8:per_token",
        "m=2048 n=1024 k=512 layout=nt epilogue=swiglu",
        "m=333 n=999 k=200 layout=nt align_d=2 epilogue=geglu,residual,store",
        "m=33 n=20000 k=64 batch=2 epilogue=quantize:e4m3:dynamic",
        "m=300 n=512 k=136 dtype=int8 dtype_d=fp16 zero_point_a=per_token epilogue=rms_norm",
        "m=70 n=300 k=40 dtype=fp32 epilogue=layer_norm,quantize:int8:dynamic",
        "op=epilogue m=4097 n=1000 epilogue=residual,store,rms_norm",
        "op=epilogue m=1000 n=4097 layout=tn dtype=bf16 epilogue=rms_norm",
        "op=epilogue m=1000 n=4097 layout=tn dtype=fp32 epilogue=bias,gelu",
    ],
)
def test_a_column_major_d_by_rows_passes(text: str, arch: str) -> None:
    family = "sm_90a" if arch == "sm_90" else arch
    demand(judged(program_of(f"{text} layout_d=t arch={family}", None), family))


@pytest.mark.parametrize(
    "text",
    [
        "m=8192 n=768 k=768 dtype=bf16 epilogue=bias,residual,store,layer_norm cluster_rows=4",
        "m=3000 n=1000 k=1024 dtype=bf16 dtype_c=bf16 epilogue=gelu,rms_norm cluster_rows=8",
        "m=1500 n=700 k=136 epilogue=rms_norm,quantize:int8:per_token cluster_rows=3",
        "m=dynamic:700 n=200 k=512 batch=3 epilogue=layer_norm cluster_rows=1",
        "m=1000 n=512 k=400 dtype=int8 dtype_d=fp16 epilogue=scale:row,layer_norm cluster_rows=2",
        "m=1000 n=384 k=1024 dtype=e4m3 dtype_d=bf16 epilogue=rms_norm cluster_rows=3",
        "m=dynamic:900 n=776 k=dynamic:2048 layout=tn tile_m=128 tile_n=128 tiles_at_once=1",
        "m=3000 n=2560 k=640 epilogue=bias,gelu consumers=2 tiles_at_once=1 cluster_m=2",
    ],
)
def test_consumers_and_blocks_that_meet_pass(text: str, arch: str) -> None:
    if arch != "sm_90":
        pytest.skip("wgmma is sm_90a's")
    layout = "" if "layout" in text else " layout=nt"
    demand(judged(program_of(f"{text}{layout} arch=sm_90a", None), "sm_90a"))


@pytest.mark.parametrize(
    "text",
    [
        "m=4096 n=2112 k=7168",
        "m=128 n=7168 k=16384",
        "m=dynamic:700 n=1000 k=1040 ldd=1008 epilogue=bias,relu",
        "m=333 n=616 k=528 dtype_b=e5m2 tile_n=96 tile_m=64 consumers=2 tiles_at_once=2",
        "m=200 n=520 k=2064 tile_n=192 split_k=3 dtype_c=fp32 dtype_d=fp32",
        "m=70 n=1024 k=4096 cluster_k=4 epilogue=quantize:e4m3:dynamic",
        "m=700 n=640 k=1600 epilogue=bias,swiglu",
        "m=100 n=1408 k=4096 split_k=3 epilogue=geglu",
        "m=dynamic:150 n=1000 k=1040 ldd=1008 batch=5 stride_b=shared epilogue=bias",
        "m=64 n=616 k=2064 batch=9 tile_n=96 split_k=2",
        "m=64 n=616 k=2064 batch=50 tile_n=96 cluster_k=2 epilogue=residual",
        "m=dynamic:700 n=1000 k=1040 layout_d=t dtype_c=bf16 epilogue=bias,relu",
    ],
)
def test_scales_by_block_pass(text: str, arch: str) -> None:
    family = "sm_90a" if arch == "sm_90" else arch
    if "e4m3" not in load_arch(family).dtypes:
        pytest.skip(f"{arch} multiplies no fp8")
    if family != "sm_90a" and any(word in text for word in ("tile", "cluster")):
        pytest.skip("a tile of wgmma's, or a cluster")
    scaled = f"dtype=e4m3 layout=nt scale_a=1x128 scale_b=128x128 arch={family}"
    demand(judged(program_of(f"{text} {scaled}", None), family))


@pytest.mark.parametrize("text", ["m=4097 n=4097 k=4097", "m=8192 n=8192 k=8192 layout=nt"])
def test_large_kernels_pass_in_seconds(text: str, arch: str) -> None:
    start = time.perf_counter()
    demand(judged(plan_of(f"{text} arch={arch}", TALL), arch))
    assert time.perf_counter() - start < 90


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("m=599 n=1024 k=64 batch=4096", SMALL),  # O08
        ("m=16 n=16 k=8 batch=65537", MmaSyncChoice(16, 16, 32, 1, 1, 2, 1, 8)),  # O09
        ("m=12347 n=1 k=174000", MmaSyncChoice(64, 16, 256, 4, 1, 2, 1, 8)),  # O05
    ],
)
def test_offsets_beyond_32_bits(text: str, choice: MmaSyncChoice, arch: str) -> None:
    demand(judged(plan_of(f"{text} arch={arch}", choice), arch, emulate=False))


@pytest.mark.parametrize(
    "name",
    [
        "last slice skipped", "store beyond n", "last row not stored", "c read at beta 0",
        "bias left out", "c read with d's stride", "ragged raster group",
    ],
)  # fmt: skip
def test_mutants_fail_there_too(name: str, arch: str) -> None:
    """In a process of its own: an illegal address takes the whole CUDA context with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert not pool.submit(mutant_passes, name, arch).result()


def mutant_passes(name: str, arch: str) -> bool:
    """The verdict on a kernel with one planted fault."""
    mutant = MUTANTS[name]
    text, choice = KINDS[mutant.kind]
    plan = plan_of(f"{text} arch={arch}", choice)
    return judged(plan, arch, mutant.apply(source_of(plan)), emulate=False).passed


def test_another_architecture_is_refused(arch: str) -> None:
    other = "sm_75" if arch != "sm_75" else "sm_80"
    plan = plan_of(f"m=64 n=64 k=64 arch={other}")
    built = build_cubin(source_of(plan), name=plan.name, arch=other)
    with pytest.raises(EnvironmentLackError, match=rf"built for {other}, but the device is {arch}"):
        GpuDevice(plan, built.cubin, other)


def test_the_callers_stream_is_used(arch: str) -> None:
    cupy = find_gpu()
    plan = plan_of(f"m=64 n=64 k=64 arch={arch}")
    built = build_cubin(source_of(plan), name=plan.name, arch=arch)
    problem = bind(plan)
    with cupy.cuda.Stream(non_blocking=True):
        device = GpuDevice(plan, built.cubin, arch)
        outcome = device.launch(problem, inputs_for(problem, "x", "normal", 1), None)
    assert outcome.faults == ()


def test_values_and_rounding_are_those_of_the_cpu(arch: str) -> None:
    cupy = find_gpu()
    rows, columns = np.arange(300)[:, None], np.arange(200)[None, :]
    here = Normal(3).at(1, rows, columns, np)
    there = Normal(3).at(1, cupy.asarray(rows), cupy.asarray(columns), cupy)
    assert (here.view(np.uint32) == there.get().view(np.uint32)).all()
    spec = plan_of(f"m=64 n=64 k=64 dtype=bf16 arch={arch}").spec
    for dtype in (spec.dtype_a, plan_of(f"m=64 n=64 k=64 arch={arch}").spec.dtype_a):
        assert (encode(here, dtype, np) == encode(there, dtype, cupy).get()).all()
        wide = here.astype(np.float64) * 1e4
        assert (round_to(wide, dtype, np) == round_to(cupy.asarray(wide), dtype, cupy).get()).all()
        assert (quantum(wide, dtype, np) == quantum(cupy.asarray(wide), dtype, cupy).get()).all()


def test_the_oracles_kernel_equals_the_cpus_sums(arch: str) -> None:
    cupy = find_gpu()
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((70, 333)), rng.standard_normal((333, 50))
    for model in (None, StepModel(8, 24), StepModel(16, 25)):
        here = prefix_sums(a, b, model, np)
        there = GpuPrefixSums(cupy, arch)(cupy.asarray(a), cupy.asarray(b), model, cupy)
        assert np.allclose(here.value, there.value.get(), rtol=1e-12, atol=1e-12)
        assert (there.error.get() <= here.error * (1 + 1e-9)).all()
