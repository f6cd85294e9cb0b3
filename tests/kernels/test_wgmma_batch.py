"""wgmma with a batch: maps of three dimensions, judged on the emulator in every layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.decide import WgmmaChoice
from tests.harness.support import assert_right

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

COOPERATIVE = WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 2)
IN_TURN = WgmmaChoice(64, 64, 2, 2, 3, 1, 1, 2)
ACROSS_M = WgmmaChoice(128, 64, 2, 1, 3, 2, 1, 2)
ACROSS_N = WgmmaChoice(64, 64, 1, 1, 3, 1, 2, 2)
CUT = WgmmaChoice(128, 64, 2, 1, 3, 1, 1, 2, 3)


def every_other(choices: dict[str, WgmmaChoice], layouts: list[str]) -> list[ParameterSet]:
    """All pairs of a choice and a layout, of which half belong to the full run."""
    pairs = [(name, layout) for layout in layouts for name in choices]
    return [
        pytest.param(
            choices[name],
            layout,
            id=f"{name}-{layout}",
            marks=[pytest.mark.full] * ((i // len(choices) + i) % 2),
        )
        for i, (name, layout) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("choice", "layout"),
    every_other({"together": COOPERATIVE, "in turn": IN_TURN}, ["nn", "nt", "tn", "tt"]),
)
def test_every_layout_with_tails(choice: WgmmaChoice, layout: str) -> None:
    """A tail of one product reads zeros, not the first rows of the next."""
    assert_right(
        f"m=200 n=136 k=72 batch=3 layout={layout} dtype_c=fp16 epilogue=bias,residual arch=sm_90a",
        choice,
        effort=0.1,
    )


@pytest.mark.parametrize(
    ("choice", "layout"),
    every_other({"shares B": ACROSS_M, "shares A": ACROSS_N}, ["nn", "tt"]),
)
def test_clusters(choice: WgmmaChoice, layout: str) -> None:
    assert_right(f"m=200 n=136 k=72 batch=3 layout={layout} arch=sm_90a", choice, effort=0.1)


@pytest.mark.parametrize("layout_d", ["n", "t"])
def test_dynamic_m_and_k_and_slabs(layout_d: str) -> None:
    """The distance between products is known only when m and k are."""
    assert_right(
        "m=dynamic:150 n=101 k=dynamic:100 batch=5 layout=nt lda=104 ldb=104 ldd=152 dtype_c=fp32"
        f" epilogue=bias,store,relu arch=sm_90a layout_d={layout_d}",
        WgmmaChoice(64, 48, 1, 1, 4, 1, 1, 2),
        effort=0.1,
    )


def test_parts_of_k_of_every_product() -> None:
    assert_right(
        "m=200 n=136 k=520 batch=3 layout=nt dtype_c=fp16 epilogue=bias arch=sm_90a",
        CUT,
        effort=0.1,
    )


@pytest.mark.parametrize(
    "fields",
    ["dtype=int8 dtype_c=int32", "dtype=e4m3 epilogue=scale:row:fp32,quantize:e4m3"],
    ids=["int8", "fp8"],
)
def test_elements_of_one_byte(fields: str) -> None:
    choice = WgmmaChoice(64, 64, 1, 1, 3, 1, 1, 2, tile_k=128)
    assert_right(f"m=100 n=96 k=144 batch=3 layout=nt {fields} arch=sm_90a", choice, effort=0.1)


@pytest.mark.parametrize(
    ("choice", "layout"),
    every_other(
        {
            "in turn": WgmmaChoice(64, 128, 2, 2, 3, 1, 1, 2),
            "shares B": WgmmaChoice(128, 128, 2, 1, 3, 2, 1, 2),
        },
        ["nt", "nn"],
    ),
)
def test_pairs_of_columns(choice: WgmmaChoice, layout: str) -> None:
    """B's second half is that of the same product."""
    text = f"m=200 n=136 k=72 batch=3 layout={layout} epilogue=swiglu,residual arch=sm_90a"
    assert_right(text, choice, effort=0.1)


def test_computed_scales_of_rows() -> None:
    """The product leaves fp32 values of every product, whatever D's stride is."""
    assert_right(
        "m=40 n=72 k=72 batch=3 layout=nt stride_b=shared stride_d=5000"
        " epilogue=quantize:e4m3:dynamic arch=sm_90a",
        None,
        effort=0.1,
    )


def test_more_products_than_a_grid_dimension_has() -> None:
    """O09 of the known faults: the batch is folded into what persistent blocks walk."""
    for batch in (65535, 65537):
        assert_right(f"m=8 n=8 k=8 batch={batch} layout=nt arch=sm_90a", IN_TURN, effort=0.05)
