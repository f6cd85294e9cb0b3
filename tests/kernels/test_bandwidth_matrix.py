"""Every architecture's kernel of the bandwidth family, through a matrix of tails and layouts.

Each cell goes the whole way, as in `test_tails_matrix`: the sampled run draws cells by a fixed
seed, the full run takes them all.
"""

from __future__ import annotations

import itertools
import random

import pytest

from deepgemm_codegen.arch import known_architectures
from tests.kernels.test_tails_matrix import LAYOUTS, judge

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")

SIZES = (
    # m, n, k: whole tiles, tails of n, of k, of both; the short side of 1, 8, 9 to 16; n short.
    (1, 128, 256),
    (8, 200, 72),
    (13, 101, 107),
    (16, 136, 128),
    (120, 5, 72),
    (101, 16, 107),
    (64, 1, 128),
    (1, 1, 1),
    (3, 9, 0),
)

EXTRAS = (
    "",
    "dtype_d=fp32 epilogue=bias,residual:fp16,relu",
    "dtype_c=fp16 layout_d=t epilogue=bias:row",
    "batch=3 align_a=2",
    "align_b=4",
)

CELLS = [
    f"m={m} n={n} k={k} layout={layout} arch={arch} family=bandwidth {extra}".rstrip()
    for arch, (m, n, k), layout, extra in itertools.product(
        known_architectures(), SIZES, LAYOUTS, EXTRAS
    )
]
CELLS += [
    f"m=dynamic:{m} n=dynamic:{n} k=dynamic:{k} layout={layout} arch=sm_80 family=bandwidth"
    for (m, n, k), layout in itertools.product(((16, 100, 200), (100, 7, 200)), LAYOUTS)
]

SAMPLE = random.Random(20261130).sample(CELLS, 16)


def test_the_sample_meets_every_layout_and_a_dynamic_size() -> None:
    fields = [dict(word.split("=", 1) for word in cell.split()) for cell in SAMPLE]
    assert {cell["layout"] for cell in fields} == set(LAYOUTS)
    assert len({cell["arch"] for cell in fields}) > 4


@pytest.mark.parametrize("cell", SAMPLE)
def test_a_sampled_cell(cell: str) -> None:
    judge(cell)


@pytest.mark.full
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell not in SAMPLE])
def test_every_other_cell(cell: str) -> None:
    judge(cell)
