"""The arithmetic of a benchmark."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.harness.bench_ceilings import (
    MMA,
    READ,
    WGMMA,
    WRITE,
    datasheet,
    tensor_kernels,
)
from deepgemm_codegen.harness.bench_stats import (
    GRAPH_US,
    LAUNCHES,
    MOST_SETS,
    ROTATE_BYTES,
    Ceilings,
    Timing,
    Work,
    geometric_mean,
    group_of,
    launches_for,
    sets_for,
    work_of,
)
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin
from tests.harness.support import plan_of

positive = st.floats(1e-3, 1e9)


@given(st.lists(positive, min_size=1, max_size=30))
def test_a_geometric_mean_lies_between_and_scales(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert geometric_mean([2 * v for v in values]) == pytest.approx(2 * mean)
    assert geometric_mean([1 / v for v in values]) == pytest.approx(1 / mean)


def test_the_geometric_mean_of_nothing_is_no_number() -> None:
    assert math.isnan(geometric_mean([]))
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


@given(st.lists(positive, min_size=1, max_size=9))
def test_a_timing_is_ordered(samples: list[float]) -> None:
    timing = Timing.of(samples)
    assert timing.least_us <= timing.median_us <= timing.most_us
    assert timing.spread >= 0.0
    assert Timing.of(samples[::-1]) == timing


def test_rates() -> None:
    timing, work = Timing(100.0, 99.0, 104.0), Work(2.0 * 4096**3, 3 * 2.0 * 4096**2)
    assert timing.tflops(work) == pytest.approx(1374.389, abs=1e-3)
    assert timing.gbs(work) == pytest.approx(1006.633, abs=1e-3)
    assert timing.spread == pytest.approx(0.05)
    assert work.intensity == pytest.approx(4096 / 3)
    assert Work(1.0, 0.0).intensity == math.inf


@given(st.integers(0, 1 << 34), st.one_of(st.none(), st.integers(0, 1 << 38)))
def test_sets_rotate_past_the_cache_as_far_as_memory_allows(size: int, free: int | None) -> None:
    sets = sets_for(size, free)
    assert 1 <= sets <= MOST_SETS
    if free is None and sets < MOST_SETS:
        assert sets * max(size, 1) >= ROTATE_BYTES
        assert sets == 1 or (sets - 1) * max(size, 1) < ROTATE_BYTES
    elif free is not None and sets > 1:
        assert sets * size <= free


@given(st.integers(1, MOST_SETS), st.floats(0.0, 1e6))
def test_a_graph_uses_every_set_equally_often(sets: int, roof_us: float) -> None:
    launches = launches_for(sets, roof_us)
    assert launches % sets == 0
    assert launches >= LAUNCHES
    assert launches * max(roof_us, 2.0) >= GRAPH_US
    wanted = max(LAUNCHES, math.ceil(GRAPH_US / max(roof_us, 2.0)))
    assert launches - sets < wanted  # and no more than that takes


def test_the_work_of_a_problem() -> None:
    problem = bind(plan_of("m=100 n=72 k=80 dtype_c=fp32 dtype_d=fp32 epilogue=bias:row:fp32"))
    flop = 2.0 * 100 * 72 * 80
    operands = 2 * (100 * 80 + 80 * 72) + 4 * 100 * 72 + 4 * 100
    assert work_of(problem) == Work(flop, operands, 4 * 100 * 72)  # beta = 0: C is not read
    with_c = bind(
        plan_of("m=100 n=72 k=80 dtype_c=fp32 dtype_d=fp32 epilogue=bias:row:fp32"), beta=0.5
    )
    assert work_of(with_c) == Work(flop, operands + 4 * 100 * 72, 4 * 100 * 72)


def test_padding_is_no_work() -> None:
    padded = bind(plan_of("m=64 n=48 k=32 batch=3 lda=40 ldd=56"))
    read, written = 3 * 2.0 * (64 * 32 + 32 * 48), 3 * 2.0 * 64 * 48
    assert work_of(padded) == Work(3 * 2.0 * 64 * 48 * 32, read + written, written)


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("m=8 n=64 k=64 batch=2", "batched, fp16"),
        ("m=16 n=4096 k=4096", "decode (m <= 16), fp16"),
        ("m=1023 n=1023 k=1023", "unaligned (n or k no multiple of 8), fp16"),
        ("m=4096 n=320 k=320 dtype=bf16", "short k (k < 512), bf16"),
        ("m=384 n=3072 k=768", "few rows (m < 512), fp16"),
        ("m=512 n=6144 k=4096", "aligned, fp16"),
        ("m=4096 n=32768 k=512", "aligned, fp16"),
    ],
)
def test_groups(text: str, group: str) -> None:
    assert group_of(GemmSpec.from_text(text)) == group


def test_ceilings_bound_by_memory_or_by_arithmetic() -> None:
    ceilings = Ceilings(4000.0, {"mma.sync": 600.0, "wgmma": 900.0})
    many, few = Work(900e12 * 1e-3, 1.0), Work(1.0, 4e9)
    assert ceilings.roof_us(many, "wgmma") == pytest.approx(1000.0)
    assert ceilings.roof_us(many, "mma.sync") == pytest.approx(1500.0)
    assert ceilings.roof_us(few, "wgmma") == pytest.approx(1000.0)
    assert Ceilings(1.0, {"mma.sync": 600.0}).roof_us(many, "wgmma") == pytest.approx(1500.0)
    assert ceilings.fraction(Timing(2000.0, 0, 0), few, "wgmma") == pytest.approx(0.5)


def test_what_is_written_takes_its_own_rate_beside_what_is_read() -> None:
    both = Ceilings(4000.0, {"mma.sync": 600.0}, write_gbs=2000.0)
    work = Work(1.0, bytes=6e9, written=2e9)
    assert both.roof_us(work, "mma.sync") == pytest.approx(2000.0)
    assert replace(both, write_gbs=0.0).roof_us(work, "mma.sync") == pytest.approx(1500.0)
    assert both.best_of(replace(both, write_gbs=2500.0)).write_gbs == 2500.0


def test_the_better_measurement_counts_and_beats_the_data_sheet() -> None:
    sheet = Ceilings(4800.0, {"mma.sync": 611.0}, (), (("memory", "no room"),))
    first = Ceilings(4400.0, {"mma.sync": 590.0}, ("memory", "mma.sync"))
    second = Ceilings(4500.0, {"mma.sync": 580.0}, ("memory", "mma.sync"))
    assert first.best_of(second) == Ceilings(4500.0, {"mma.sync": 590.0}, ("memory", "mma.sync"))
    both = sheet.best_of(first)
    assert (both.gbs, both.tflops, both.measured) == (4400.0, {"mma.sync": 590.0}, first.measured)
    assert both == Ceilings(4400.0, {"mma.sync": 590.0}, first.measured, (("memory", "no room"),))


def test_the_data_sheet_is_that_of_the_named_gpu() -> None:
    assert datasheet("sm_90", "NVIDIA H200", 132).gbs == 4800.0
    h100 = datasheet("sm_90", "NVIDIA H100 80GB HBM3", 132)
    assert h100.gbs == 3350.0
    assert h100.tflops["wgmma"] == pytest.approx(949, abs=1)
    assert h100.tflops["mma.sync"] == pytest.approx(612, abs=1)
    unknown = datasheet("sm_80", "Paper GPU", 108)
    assert list(unknown.tflops) == ["mma.sync", "fp32 FMA"]
    assert unknown.measured == ()


def test_the_ceiling_kernels_compile_to_what_they_claim() -> None:
    by_unit = {kernel.unit: kernel for kernel in tensor_kernels("sm_90")}
    assert {unit: kernel.arch for unit, kernel in by_unit.items()} == {
        "mma.sync": "sm_90",
        "wgmma": "sm_90a",
    }
    assert [kernel.unit for kernel in tensor_kernels("sm_86")] == ["mma.sync"]
    assert tensor_kernels("sm_75") == ()
    for source, kernel, word in (
        (MMA, "mma.sync", "mma.sync."),
        (WGMMA, "wgmma", "wgmma.mma_async"),
    ):
        one = by_unit[kernel]  # type: ignore[index]
        built = build_cubin(source, name=one.name, arch=one.arch)
        assert one.source is source
        assert word in built.ptx
        assert built.resources[one.name].spill_store_bytes == 0
    assert set(build_cubin(READ, name="read", arch="sm_80").resources) == {"read_4", "read_8"}
    assert set(build_cubin(WRITE, name="write", arch="sm_80").resources) == {"write_4", "write_8"}
