from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import numeric
from tests.emulator.reference import FORMATS, decode, encode
from tests.emulator.support import execute

Array = np.ndarray[Any, np.dtype[Any]]

_CORNERS = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF,
     0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x38800000, 0x387FFFFF,
     0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F7FFF, 0x7F7F8000],
    np.uint32,
)  # fmt: skip


def _narrow(bits: int, kind: str) -> int:
    value = decode(bits, FORMATS["f32"])
    form = FORMATS[kind]
    if value == "nan":
        return form.nan
    if isinstance(value, str):
        return form.infinity | (form.sign if value == "-inf" else 0)
    if value == 0:
        return form.sign if bits >> 31 else 0
    return encode(Fraction(value), form)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=256, max_size=256))
def test_narrowing_is_nearest_even(patterns: list[int]) -> None:
    values = np.concatenate([np.array(patterns, np.uint32), _CORNERS])
    single = values.view(np.float32)
    with np.errstate(all="ignore"):
        got16, got_b = numeric.round_to_f16(single), numeric.round_to_bf16(single)
        wide = numeric.narrow_to_bf16(single.astype(np.float64))
    np.testing.assert_array_equal(got16, [_narrow(v, "f16") for v in values.tolist()])
    np.testing.assert_array_equal(got_b, [_narrow(v, "bf16") for v in values.tolist()])
    np.testing.assert_array_equal(wide, got_b)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_cvt_to_half_and_packed(kind: str) -> None:
    a = _CORNERS
    b = a[::-1].copy()
    want_a = np.array([_narrow(v, kind) for v in a.tolist()], np.uint16)
    want_b = np.array([_narrow(v, kind) for v in b.tolist()], np.uint16)
    np.testing.assert_array_equal(
        execute(f"cvt.rn.{kind}.f32 %h40, %r1;", [a], "%h40", np.uint16), want_a
    )
    got = execute(f"cvt.rn.{kind}x2.f32 %r40, %r1, %r2;", [a, b], "%r40", np.uint32)
    # The first source is the upper half.
    np.testing.assert_array_equal(got >> 16, want_a)
    np.testing.assert_array_equal(got & 0xFFFF, want_b)
    relu = execute(f"cvt.rn.relu.{kind}.f32 %h40, %r1;", [a], "%h40", np.uint16)
    negative = (want_a & 0x8000 != 0) & ~np.isnan(a.view(np.float32))
    np.testing.assert_array_equal(relu, np.where(negative, 0, want_a))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_cvt_from_half_is_exact(kind: str) -> None:
    bits = np.arange(0, 65536, 97, dtype=np.uint16)
    got = np.concatenate(
        [execute(f"cvt.f32.{kind} %r40, %h1;", [part], "%r40", np.uint32)
         for part in np.array_split(bits, 2)]
    )  # fmt: skip
    for pattern, result in zip(bits.tolist(), got.tolist(), strict=True):
        value = decode(pattern, FORMATS[kind])
        if value == "nan":
            # bf16's bits are only moved (seen on an H200).
            assert result == (0x7FFFFFFF if kind == "f16" else pattern << 16)
        else:
            assert decode(result, FORMATS["f32"]) == value
            assert result >> 31 == pattern >> 15


@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("source", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integer_conversion_wraps_and_extends(to: str, source: str) -> None:
    names = {"16": "%h", "32": "%r", "64": "%d"}
    source_type = np.dtype(source.replace("s", "int").replace("u", "uint"))
    info = np.iinfo(source_type)
    a = np.array([0, 1, 127, 128, 255, info.max, info.min, info.max // 3], source_type)
    target = {"8": "%h", **names}[to[1:]] + "40"
    width = max(16, int(to[1:]))
    out = np.dtype(f"{'int' if to[0] == 's' else 'uint'}{width}")
    got = execute(f"cvt.{to}.{source} {target}, {names[source[1:]]}1;", [a], target, out)
    narrow = np.dtype(f"{'int' if to[0] == 's' else 'uint'}{to[1:]}")
    np.testing.assert_array_equal(got, a.astype(narrow).astype(out))


def test_conversion_reads_the_low_part_of_a_wider_register() -> None:
    a = np.array([0x12345680, 0xFFFFFF7F], np.uint32)
    np.testing.assert_array_equal(
        execute("cvt.s32.s8 %r40, %r1;", [a], "%r40", np.int32), [-128, 127]
    )
    np.testing.assert_array_equal(
        execute("cvt.u32.u16 %r40, %r1;", [a], "%r40", np.uint32), [0x5680, 0xFF7F]
    )


def test_saturating_integer_conversion() -> None:
    a = np.array([-5, 300, 70000, 2**31 - 1, -(2**31)], np.int32)
    np.testing.assert_array_equal(
        execute("cvt.sat.s8.s32 %h40, %r1;", [a], "%h40", np.int16), [-5, 127, 127, 127, -128]
    )
    np.testing.assert_array_equal(
        execute("cvt.sat.u8.s32 %h40, %r1;", [a], "%h40", np.uint16), [0, 255, 255, 255, 0]
    )


@pytest.mark.parametrize(
    ("mode", "function"),
    [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)],
)
def test_float_to_integer_rounds_and_clamps(mode: str, function: Any) -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e10, -1e10, np.inf, -np.inf, np.nan], np.float32)
    got = execute(f"cvt.{mode}.s32.f32 %r40, %r1;", [a], "%r40", np.int32)
    clipped = np.clip(np.where(np.isnan(a), 0, function(a.astype(np.float64))), -(2**31), 2**31 - 1)
    np.testing.assert_array_equal(got, clipped.astype(np.int64))
    whole = execute(f"cvt.{mode}.f32.f32 %r40, %r1;", [a[:9]], "%r40", np.float32)
    np.testing.assert_array_equal(whole, function(a[:9]))


def test_integer_to_float_rounds_once() -> None:
    a = np.array([0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31)], np.int32)
    np.testing.assert_array_equal(
        execute("cvt.rn.f32.s32 %r40, %r1;", [a], "%r40", np.float32), a.astype(np.float32)
    )
    b = np.array([2**63 + 2**39 + 1, 2**24 + 1, 2**24 + 3], np.uint64)
    np.testing.assert_array_equal(
        execute("cvt.rn.f32.u64 %r40, %d1;", [b], "%r40", np.float32), b.astype(np.float32)
    )
    c = np.array([2049, 2051, 65519, 65520, -2049], np.int32)
    want = np.array([encode(Fraction(v), FORMATS["f16"]) for v in c.tolist()], np.uint16)
    np.testing.assert_array_equal(
        execute("cvt.rn.f16.s32 %h40, %r1;", [c], "%h40", np.uint16), want
    )
