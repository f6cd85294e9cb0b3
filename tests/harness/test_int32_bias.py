"""A bias of int32, as quantised layers have: added as the fp32 number nearest to it."""

from __future__ import annotations

import pytest

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import Choice, assert_right, launch, program_of

BYTES = MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8)
HOPPER = WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, tile_k=128)

CASES: dict[str, Choice | None] = {
    "dtype=int8 dtype_d=fp16 epilogue=bias:int32,scale:column,relu layout=nt": BYTES,
    "dtype=uint8 dtype_b=int8 epilogue=bias:row:int32,scale,quantize:uint8": BYTES,
    "dtype=int8 dtype_d=fp16 epilogue=bias:int32,scale layout=nt arch=sm_90a": HOPPER,
    "dtype=int8 dtype_d=fp16 epilogue=bias:int32,swiglu split_k=2 layout=nt": None,
    "dtype=int8 dtype_d=bf16 batch=2 epilogue=bias:int32:per_product,rms_norm layout_d=t": None,
    "dtype=fp32 epilogue=bias:int32": None,
}


@pytest.mark.parametrize("text", CASES)
def test_a_whole_number_is_added(text: str) -> None:
    assert_right(f"m=70 n=72 k=144 {text}", CASES[text])


def test_it_is_rounded_to_the_nearest_even_float() -> None:
    biases = [float(2**24 + i) for i in range(8)]
    program = program_of("m=1 n=8 k=32 dtype=int8 dtype_d=fp32 epilogue=bias:int32", BYTES)
    d = launch(program, a=0, b=0, bias0=[biases]).d[0]
    assert d.tolist() == [[float(2**24 + i) for i in (0, 0, 2, 4, 4, 4, 6, 8)]]


def test_other_steps_take_floats() -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_text("m=8 n=8 k=8 epilogue=residual:int32")
    assert str(caught.value) == (
        "epilogue step 'residual': dtype = int32: give one of fp16, bf16, fp32"
    )
