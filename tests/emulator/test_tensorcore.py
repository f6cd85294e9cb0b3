from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import LaunchError, fragments, tensorcore
from deepgemm_codegen.emulator.fragments import Shape
from deepgemm_codegen.emulator.patterns import patterns
from tests.emulator.reference import fused_dot

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.generations import Sums

Array = np.ndarray[Any, np.dtype[Any]]
_RULES = {
    "sm_75": (8, 24),
    "sm_80": (8, 24),
    "sm_89": (8, 24),
    "sm_90": (16, 25),
    "sm_120": (16, 25),
}


def rules(name: str, kind: str) -> Sums:
    found = tensorcore.arithmetic(name).sums(kind)
    assert found is not None
    return found


def multiply(
    kind: str, result: str, a: Array, b: Array, c: Array, arithmetic: str = "sm_90"
) -> Array:
    """One warp's product of plain matrices of bit patterns: (16, k), (k, 8), (16, 8)."""
    kind, _, second = kind.partition("*")
    shape = Shape(a.shape[1], kind, result, second)
    row, depth = fragments.a_elements(shape.k, shape.parts)
    fa = np.ascontiguousarray(a[row, depth]).view(np.uint32)[None, None, :, :, 0]
    depth, column = fragments.b_elements(shape.k, shape.parts)
    fb = np.ascontiguousarray(b[depth, column]).view(np.uint32)[None, None, :, :, 0]
    row, column = fragments.c_elements()
    fc = c[row, column]
    if result == "f16":
        fc = np.stack([fc[0::2], fc[1::2]], axis=-1).astype(np.uint16)
        fc = np.ascontiguousarray(fc).view(np.uint32)[:, :, 0]
    with np.errstate(all="ignore"):
        got = tensorcore.multiply_accumulate(
            shape,
            None if result == "s32" else rules(arithmetic, kind),
            np.ascontiguousarray(fa),
            np.ascontiguousarray(fb),
            np.ascontiguousarray(fc.astype(np.uint32))[None, None, None],
        )[0, 0, 0]
    out = np.zeros((16, 8), np.uint32)
    if result == "f16":
        halves = np.ascontiguousarray(got).view(np.uint16).reshape(2, 32, 2)
        got = halves.transpose(0, 2, 1).reshape(4, 32)
    out[row, column] = got
    return out


def check(kind: str, result: str, a: Array, b: Array, c: Array, arithmetic: str) -> None:
    group, fraction = _RULES[arithmetic]
    got = multiply(kind, result, a, b, c, arithmetic)
    for i in range(16):
        for j in range(8):
            want = fused_dot(
                a[i].tolist(), b[:, j].tolist(), int(c[i, j]), kind, result,
                group=group, fraction=fraction,
            )  # fmt: skip
            assert int(got[i, j]) == want, (i, j, hex(got[i, j]), hex(want))


def _random(rng: np.random.Generator, kind: str, shape: tuple[int, ...], style: str) -> Array:
    """Bit patterns in one of several styles."""
    form = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127)}[kind]
    bits = 32 if kind == "f32" else 16
    dtype = np.uint32 if kind == "f32" else np.uint16
    if style == "bits":
        return rng.integers(0, 2**bits, shape).astype(dtype)
    fraction, bias = form
    spread = {"normal": 3, "wide": 12, "tiny": 3, "huge": 3}[style]
    centre = {"normal": 0, "wide": 0, "tiny": -bias + 2, "huge": bias - 6}[style]
    exponent = np.clip(rng.integers(-spread, spread + 1, shape) + centre + bias, 0, 2 * bias)
    sign = rng.integers(0, 2, shape)
    value = sign << (bits - 1) | exponent << fraction | rng.integers(0, 1 << fraction, shape)
    chosen: Array = np.where(rng.random(shape) < 0.1, 0, value).astype(dtype)
    return chosen


