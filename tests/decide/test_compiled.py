"""What ptxas makes of the tree's picks: registers in bounds, nothing in local memory."""

from __future__ import annotations

import random

import pytest

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.occupancy import register_cap
from deepgemm_codegen.plan.mma_sync import MmaSync
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin
from tests.decide.specs import fp8_spec, hopper_spec, random_spec

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

STAPLES = [
    f"m={m} n={n} k={k} layout={layout} arch={arch}"
    for arch in ("sm_75", "sm_80", "sm_90")
    for m, n, k, layout in ((4096, 4096, 4096, "nt"), (16, 4096, 4096, "nn"), (999, 999, 999, "tt"))
]
STAPLES.append("m=4096 n=320 k=320 layout=nt epilogue=bias arch=sm_80")  # five slices by two warps

COPIES = [
    f"{text} arch={arch} repack=on"
    for arch in ("sm_90", "sm_100", "sm_120")
    for text in ("m=1000 n=999 k=235", "m=1000 n=14 k=235 dtype=int8 layout=nt")
]

NORMS = [  # sums of parts of k, read ahead
    f"m=4096 n=1000 k=64 split_k=4 layout=nt epilogue=layer_norm arch={arch}"
    for arch in ("sm_90", "sm_100")
]
NORMS += [  # 32 bits an element on their way; rows that are read anew
    f"op=epilogue m=64 n={n} dtype=fp32 epilogue={steps} arch={arch}"
    for n, steps in ((4096, "layer_norm"), (5120, "residual,layer_norm"), (100000, "rms_norm"))
    for arch in ("sm_80", "sm_90", "sm_100")
]
NORMS.append("m=64 n=4100 k=64 dtype_c=fp32 layout=nt epilogue=layer_norm arch=sm_90")


def assert_fits(spec: GemmSpec) -> None:
    """P19: no plan that the tree picks spills, and its blocks are resident as planned."""
    arch = load_arch(spec.arch)
    program = decide(spec, arch)
    built = build_cubin(render_program(program), name=program.name, arch=arch.name)
    for plan in program.kernels:
        used = built.resources[plan.name]
        blocks = plan.body.min_blocks if isinstance(plan.body, MmaSync) else 1
        cap = register_cap(plan.threads, blocks, machine_of(arch, spec.dtype_a.name))
        assert used.registers <= cap, spec
        assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes) == (0, 0, 0), spec
        assert used.shared_bytes == 0, spec  # static: what the refusals say


FEW_SLICES = [  # whose tests ptxas made before the first slice, and kept
    f"m=dynamic:384 n=50257 k={k} dtype=bf16 layout=nt arch=sm_80" for k in (192, 255, 384)
]


FP8 = [  # sums that leave the tensor core, all of which ptxas would have waited in registers
    f"{text} dtype=e4m3 arch={arch}{scales}"
    for arch, scales in (
        ("sm_89", ""),
        ("sm_89", " scale_a=1x128 scale_b=128x128"),
        ("sm_120", " scale_a=1x128 scale_b=128x128"),
    )
    for text in ("m=4096 n=4096 k=7168 layout=nt", "m=1008 n=1024 k=144 layout=tn epilogue=swiglu")
]


@pytest.mark.parametrize("text", STAPLES + COPIES + NORMS + FEW_SLICES + FP8)
def test_staples_compile_without_spills(text: str) -> None:
    assert_fits(GemmSpec.from_text(text))


def test_a_sample_compiles_without_spills() -> None:
    rng = random.Random(41)
    for _ in range(8):
        assert_fits(random_spec(rng))


@pytest.mark.full
def test_forty_of_fp8_compile_without_spills() -> None:
    rng = random.Random(44)
    for _ in range(40):
        assert_fits(fp8_spec(rng))


@pytest.mark.full
def test_sixty_specs_compile_without_spills() -> None:
    rng = random.Random(42)
    for _ in range(60):
        assert_fits(random_spec(rng))


def assert_nothing_spills(text: str) -> None:
    """The same of any program's kernels, whatever their static shared memory."""
    spec = GemmSpec.from_text(text)
    program = decide(spec, load_arch(spec.arch))
    built = build_cubin(render_program(program), name=program.name, arch=program.target)
    for plan in program.kernels:
        used = built.resources[plan.name]
        spilled = (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes)
        assert spilled == (0, 0, 0), f"{plan.name}: {text}"


TARGETS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")

ROWS = "op=epilogue m=4096 n={} dtype={} epilogue={}"
RUN_TIME_ROWS = [
    ROWS.format(f"dynamic:{n}", dtype, steps)
    for n in (768, 1000, 4096, 20000)
    for dtype in ("fp16", "bf16", "fp32", "int32", "int8", "e4m3")
    for steps in ("layer_norm", "gelu,rms_norm", "residual,layer_norm,quantize:int8")
]
"""Rows whose length a launch tells: a text of vectors, and one of elements."""

ODD_ROWS = [
    ROWS.format(n, dtype, "residual,layer_norm,quantize:int8")
    for n in (999, 4097)
    for dtype in ("fp16", "fp32", "int8", "e5m2")
]
LONG_ROWS = [
    f"op=epilogue m=64 n={n} epilogue=quantize:{dtype}:dynamic"
    for n in (40960, 40961, 60000, 65536)
    for dtype in ("int8", "e4m3")
]
GRID = [
    f"{text} arch={arch}" for text in (*RUN_TIME_ROWS, *ODD_ROWS, *LONG_ROWS) for arch in TARGETS
]

