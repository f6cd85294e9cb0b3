"""cvt of 8-bit floats, tf32, clamped halves and packed integers, against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.reference import FORMATS, clamp, decode, encode
from tests.emulator.support import entry, execute

Array = np.ndarray[Any, np.dtype[Any]]

_F32 = FORMATS["f32"]
_CORNERS = [
    0, 0x80000000, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
    0xFF800001, 0x3F801000, 0x3F803000, 0x3F800FFF, 0x7F7FF000, 0x477FF000,
]  # fmt: skip


def _ties(kind: str) -> list[int]:
    """fp32 patterns of every value of an 8-bit type, of the ties between, and their neighbours."""
    form = FORMATS[kind]
    values = sorted({v for b in range(128) if isinstance(v := decode(b, form), Fraction)})
    values += [Fraction(form.largest) * 33 / 32, form.largest * 34 / 32, form.largest * 2]
    marks = values + [(a + b) / 2 for a, b in pairwise(values)]
    bits = [encode(v, _F32) for v in marks]
    near = [b + d for b in bits for d in (-1, 0, 1) if b + d >= 0]
    return near + [b | 0x80000000 for b in near]


def _saturated(bits: int, source: str, to: str, *, relu: bool = False) -> int:
    value, form = decode(bits, FORMATS[source]), FORMATS[to]
    negative = bool(bits & FORMATS[source].sign)
    if value == "nan":
        return form.nan
    if relu and negative:
        return 0
    if isinstance(value, str):
        value = -form.largest if negative else form.largest
    pattern = encode(clamp(value, form), form)
    return pattern | (form.sign if negative and pattern & form.sign == 0 else 0)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_every_value_tie_and_neighbour_to_8_bits(kind: str, relu: str) -> None:
    bits = np.array([*_CORNERS, *_ties(kind)], np.uint32)[:992]
    high, low = bits, bits[::-1].copy()
    got = execute(
        f"cvt.rn.satfinite{relu}.{kind}x2.f32 %h40, %r1, %r2;", [high, low], "%h40", np.uint16
    )
    want = [_saturated(b, "f32", kind, relu=bool(relu)) for b in bits.tolist()]
    np.testing.assert_array_equal(got >> 8, want)
    np.testing.assert_array_equal(got & 0xFF, want[::-1])


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["e4m3", "e5m2"]), st.lists(st.integers(0, 2**32 - 1), min_size=96, max_size=96)
)
def test_any_pattern_to_8_bits(kind: str, patterns: list[int]) -> None:
    bits = np.array(patterns, np.uint32)
    got = execute(f"cvt.rn.satfinite.{kind}x2.f32 %h40, %r1, %r1;", [bits], "%h40", np.uint16)
    want = [_saturated(b, "f32", kind) * 257 for b in patterns]
    np.testing.assert_array_equal(got, want)
    got = execute(f"cvt.rn.satfinite.{kind}x2.f16x2 %h40, %r1;", [bits], "%h40", np.uint16)
    want = [
        _saturated(b >> 16, "f16", kind) << 8 | _saturated(b & 0xFFFF, "f16", kind)
        for b in patterns
    ]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_every_8_bit_pattern_to_halves(kind: str, relu: str) -> None:
    pairs = (np.arange(256) << 8 | np.arange(256)[::-1]).astype(np.uint16)
    got = execute(f"cvt.rn{relu}.f16x2.{kind}x2 %r40, %h1;", [pairs], "%r40", np.uint32)
    form = FORMATS[kind]

    def widened(bits: int) -> int:
        value = decode(bits, form)
        if value == "nan":
            return 0x7FFF
        if relu and bits & form.sign:
            return 0
        if isinstance(value, str):
            return 0xFC00 if value == "-inf" else 0x7C00
        return encode(value, FORMATS["f16"]) | (0x8000 if bits & form.sign else 0)

    want = [widened(int(p) >> 8) << 16 | widened(int(p) & 255) for p in pairs]
    np.testing.assert_array_equal(got, np.array(want, np.uint32))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=64, max_size=64))
def test_tf32(patterns: list[int]) -> None:
    bits = np.array([*patterns, *_CORNERS], np.uint32)
    form = FORMATS["tf32"]
    for mode in ("rn", "rna", "rz"):
        for finite in ("", ".satfinite"):
            text = f"cvt.{mode}{finite}.tf32.f32 %r40, %r1;"
            got = execute(text, [bits], "%r40", np.uint32)
            for pattern, result in zip(bits.tolist(), got.tolist(), strict=True):
                value = decode(pattern, _F32)
                sign = pattern & 0x80000000
                if value == "nan":
                    if mode != "rna" or finite:
                        assert result == 0x7FFFE000
                    continue
                if isinstance(value, str):
                    want = 0x7F7FE000 if finite else 0x7F800000
                else:
                    want = encode(
                        abs(value), form, toward_zero=mode == "rz", away_at_ties=mode == "rna"
                    ) << 13  # fmt: skip
                    if finite and want == 0x7F800000:
                        want = 0x7F7FE000
                assert result == want | sign, (mode, hex(pattern))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("finite", ["", ".satfinite"])
def test_halves_in_every_mode(kind: str, mode: str, finite: str) -> None:
    rng = np.random.default_rng(3)
    bits = np.concatenate([rng.integers(0, 1 << 32, 200).astype(np.uint32),
                           np.array(_CORNERS, np.uint32)])  # fmt: skip
    got = execute(f"cvt.{mode}{finite}.{kind}.f32 %h40, %r1;", [bits], "%h40", np.uint16)
    packed = execute(f"cvt.{mode}{finite}.{kind}x2.f32 %r40, %r1, %r1;", [bits], "%r40", np.uint32)
    form = FORMATS[kind]
    for pattern, result in zip(bits.tolist(), got.tolist(), strict=True):
        value = decode(pattern, _F32)
        sign = form.sign if pattern >> 31 else 0
        if value == "nan":
            assert result == form.nan
            continue
        if isinstance(value, str):
            want = form.infinity - bool(finite)
        else:
            exact = clamp(abs(value), form) if finite or mode == "rz" else abs(value)
            want = encode(exact, form, toward_zero=mode == "rz")
        assert result == want | sign, (hex(pattern), hex(result))
    np.testing.assert_array_equal(packed, got.astype(np.uint32) * 65537)


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_quantising_conversions_clamp(kind: str, mode: str) -> None:
    values = np.array(
        [0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.4, 127.5, 255.5, 1e9, -1e9, np.inf, -np.inf, np.nan,
         -128.5, -129, 32767.5, 65535.4, -32768.6, 4.3e9, 2147483520.0],
        np.float32,
    )  # fmt: skip
    info = np.iinfo({"s": "int", "u": "uint"}[kind[0]] + kind[1:])
    function = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    exact = function(values.astype(np.float64))
    want = np.where(np.isnan(exact), 0, np.clip(exact, info.min, info.max)).astype(np.int64)
    for saturate in ("", ".sat"):
        got = execute(f"cvt.{mode}{saturate}.{kind}.f32 %r40, %r1;", [values], "%r40", np.int32)
        np.testing.assert_array_equal(got, want.astype(np.int32) if kind != "u32" else
                                      want.astype(np.uint32).view(np.int32))  # fmt: skip


def test_integers_are_packed() -> None:
    a = np.array([-5, 127, 128, -128, -129, 300, 70000, -70000], np.int32)
    b = a[::-1].copy()
    c = np.arange(8, dtype=np.int32) + 0x12340
    got = execute("cvt.pack.sat.s8.s32.b32 %r40, %r1, %r2, %r3;", [a, b, c], "%r40", np.uint32)
    clamped = np.clip(a, -128, 127).astype(np.int8).view(np.uint8).astype(np.uint32)
    want = clamped << 8 | clamped[::-1] | c.view(np.uint32) << 16
    np.testing.assert_array_equal(got, want)
    got = execute("cvt.pack.sat.u16.s32 %r40, %r1, %r2;", [a, b], "%r40", np.uint32)
    clamped = np.clip(a, 0, 65535).astype(np.uint32)
    np.testing.assert_array_equal(got, clamped << 16 | clamped[::-1])


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("cvt.rn.e4m3x2.f32 %h1, %r1, %r2;", "rn and satfinite were expected"),
        ("cvt.rz.satfinite.e4m3x2.f32 %h1, %r1, %r2;", "rn and satfinite were expected"),
        ("cvt.rn.satfinite.e4m3x2.f32 %h1, %r1;", "another number of operands"),
        ("cvt.rn.satfinite.e4m3x2.bf16x2 %h1, %r1;", "unsupported types"),
        ("cvt.f16x2.e4m3x2 %r1, %h1;", "rn was expected"),
        ("cvt.rn.bf16x2.e4m3x2 %r1, %h1;", "unsupported types"),
        ("cvt.rn.satfinite.e2m1x2.f32 %h1, %r1, %r2;", "two known types were expected"),
        ("cvt.rn.f32.f16 %r1, %h1;", "unsupported modifier or types"),
        ("cvt.f16.f32 %h1, %r1;", "unsupported modifier"),
        ("cvt.rn.rz.f16.f32 %h1, %r1;", "unsupported modifier"),
        ("cvt.rna.f16.f32 %h1, %r1;", "unsupported modifier"),
        ("cvt.tf32.f32 %r1, %r2;", "unsupported modifier or types"),
        ("cvt.s32.f32 %r1, %r2;", "unsupported modifier"),
        ("cvt.rni.sat.s8.f32.ftz %r1, %r2;", "two known types were expected"),
        ("cvt.rn.bf16.f16 %h1, %h2;", "unsupported modifier or types"),
        ("cvt.pack.sat.s8.s32 %r1, %r2, %r3;", "unsupported types"),
        ("cvt.pack.sat.s8.s32.b32 %r1, %r2, %r3;", "4 operands were expected"),
    ],
)
def test_what_no_gpu_converts_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(instruction)), "k")
