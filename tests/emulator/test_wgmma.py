from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Report, UnsupportedError, parse
from tests.emulator.reference import fused_dot
from tests.emulator.warpgroup import execute, module, output

Array = np.ndarray[Any, np.dtype[Any]]
SHARED = 65536
TYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}

# Parameters: shared memory's content, the sums before (register by register, 128 lanes each),
# the sums after, both descriptors.
FILL = """
mov.u32 %r4, shared;
mov.u32 %r8, %r0;
fill:
setp.ge.u32 %p3, %r8, 16384;
@%p3 bra filled;
mad.wide.u32 %d9, %r8, 4, %d0;
ld.global.u32 %r11, [%d9];
shl.b32 %r9, %r8, 2;
add.u32 %r10, %r4, %r9;
st.shared.u32 [%r10], %r11;
add.u32 %r8, %r8, 128;
bra fill;
filled:
fence.proxy.async.shared::cta;
bar.sync 0;
mad.wide.u32 %d9, %r0, 4, %d1;
mad.wide.u32 %d10, %r0, 4, %d2;
"""


def product(columns: int, kind: str, tail: str, *, middle: str = "") -> str:
    count = columns // 2
    loads = "".join(f"ld.global.f32 %f{i}, [%d9+{512 * i}];\n" for i in range(count))
    stores = "".join(f"st.global.f32 [%d10+{512 * i}], %f{i};\n" for i in range(count))
    names = ", ".join(f"%f{i}" for i in range(count))
    return (
        f"{FILL}{loads}{middle}wgmma.fence.sync.aligned;\n"
        f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "
        f"{{{names}}}, %d3, %d4, {tail};\n"
        f"wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{stores}"
    )


def descriptor(start: int, leading: int, stride: int, swizzle: int) -> int:
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | mode << 62