SPILLED = [  # each did, by 16 to 768 bytes
    "op=epilogue m=4096 n=dynamic:768 dtype=fp16 epilogue=gelu,layer_norm arch=sm_90a",
    "op=epilogue m=4096 n=dynamic:4096 dtype=fp16 epilogue=layer_norm arch=sm_100a",
    "op=epilogue m=4096 n=dynamic:4096 dtype=fp32 epilogue=layer_norm arch=sm_120",
    (
        "op=epilogue m=4096 n=dynamic:1000 dtype=fp32 epilogue=residual,layer_norm,quantize:int8"
        " arch=sm_90a"
    ),
    "op=epilogue m=4096 n=dynamic:20000 dtype=fp32 epilogue=residual,store,rms_norm arch=sm_100a",
    "op=epilogue m=4096 n=4097 dtype=int8 epilogue=residual,layer_norm,quantize:int8 arch=sm_80",
    "op=epilogue m=64 n=65536 epilogue=quantize:int8:dynamic arch=sm_80",
    "op=epilogue m=64 n=60000 epilogue=quantize:e4m3:dynamic arch=sm_90a",
    "m=512 n=1024 k=512 batch=8 dtype=int8 layout=nt arch=sm_80",
    "m=512 n=512 k=512 batch=8 dtype=int8 layout=nt arch=sm_80",
    "m=512 n=dynamic:4096 k=256 layout=nt epilogue=gelu,quantize:int8 arch=sm_86",
    (
        "m=dynamic:512 n=dynamic:1000 k=768 dtype=int8 layout=nt batch=8"
        " epilogue=bias,gelu,quantize:int8 arch=sm_89"
    ),
    "m=1000 n=dynamic:1000 k=128 dtype=fp16 layout=nt batch=8 epilogue=gelu arch=sm_89",
    (
        "m=dynamic:4096 n=dynamic:4096 k=192 dtype=int8 layout=tn batch=2"
        " epilogue=bias,gelu,quantize:int8 family=mma_sync arch=sm_86"
    ),
    "m=384 n=dynamic:4096 k=128 layout=tn batch=8 family=mma_sync arch=sm_80",
    "m=4096 n=dynamic:4096 k=256 layout=nn dtype=bf16 repack=on arch=sm_120",
    "m=dynamic:8 n=dynamic:4096 k=dynamic:4096 layout=tt align_a=4 family=bandwidth arch=sm_100",
    (
        "m=5 n=8192 k=dynamic:4096 align_a=4 align_b=4 lda=4100 epilogue=bias,gelu,quantize:int8"
        " family=bandwidth arch=sm_90a"
    ),
    "m=dynamic:16 n=4096 k=4095 layout=tt align_a=2 family=bandwidth arch=sm_90a",
    "m=5 n=28672 k=256 align_a=4 align_b=8 family=bandwidth arch=sm_89",
    "m=1 n=28672 k=1000 layout=tn align_a=4 epilogue=residual family=bandwidth arch=sm_120",
    "m=dynamic:4096 n=2 k=4098 dtype=bf16 layout=tt family=bandwidth arch=sm_89",
]


@pytest.mark.parametrize("text", SPILLED)
def test_what_spilled_does_no_more(text: str) -> None:
    assert_nothing_spills(text)


@pytest.mark.full
@pytest.mark.parametrize("text", GRID)
def test_rows_compile_without_spills(text: str) -> None:
    assert_nothing_spills(text)


def assert_wgmma_fits(spec: GemmSpec) -> bool:
    """The same of a plan for sm_90a; ptxas must not serialise wgmma nor drop setmaxnreg."""
    program = decide(spec, load_arch(spec.arch))
    if program.target != "sm_90a":
        return False
    source = render_program(program)
    built = build_cubin(source, name=program.name, arch="sm_90a")  # C75xx is an error
    for plan in program.kernels:
        used = built.resources[plan.name]
        assert used.registers * plan.body.threads <= 65536, spec
        assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes) == (0, 0, 0), spec
    return True


@pytest.mark.parametrize(
    "text",
    [
        "m=4096 n=4096 k=4096 layout=nt",
        "m=784 n=512 k=2048 layout=tn lda=784 dtype=bf16 epilogue=bias,relu",
        "m=512 n=6144 k=4096 layout=nt dtype=int8",  # 192 sums, slabs, consumers in turn
    ],
)
def test_wgmma_staples_compile_without_spills(text: str) -> None:
    assert assert_wgmma_fits(GemmSpec.from_text(f"{text} arch=sm_90a"))


@pytest.mark.full
def test_forty_wgmma_plans_compile_without_spills() -> None:
    rng = random.Random(43)
    fitting = 0
    while fitting < 40:
        fitting += assert_wgmma_fits(hopper_spec(rng))


def test_the_sample_reaches_every_architecture() -> None:
    rng = random.Random(42)
    assert {random_spec(rng).arch for _ in range(80)} == set(known_architectures())
