"""D of 32 bits through wgmma's slabs, whose last part may be narrower, judged on the emulator."""

from __future__ import annotations

import pytest

from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.decide.wgmma.tile import slab_columns
from deepgemm_codegen.plan import Wgmma
from tests.harness.support import assert_right, program_of

ONE_CONSUMER = WgmmaChoice(64, 176, 1, 1, 3, 1, 1, 2, tile_k=128)
TURNS = WgmmaChoice(128, 112, 2, 2, 3, 1, 1, 2, tile_k=128)
FLOAT = WgmmaChoice(128, 80, 2, 1, 3, 1, 1, 2)


@pytest.mark.parametrize(
    ("tile_n", "columns"),
    [(176, 64), (112, 64), (80, 48), (240, 48), (208, 64), (192, 64), (96, 48), (48, 48), (16, 16)],
)
def test_parts_are_few(tile_n: int, columns: int) -> None:
    assert slab_columns(tile_n, 1, 4) == columns


def test_pairs_and_16_bits_have_equal_parts() -> None:
    assert slab_columns(176, 2, 4) == 16
    assert slab_columns(176, 1, 2) == 16


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("m=70 n=184 k=256 dtype=int8 dtype_c=int32", ONE_CONSUMER),
        ("m=70 n=181 k=144 dtype=int8 dtype_c=int32", ONE_CONSUMER),
        ("m=260 n=112 k=384 dtype=uint8 dtype_c=int32 batch=2", TURNS),
        ("m=70 n=90 k=136 dtype=fp16 dtype_c=fp32 dtype_d=fp32 epilogue=bias,relu", FLOAT),
    ],
    ids=["whole", "C and an odd n", "in turns", "fp32"],
)
def test_the_last_part_of_a_row_is_narrower(text: str, choice: WgmmaChoice) -> None:
    text += " layout=nt arch=sm_90a"
    body = program_of(text, choice).product.body
    assert isinstance(body, Wgmma)
    assert body.slab_ragged
    assert_right(text, choice, effort=0.2)
