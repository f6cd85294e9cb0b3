"""Carries, dot products of bytes, and what works on single bits, against Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.support import entry, execute

Array = np.ndarray[Any, np.dtype[Any]]

_M32, _M64 = 2**32 - 1, 2**64 - 1
_WORD = st.one_of(st.sampled_from([0, 1, _M32, 2**31, 2**31 - 1]), st.integers(0, _M32))
_LONG = st.one_of(st.sampled_from([0, 1, _M64, 2**63]), st.integers(0, _M64))


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(_LONG, _LONG, _LONG, _LONG), min_size=32, max_size=32))
def test_sums_and_products_of_128_bits(rows: list[tuple[int, int, int, int]]) -> None:
    columns = [np.array(c, np.uint64) for c in zip(*rows, strict=True)]
    cases: dict[str, Any] = {
        "add.cc.u64 %d20, %d1, %d3; addc.u64 %d40, %d2, %d4;": lambda a, b: a + b,
        "sub.cc.s64 %d20, %d1, %d3; subc.s64 %d40, %d2, %d4;": lambda a, b: a - b,
    }
    for text, function in cases.items():
        high = execute(text, columns, "%d40", np.uint64)
        low = execute(text, columns, "%d20", np.uint64)
        for (a, b, c, d), h, l in zip(rows, high.tolist(), low.tolist(), strict=True):
            want = function(b << 64 | a, d << 64 | c) & (2**128 - 1)
            assert (h << 64 | l) == want
    # A product of 128 bits out of halves of 32.
    words = [np.array([v & _M32 for v in column.tolist()], np.uint32) for column in columns[:3]]
    text = "mad.lo.cc.u32 %r20, %r1, %r2, %r3; madc.hi.u32 %r40, %r1, %r2, 0;"
    high = execute(text, words, "%r40", np.uint32)
    low = execute(text, words, "%r20", np.uint32)
    for i in range(32):
        a, b, c = (int(w[i]) for w in words)
        assert (int(high[i]) << 32 | int(low[i])) == (a * b + c) & _M64


def test_a_carry_goes_through_a_chain_and_only_where_the_guard_holds() -> None:
    a = np.full(32, _M32, np.uint32)
    text = """
        setp.lt.u32 %p1, %r60, 16;
        mov.u32 %r20, 0;
        add.cc.u32 %r20, %r1, 0;
        @%p1 add.cc.u32 %r20, %r1, 1;
        addc.cc.u32 %r21, %r1, 0;
        addc.u32 %r40, 0, 0;
    """
    got = execute(text, [a], "%r40", np.uint32)
    np.testing.assert_array_equal(got, (np.arange(32) < 16).astype(np.uint32))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(_WORD, _WORD, _WORD), min_size=32, max_size=32))
def test_dot_products_of_bytes(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(c, np.uint32) for c in zip(*rows, strict=True)]
    for left in ("u32", "s32"):
        for right in ("u32", "s32"):
            four = execute(f"dp4a.{left}.{right} %r40, %r1, %r2, %r3;", columns, "%r40", np.uint32)
            two = {
                part: execute(
                    f"dp2a.{part}.{left}.{right} %r40, %r1, %r2, %r3;", columns, "%r40", np.uint32
                )
                for part in ("lo", "hi")
            }

            def piece(value: int, index: int, bits: int, kind: str) -> int:
                raw = value >> (bits * index) & ((1 << bits) - 1)
                return _signed(raw, bits) if kind == "s32" else raw

            for i, (a, b, c) in enumerate(rows):
                want = c + sum(piece(a, k, 8, left) * piece(b, k, 8, right) for k in range(4))
                assert int(four[i]) == want & _M32
                for part, first in (("lo", 0), ("hi", 2)):
                    want = c + sum(
                        piece(a, k, 16, left) * piece(b, first + k, 8, right) for k in range(2)
                    )
                    assert int(two[part][i]) == want & _M32


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(_WORD, _WORD, _WORD), min_size=32, max_size=32))
def test_permutations_of_bytes(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(c, np.uint32) for c in zip(*rows, strict=True)]
    # PTX ISA, "prmt": the byte that each mode takes for d.b3, d.b2, d.b1, d.b0, by selector.
    tables = {
        "f4e": ("3210", "4321", "5432", "6543"), "b4e": ("5670", "6701", "7012", "0123"),
        "rc8": ("0000", "1111", "2222", "3333"), "ecl": ("3210", "3211", "3222", "3333"),
        "ecr": ("0000", "1110", "2210", "3210"), "rc16": ("1010", "3232", "1010", "3232"),
    }  # fmt: skip
    for mode, table in tables.items():
        got = execute(f"prmt.b32.{mode} %r40, %r1, %r2, %r3;", columns, "%r40", np.uint32)
        for (a, b, c), result in zip(rows, got.tolist(), strict=True):
            both = b << 32 | a
            digits = table[c & 3]
            want = sum((both >> 8 * int(d) & 255) << 8 * (3 - i) for i, d in enumerate(digits))
            assert result == want, mode


@settings(max_examples=15, deadline=None)
@given(st.lists(_LONG, min_size=32, max_size=32))
def test_places_of_bits(values: list[int]) -> None:
    for bits, kinds in ((32, ("u32", "s32", "b32")), (64, ("u64", "s64", "b64"))):
        mask = (1 << bits) - 1
        dtype = np.uint32 if bits == 32 else np.uint64
        column = np.array([v & mask for v in values], dtype)
        name = "%r1" if bits == 32 else "%d1"
        clz = execute(f"clz.{kinds[2]} %r40, {name};", [column], "%r40", np.uint32)
        popc = execute(f"popc.{kinds[2]} %r40, {name};", [column], "%r40", np.uint32)
        out = "%r40" if bits == 32 else "%d40"
        brev = execute(f"brev.{kinds[2]} {out}, {name};", [column], out, dtype)
        for i, raw in enumerate(column.tolist()):
            assert int(clz[i]) == bits - raw.bit_length()
            assert int(popc[i]) == raw.bit_count()
            assert int(brev[i]) == int(f"{raw:0{bits}b}"[::-1], 2)
        for kind in kinds[:2]:
            for shift in ("", ".shiftamt"):
                got = execute(f"bfind{shift}.{kind} %r40, {name};", [column], "%r40", np.uint32)
                for raw, result in zip(column.tolist(), got.tolist(), strict=True):
                    value = ~raw & mask if kind[0] == "s" and raw >> (bits - 1) else raw
                    place = value.bit_length() - 1
                    want = place if place < 0 or not shift else bits - 1 - place
                    assert result == want & _M32


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(_WORD, _WORD, _WORD), min_size=32, max_size=32))
def test_products_of_24_bits_and_absolute_differences(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(c, np.uint32) for c in zip(*rows, strict=True)]
    for kind in ("u32", "s32"):
        for half in ("lo", "hi"):
            got = execute(f"mul24.{half}.{kind} %r40, %r1, %r2;", columns[:2], "%r40", np.uint32)
            more = execute(f"mad24.{half}.{kind} %r40, %r1, %r2, %r3;", columns, "%r40", np.uint32)
            for i, (a, b, c) in enumerate(rows):
                x, y = (_signed(v, 24) if kind == "s32" else v & 0xFFFFFF for v in (a, b))
                want = x * y >> (16 if half == "hi" else 0)
                assert int(got[i]) == want & _M32
                assert int(more[i]) == (want + c) & _M32
        got = execute(f"sad.{kind} %r40, %r1, %r2, %r3;", columns, "%r40", np.uint32)
        for (a, b, c), result in zip(rows, got.tolist(), strict=True):
            x, y = (_signed(v, 32) if kind == "s32" else v for v in (a, b))
            assert result == (c + abs(x - y)) & _M32


def test_selection_by_sign_and_comparisons_as_numbers() -> None:
    a, b = np.full(6, 7, np.uint32), np.full(6, 9, np.uint32)
    c = np.array([0, 1, 0xFFFFFFFF, 0x80000000, 0x7FC00000, 0x80000001], np.uint32)
    got = execute("slct.u32.s32 %r40, %r1, %r2, %r3;", [a, b, c], "%r40", np.uint32)
    assert got.tolist() == [7, 7, 9, 9, 7, 9]
    got = execute("slct.f32.f32 %r40, %r1, %r2, %r3;", [a, b, c], "%r40", np.uint32)
    assert got.tolist() == [7, 7, 9, 7, 9, 9]
    got = execute("slct.ftz.b32.f32 %r40, %r1, %r2, %r3;", [a, b, c], "%r40", np.uint32)
    assert got.tolist() == [7, 7, 9, 7, 9, 7]
    got = execute("set.lt.u32.s32 %r40, %r3, %r1;", [a, b, c], "%r40", np.uint32)
    assert got.tolist() == [_M32, _M32, _M32, _M32, 0, _M32]
    got = execute("set.gtu.f32.f32 %r40, %r3, %r1;", [a, b, c], "%r40", np.float32)
    assert got.tolist() == [0, 0, 1, 0, 1, 0]


def test_comparisons_of_halves_and_of_subnormals() -> None:
    halves = np.array([0x3C00, 0xC000, 0x7E00, 0x8000, 0x0001], np.uint16)
    other = np.array([0x3C01, 0x4000, 0x3C00, 0x0000, 0x0000], np.uint16)
    for kind, want in (("f16", [1, 1, 0, 0, 0]), ("bf16", [1, 1, 0, 0, 0])):
        values = halves.copy()
        if kind == "bf16":
            values[2] = 0x7FC0
        got = execute(f"setp.lt.{kind} %p1, %h1, %h2;", [values, other], "%p1", np.uint32)
        assert got.tolist() == want
    tiny = np.array([1, 0x80000001], np.uint32)
    zero = np.zeros(2, np.uint32)
    got = execute("setp.ne.f32 %p1, %r1, %r2;", [tiny, zero], "%p1", np.uint32)
    assert got.tolist() == [1, 1]
    got = execute("setp.ne.ftz.f32 %p1, %r1, %r2;", [tiny, zero], "%p1", np.uint32)
    assert got.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("dp4a.u32.f32 %r1, %r2, %r3, %r4;", "unsupported modifier or types"),
        ("dp2a.u32.u32 %r1, %r2, %r3, %r4;", "unsupported modifier or types"),
        ("prmt.b32.f4f %r1, %r2, %r3, %r4;", "unsupported modifier"),
        ("shf.l.b32 %r1, %r2, %r3, %r4;", "a direction and clamp or wrap were expected"),
        ("lop3.b32 %r1, %r2, %r3, %r4, %r5;", "a constant was expected"),
        ("mul24.u32 %r1, %r2, %r3;", "lo or hi was expected"),
        ("madc.cc.u32 %r1, %r2, %r3, %r4;", "lo or hi was expected"),
        ("slct.u32.u32 %r1, %r2, %r3, %r4;", "unsupported modifier or types"),
        ("set.lt.u64.s32 %d1, %r2, %r3;", "unsupported modifier or types"),
        ("setp.lt.lt.and.u32 %p1, %r2, %r3, %p1;", "unsupported modifier"),
        ("setp.lt.and.u32 %p1, %r2, %r3;", "4 operands were expected"),
        ("setp.u32 %p1, %r2, %r3;", "unsupported modifier"),
        ("setp.ftz.lt.f16 %p1, %h2, %h3;", "unsupported modifier"),
        ("prefetch.L3 [%d1];", "unsupported modifier L3"),
        ("createpolicy.magic.b64 %d1, 0;", "unsupported modifier magic"),
    ],
)
def test_what_has_no_meaning_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(instruction)), "k")
