from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.dtypes import BF16, FP16, FP32
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.harness.numbers import decode, encode, poison, round_to

TWINS = {FP16: np.dtype(np.float16), BF16: np.dtype(ml_dtypes.bfloat16)}


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


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32])
def test_decode_inverts_encode(dtype: Any) -> None:
    bits = np.arange(0, 2**16, dtype=np.uint32)
    if dtype is FP32:
        bits = bits << np.uint32(16) | np.uint32(0x1234)
    bits = bits.astype(f"uint{dtype.bits}")
    values = decode(bits, dtype, np)
    number = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        again = encode(values.astype(np.float32), dtype, np)
    assert (again[number] == bits[number]).all()


@pytest.mark.parametrize("dtype", [FP16, BF16, FP32])
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


def test_round_to_keeps_infinity_and_nan() -> None:
    rounded = round_to(np.array([np.inf, -np.inf, np.nan]), FP16, np)
    assert rounded[0] == np.inf
    assert rounded[1] == -np.inf
    assert np.isnan(rounded[2])


def test_an_unknown_type_is_our_own_fault() -> None:
    odd = replace(FP16, name="fp4")
    with pytest.raises(InternalError, match=r"^the harness has no encoding of fp4$"):
        encode(np.zeros(1), odd, np)
