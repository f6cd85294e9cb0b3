"""Directed roundings of fp32, and fp64, against exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import Kernel, UnsupportedError, numeric, parse
from tests.emulator.reference import FORMATS, decode, encode
from tests.emulator.support import entry, execute

Array = np.ndarray[Any, np.dtype[Any]]

_F32, _F64 = FORMATS["f32"], FORMATS["f64"]
# Finite numbers whose sums and products stay in range, of all magnitudes and near each other.
_BITS = st.one_of(
    st.integers(0x20000000, 0x5F000000), st.integers(0x3F800000, 0x3F800010), st.just(0)
)
_SIGNED = st.builds(lambda bits, sign: bits | sign << 31, _BITS, st.integers(0, 1))


def _directed(exact: Fraction, mode: str) -> int:
    up = {"rz": False, "rm": exact < 0, "rp": exact > 0}[mode]  # away from zero
    bits = encode(abs(exact), _F32, toward_zero=True)
    value = decode(bits, _F32)
    assert isinstance(value, Fraction)
    return bits + (up and value < abs(exact)) | (0x80000000 if exact < 0 else 0)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(_SIGNED, _SIGNED, _SIGNED), min_size=32, max_size=32))
def test_directed_sums_and_products(triples: list[tuple[int, int, int]]) -> None:
    columns = [np.array(c, np.uint32) for c in zip(*triples, strict=True)]
    for mode in ("rz", "rm", "rp"):
        for name, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
            names = ", ".join(f"%r{i + 1}" for i in range(count))
            text = f"{name}.{mode}.f32 %r40, {names};"
            got = execute(text, columns[:count], "%r40", np.uint32)
            for triple, result in zip(triples, got.tolist(), strict=True):
                a, b, c = (decode(t, _F32) for t in triple)
                assert not isinstance(a, str)
                assert not isinstance(b, str)
                assert not isinstance(c, str)
                exact = {"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c}[name]
                if exact == 0:
                    assert result & 0x7FFFFFFF == 0
                    continue
                assert result == _directed(exact, mode), (name, mode, triple)


def test_sums_that_cancel_and_overflow_by_mode() -> None:
    one = np.array([0x3F800000, 0, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF], np.uint32)
    other = np.array([0xBF800000, 0x80000000, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF], np.uint32)
    want = {
        "rn": [0, 0, 0x80000000, 0x7F800000, 0xFF800000],
        "rz": [0, 0, 0x80000000, 0x7F7FFFFF, 0xFF7FFFFF],
        "rm": [0x80000000, 0x80000000, 0x80000000, 0x7F7FFFFF, 0xFF800000],
        "rp": [0, 0, 0x80000000, 0x7F800000, 0xFF7FFFFF],
    }
    for mode, bits in want.items():
        got = execute(f"add.{mode}.f32 %r40, %r1, %r2;", [one, other], "%r40", np.uint32)
        assert [hex(v) for v in got.tolist()] == [hex(v) for v in bits], mode


_WIDE = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0x3FF0000000000000, 0x3FF0000000000040),
    st.integers(0x4340000000000000, 0x4340000000000040),
    st.sampled_from([0, 1, 1 << 63, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
                     0x7FEFFFFFFFFFFFFF, 0x0010000000000000]),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_WIDE, _WIDE, _WIDE), min_size=16, max_size=16))
def test_fused_fp64_rounds_once(triples: list[tuple[int, int, int]]) -> None:
    a, b, c = (np.array(x, np.uint64).view(np.float64) for x in zip(*triples, strict=True))
    with np.errstate(all="ignore"):
        got = numeric.fma64(a, b, c)
        plain = a * b + c
    for i, triple in enumerate(triples):
        x, y, z = (decode(t, _F64) for t in triple)
        if isinstance(x, str) or isinstance(y, str) or isinstance(z, str):
            assert np.isnan(got[i]) if np.isnan(plain[i]) else got[i] == plain[i]
            continue
        exact = x * y + z
        bits = int(got[i : i + 1].view(np.uint64)[0])
        assert bits == encode(exact, _F64) if exact else bits in (0, 1 << 63), triple


def test_fused_fp64_where_two_roundings_would_differ() -> None:
    a = np.array([1 + 2.0**-52])
    assert numeric.fma64(a, a, -np.array([1 + 2.0**-51]))[0] == 2.0**-104
    got = execute("fma.rn.f64 %d40, %d1, %d1, %d2;", [a, -(a + 2.0**-52)], "%d40", np.float64)
    assert got[0] == 2.0**-104


def test_fp64_operations() -> None:
    a = np.array([3.0, -0.0, 2.0, np.nan, 1e308])
    b = np.array([0.1, 0.0, -7.0, 5.0, 1e308])
    with np.errstate(all="ignore"):
        wants = {"add.f64": a + b, "sub.rn.f64": a - b, "mul.f64": a * b, "div.rn.f64": a / b}
    for name, want in wants.items():
        got = execute(f"{name} %d40, %d1, %d2;", [a, b], "%d40", np.float64)
        np.testing.assert_array_equal(got, want)
    got = execute("min.f64 %d40, %d1, %d2;", [a, b], "%d40", np.uint64)
    want = np.array([0.1, -0.0, -7.0, 5.0, 1e308])
    np.testing.assert_array_equal(got, want.view(np.uint64))
    got = execute("max.f64 %d40, %d1, %d2;", [a, b], "%d40", np.uint64)
    np.testing.assert_array_equal(got, np.array([3.0, 0.0, 2.0, 5.0, 1e308]).view(np.uint64))
    got = execute("sqrt.rn.f64 %d40, %d1;", [np.array([2.0])], "%d40", np.float64)
    assert got[0] == np.sqrt(2.0)


def test_signs_and_kinds_of_numbers() -> None:
    bits = np.array([0x3F800000, 0xC0000000, 0x80000000, 0x7FC00000, 0xFF800000, 1], np.uint32)
    other = np.array([0xC0400000] * 6, np.uint32)
    got = execute("copysign.f32 %r40, %r1, %r2;", [bits, other], "%r40", np.uint32)
    np.testing.assert_array_equal(got, (bits & 0x80000000) | 0x40400000)
    got = execute("min.xorsign.abs.f32 %r40, %r1, %r2;", [bits, other], "%r40", np.uint32)
    assert [hex(v) for v in got.tolist()] == [
        "0xbf800000", "0x40000000", "0x0", "0xc0400000", "0x40400000", "0x80000001"
    ]  # fmt: skip
    for kind, want in {
        "finite": [1, 1, 1, 0, 0, 1], "infinite": [0, 0, 0, 0, 1, 0],
        "number": [1, 1, 1, 0, 1, 1], "notanumber": [0, 0, 0, 1, 0, 0],
        "normal": [1, 1, 1, 0, 0, 0], "subnormal": [0, 0, 0, 0, 0, 1],
    }.items():  # fmt: skip
        got = execute(f"testp.{kind}.f32 %p1, %r1;", [bits], "%p1", np.uint32)
        assert got.tolist() == want, kind


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("add.rz.rn.f32 %r1, %r2, %r3;", "two roundings"),
        ("div.f32 %r1, %r2, %r3;", "rn, full or approx was expected"),
        ("div.rz.f32 %r1, %r2, %r3;", "unsupported modifier rz"),
        ("sqrt.f32 %r1, %r2;", "approx or rn was expected"),
        ("ex2.rn.f32 %r1, %r2;", "unsupported modifier rn"),
        ("tanh.approx.ftz.f32 %r1, %r2;", "unsupported modifier ftz"),
        ("ex2.approx.bf16 %h1, %h2;", "and ftz with ex2 of bf16 alone"),
        ("min.xorsign.f32 %r1, %r2, %r3;", "xorsign.abs and two sources"),
        ("fma.f64 %d1, %d2, %d3, %d4;", "rn was expected"),
        ("add.rz.f64 %d1, %d2, %d3;", "unsupported modifier rz"),
        ("testp.odd.f32 %p1, %r1;", "unsupported modifier"),
    ],
)
def test_what_has_no_meaning_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(instruction)), "k")
