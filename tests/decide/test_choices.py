"""What the tree picks for shapes whose good answer is known, and faults that others had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.spec import GemmSpec
from tests.decide.specs import mma_body

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan


def plan_of(text: str, **facts: int) -> KernelPlan:
    spec = GemmSpec.from_text(text)
    return decide(spec, load_arch(spec.arch, spec.gpu, **facts)).kernels[0]


def tile(plan: KernelPlan) -> tuple[int, int, int]:
    return mma_body(plan).tile_m, mma_body(plan).tile_n, mma_body(plan).tile_k


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_large_products_take_large_warp_tiles(arch: str) -> None:
    body = mma_body(plan_of(f"m=4096 n=4096 k=4096 layout=nt arch={arch}"))
    assert sorted((body.tile_m, body.tile_n)) == [128, 256]
    assert (body.warp_m, body.warp_n) == (64, 64)
    assert body.tile_k in (32, 64)
    assert 3 <= body.stages <= 5


@pytest.mark.parametrize("m", [1, 2, 4, 8, 16])
def test_decode_reads_memory_with_flat_tiles_and_many_bytes_in_flight(m: int) -> None:
    plan = plan_of(f"m={m} n=4096 k=4096 layout=nt arch=sm_90 family=mma_sync split_k=1")
    assert mma_body(plan).tile_m == 16
    assert mma_body(plan).tile_k >= 64
    assert plan.blocks.evaluate({}) >= 120
    in_flight = (mma_body(plan).stages - 1) * mma_body(plan).stage_bytes * mma_body(plan).min_blocks
    assert in_flight > 32_000  # 3,350 GB/s for 600 ns over 132 SMs is 15,000


def test_a_small_output_fills_the_multiprocessors_once() -> None:
    plan = plan_of("m=4096 n=320 k=320 layout=nt arch=sm_90")
    assert tile(plan) == (128, 80, 64)
    assert plan.blocks.evaluate({}) == 128  # of 132


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("m=48 n=28672 k=4096 layout=nt arch=sm_90", 48),
        ("m=80 n=28672 k=4096 layout=nt arch=sm_80", 80),
        ("m=77 n=14336 k=4096 layout=nt arch=sm_90", 80),
        ("m=96 n=8192 k=8192 layout=nt arch=sm_80", 96),
        ("m=1040 n=1040 k=4096 layout=nt arch=sm_90", 96),
    ],
)
def test_tiles_are_not_only_powers_of_two(text: str, wanted: int) -> None:
    assert mma_body(plan_of(text)).tile_m == wanted


def test_the_multiprocessor_count_moves_the_tile() -> None:
    text = "m=2048 n=2048 k=2048 layout=nt arch=sm_80"
    many, few = plan_of(text, sms=108), plan_of(text, sms=16)
    assert tile(many) != tile(few)


def test_tiny_products_get_tiny_kernels() -> None:
    plan = plan_of("m=1 n=1 k=1 arch=sm_90")
    assert (plan.body.threads, plan.blocks.evaluate({})) == (32, 1)
    plan = plan_of("m=1 n=1 k=1 arch=sm_90 family=mma_sync")
    assert tile(plan) == (16, 8, 16)
    assert mma_body(plan).stages == 2
    assert mma_body(plan).threads == 32
    assert plan.blocks.evaluate({}) == 1
    assert plan.schedule.raster_group == 1


def test_p12_the_planner_drops_to_three_stages() -> None:
    fixed = "m=4096 n=4096 k=4096 tile_m=128 tile_n=128 tile_k=64"
    for arch in ("sm_86", "sm_89", "sm_120"):
        body = mma_body(plan_of(f"{fixed} arch={arch}"))
        assert body.stages <= 3
        assert body.shared_bytes <= 98304
    assert mma_body(plan_of(f"{fixed} arch=sm_80 stages=4")).shared_bytes == 131072


def test_p20_one_kernel_under_two_limits() -> None:
    ample = mma_body(plan_of("m=4096 n=4096 k=4096 layout=nt arch=sm_80"))
    scarce = mma_body(plan_of("m=4096 n=4096 k=4096 layout=nt arch=sm_89"))
    assert ample.shared_bytes > 101376 >= scarce.shared_bytes


def test_t15_every_column_has_a_warp() -> None:
    plan = plan_of("m=16 n=104 k=64 warps_n=12 family=mma_sync arch=sm_80")
    assert mma_body(plan).warps_n == 12
    assert mma_body(plan).warp_n * 12 == mma_body(plan).tile_n
    assert plan.n.tiles * mma_body(plan).tile_n >= 104


def raster(plan: KernelPlan) -> list[tuple[int, int]]:
    """Tiles in block order, as the generated index arithmetic has them."""
    group_rows, tiles_m, tiles_n = plan.schedule.raster_group, plan.m.tiles, plan.n.tiles
    order = []
    for block in range(tiles_m * tiles_n):
        group, within = divmod(block, group_rows * tiles_n)
        height = min(group_rows, tiles_m - group * group_rows)
        order.append((group * group_rows + within % height, within // height))
    return order


@pytest.mark.parametrize("group", [1, 3, 5, 8, 32])
def test_t17_every_tile_once_whatever_the_group(group: int) -> None:
    plan = plan_of(f"m=512 n=576 k=64 tile_n=64 raster_group={group} arch=sm_80")
    order = raster(plan)
    assert plan.n.tiles == 9
    assert sorted(order) == [(i, j) for i in range(plan.m.tiles) for j in range(9)]


def test_o12_a_long_row_of_tiles_fits_the_grid() -> None:
    plan = plan_of("m=16 n=4194305 k=16 tile_n=64 dtype_c=fp16 arch=sm_80")
    assert plan.n.tiles == 65537
    assert plan.blocks.evaluate({}) == 65537 * plan.m.tiles


def test_a06_narrow_operands_are_not_copied_asynchronously() -> None:
    plan = plan_of("m=64 n=64 k=63 lda=63 align_a=2 align_b=2 arch=sm_80")
    assert mma_body(plan).a.mechanism == "registers"
    assert mma_body(plan).a.vector_bytes == 2
    assert mma_body(plan).stages == 2


@pytest.mark.parametrize("text", ["m=1 n=64 k=64 lda=64", "m=64 n=1 k=64 ldb=1", "m=1 n=1 k=1"])
def test_a15_single_rows_and_columns_are_planned(text: str) -> None:
    assert plan_of(f"{text} arch=sm_80").blocks.evaluate({}) >= 1


def test_an_empty_sum_is_planned() -> None:
    assert mma_body(plan_of("m=100 n=100 k=0 arch=sm_80")).stages == 2


def test_a_transposed_output_swaps_the_roles() -> None:
    plan = plan_of("m=4096 n=16 k=4096 layout=tn layout_d=t arch=sm_90 family=mma_sync")
    assert mma_body(plan).tile_m == 16
    assert plan.m.name == "N"


def test_decisions_are_numbered_short_and_complete() -> None:
    questions = (
        "family", "mma shape", "tile", "warps", "copy of A", "copy of B", "swizzle", "stages",
        "occupancy", "raster", "store",
    )  # fmt: skip
    for text in (
        "m=1 n=1 k=1 family=mma_sync arch=sm_75",
        "m=2147482624 n=32768 k=2147482624 dtype=bf16 arch=sm_90",
        "m=1023 n=50257 k=999 batch=65535 dtype_c=fp16 align_a=2 layout_d=t arch=sm_86",
    ):
        decisions = plan_of(text).decisions
        assert tuple(decision.question for decision in decisions) == questions
        assert [decision.id for decision in decisions] == [f"D{i:02}" for i in range(1, 12)]
        for decision in decisions:
            assert 0 < len(decision.reason) <= 90
            assert len(decision.choice) <= 40
            assert decision.rival == ""


@pytest.mark.parametrize(
    ("text", "few"),
    [
        ("m=dynamic:4096 n=4097 k=512 epilogue=bias,gelu", True),
        ("m=4096 n=dynamic:4096 k=512 epilogue=bias,gelu", True),
        ("m=dynamic:4096 n=4097 k=512 epilogue=bias,relu", False),  # no polynomial
        ("m=dynamic:4096 n=4096 k=512 epilogue=bias,gelu", False),  # four elements at a time
        ("m=4096 n=4097 k=512 epilogue=bias,gelu", False),  # no test of an element's own
        # A kernel behind the product takes the steps.
        ("m=dynamic:64 n=63 k=16384 split_k=4 epilogue=bias,gelu", False),
        ("m=dynamic:4096 n=4097 k=512 epilogue=gelu,layer_norm", False),
    ],
)
def test_elements_that_leave_one_by_one_leave_in_few_passes(text: str, few: bool) -> None:
    assert mma_body(plan_of(f"{text} layout=nt arch=sm_90 family=mma_sync")).few_passes is few
