"""wgmma of tf32, 8-bit floats and integers, fp16 sums, and A in registers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Report, UnsupportedError, parse
from tests.emulator.reference import fused_dot
from tests.emulator.test_wgmma import FILL, SHARED, descriptor, fragment
from tests.emulator.warpgroup import execute, kinds, module, output

Array = np.ndarray[Any, np.dtype[Any]]

TYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip


def _depth(kind: str) -> int:
    return 32 // int(np.dtype(TYPES[kind]).itemsize)


def _place(memory: Array, matrix: Array, start: int, swizzle: int) -> int:
    """Write a K-major operand (rows x 32 bytes) to shared memory; returns its descriptor."""
    rows = np.ascontiguousarray(matrix).view(np.uint8).reshape(matrix.shape[0], 32)
    bits = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    stride = 8 * swizzle if swizzle else 256
    for r in range(rows.shape[0]):
        for byte in range(32):
            if swizzle:
                at = start + r // 8 * stride + r % 8 * swizzle + byte
                at ^= ((at >> 7) & bits) << 4
            else:
                at = start + r // 8 * stride + byte // 16 * 128 + r % 8 * 16 + byte % 16
            memory[at] = rows[r, byte]
    return descriptor(start, 128, stride, swizzle)


def _a_registers(matrix: Array) -> Array:
    """A (64 x 32 bytes) as four registers a lane: as mma.sync has it, 16 rows a warp."""
    words = np.ascontiguousarray(matrix).view(np.uint32)  # (64, 8)
    register, lane = np.meshgrid(np.arange(4), np.arange(128), indexing="ij")
    warp, g, t = lane // 32, lane % 32 // 4, lane % 4
    picked: Array = words[16 * warp + g + 8 * (register & 1), t + 4 * (register >> 1)]
    return np.ascontiguousarray(picked)


def _sums(c: Array, sums: str) -> Array:
    """The matrix (64 x n) as registers (uint32)."""
    row, column = fragment(c.shape[1])
    if sums == "f16":
        halves = c.astype(np.float16)[row, column].view(np.uint16)
        pairs = np.stack([halves[0::2], halves[1::2]], axis=-1)
        return np.ascontiguousarray(pairs).view(np.uint32)[:, :, 0]
    typed = c.astype(np.int32 if sums == "s32" else np.float32)
    return np.ascontiguousarray(typed[row, column]).view(np.uint32)


def _matrix(registers: Array, sums: str, columns: int) -> Array:
    row, column = fragment(columns)
    if sums == "f16":
        pairs = np.ascontiguousarray(registers).view(np.float16).reshape(-1, 128, 2)
        typed = pairs.transpose(0, 2, 1).reshape(-1, 128)
    else:
        typed = registers.view(np.int32 if sums == "s32" else np.float32)
    result = np.zeros((64, columns), typed.dtype)
    result[row, column] = typed
    return result


def _multiply(
    a: Array,
    b: Array,
    c: Array,
    words: str,
    *,
    tail: str = "1, 1, 1",
    in_registers: bool = False,
    swizzle: int = 128,
    times: int = 1,
    middle: str = "",
    after: str = "",
) -> tuple[Array, Report]:
    """D of wgmma with K-major operands; ``words`` as ``f32.e4m3.e4m3``."""
    columns = b.shape[0]
    sums = "f16" if words.startswith("f16") else "s32" if words.startswith("s32") else "f32"
    sums = "s32" if "s32" in words else sums
    memory = np.zeros(SHARED, np.uint8)
    descriptors = [_place(memory, a, 0, swizzle), _place(memory, b, 32768, swizzle)]
    before = _sums(c, sums)
    count = before.shape[0]
    names = ", ".join(f"%f{i}" for i in range(count))
    k = _depth(words.rsplit(".", maxsplit=1)[-1])
    loads = "".join(f"ld.global.b32 %f{i}, [%d9+{512 * i}];\n" for i in range(count))
    stores = "".join(f"st.global.b32 [%d10+{512 * i}], %f{i};\n" for i in range(count))
    left = "%d3"
    if in_registers:
        loads += "mad.wide.u32 %d11, %r0, 4, %d5;\n"
        loads += "".join(f"ld.global.u32 %r{20 + i}, [%d11+{512 * i}];\n" for i in range(4))
        left = "{%r20, %r21, %r22, %r23}"
    opcode = f"wgmma.mma_async.sync.aligned.m64n{columns}k{k}.{words}"
    product = f"{opcode} {{{names}}}, {left}, %d4, {tail};\n"
    text = (
        f"{FILL}{loads}wgmma.fence.sync.aligned;\n{middle}{product * times}"
        f"wgmma.commit_group.sync.aligned;\n{after}wgmma.wait_group.sync.aligned 0;\n{stores}"
    )
    out, buffer = output(count * 128)
    parameters: list[Any] = [
        GlobalBuffer("memory", memory), GlobalBuffer("c", before), buffer, *descriptors,
        GlobalBuffer("a", _a_registers(a)),
    ]  # fmt: skip
    report = execute(text, parameters, threads=128, shared=SHARED)
    return _matrix(out.reshape(count, 128), sums, columns), report


def _whole(kind: str, rows: int, seed: int) -> Array:
    numbers = np.random.default_rng(seed).integers(-8, 9, (rows, _depth(kind)))
    if kind == "u8":
        numbers = np.abs(numbers)
    result: Array = numbers.astype(TYPES[kind])
    return result


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ("f32.f16.f16", 16), ("f32.bf16.bf16", 24), ("f32.tf32.tf32", 40), ("f16.f16.f16", 16),
        ("f32.e4m3.e4m3", 64), ("f32.e5m2.e4m3", 8), ("f32.e4m3.e5m2", 16), ("f16.e4m3.e4m3", 32),
        ("s32.s8.s8", 8), ("s32.u8.s8", 24), ("s32.s8.u8", 48), ("s32.u8.u8", 128),
    ],
)  # fmt: skip
def test_whole_numbers(words: str, columns: int, in_registers: bool) -> None:
    _, kind_a, kind_b = words.split(".")
    a, b = _whole(kind_a, 64, 1), _whole(kind_b, columns, 2)
    c = np.random.default_rng(3).integers(-100, 100, (64, columns))
    integer = words.startswith("s32")
    tail = "1" if integer else "1, 1, 1"
    if _depth(kind_a) == 16:
        tail += ", 0" if in_registers else ", 0, 0"
    d, report = _multiply(a, b, c, words, tail=tail, in_registers=in_registers)
    assert report.findings == (), str(report)
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c
    np.testing.assert_array_equal(d.astype(np.float64), exact)
    if not integer:
        negative, report = _multiply(a, b, c, words, in_registers=in_registers,
                                     tail=tail.replace("1, 1, 1", "1, -1, 1"))  # fmt: skip
        assert report.findings == ()
        np.testing.assert_array_equal(negative.astype(np.float64), 2.0 * c - exact)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("kind", ["e4m3", "s8", "tf32"])
def test_every_swizzle(kind: str, swizzle: int) -> None:
    a, b = _whole(kind, 64, 4), _whole(kind, 32, 5)
    words = f"{'s32' if kind == 's8' else 'f32'}.{kind}.{kind}"
    tail = "0" if kind == "s8" else "0, 1, 1"
    d, report = _multiply(a, b, np.full((64, 32), 9), words, tail=tail, swizzle=swizzle)
    assert report.findings == ()
    np.testing.assert_array_equal(d, a.astype(np.float64) @ b.astype(np.float64).T)


def test_integers_wrap_or_clamp_instruction_by_instruction() -> None:
    a = np.full((64, 32), 127, np.int8)
    b = np.full((8, 32), 127, np.int8)
    step = 127 * 127 * 32
    c = np.full((64, 8), 2**31 - step - 5, np.int64)
    for word, want in (("", 3 * step), (".satfinite", None)):
        d, report = _multiply(
            a, b, c, f"{word[1:]}{'.' if word else ''}s32.s8.s8", tail="1", times=3
        )
        assert report.findings == ()
        exact = c + (want or 0)
        expected = exact.astype(np.int32) if want else np.full((64, 8), 2**31 - 1)
        np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "tf32", "e4m3*e5m2"])
@pytest.mark.parametrize("spread", ["bits", "normal"])
def test_sums_are_the_hardware_s_bit_for_bit(kind: str, spread: str) -> None:
    rng = np.random.default_rng(len(kind) + len(spread))
    first, _, second = kind.partition("*")
    second = second or first
    holder: Any = np.uint32 if first == "tf32" else np.uint8
    width, depth = np.dtype(holder).itemsize * 8, _depth(first)
    operands = []
    for name, rows in ((first, 64), (second, 8)):
        if spread == "bits":
            operands.append(rng.integers(0, 1 << width, (rows, depth)).astype(holder))
        else:
            numbers = rng.standard_normal((rows, depth)).astype(TYPES[name])
            operands.append(numbers.view(holder))
    a, b = operands
    if spread == "bits":
        c = rng.integers(0, 1 << 32, (64, 8)).astype(np.uint32).view(np.float32)
    else:
        c = rng.standard_normal((64, 8)).astype(np.float32)
    d, report = _multiply(a.view(TYPES[first]), b.view(TYPES[second]), c, f"f32.{first}.{second}",
                          times=2)  # fmt: skip
    assert report.findings == ()
    how = {"group": 32, "fraction": 13, "base": 25, "kept": 13}
    shift = 0
    if first == "tf32":
        how, shift = {"group": 8, "fraction": 25}, 13
    for i in range(0, 64, 5):
        for j in range(8):
            want = int(c.view(np.uint32)[i, j])
            for _ in range(2):
                want = fused_dot(
                    (a[i] >> shift).tolist(), (b[j] >> shift).tolist(), want, kind, "f32", **how
                )
            assert int(d.view(np.uint32)[i, j]) == want, (i, j)


# -- registers of A --

A = _whole("f16", 64, 1)
B = _whole("f16", 16, 2)
C = np.zeros((64, 16))


def _with_registers(middle: str = "", after: str = "", tail: str = "1, 1, 1, 0") -> list[str]:
    _, report = _multiply(
        A, B, C, "f32.f16.f16", in_registers=True, middle=middle, after=after, tail=tail
    )
    return kinds(report)


def test_registers_of_a_written_after_the_fence() -> None:
    assert _with_registers() == []
    assert _with_registers(middle="mov.u32 %r22, 0;\n") == ["missing-fence"]
    # In another basic block, too.
    assert _with_registers(middle="mov.u32 %r22, 0;\nbra NEXT;\nNEXT:\n") == ["missing-fence"]


def test_registers_of_a_written_before_the_wait() -> None:
    assert _with_registers(after="mov.u32 %r22, 0;\n") == ["operand-in-flight"]
    assert _with_registers(after="bra NEXT;\nNEXT:\nmov.u32 %r22, 0;\n") == ["operand-in-flight"]
    # Reading them does no harm, nor does writing another register.
    assert _with_registers(after="add.u32 %r40, %r22, 1;\n") == []
    # With a later group still in flight, the registers of one that is done are free.
    again = (
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f100, %f101, %f102, %f103}, %d3, %d4, "
        "0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;\n"
    )
    assert _with_registers(after=f"{again}mov.u32 %r22, 0;\n") == []
    late = again.replace("wait_group.sync.aligned 1", "wait_group.sync.aligned 2")
    assert _with_registers(after=f"{late}mov.u32 %r22, 0;\n") == ["operand-in-flight"]


def test_b_is_transposed_with_a_in_registers() -> None:
    rows = np.random.default_rng(7).integers(-4, 5, (16, 64)).astype(np.float16)  # k x n
    memory_order = rows.view(np.uint8).reshape(16, 128)
    memory = np.zeros(SHARED, np.uint8)
    for k in range(16):
        for byte in range(128):
            at = 32768 + k // 8 * 1024 + k % 8 * 128 + byte
            memory[at ^ (((at >> 7) & 7) << 4)] = memory_order[k, byte]
    b = descriptor(32768, 2048, 1024, 128)
    names = ", ".join(f"%f{i}" for i in range(32))
    loads = "mad.wide.u32 %d11, %r0, 4, %d5;\n" + "".join(
        f"ld.global.u32 %r{20 + i}, [%d11+{512 * i}];\n" for i in range(4)
    )
    stores = "".join(f"st.global.b32 [%d10+{512 * i}], %f{i};\n" for i in range(32))
    text = (
        f"{FILL}{loads}wgmma.fence.sync.aligned;\n"
        f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{names}}}, "
        "{%r20, %r21, %r22, %r23}, %d4, 0, 1, 1, 1;\n"
        "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n" + stores
    )
    out, buffer = output(32 * 128)
    report = execute(
        text,
        [GlobalBuffer("m", memory), GlobalBuffer("c", np.zeros(1)), buffer, 0, b,
         GlobalBuffer("a", _a_registers(A))],
        threads=128, shared=SHARED,
    )  # fmt: skip
    assert report.findings == (), str(report)
    got = _matrix(out.reshape(32, 128), "f32", 64)
    np.testing.assert_array_equal(got, A.astype(np.float64) @ rows.astype(np.float64))


_S = "{%f0, %f1, %f2, %f3}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"m64n8k32.s32.s8.s8 {_S}, %d3, %d4, 1, 1, 1;", "another number of scales"),
        (f"m64n8k32.f32.e4m3.e4m3 {_S}, %d3, %d4, 1, 1, 1, 0, 0;", "another number of scales"),
        (f"m64n8k8.f32.tf32.tf32 {_S}, %d3, %d4, 1, 1, 1, 1, 0;", "another number of scales"),
        (f"m64n8k16.f32.f16.f16 {_S}, %d3, %d4, 1, 1, 1, 0;", "another number of scales"),
        (f"m64n8k32.f32.e4m3.s8 {_S}, %d3, %d4, 1, 1, 1;", "unsupported shape or types"),
        (f"m64n8k32.s32.e4m3.e4m3 {_S}, %d3, %d4, 1;", "unsupported shape or types"),
        (f"m64n8k32.satfinite.f32.e4m3.e4m3 {_S}, %d3, %d4, 1;", "unsupported shape or types"),
        (f"m64n40k32.s32.s8.s8 {_S}, %d3, %d4, 1;", "unsupported shape or types"),
        (f"m64n8k32.f16.e4m3.e4m3 {_S}, %d3, %d4, 1, 1, 1;", "2 accumulators were expected"),
        (f"m64n8k16.f32.f16.f16 {_S}, {{%f0, %r1, %r2, %r3}}, %d4, 1, 1, 1, 0;",
         "a register of A is an accumulator"),
        (f"m64n8k16.f32.f16.f16 {_S}, %d3;", "sums, A, B and a scale were expected"),
    ],
)  # fmt: skip
def test_what_has_no_semantics_is_refused(words: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(f"wgmma.mma_async.sync.aligned.{words}", [])), "k")
