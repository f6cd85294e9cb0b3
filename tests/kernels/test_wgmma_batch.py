"""wgmma with a batch: maps of three dimensions, judged on the emulator in every layout."""

from __future__ import annotations

import pytest

from deepgemm_codegen.decide import WgmmaChoice
from tests.harness.support import assert_right

COOPERATIVE = WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 2)
IN_TURN = WgmmaChoice(64, 64, 2, 2, 3, 1, 1, 2)
ACROSS_M = WgmmaChoice(128, 64, 2, 1, 3, 2, 1, 2)
ACROSS_N = WgmmaChoice(64, 64, 1, 1, 3, 1, 2, 2)
CUT = WgmmaChoice(128, 64, 2, 1, 3, 1, 1, 2, 3)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("choice", [COOPERATIVE, IN_TURN], ids=["together", "in turn"])
def test_every_layout_with_tails(choice: WgmmaChoice, layout: str) -> None:
    """A tail of one product reads zeros, not the first rows of the next."""
    assert_right(
        f"m=200 n=136 k=72 batch=3 layout={layout} dtype_c=fp16 epilogue=bias,residual arch=sm_90a",
        choice,
        effort=0.1,
    )


@pytest.mark.parametrize("choice", [ACROSS_M, ACROSS_N], ids=["shares B", "shares A"])
@pytest.mark.parametrize("layout", ["nn", "tt"])
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


@pytest.mark.parametrize("layout", ["nt", "nn"])
@pytest.mark.parametrize(
    "choice",
    [WgmmaChoice(64, 128, 2, 2, 3, 1, 1, 2), WgmmaChoice(128, 128, 2, 1, 3, 2, 1, 2)],
    ids=["in turn", "shares B"],
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
