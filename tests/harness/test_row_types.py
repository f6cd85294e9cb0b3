"""Rows of whole numbers and of 8-bit floats without a product: read as the fp32 nearest to them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.numbers import decode
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import assert_right, assert_wrong, launch, program_of, source_of

TYPES = ("int8", "uint8", "int32", "e4m3", "e5m2")
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")

DEQUANTIZE = "epilogue=scale:row,scale:column,bias,gelu"
SHAPES = {
    "whole vectors": f"m=6 n=512 {DEQUANTIZE}",
    "ragged": f"m=7 n=33 lda=37 ldd=41 {DEQUANTIZE}",
    "at run time": "m=dynamic:5 n=dynamic:530 epilogue=bias:int32,layer_norm,quantize:int8",
    "a row of two bytes less": "m=4 n=510 epilogue=scale,residual,store,rms_norm",
    "long": "m=2 n=20001 epilogue=scale:column,layer_norm",
    "in 8 bits": "m=5 n=1040 epilogue=quantize:e4m3:per_channel",
    "scales computed": "m=5 n=1040 epilogue=scale:row,quantize:int8:dynamic",
    "heads": "m=6 n=96 batch=3 lda=288 stride_a=96 stride_d=pointers epilogue=scale,rms_norm",
    "columns": "m=66 n=72 layout=tn layout_d=t epilogue=scale:column,relu",
    "columns, turned": "m=dynamic:66 n=70 layout=tn epilogue=scale,layer_norm",
    "D by columns": f"m=66 n=70 layout_d=t {DEQUANTIZE}",
    "alone": "m=5 n=250 dtype_d=fp32",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_each_type_is_read(dtype: str, shape: str) -> None:
    arch = ARCHS[(len(dtype) + list(SHAPES).index(shape)) % len(ARCHS)]
    assert_right(f"op=epilogue {SHAPES[shape]} dtype={dtype} arch={arch}", None)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", TYPES)
def test_each_architecture_reads_them(dtype: str, arch: str) -> None:
    assert_right(f"op=epilogue m=3 n=70 dtype={dtype} dtype_d=fp32 arch={arch}", None)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "e4m3", "e5m2"])
def test_every_pattern_is_what_it_stands_for(dtype: str, arch: str) -> None:
    numbers = decode(np.arange(256, dtype=np.uint8), DTYPES[dtype], np)
    plan = program_of(f"op=epilogue m=1 n=256 dtype={dtype} dtype_d=fp32 arch={arch}", None)
    found = launch(plan, a=[numbers.tolist()]).d[0][0]
    assert np.array_equal(found, numbers, equal_nan=True)
    assert (np.signbit(found) == np.signbit(numbers))[~np.isnan(numbers)].all()


def test_int32_is_rounded_to_the_nearest_even_float() -> None:
    whole = [
        *(2**24 + i for i in range(8)),
        *(-(2**25) - 2 * i for i in range(8)),
        *(2**31 - 1, 2**31 - 64, 2**31 - 65, -(2**31), 2**30 + 32, 2**30 + 96),
    ]
    plan = program_of(f"op=epilogue m=1 n={len(whole)} dtype=int32 dtype_d=fp32", None)
    found = launch(plan, a=[list(map(float, whole))]).d[0][0]
    assert found.tolist() == np.array(whole, np.int32).astype(np.float32).astype(float).tolist()
    assert found[:8].tolist() == [float(2**24 + i) for i in (0, 0, 2, 4, 4, 4, 6, 8)]


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_row(odd: float) -> None:
    """An e5m2 has infinities, which a norm makes NaN; and e4m3 has NaN alone."""
    plan = program_of("op=epilogue m=3 n=40 dtype=e5m2 dtype_d=fp32 epilogue=rms_norm", None)
    rows = [[1.0] * 40, [odd] + [1.0] * 39, [2.0] * 40]
    found = launch(plan, a=rows, weight0=1).d[0]
    assert np.isnan(found[1][0])
    assert np.isfinite(found[[0, 2]]).all()


def test_whole_numbers_become_fp16_and_8_bit_floats_bf16() -> None:
    for dtype, result in zip(TYPES, ("fp16", "fp16", "fp16", "bf16", "bf16"), strict=True):
        spec = GemmSpec.from_text(f"op=epilogue m=1 n=1 dtype={dtype} epilogue=bias")
        assert (spec.dtype_d.name, spec.dtype_acc.name, spec.accumulate) == (result, "fp32", "")
        assert spec.epilogue[0].operands[0].dtype.name == result
        assert GemmSpec.from_text(str(spec)) == spec
        assert "dtype_d" not in str(spec)


def test_instructions_of_8_bit_floats_are_used_where_there_are_any() -> None:
    texts = {
        arch: source_of(program_of(f"op=epilogue m=1 n=8 dtype=e4m3 arch={arch}", None))
        for arch in ARCHS
    }
    having = [arch for arch, text in texts.items() if "cvt.rn.f16x2.e4m3x2" in text]
    assert having == ["sm_89", "sm_90a", "sm_100a", "sm_120a"]


MUTANTS = {
    "int32 truncated": ("int32", "sm_80", "__int2float_rn", "__int2float_rz"),
    "int32 taken for bits": ("int32", "sm_80", r"__int2float_rn\(", "__int_as_float("),
    "a sign lost": ("int8", "sm_80", r"(int2float_rn\()", r"\1(unsigned char)"),
    "a sign found": ("uint8", "sm_80", r"(int2float_rn\()", r"\1(signed char)"),
    "e4m3 with another bias": ("e4m3", "sm_80", r"256\.0f", "128.0f"),
    "e4m3 without its sign": ("e4m3", "sm_80", "0x80008000", "0x80000000"),
    "e4m3 of 480": ("e4m3", "sm_80", r"\(pair & 0x7f\) == 0x7f \?.*: ", ""),
    "a fraction bit of e4m3 lost": ("e4m3", "sm_80", "0x7f007f00", "0x7e007f00"),
    "e4m3 taken for e5m2": ("e4m3", "sm_89", r"\.e4m3x2", ".e5m2x2"),
    "neighbours exchanged": ("e4m3", "sm_89", "float& low, float& high", "float& high, float& low"),
    "the other element of a word": ("e5m2", "sm_89", "0x1404", "0x0414"),
    "the first pair twice": ("e5m2", "sm_89", r"vector\.pair\[v / 2\]", "vector.pair[0]"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_conversion_is_seen(mutant: str) -> None:
    dtype, arch, pattern, replacement = MUTANTS[mutant]
    plan = program_of(f"op=epilogue m=5 n=256 dtype={dtype} dtype_d=fp32 arch={arch}", None)
    source = source_of(plan)
    changed = re.sub(pattern, replacement, source)
    assert changed != source
    assert_wrong(plan, changed)


REFUSED = {
    "dtype=int8 dtype_d=int32": (
        "dtype_d = int32: fp32 values become no int32; give one of fp16, bf16, fp32"
    ),
    "dtype=int32 dtype_d=int8": (
        "dtype_d = int8: fp32 values become no int8; give one of fp16, bf16, fp32, or let the"
        " epilogue step quantize make it"
    ),
    "dtype=uint8 zero_point_a=128": (
        "zero_point_a = 128: op = epilogue takes none from A, steps do; leave it out, and begin the"
        " epilogue with bias, of minus the zero points"
    ),
    "dtype=uint8 zero_point_b=1": (
        "zero_point_b = 1: op = epilogue has no product, and only A, m x n; leave zero_point_b out"
    ),
    "dtype=e4m3 accumulate=fast": (
        "accumulate = fast: op = epilogue has no product, and only A, m x n; leave accumulate out"
    ),
    "dtype=int32 align_a=2": "align_a = 2: give a power of two from 4 to 4096 (bytes)",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str) -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_text(f"op=epilogue m=4 n=4 {text}")
    assert str(caught.value) == REFUSED[text]