@pytest.mark.parametrize(
    ("arithmetic", "kind", "result"),
    [
        (arithmetic, kind, result)
        for arithmetic in _RULES
        for kind, result in (("f16", "f32"), ("bf16", "f32"), ("f16", "f16"))
        if (arithmetic, kind) != ("sm_75", "bf16")
    ],
)
@pytest.mark.parametrize("style", ["normal", "wide", "tiny", "huge", "bits"])
def test_every_output_equals_the_reference(
    arithmetic: str, kind: str, result: str, style: str
) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{arithmetic}{kind}{result}{style}".encode()))
    for k in (8, 16):
        a = _random(rng, kind, (16, k), style)
        b = _random(rng, kind, (k, 8), style)
        c = _random(rng, result, (16, 8), style)
        check(kind, result, a, b, c, arithmetic)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_hostile_patterns(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["f16", "bf16"]))
    top = {"f16": 0x7C00, "bf16": 0x7F80}[kind]
    special = st.sampled_from([0, 0x8000, 1, 0x8001, top, top | 0x8000, top + 1, top - 1, 0x3C00])
    pattern = st.one_of(special, st.integers(0, 65535))
    k = data.draw(st.sampled_from([8, 16]))
    drawn = [np.array(data.draw(st.lists(pattern, min_size=4 * k, max_size=4 * k)), np.uint16)]
    drawn.append(np.array(data.draw(st.lists(pattern, min_size=2 * k, max_size=2 * k)), np.uint16))
    a, b = np.tile(drawn[0].reshape(4, k), (4, 1)), np.tile(drawn[1].reshape(k, 2), (1, 4))
    c_pattern = st.one_of(
        st.sampled_from([0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00400000]),
        st.integers(0, 2**32 - 1),
    )
    c = np.array(data.draw(st.lists(c_pattern, min_size=8, max_size=8)), np.uint32)
    check(kind, "f32", a, b, np.tile(c, (16, 1)), data.draw(st.sampled_from(["sm_80", "sm_90"])))


def test_k_longer_than_a_group_rounds_in_between() -> None:
    # 1 + eight times 2^-24 in each half: sm_90 sums them before rounding, sm_80 in two halves.
    a = np.full((16, 16), 0x0C00, np.uint16)  # 2^-12
    b = np.full((16, 8), 0x0C00, np.uint16)
    c = np.full((16, 8), 0x3F800000, np.uint32)
    for name in ("sm_80", "sm_90"):
        check("f16", "f32", a, b, c, name)


def test_addends_are_cut_below_the_largest() -> None:
    a = np.zeros((16, 16), np.uint16)
    b = np.zeros((16, 8), np.uint16)
    a[:, 0], b[0] = 0x7800, 0x7800  # 2^15 * 2^15 = 2^30
    a[:, 1], b[1] = 0x4000, 0x4000  # 4 = 2^2: 28 places below
    c = np.zeros((16, 8), np.uint32)
    got = multiply("f16", "f32", a, b, c).view(np.float32)
    np.testing.assert_array_equal(got, np.float32(2.0**30))
    b[0] = 0xF800
    a[:, 2], b[2] = 0x7800, 0x7800  # the large ones cancel, and the small one is gone
    got = multiply("f16", "f32", a, b, c)
    np.testing.assert_array_equal(got, 0)


