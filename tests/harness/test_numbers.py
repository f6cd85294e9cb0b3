from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.dtypes import BF16, DTYPES, E4M3, E5M2, FP16, FP32, INT8, INT32, UINT8
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.harness.numbers import decode, encode, poison, round_to

TWINS = {
    FP16: np.dtype(np.float16),
    BF16: np.dtype(ml_dtypes.bfloat16),
    E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    E5M2: np.dtype(ml_dtypes.float8_e5m2),
}
EIGHT = [E4M3, E5M2, INT8, UINT8]


def some_values() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    return bits.view(np.float32)


@pytest.mark.parametrize("dtype", [FP16, BF16])
def test_encode_rounds_as_the_numpy_twin_does(dtype: Any) -> None:
    values = some_values()
    with np.errstate(all="ignore"):
        twin = values.astype(TWINS[dtype]).view(np.uint16)
    ours = encode(values, dtype, np)
    number = ~np.isnan(values)
    assert (ours[number] == twin[number]).all()
    assert np.isnan(decode(ours[~number], dtype, np)).all()


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_eight_bit_floats_round_as_their_twins_and_saturate(dtype: Any) -> None:
    values = some_values()
    values = np.concatenate([values, np.linspace(-500, 500, 100_001, dtype=np.float32)])
    ours = decode(encode(values, dtype, np), dtype, np)
    with np.errstate(all="ignore"):
        clipped = np.clip(values, np.float32(dtype.least), np.float32(dtype.largest))
        twin = clipped.astype(TWINS[dtype]).astype(np.float64)
    assert np.array_equal(ours, twin, equal_nan=True)
    assert np.array_equal(np.signbit(ours[~np.isnan(ours)]), np.signbit(twin[~np.isnan(twin)]))


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_eight_bit_floats_decode_as_their_twins(dtype: Any) -> None:
    bits = np.arange(256, dtype=np.uint8)
    twin = bits.view(TWINS[dtype]).astype(np.float64)
    assert np.array_equal(decode(bits, dtype, np), twin, equal_nan=True)
    finite = twin[np.isfinite(twin)]
    assert (finite.max(), finite.min()) == (dtype.largest, dtype.least)


@pytest.mark.parametrize("dtype", [INT8, UINT8, INT32])
def test_integers_round_half_to_even_and_saturate(dtype: Any) -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300.0, -300.0, 3e9, -3e9, np.inf, -np.inf])
    found = decode(encode(values.astype(np.float32), dtype, np), dtype, np)
    low, high = dtype.least, dtype.largest
    wanted = [0, 2, 2, 0, -2, 300, -300, 3e9, -3e9, high, low]
    assert found.tolist() == np.clip(wanted, low, high).tolist()
    nan = encode(np.array([np.nan], np.float32), dtype, np)
    assert nan[0] == poison(dtype)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_decode_inverts_encode(dtype: Any) -> None:
    if dtype is INT32:  # fp32 values tell 24 bits of it
        bits = np.arange(-(2**15), 2**15, dtype=np.int32).view(np.uint32)
    else:
        bits = np.arange(0, 2 ** min(dtype.bits, 16), dtype=np.uint32)
    if dtype is FP32:
        bits = bits << np.uint32(16) | np.uint32(0x1234)
    bits = bits.astype(f"uint{dtype.bits}")
    values = decode(bits, dtype, np)
    number = ~np.isnan(values)
    if dtype is E5M2:  # encoding saturates
        number = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        again = encode(values.astype(np.float32), dtype, np)
    assert (again[number] == bits[number]).all()


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32, E4M3, E5M2])
def test_poison_is_a_nan(dtype: Any) -> None:
    bits = np.array([poison(dtype)], f"uint{dtype.bits}")
    assert np.isnan(decode(bits, dtype, np)).all()


def test_round_to_fp16_equals_numpy_from_float64() -> None:
    rng = np.random.default_rng(2)
    values = rng.standard_normal(100_000) * 10.0 ** rng.integers(-9, 6, 100_000)
    with np.errstate(over="ignore"):
        assert (round_to(values, FP16, np) == values.astype(np.float16).astype(np.float64)).all()


def test_round_to_fp32_equals_numpy_from_float64() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal(100_000) * 10.0 ** rng.integers(-44, 38, 100_000)
    with np.errstate(over="ignore"):
        assert (round_to(values, FP32, np) == values.astype(np.float32).astype(np.float64)).all()


def test_round_to_bf16_rounds_once_where_two_roundings_differ() -> None:
    # A hair above the middle of 1 and 1 + 2^-7, closer to it than fp32 can tell.
    value = np.array([1 + 2.0**-8 + 2.0**-40])
    assert round_to(value, BF16, np)[0] == 1 + 2.0**-7


@pytest.mark.parametrize(
    ("dtype", "last", "first_infinite"),
    [(FP16, 65519.996, 65520.0), (BF16, 3.3961e38, 3.3962e38)],
)
def test_round_to_overflows_half_a_step_above_the_largest(
    dtype: Any, last: Any, first_infinite: Any
) -> None:
    rounded = round_to(np.array([last, first_infinite, -first_infinite]), dtype, np)
    assert np.isfinite(rounded[0])
    assert rounded[1] == np.inf
    assert rounded[2] == -np.inf


@pytest.mark.parametrize("dtype", EIGHT)
def test_round_to_saturates_eight_bits(dtype: Any) -> None:
    rounded = round_to(np.array([1e9, -1e9, np.inf, -np.inf, np.nan]), dtype, np)
    ends = [dtype.largest, dtype.least]
    assert rounded[:4].tolist() == ends + ends
    assert np.isnan(rounded[4])


def test_round_to_keeps_infinity_and_nan() -> None:
    rounded = round_to(np.array([np.inf, -np.inf, np.nan]), FP16, np)
    assert rounded[0] == np.inf
    assert rounded[1] == -np.inf
    assert np.isnan(rounded[2])


def test_an_unknown_type_is_our_own_fault() -> None:
    odd = replace(FP16, name="fp4")
    with pytest.raises(InternalError, match=r"^the harness has no encoding of fp4$"):
        encode(np.zeros(1), odd, np)
