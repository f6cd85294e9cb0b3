"""How a wgmma kernel's tile begins and ends: the first copies, the raster's height, D's boxes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.render.kernel_text import text_of
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan


def plan_of(choice: tuple[int, ...], **fields: Any) -> KernelPlan:
    spec = GemmSpec.from_fields({"n": 512, "k": 512, "layout": "nt", "arch": "sm_90a", **fields})
    return WgmmaChoice(*choice).program(spec, load_arch(spec.arch)).product


@pytest.mark.parametrize(
    ("choice", "fields", "early"),
    [
        ((64, 128, 1, 1, 4, 1, 1, 8), {}, True),
        ((64, 128, 2, 2, 4, 1, 1, 8), {}, True),
        ((128, 128, 2, 1, 4, 1, 1, 8), {"batch": 3}, True),
        ((128, 128, 2, 1, 4, 2, 1, 8), {}, False),  # the other block's barriers
        ((64, 128, 1, 1, 4, 1, 1, 8), {"launch": "dependent"}, False),  # the kernel before
    ],
)
def test_a_block_that_waits_for_nobody_starts_its_first_copies_at_once(
    choice: tuple[int, ...], fields: dict[str, Any], early: bool
) -> None:
    source = render_kernel(plan_of(choice, m=512, **fields))
    meets = source.index("cluster_sync();  //" if "cluster_sync()" in source else "\n    __syncthr")
    assert (source.index("mbarrier_arrive_expect(barrier") < meets) == early


def test_parts_of_k_start_early_apart_and_not_in_a_cluster() -> None:
    choice = (64, 128, 1, 1, 4, 1, 1, 8)
    spec = GemmSpec.from_text("m=512 n=512 k=4096 layout=nt arch=sm_90a")
    arch = load_arch(spec.arch)
    apart = WgmmaChoice(*choice, split_k=4).program(spec, arch).product
    together = WgmmaChoice(*choice, split_k=4, cluster_k=4).program(spec, arch).product
    assert apart.starts_early
    assert not together.starts_early


@pytest.mark.parametrize(
    ("fields", "parts", "slices", "slot", "parity"),
    [
        ("m=512 n=512 k=256", 1, "STAGES", "0", "0"),  # as many as there are slots
        ("m=512 n=512 k=320", 1, "STAGES", "0", "0"),
        ("m=512 n=512 k=192", 1, "SLICES", "started", "1"),
        ("m=512 n=512 k=384", 2, "SLICES / SPLIT_K", "started", "1"),
        ("m=512 n=512 k=576", 2, "STAGES", "0", "0"),  # four and five
        ("m=512 n=512 k=448", 2, "SLICES / SPLIT_K", "started", "1"),  # three and four
        ("m=512 n=512 k=dynamic:512 lda=512 ldb=512", 1, "started", "started % STAGES",
         "started < STAGES"),
    ],
)  # fmt: skip
def test_what_is_started_before_a_block_meets_is_a_constant_where_k_tells(
    fields: str, parts: int, slices: str, slot: str, parity: str
) -> None:
    spec = GemmSpec.from_text(f"{fields} layout=nt arch=sm_90a")
    choice = WgmmaChoice(64, 128, 1, 1, 4, 1, 1, 8, split_k=parts)
    source = render_kernel(choice.program(spec, load_arch(spec.arch)).product)
    assert (
        "if (started > 0) {" in source if slices == "started" else "if (alpha != 0.0f) {" in source
    )
    assert f"for (int slice = 1; slice < {slices}; ++slice)" in source
    assert f"        int slot = {slot};\n        u32 parity = {parity};" in source
    assert ("min(static_cast<int>(STAGES), slices_to_sum)" in source) == (slices == "started")


@pytest.mark.parametrize(
    ("choice", "rows", "by_warp"),
    [
        ((64, 128, 1, 1, 4, 1, 1, 8), 16, True),
        ((128, 128, 2, 1, 4, 1, 1, 8), 16, True),
        ((256, 128, 2, 1, 3, 1, 1, 8), 16, True),
        ((128, 128, 2, 2, 4, 1, 1, 8), 128, False),
    ],
)
def test_warps_store_their_own_rows_unless_consumers_take_turns(
    choice: tuple[int, ...], rows: int, by_warp: bool
) -> None:
    plan = plan_of(choice, m=512)
    box = next(each for each in plan.tensor_maps if each.name == "map_d")
    assert box.box_outer == rows
    source = render_kernel(plan)
    assert ("if (elect_one()) {  // a warp's rows" in source) == by_warp
    assert ("named_barrier(1 + consumer);" in source) != by_warp


@given(st.integers(1, 4000), st.integers(1, 40), st.booleans())
def test_a_constant_height_is_that_of_every_group(m: int, group: int, clustered: bool) -> None:
    """What stands in the place of a divisor is what `plan.Grid.tile_of` divides by."""
    plan = plan_of((64, 128, 1, 1, 4, 1 + clustered, 1, group), m=m)
    rows = -(-m // (64 * (1 + clustered)))
    heights = {min(group, rows - first) for first in range(0, rows, group)}
    height = text_of(plan).height
    if len(heights) == 1:
        assert height == ("RASTER_GROUP" if heights == {group} else plan_rows(clustered))
    else:
        assert height.startswith("min(")


def plan_rows(clustered: bool) -> str:
    return "clusters_m" if clustered else "TILES_M"


def test_a_dynamic_m_is_divided_by_what_the_launch_says() -> None:
    assert text_of(plan_of((64, 128, 1, 1, 4, 1, 1, 8), m="dynamic:512")).height.startswith("min(")