@pytest.mark.parametrize(
    ("a0", "b0", "c0", "want"),
    [
        (0x7E00, 0x3C00, 0x3F800000, 0x7FFFFFFF),  # NaN in A
        (0x3C00, 0x3C00, 0x7F800001, 0x7FFFFFFF),  # NaN in C
        (0x7C00, 0x0000, 0x00000000, 0x7FFFFFFF),  # inf * 0
        (0x7C00, 0xBC00, 0x00000000, 0xFF800000),  # inf * -1
        (0x7C00, 0x3C00, 0xFF800000, 0x7FFFFFFF),  # inf - inf
        (0x0000, 0x3C00, 0x80000000, 0x00000000),  # -0 + 0
        (0x8000, 0x3C00, 0x80000000, 0x00000000),  # all minus zero is still +0
        (0x3C00, 0xBC00, 0x3F800000, 0x00000000),  # exact cancellation
        (0x0000, 0x0000, 0x00048D14, 0x00048D14),  # a subnormal C is kept
        (0x0001, 0x0001, 0x00000000, 0x27800000),  # 2^-24 squared
        (0x3C00, 0x3C00, 0x7F7FFFFF, 0x7F7FFFFF),  # nothing reaches infinity by truncation
    ],
)
@pytest.mark.parametrize("arithmetic", ["sm_80", "sm_90"])
def test_special_values(a0: int, b0: int, c0: int, want: int, arithmetic: str) -> None:
    a = np.zeros((16, 16), np.uint16)
    b = np.zeros((16, 8), np.uint16)
    if (a0, b0) == (0x8000, 0x3C00):
        a[...], b[...] = a0, b0
    a[:, 0], b[0] = a0, b0
    c = np.full((16, 8), c0, np.uint32)
    got = multiply("f16", "f32", a, b, c, arithmetic)
    np.testing.assert_array_equal(got, np.uint32(want))


def test_fp16_result_overflows_at_65520_and_its_nan_is_7fff() -> None:
    a = np.zeros((16, 16), np.uint16)
    b = np.zeros((16, 8), np.uint16)
    c = np.zeros((16, 8), np.uint32)
    a[0, 0], b[0, 0] = 0x7BFF, 0x3C00  # 65504
    a[0, 1], b[1, 0] = 0x4C00, 0x3C00  # + 16
    a[1, 0], a[1, 1] = 0x7BFF, 0x4B80  # + 15
    a[2, 0] = 0x7E00
    got = multiply("f16", "f16", a, b, c)
    assert [int(v) for v in got[:3, 0]] == [0x7C00, 0x7BFF, 0x7FFF]


def test_a_tiny_negative_fp16_result_is_plus_zero() -> None:
    a = np.zeros((16, 16), np.uint16)
    b = np.zeros((16, 8), np.uint16)
    a[:, 0], b[0] = 0x8001, 0x0400  # -2^-24 * 2^-14
    c = np.zeros((16, 8), np.uint32)
    np.testing.assert_array_equal(multiply("f16", "f16", a, b, c), 0)
    check("f16", "f16", a, b, c, "sm_90")


def test_exact_sums_take_the_short_way_and_agree_with_the_long_one() -> None:
    rng = np.random.default_rng(2)
    whole = rng.integers(-64, 65, (16, 16)).astype(np.float16).view(np.uint16)
    other = rng.integers(-64, 65, (16, 8)).astype(np.float16).view(np.uint16)
    c = (rng.integers(-(2**22), 2**22, (16, 8))).astype(np.float32).view(np.uint32)
    for name in ("sm_80", "sm_90"):
        check("f16", "f32", whole, other, c, name)
    want = whole.view(np.float16).astype(np.float64) @ other.view(np.float16).astype(np.float64)
    want += c.view(np.float32)
    np.testing.assert_array_equal(multiply("f16", "f32", whole, other, c).view(np.float32), want)


def test_sums_that_leave_the_range_overflow_once() -> None:
    # 2^127 * 4 - 2^127 * 8: a partial sum in fp32 would be +inf already.
    a = np.zeros((16, 16), np.uint16)
    b = np.zeros((16, 8), np.uint16)
    a[:, :2], b[0], b[1] = 0x7F00, 0x4080, 0xC100
    c = np.zeros((16, 8), np.uint32)
    for name in ("sm_80", "sm_90"):
        check("bf16", "f32", a, b, c, name)
    np.testing.assert_array_equal(multiply("bf16", "f32", a, b, c), 0xFF800000)