def place(memory: Array, matrix: Array, start: int, swizzle: int, *, transposed: bool) -> int:
    """Write an operand (rows x 16, uint16) to shared memory; returns its descriptor.

    Written from the manual's pictures: an atom is 8 rows (or 8 of k) of one pattern width.
    """
    rows = matrix.shape[0]
    width = swizzle or 16
    bits = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    if transposed:
        # Blocks of width / 2 rows of m and 8 of k; along k first, then along m.
        per = width // 2
        along_k, along_m = 8 * width, 16 * width
        leading, stride = (along_m, along_k) if swizzle else (along_k, along_m)
        for r in range(rows):
            for k in range(16):
                at = start + r // per * along_m + k // 8 * along_k + k % 8 * width + r % per * 2
                at ^= ((at >> 7) & bits) << 4
                memory[at // 2] = matrix[r, k]
        return descriptor(start, leading, stride, swizzle)
    leading, stride = 128, 8 * width if swizzle else 256
    for r in range(rows):
        for k in range(16):
            if swizzle:
                at = start + r // 8 * stride + r % 8 * width + 2 * k
                at ^= ((at >> 7) & bits) << 4
            else:
                at = start + r // 8 * stride + k // 8 * leading + r % 8 * 16 + k % 8 * 2
            memory[at // 2] = matrix[r, k]
    return descriptor(start, leading, stride, swizzle)


def fragment(columns: int) -> tuple[Array, Array]:
    """Row and column of register i of lane l, as the manual's figure draws it."""
    i, lane = np.meshgrid(np.arange(columns // 2), np.arange(128), indexing="ij")
    warp, g, t = lane // 32, lane % 32 // 4, lane % 4
    return 16 * warp + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2


def multiply(
    a: Array,
    b: Array,
    c: Array,
    kind: str,
    *,
    swizzles: tuple[int, int] = (128, 128),
    transposed: tuple[bool, bool] = (False, False),
    tail: str = "",
    start: int = 0,
) -> tuple[Array, Report]:
    """D of one wgmma; a and b are patterns (64 x 16 and n x 16), c is fp32 (64 x n)."""
    columns = b.shape[0]
    memory = np.zeros(SHARED // 2, np.uint16)
    descriptors = [
        place(memory, a, start, swizzles[0], transposed=transposed[0]),
        place(memory, b, 32768 + start, swizzles[1], transposed=transposed[1]),
    ]
    row, column = fragment(columns)
    before = np.ascontiguousarray(c.astype(np.float32)[row, column])
    out, buffer = output(columns // 2 * 128, np.float32)
    tail = tail or f"1, 1, 1, {int(transposed[0])}, {int(transposed[1])}"
    report = execute(
        product(columns, kind, tail),
        [GlobalBuffer("memory", memory), GlobalBuffer("c", before), buffer, *descriptors],
        threads=128,
        shared=SHARED,
    )
    d = np.zeros((64, columns), np.float32)
    d[row, column] = out.reshape(columns // 2, 128)
    return d, report


def whole(shape: tuple[int, int], kind: str, seed: int = 0) -> tuple[Array, Array]:
    """Small whole numbers, and their patterns."""
    numbers = np.random.default_rng(seed).integers(-8, 9, shape).astype(TYPES[kind])
    return numbers.astype(np.float64), numbers.view(np.uint16)


@pytest.mark.parametrize(
    ("swizzle", "transposed", "columns", "kind"),
    [
        (swizzle, transposed, columns, kind)
        for swizzle in (0, 32, 64, 128)
        for transposed in ((False, False), (True, False), (False, True), (True, True))
        for columns, kind in ((64, "f16"), (8, "bf16"), (192, "bf16"))
        # A swizzled MN-major operand is made of whole rows of the pattern.
        if not transposed[1] or columns % max(8, swizzle // 2) == 0
    ],
)
def test_every_layout_of_the_operands(
    swizzle: int, transposed: tuple[bool, bool], columns: int, kind: str
) -> None:
    a, bits_a = whole((64, 16), kind, 1)
    b, bits_b = whole((columns, 16), kind, 2)
    c = np.random.default_rng(3).integers(-100, 100, (64, columns))
    d, report = multiply(
        bits_a, bits_b, c, kind, swizzles=(swizzle, swizzle), transposed=transposed
    )
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(d, a @ b.T + c)


@pytest.mark.parametrize("columns", range(8, 257, 24))
def test_every_width(columns: int) -> None:
    # T16 of the known faults: widths congruent to 8 modulo 16 among them.
    a, bits_a = whole((64, 16), "f16", 1)
    b, bits_b = whole((columns, 16), "f16", 2)
    d, report = multiply(bits_a, bits_b, np.zeros((64, columns)), "f16")
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(d, a @ b.T)


def test_a_start_inside_the_pattern() -> None:
    # Stepping 16 of k adds 32 bytes to the start of a K-major operand; the XOR stays absolute.
    a, bits_a = whole((64, 16), "f16", 1)
    b, bits_b = whole((64, 16), "f16", 2)
    for start in (32, 64, 96):
        d, report = multiply(bits_a, bits_b, np.zeros((64, 64)), "f16", start=start)
        assert report.findings == ()
        np.testing.assert_array_equal(d, a @ b.T)


@pytest.mark.parametrize(
    ("tail", "sign", "keeps"),
    [
        ("1, -1, 1, 0, 0", -1, True),
        ("1, 1, -1, 0, 0", -1, True),
        ("1, -1, -1, 0, 0", 1, True),
        ("0, 1, 1, 0, 0", 1, False),
    ],
)
def test_scales(tail: str, sign: int, keeps: bool) -> None:
    a, bits_a = whole((64, 16), "f16", 1)
    b, bits_b = whole((16, 16), "f16", 2)
    c = np.random.default_rng(3).integers(-100, 100, (64, 16))
    d, report = multiply(bits_a, bits_b, c, "f16", tail=tail)
    assert report.findings == ()
    np.testing.assert_array_equal(d, sign * (a @ b.T) + (c if keeps else 0))


def test_the_predicate_decides_whether_the_sums_are_kept() -> None:
    a, bits_a = whole((64, 16), "f16", 1)
    b, bits_b = whole((8, 16), "f16", 2)
    c = np.full((64, 8), 5)
    for number, keeps in ((0, False), (1, True)):
        text = product(8, "f16", "%p7, 1, 1, 0, 0", middle=f"setp.ne.u32 %p7, {number}, 0;\n")
        memory = np.zeros(SHARED // 2, np.uint16)
        descriptors = [
            place(memory, bits_a, 0, 128, transposed=False),
            place(memory, bits_b, 32768, 128, transposed=False),
        ]
        before = np.full((4, 128), 5, np.float32)
        out, buffer = output(512, np.float32)
        report = execute(
            text,
            [GlobalBuffer("m", memory), GlobalBuffer("c", before), buffer, *descriptors],
            threads=128,
            shared=SHARED,
        )
        assert report.findings == ()
        row, column = fragment(8)
        want = a @ b.T + (c if keeps else 0)
        np.testing.assert_array_equal(out.reshape(4, 128), want[row, column])


def _patterns(rng: Any, shape: tuple[int, int], kind: str, spread: str) -> Array:
    if spread == "bits":
        bits: Array = rng.integers(0, 65536, shape).astype(np.uint16)
        return bits
    numbers = rng.standard_normal(shape)
    if spread == "wide":
        numbers *= np.exp2(rng.integers(-12, 12, shape))
    narrow: Array = numbers.astype(TYPES[kind])
    return narrow.view(np.uint16)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("spread", ["bits", "normal", "wide"])
def test_sums_are_the_hardware_s_bit_for_bit(kind: str, spread: str) -> None:
    rng = np.random.default_rng(len(spread) + len(kind))
    a, b = _patterns(rng, (64, 16), kind, spread), _patterns(rng, (16, 16), kind, spread)
    if spread == "bits":
        c = rng.integers(0, 1 << 32, (64, 16)).astype(np.uint32).view(np.float32)
    else:
        c = rng.standard_normal((64, 16)).astype(np.float32)
    d, report = multiply(a, b, c, kind)
    assert report.findings == ()
    bits, before = d.view(np.uint32), np.ascontiguousarray(c).view(np.uint32)
    for i in range(0, 64, 3):
        for j in range(16):
            want = fused_dot(
                a[i].tolist(), b[j].tolist(), int(before[i, j]), kind, "f32", group=16, fraction=25
            )
            assert int(bits[i, j]) == want, (i, j)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (("wgmma.mma_async.sync.aligned.m64n8k16.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, "
         "%d3, %d4, 1, 1, 1;"), "unsupported shape or types"),
        (("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%f0, %f1, %f2, %f3, %f4, %f5}, "
         "%d3, %d4, 1, 1, 1, 0, 0;"), "unsupported shape or types"),
        (("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {%f0, %f1, %f2, %f3}, "
         "%d3, %d4, 1, 1, 1, 0, 0;"), "unsupported shape or types"),
        (("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
         "{%r4, %r5, %r6}, %d4, 1, 1, 1, 0;"), "4 registers of A were expected"),
        (("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2}, "
         "%d3, %d4, 1, 1, 1, 0, 0;"), "4 accumulators were expected"),
        (("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f0}, "
         "%d3, %d4, 1, 1, 1, 0, 0;"), "an accumulator is named twice"),
        (("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, "
         "%d3, %d4, 1, 2, 1, 0, 0;"), "scales of 1 or -1"),
        ("wgmma.wait_group.sync.aligned %r4;", "unsupported modifier"),
    ],
)  # fmt: skip
def test_what_has_no_semantics_is_refused_loudly(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(instruction, [])), "k")
