from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.support import execute

Array = np.ndarray[Any, np.dtype[Any]]


def _values(dtype: Any, seed: int = 0) -> Array:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    corners = np.array([0, 1, 2, info.max, info.min, info.max - 1, info.max // 2, 3, 7], dtype)
    small = rng.integers(0, 100, 20).astype(dtype)
    wide = rng.integers(info.min, info.max, 67, dtype=dtype, endpoint=True)
    return np.concatenate([corners, small, wide])


_BANK = {16: "%h", 32: "%r", 64: "%d"}
_DTYPE = {
    "u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64,
}  # fmt: skip
_TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")


def _run(
    opcode: str, kind: str, inputs: list[Array], *, out: str | None = None, tail: str = ""
) -> Array:
    result = out or kind
    target = f"{_BANK[int(result[1:])]}40"
    sources = ", ".join(f"{_BANK[a.dtype.itemsize * 8]}{i + 1}" for i, a in enumerate(inputs))
    return execute(f"{opcode}.{kind} {target}, {sources}{tail};", inputs, target, _DTYPE[result])


def _exact(kind: str, numbers: list[int]) -> Array:
    bits = int(kind[1:])
    wrapped = [n & ((1 << bits) - 1) for n in numbers]
    return np.array(wrapped, f"u{bits // 8}").view(_DTYPE[kind])


@pytest.mark.parametrize("kind", _TYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul.lo", "mul.hi", "min", "max", "div", "rem"])
def test_binary_arithmetic_wraps_as_python_integers_do(name: str, kind: str) -> None:
    a, b = _values(_DTYPE[kind]), _values(_DTYPE[kind], 1)
    b = np.where(b == 0, b.dtype.type(5), b) if name in ("div", "rem") else b

    def exact(x: int, y: int) -> int:
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0
        return {
            "add": x + y, "sub": x - y, "mul.lo": x * y, "mul.hi": x * y >> int(kind[1:]),
            "min": min(x, y), "max": max(x, y), "div": quotient, "rem": x - quotient * y,
        }[name]  # fmt: skip

    want = _exact(kind, [exact(int(x), int(y)) for x, y in zip(a, b, strict=True)])
    np.testing.assert_array_equal(_run(name, kind, [a, b]), want)


@pytest.mark.parametrize("name", ["add", "sub"])
def test_saturating_sums_stop_at_the_range(name: str) -> None:
    a, b = _values(np.int32), _values(np.int32, 1)
    sign = 1 if name == "add" else -1
    want = [
        max(-(2**31), min(2**31 - 1, int(x) + sign * int(y))) for x, y in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(_run(f"{name}.sat", "s32", [a, b]), np.array(want, np.int32))


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_division_by_zero_gives_all_ones_and_remainder_the_dividend(kind: str) -> None:
    a = _values(_DTYPE[kind])
    zero = np.zeros_like(a)
    np.testing.assert_array_equal(_run("div", kind, [a, zero]), _exact(kind, [-1] * a.size))
    np.testing.assert_array_equal(_run("rem", kind, [a, zero]), a)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_product_and_mad_keep_the_whole_product(kind: str) -> None:
    wide = f"{kind[0]}{2 * int(kind[1:])}"
    a, b = _values(_DTYPE[kind]), _values(_DTYPE[kind], 1)
    products = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(_run("mul.wide", kind, [a, b], out=wide), _exact(wide, products))
    c = np.resize(_values(_DTYPE[wide], 2), a.size)
    want = _exact(wide, [p + int(z) for p, z in zip(products, c, strict=True)])
    np.testing.assert_array_equal(_run("mad.wide", kind, [a, b, c], out=wide), want)


@pytest.mark.parametrize("kind", ["u32", "s32", "s64", "u64"])
def test_mad_lo(kind: str) -> None:
    a, b, c = (_values(_DTYPE[kind], i) for i in range(3))
    want = _exact(kind, [int(x) * int(y) + int(z) for x, y, z in zip(a, b, c, strict=True)])
    np.testing.assert_array_equal(_run("mad.lo", kind, [a, b, c]), want)


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("name", ["shl", "shr"])
def test_shift_amounts_beyond_the_width_act_as_the_width(name: str, kind: str) -> None:
    bits = int(kind[1:])
    if name == "shl" and kind[0] != "b":
        return
    a = _values(_DTYPE[kind])
    amounts = np.resize(
        np.array([0, 1, 5, bits - 1, bits, bits + 1, 200, 2**31], np.uint32), a.size
    )
    want = []
    for x, s in zip(a.tolist(), amounts.tolist(), strict=True):
        s = min(s, bits)  # noqa: PLW2901
        want.append(x << s if name == "shl" else x >> s)
    np.testing.assert_array_equal(_run(name, kind, [a, amounts]), _exact(kind, want))


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_logic(kind: str) -> None:
    a, b = _values(_DTYPE[kind]), _values(_DTYPE[kind], 1)
    np.testing.assert_array_equal(_run("and", kind, [a, b]), a & b)
    np.testing.assert_array_equal(_run("or", kind, [a, b]), a | b)
    np.testing.assert_array_equal(_run("xor", kind, [a, b]), a ^ b)
    np.testing.assert_array_equal(_run("not", kind, [a]), ~a)
    np.testing.assert_array_equal(_run("cnot", kind, [a]), (a == 0).astype(a.dtype))


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_neg_and_abs_of_the_minimum_wrap(kind: str) -> None:
    a = _values(_DTYPE[kind])
    np.testing.assert_array_equal(_run("neg", kind, [a]), _exact(kind, [-int(x) for x in a]))
    np.testing.assert_array_equal(_run("abs", kind, [a]), _exact(kind, [abs(int(x)) for x in a]))


def _bfe(x: int, start: int, length: int, bits: int, *, signed: bool) -> int:
    """The loop of the PTX manual."""
    msb = bits - 1
    start, length = start & 0xFF, length & 0xFF
    raw = x & ((1 << bits) - 1)
    sign = 0 if not signed or length == 0 else raw >> min(start + length - 1, msb) & 1
    result = 0
    for i in range(bits):
        bit = raw >> (start + i) & 1 if i < length and start + i <= msb else sign
        result |= bit << i
    return result


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bfe_follows_the_manuals_loop(kind: str) -> None:
    bits = int(kind[1:])
    a = np.resize(_values(_DTYPE[kind]), 192)
    rng = np.random.default_rng(3)
    start = rng.integers(0, 70, a.size).astype(np.uint32)
    length = rng.integers(0, 70, a.size).astype(np.uint32)
    want = [
        _bfe(int(x), int(s), int(n), bits, signed=kind[0] == "s")
        for x, s, n in zip(a, start, length, strict=True)
    ]
    np.testing.assert_array_equal(_run("bfe", kind, [a, start, length]), _exact(kind, want))


@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_bfi_follows_the_manuals_loop(kind: str) -> None:
    bits = int(kind[1:])
    a, b = (np.resize(_values(_DTYPE[kind], i), 192) for i in range(2))
    rng = np.random.default_rng(4)
    start = rng.integers(0, 70, a.size).astype(np.uint32)
    length = rng.integers(0, 70, a.size).astype(np.uint32)
    want = []
    for x, y, s, n in zip(a.tolist(), b.tolist(), start.tolist(), length.tolist(), strict=True):
        result = y
        for i in range(n):
            if s + i < bits:
                result = (result & ~(1 << (s + i))) | ((x >> i & 1) << (s + i))
        want.append(result)
    np.testing.assert_array_equal(_run("bfi", kind, [a, b, start, length]), _exact(kind, want))


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xCA, 0xE8, 0x00, 0xFF])
def test_lop3(table: int) -> None:
    a, b, c = (_values(np.uint32, i) for i in range(3))
    want = np.zeros_like(a)
    for bit in range(32):
        index = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        want |= (np.uint32(table) >> index & 1) << np.uint32(bit)
    np.testing.assert_array_equal(_run("lop3", "b32", [a, b, c], tail=f", {table}"), want)


def test_prmt_picks_bytes_and_spreads_signs() -> None:
    a, b = _values(np.uint32), _values(np.uint32, 1)
    selector = np.resize(
        np.array([0x3210, 0x7654, 0x5410, 0x8888, 0xFB31, 0x0001], np.uint32), a.size
    )
    want = []
    for x, y, s in zip(a.tolist(), b.tolist(), selector.tolist(), strict=True):
        whole, result = x | y << 32, 0
        for i in range(4):
            pick = s >> 4 * i & 15
            byte = whole >> 8 * (pick & 7) & 255
            result |= (255 * (byte >> 7) if pick & 8 else byte) << 8 * i
        want.append(result)
    np.testing.assert_array_equal(_run("prmt", "b32", [a, b, selector]), _exact("b32", want))


@pytest.mark.parametrize("mode", ["l.clamp", "l.wrap", "r.clamp", "r.wrap"])
def test_funnel_shift(mode: str) -> None:
    a, b = _values(np.uint32), _values(np.uint32, 1)
    amount = np.resize(np.array([0, 1, 8, 31, 32, 33, 63], np.uint32), a.size)
    want = []
    for x, y, s in zip(a.tolist(), b.tolist(), amount.tolist(), strict=True):
        n = min(s, 32) if mode.endswith("clamp") else s & 31
        whole = y << 32 | x
        want.append((whole << n) >> 32 if mode[0] == "l" else whole >> n)
    np.testing.assert_array_equal(_run(f"shf.{mode}", "b32", [a, b, amount]), _exact("b32", want))


def test_counting_and_reversing_bits() -> None:
    a, d = _values(np.uint32), _values(np.uint64)
    for values, kind in ((a, "b32"), (d, "b64")):
        want = [v.bit_count() for v in values.tolist()]
        np.testing.assert_array_equal(_run("popc", kind, [values], out="u32"), want)
    np.testing.assert_array_equal(
        _run("clz", "b32", [a], out="u32"), [32 - v.bit_length() for v in a.tolist()]
    )
    want = [int(f"{v:032b}"[::-1], 2) for v in a.tolist()]
    np.testing.assert_array_equal(_run("brev", "b32", [a]), np.array(want, np.uint32))