def test_the_short_way_is_refused_when_a_sum_could_round() -> None:
    table = patterns("f16")
    ones = np.full((16, 1, 16), 0x3C00, np.uint16)
    operands = tensorcore._Operands(ones, ones[:, :, :8], (table, table))
    fits = np.full((1, 16, 8), 2.0**23, np.float32)
    assert tensorcore._plain(operands, fits, 23) is not None
    assert tensorcore._plain(operands, fits * 2, 23) is None
    assert tensorcore._plain(operands, np.full((1, 16, 8), 0.5, np.float32), 23) is None
    assert tensorcore._plain(operands, np.full((1, 16, 8), np.nan, np.float32), 23) is None


def test_grids_of_fragments_and_warps_equal_single_products() -> None:
    rng = np.random.default_rng(3)
    m, n, warps = 3, 2, 2
    shape = Shape(16, "bf16", "f32")
    a = rng.integers(0x3F00, 0x4100, (1, m, 4, 32 * warps * 2)).astype(np.uint16).view(np.uint32)
    b = rng.integers(0x3F00, 0x4100, (1, n, 2, 32 * warps * 2)).astype(np.uint16).view(np.uint32)
    c = rng.standard_normal((1, m, n, 4, 32 * warps)).astype(np.float32).view(np.uint32)
    how = rules("sm_90a", "bf16")
    got = tensorcore.multiply_accumulate(shape, how, a, b, c)
    for i in range(m):
        for j in range(n):
            for w in range(warps):
                part = slice(32 * w, 32 * w + 32)
                one = tensorcore.multiply_accumulate(
                    shape, how,
                    np.ascontiguousarray(a[:, i : i + 1, :, part]),
                    np.ascontiguousarray(b[:, j : j + 1, :, part]),
                    np.ascontiguousarray(c[:, i : i + 1, j : j + 1, :, part]),
                )  # fmt: skip
                np.testing.assert_array_equal(got[:, i : i + 1, j : j + 1, :, part], one)


def test_fragment_tables_follow_the_manual() -> None:
    # PTX ISA: for m16n8k16, groupID = laneid >> 2, threadID_in_group = laneid % 4.
    row, k = fragments.a_elements(16)
    for lane in range(32):
        for i in range(8):
            want_row = lane // 4 + (8 if i in (2, 3, 6, 7) else 0)
            want_k = lane % 4 * 2 + (i & 1) + (8 if i >= 4 else 0)
            assert (row[i // 2, lane, i & 1], k[i // 2, lane, i & 1]) == (want_row, want_k)
    k, column = fragments.b_elements(16)
    for lane in range(32):
        for i in range(4):
            want_k = lane % 4 * 2 + (i & 1) + (8 if i >= 2 else 0)
            assert (k[i // 2, lane, i & 1], column[i // 2, lane, i & 1]) == (want_k, lane // 4)
    row, column = fragments.c_elements()
    for lane in range(32):
        for i in range(4):
            want = (lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1))
            assert (row[i, lane], column[i, lane]) == want


def test_unknown_architecture() -> None:
    with pytest.raises(LaunchError, match="no arithmetic known for 'sm_70'; known: sm_75"):
        tensorcore.arithmetic("sm_70")


def test_recorded_products() -> None:
    # Pinned outputs of the algorithm, so that a change of it cannot go unnoticed.
    rng = np.random.default_rng(20)
    a = rng.standard_normal((16, 16)).astype(np.float16).view(np.uint16)
    b = rng.standard_normal((16, 8)).astype(np.float16).view(np.uint16)
    c = rng.standard_normal((16, 8)).astype(np.float32).view(np.uint32)
    old, new = multiply("f16", "f32", a, b, c, "sm_80"), multiply("f16", "f32", a, b, c, "sm_90")
    assert [hex(v) for v in old[0, :4].tolist()] == RECORDED["sm_80"]
    assert [hex(v) for v in new[0, :4].tolist()] == RECORDED["sm_90"]


RECORDED = {
    "sm_80": ["0x3ef472eb", "0xc0aebf24", "0xc08497f3", "0x40276ddd"],
    "sm_90": ["0x3ef472ea", "0xc0aebf24", "0xc08497f3", "0x40276ddc"],
}
