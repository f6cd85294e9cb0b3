"""mma.sync of tf32, 8-bit floats and 8-bit integers: layouts, and sums against references."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, UnsupportedError, fragments, parse
from deepgemm_codegen.emulator.fragments import Shape
from tests.emulator.reference import FORMATS, dot_by_halves, fused_dot
from tests.emulator.support import entry, launch
from tests.emulator.test_tensorcore import multiply

Array = np.ndarray[Any, np.dtype[Any]]

_FLOAT8 = ["e4m3", "e5m2", "e4m3*e5m2", "e5m2*e4m3"]
_HOLDER = {
    "tf32": np.uint32,
    "e4m3": np.uint8,
    "e5m2": np.uint8,
    "f32": np.uint32,
    "f16": np.uint16,
}


def _patterns(rng: np.random.Generator, kind: str, shape: tuple[int, ...], style: str) -> Array:
    """Bit patterns: any, or numbers around 1 with a few zeros."""
    dtype: Any = _HOLDER[kind]
    width = np.dtype(dtype).itemsize * 8
    if style == "bits":
        return rng.integers(0, 1 << width, shape).astype(dtype)
    form = FORMATS["f32" if kind == "tf32" else kind]
    spread = {"normal": 2, "wide": min(12, form.bias - 2)}[style]
    exponent = rng.integers(-spread, spread + 1, shape) + form.bias
    fraction = rng.integers(0, 1 << form.fraction_bits, shape)
    value = rng.integers(0, 2, shape) << (width - 1) | exponent << form.fraction_bits | fraction
    if kind == "e4m3":
        value = np.where(value & 0x7F == 0x7F, 0x70, value)
    chosen: Array = np.where(rng.random(shape) < 0.1, 0, value).astype(dtype)
    return chosen


def _want(kind: str, result: str, arithmetic: str, a: list[int], b: list[int], c: int) -> int:
    if kind == "tf32":
        # The low 13 bits are never looked at.
        a, b = ([x >> 13 for x in v] for v in (a, b))
        group, fraction = {"sm_80": (4, 24), "sm_89": (4, 24)}.get(arithmetic, (8, 25))
        return fused_dot(a, b, c, kind, result, group=group, fraction=fraction)
    if arithmetic == "sm_89":
        return fused_dot(a, b, c, kind, result, group=16, fraction=13, base=24, kept=13)
    if arithmetic == "sm_120":
        return fused_dot(a, b, c, kind, result, group=32, fraction=25)
    return dot_by_halves(a, b, c, kind, result)


@pytest.mark.parametrize("style", ["normal", "wide", "bits"])
@pytest.mark.parametrize(
    ("arithmetic", "kind", "result"),
    [(arch, "tf32", "f32") for arch in ("sm_80", "sm_89", "sm_90")]
    + [
        (arch, kind, result)
        for arch in ("sm_89", "sm_90", "sm_120")
        for kind in _FLOAT8
        for result in ("f32", "f16")
    ],
)
def test_every_output_equals_the_reference(
    arithmetic: str, kind: str, result: str, style: str
) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{arithmetic}{kind}{result}{style}".encode()))
    first, _, second = kind.partition("*")
    for k in (4, 8) if kind == "tf32" else (16, 32):
        a = _patterns(rng, first, (16, k), style)
        b = _patterns(rng, second or first, (k, 8), style)
        c = _patterns(rng, result, (16, 8), style)
        if style == "bits" and kind != "tf32":
            # Most rows of random bytes hold a NaN: make the others finite.
            a[4:] = _patterns(rng, first, (12, k), "wide")
            b[:, 2:] = _patterns(rng, second or first, (k, 6), "wide")
        got = multiply(kind, result, a, b, c, arithmetic)
        for i in range(0, 16, 3):
            for j in range(8):
                want = _want(
                    kind, result, arithmetic, a[i].tolist(), b[:, j].tolist(), int(c[i, j])
                )
                assert int(got[i, j]) == want, (i, j, hex(got[i, j]), hex(want))


def test_whole_numbers_take_the_short_way_only_while_13_bits_hold_them() -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(-8, 9, (16, 32)).astype(ml_dtypes.float8_e4m3fn)
    b = rng.integers(-8, 9, (32, 8)).astype(ml_dtypes.float8_e4m3fn)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for largest in (1000, 100000):
        c = rng.integers(-largest, largest, (16, 8)).astype(np.float32)
        for arithmetic in ("sm_89", "sm_90"):
            got = multiply(
                "e4m3", "f32", a.view(np.uint8), b.view(np.uint8), c.view(np.uint32), arithmetic
            ).view(np.float32)  # fmt: skip
            if largest == 1000 or arithmetic == "sm_90":
                np.testing.assert_array_equal(got, exact + c)
            else:
                assert (got != exact + c).any()
                for i in range(16):
                    want = _want("e4m3", "f32", arithmetic, a[i].view(np.uint8).tolist(),
                                 b[:, 0].view(np.uint8).tolist(),
                                 int(c[i, :1].view(np.uint32)[0]))  # fmt: skip
                    assert int(got[i, :1].view(np.uint32)[0]) == want


def test_a_nan_below_tf32_s_bits_is_an_infinity() -> None:
    a, b, c = (
        np.zeros((16, 8), np.uint32),
        np.zeros((8, 8), np.uint32),
        np.zeros((16, 8), np.uint32),
    )
    a[:, 0], b[0] = 0x7F800001, 0x3F800000
    np.testing.assert_array_equal(multiply("tf32", "f32", a, b, c), 0x7F800000)
    a[:, 0] = 0x7F802000
    np.testing.assert_array_equal(multiply("tf32", "f32", a, b, c), 0x7FFFFFFF)


# -- integers, through PTX --

_REGISTERS = """
mov.u32 %r60, %laneid;
ld.param.u64 %d1, [k_param_0];
ld.param.u64 %d2, [k_param_1];
ld.param.u64 %d3, [k_param_2];
ld.param.u64 %d4, [k_param_3];
mad.wide.u32 %d5, %r60, 4, %d1;
mad.wide.u32 %d6, %r60, 4, %d2;
mad.wide.u32 %d7, %r60, 4, %d3;
mad.wide.u32 %d8, %r60, 4, %d4;
"""


def _run(instruction: str, shape: Shape, a: Array, b: Array, c: Array) -> Array:
    """D (m x 8) of plain matrices: A is m x k, B is k x 8."""
    row, depth = fragments.a_elements(shape.k, shape.parts, shape.m)
    registers_a = np.ascontiguousarray(a[row, depth]).view(np.uint32)[:, :, 0]
    depth, column = fragments.b_elements(shape.k, shape.parts)
    registers_b = np.ascontiguousarray(b[depth, column]).view(np.uint32)[:, :, 0]
    row, column = fragments.c_elements(shape.m)
    registers_c = np.ascontiguousarray(c[row, column])
    out = np.zeros_like(registers_c)
    counts = [x.shape[0] for x in (registers_a, registers_b, registers_c)]
    names, lines = [], [_REGISTERS]
    for place, (count, first) in enumerate(zip(counts, (10, 20, 30), strict=True)):
        lines += [f"ld.global.u32 %r{first + i}, [%d{5 + place}+{128 * i}];" for i in range(count)]
        names.append("{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}")
    d = "{" + ", ".join(f"%r{40 + i}" for i in range(counts[2])) + "}"
    lines.append(f"{instruction} {d}, {names[0]}, {names[1]}, {names[2]};")
    lines += [f"st.global.u32 [%d8+{128 * i}], %r{40 + i};" for i in range(counts[2])]
    arrays = [np.ascontiguousarray(x) for x in (registers_a, registers_b, registers_c)]
    buffers = [GlobalBuffer(n, x) for n, x in zip("abc", arrays, strict=True)]
    report = launch(entry("\n".join(lines), 4), [*buffers, GlobalBuffer("d", out, writable=True)])
    assert report.findings == (), str(report)
    result = np.zeros_like(c)
    result[row, column] = out
    return result


_TYPES = {"s8": np.int8, "u8": np.uint8}


@pytest.mark.parametrize("kind_a", ["s8", "u8"])
@pytest.mark.parametrize("kind_b", ["s8", "u8"])
@pytest.mark.parametrize(("m", "k"), [(16, 16), (16, 32), (8, 16)])
@pytest.mark.parametrize("saturate", [False, True])
def test_integers_are_exact_and_wrap_or_clamp(
    kind_a: str, kind_b: str, m: int, k: int, saturate: bool
) -> None:
    rng = np.random.default_rng(m + k)
    info = np.iinfo(np.int32)
    a = rng.integers(0, 256, (m, k)).astype(np.uint8).view(_TYPES[kind_a])
    b = rng.integers(0, 256, (k, 8)).astype(np.uint8).view(_TYPES[kind_b])
    c = rng.integers(-(2**31), 2**31, (m, 8)).astype(np.int32)
    c[0], c[1] = info.max, info.min
    word = ".satfinite" if saturate else ""
    shape = Shape.find(f"m{m}n8k{k}", ("s32", kind_a, kind_b, "s32"))
    assert shape is not None
    got = _run(
        f"mma.sync.aligned.m{m}n8k{k}.row.col{word}.s32.{kind_a}.{kind_b}.s32", shape, a, b, c
    )
    exact = a.astype(np.int64) @ b.astype(np.int64) + c
    want = np.clip(exact, info.min, info.max) if saturate else exact
    np.testing.assert_array_equal(got, want.astype(np.int32))
    assert ((exact < info.min) | (exact > info.max)).any()


@pytest.mark.parametrize("kind", ["e4m3", "tf32"])
def test_floats_through_ptx(kind: str) -> None:
    rng = np.random.default_rng(8)
    k = 32 if kind == "e4m3" else 8
    dtype: Any = ml_dtypes.float8_e4m3fn if kind == "e4m3" else np.float32
    a, b = rng.integers(-4, 5, (16, k)).astype(dtype), rng.integers(-4, 5, (k, 8)).astype(dtype)
    c = rng.integers(-99, 99, (16, 8)).astype(np.float32)
    shape = Shape.find(f"m16n8k{k}", ("f32", kind, kind, "f32"))
    assert shape is not None
    got = _run(f"mma.sync.aligned.m16n8k{k}.row.col.f32.{kind}.{kind}.f32", shape, a, b, c)
    np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64) + c)


@pytest.mark.parametrize(("k", "parts", "m"), [(16, 4, 16), (32, 4, 16), (4, 1, 16), (8, 1, 16),
                                               (16, 4, 8)])  # fmt: skip
def test_fragment_tables_follow_the_manual(k: int, parts: int, m: int) -> None:
    # PTX ISA, "Matrix Fragments for mma.m16n8k32" and its sisters, element by element.
    row, depth = fragments.a_elements(k, parts, m)
    assert row.shape == (m * k // 32 // parts, 32, parts)
    for lane in range(32):
        group, thread = lane // 4, lane % 4
        for i in range(row.shape[0] * parts):
            register, part = divmod(i, parts)
            if parts == 4:
                high = (0 <= i < 4 or 8 <= i < 12) if m == 16 else True
                want = (group + (0 if high else 8), thread * 4 + (i & 3) + (16 if i >= 8 else 0))
            else:
                want = (group + (0 if i in (0, 2) else 8), thread + (4 if i >= 2 else 0))
            assert (row[register, lane, part], depth[register, lane, part]) == want, (lane, i)
    depth, column = fragments.b_elements(k, parts)
    for lane in range(32):
        for i in range(depth.shape[0] * parts):
            register, part = divmod(i, parts)
            if parts == 4:
                want_k = lane % 4 * 4 + (i & 3) + (16 if i >= 4 else 0)
            else:
                want_k = lane % 4 + 4 * i
            assert (depth[register, lane, part], column[register, lane, part]) == (
                want_k, lane // 4,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("instruction", "arithmetic", "message"),
    [
        (("m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r1,%r2,%r3,%r4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
         "{%r1,%r2,%r3,%r4}"), "sm_80", "sm_80 has no matrix products of e4m3"),
        (("m16n8k16.row.col.f32.bf16.bf16.f32 {%r1,%r2,%r3,%r4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
         "{%r1,%r2,%r3,%r4}"), "sm_75", "sm_75 has no matrix products of bf16"),
        (("m16n8k8.row.col.f32.tf32.tf32.f32 {%r1,%r2,%r3,%r4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, "
         "{%r1,%r2,%r3,%r4}"), "sm_75", "sm_75 has no matrix products of tf32"),
        ("m16n8k32.row.col.s32.s8.e4m3.s32 {%r1}, {%r1}, {%r1}, {%r1}", "sm_90",
         "unsupported shape or types"),
        ("m16n8k16.row.col.satfinite.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1}", "sm_90",
         "unsupported shape or types"),
        ("m16n8k32.row.col.f32.s8.s8.f32 {%r1}, {%r1}, {%r1}, {%r1}", "sm_90",
         "unsupported shape or types"),
        ("m16n8k32.col.col.s32.s8.s8.s32 {%r1}, {%r1}, {%r1}, {%r1}", "sm_90",
         "unsupported modifier"),
        ("m16n8k32.row.col.s32.s8.s8.s32 {%r1,%r2}, {%r1}, {%r1}, {%r1}", "sm_90",
         "a fragment of 4 registers was expected"),
    ],
)  # fmt: skip
def test_what_no_tensor_core_multiplies_is_refused(
    instruction: str, arithmetic: str, message: str
) -> None:
    text = entry(f"mma.sync.aligned.{instruction};")
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(text), "k", arithmetic)
