from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, UnsupportedError, parse
from tests.emulator.support import entry, launch

Array = np.ndarray[Any, np.dtype[Any]]


def _ldmatrix(
    count: int, *, transposed: bool, swizzle: int = 0, warps: int = 2
) -> tuple[Array, Array]:
    """Fill shared memory with distinct halves, load matrices; returns (registers, memory)."""
    out = np.zeros((warps * 32, count), np.uint32)
    registers = ", ".join(f"%r{20 + i}" for i in range(count))
    stores = "\n".join(f"st.global.u32 [%d2+{4 * i}], %r{20 + i};" for i in range(count))
    instruction = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    body = f"""
        .shared .align 16 .b8 box[4096];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, box;
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d2, %r1, {4 * count}, %d1;
        mov.u32 %r3, %r1;
    FILL:
        shl.b32 %r4, %r3, 1;
        add.u32 %r5, %r4, 1;
        shl.b32 %r5, %r5, 16;
        or.b32 %r4, %r4, %r5;
        mad.lo.u32 %r6, %r3, 4, %r2;
        st.shared.u32 [%r6], %r4;
        add.u32 %r3, %r3, {warps * 32};
        setp.lt.u32 %p1, %r3, 1024;
        @%p1 bra FILL;
        bar.sync 0;
        xor.b32 %r7, %r1, {swizzle};
        and.b32 %r8, %r1, 31;
        mad.lo.u32 %r9, %r7, 48, %r2;
        {instruction} {{{registers}}}, [%r9];
        {stores}
    """
    report = launch(entry(body, 1), [GlobalBuffer("out", out, writable=True)], threads=32 * warps)
    assert report.findings == (), str(report)
    return out, np.arange(2048, dtype=np.uint16)


def test_addresses_of_both_widths_side_by_side() -> None:
    """They were read from one bank: whichever came last in the call."""
    out = np.zeros((32, 4), np.uint32)
    body = """
        .shared .align 16 .b8 box[1024];
        ld.param.u64 %d1, [k_param_0];
        mov.u32 %r1, %tid.x;
        mad.wide.u32 %d2, %r1, 16, %d1;
        mov.u32 %r2, box;
        mad.lo.u32 %r3, %r1, 16, %r2;
        add.u32 %r4, %r3, 512;
        st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};
        add.u32 %r5, %r1, 100;
        st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};
        cvt.u64.u32 %d3, %r4;
        cvt.u64.u32 %d4, %r3;
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r3];
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r21}, [%d3];
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r22}, [%r4];
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r23}, [%d4];
        st.global.v4.u32 [%d2], {%r20, %r21, %r22, %r23};
    """
    report = launch(entry(body, 1), [GlobalBuffer("out", out, writable=True)])
    assert report.findings == (), str(report)
    row = np.arange(32) // 4
    np.testing.assert_array_equal(out, np.stack([row, row + 100, row + 100, row], axis=1))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("swizzle", [0, 5])
def test_ldmatrix_follows_the_manuals_table(count: int, transposed: bool, swizzle: int) -> None:
    out, memory = _ldmatrix(count, transposed=transposed, swizzle=swizzle)
    for thread in range(64):
        warp, lane = divmod(thread, 32)
        for j in range(count):
            # Lanes 8j..8j+7 give the addresses of matrix j's rows.
            rows = [memory[((warp * 32 + 8 * j + r) ^ swizzle) * 24 :][:8] for r in range(8)]
            g, t = lane // 4, lane % 4
            if transposed:
                low, high = rows[2 * t][g], rows[2 * t + 1][g]
            else:
                low, high = rows[g][2 * t], rows[g][2 * t + 1]
            assert out[thread, j] == int(low) | int(high) << 16, (thread, j)


def _halves(x: Array, kind: str) -> Array:
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def _words(a: Array, b: Array, c: Array, result: str) -> Array:
    """The registers of a warp by the manual's tables: A in 0-3, B in 4-7, C in 8-11."""
    words = np.zeros((32, 16), np.uint32)
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for r in range(a.shape[1] // 4):
            row, column = g + 8 * (r % 2), 2 * t + 8 * (r // 2)
            words[lane, r] = int(a[row, column]) | int(a[row, column + 1]) << 16
        for r in range(a.shape[1] // 8):
            row = 2 * t + 8 * r
            words[lane, 4 + r] = int(b[row, g]) | int(b[row + 1, g]) << 16
        for i in range(4):
            value = c[g + 8 * (i // 2), 2 * t + i % 2]
            if result == "f32":
                words[lane, 8 + i] = value.view(np.uint32)
            else:
                words[lane, 8 + i // 2] |= int(np.float16(value).view(np.uint16)) << 16 * (i % 2)
    return words


def _group(start: int, count: int) -> str:
    return "{" + ", ".join(f"%r{start + i}" for i in range(count)) + "}"


@pytest.mark.parametrize("k", [8, 16])
@pytest.mark.parametrize(("kind", "result"), [("f16", "f32"), ("bf16", "f32"), ("f16", "f16")])
def test_mma_multiplies_the_matrices_of_the_manual(k: int, kind: str, result: str) -> None:
    rng = np.random.default_rng(k)
    a = rng.integers(-9, 10, (16, k)).astype(np.float32)
    b = rng.integers(-9, 10, (k, 8)).astype(np.float32)
    c = rng.integers(-9, 10, (16, 8)).astype(np.float32)
    words = _words(_halves(a, kind), _halves(b, kind), c, result)
    out = np.zeros((32, 4), np.uint32)
    loads = "\n".join(f"ld.global.u32 %r{10 + i}, [%d3+{4 * i}];" for i in range(12))
    n = 4 if result == "f32" else 2
    body = f"""
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        mad.wide.u32 %d3, %r1, 64, %d1;
        mad.wide.u32 %d4, %r1, 16, %d2;
        {loads}
        mma.sync.aligned.m16n8k{k}.row.col.{result}.{kind}.{kind}.{result}
            {_group(30, n)}, {_group(10, k // 4)}, {_group(14, k // 8)}, {_group(18, n)};
        st.global.v{n}.u32 [%d4], {_group(30, n)};
    """
    buffers = [GlobalBuffer("in", words), GlobalBuffer("out", out, writable=True)]
    assert launch(entry(body, 2), buffers).findings == ()
    want = a @ b + c
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for i in range(4):
            if result == "f32":
                got = out[lane, i : i + 1].view(np.float32)[0]
            else:
                got = out[lane, i // 2 : i // 2 + 1].view(np.float16)[i % 2]
            assert got == want[g + 8 * (i // 2), 2 * t + i % 2]


def test_a_chain_of_products_that_reuse_registers() -> None:
    # D is the next C and, through mov, the next A: batches must not run ahead of their inputs.
    out = np.zeros((32, 4), np.float32)
    body = """
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d1, %r1, 16, %d1;
        mov.u32 %r2, 0x3C003C00;
        mov.u32 %r3, 0x40004000;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
            {%r10, %r11, %r12, %r13}, {%r2, %r2, %r2, %r2}, {%r2, %r2}, {0, 0, 0, 0};
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
            {%r10, %r11, %r12, %r13}, {%r2, %r2, %r2, %r2}, {%r3, %r3}, {%r10, %r11, %r12, %r13};
        mov.u32 %r2, 0x3C003C00;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
            {%r20, %r21, %r22, %r23}, {%r3, %r3, %r3, %r3}, {%r3, %r3}, {%r10, %r11, %r12, %r13};
        mov.u32 %r3, 0;
        st.global.v4.u32 [%d1], {%r20, %r21, %r22, %r23};
    """
    assert launch(entry(body, 1), [GlobalBuffer("out", out, writable=True)]).findings == ()
    assert (out == 16 + 32 + 64).all()


def test_a_matrix_instruction_of_part_of_a_warp_is_told() -> None:
    body = """
        .shared .align 16 .b8 box[512];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, box;
        setp.lt.u32 %p1, %r1, 40;
        @%p1 bra SKIP;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r2];
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32
            {%r10, %r11, %r12, %r13}, {%r3, %r3}, {%r3}, {%r3, %r3, %r3, %r3};
    SKIP:
        ret;
    """
    report = launch(entry(body), [], threads=64)
    assert [f.kind for f in report.findings] == ["divergent-instruction"] * 2


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1};",
            "unsupported shape or types",
        ),
        ("ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%r2];", "unsupported modifier"),
        (
            "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];",
            "2 registers were expected",
        ),
        ("tcgen05.alloc.sync.aligned;", "unknown instruction"),
        ("mul.lo.s128 %r1, %r2, %r3;", "unknown instruction"),
        ("add.carry.u32 %r1, %r2, %r3;", "unsupported modifier carry"),
        ("add.u32 %r1, %r2, %d3;", "a 32-bit register was expected"),
        ("add.u32 %r1, %r2, %q3;", "unknown name '%q3'"),
        ("ld.global.mystery.u32 %r1, [%d1];", "unsupported modifier mystery"),
        ("bra NOWHERE;", "branch to an unknown label"),
        ("ld.global.b128 %r1, [%d1];", "the destination is narrower than the type"),
        ("ld.global.v2.u32 %r1, [%d1];", "2 destinations were expected"),
        ("add.u32 %r1, %r2;", "3 operands were expected"),
        ("fma.rn.f32 %r1, %r2, %r3;", "4 operands were expected"),
        ("ld.global.e4m3 %h1, [%d1];", "unreadable operands or type"),
        ("mov.u32 %r1, %clock;", "unknown name '%clock'"),
        ("cvt.rna.tf64.f32 %r1, %r2;", "two known types were expected"),
    ],
)
def test_what_has_no_semantics_is_refused_loudly(instruction: str, message: str) -> None:
    ptx = entry(f"mov.u32 %r1, 1;\n{instruction}")
    line = ptx[: ptx.index(instruction)].count("\n") + 1
    with pytest.raises(UnsupportedError) as caught:
        Kernel(parse(ptx), "k")
    opcode = instruction.split(maxsplit=1)[0].rstrip(";")
    assert str(caught.value).startswith(f"PTX line {line}: {message}")
    assert f": {opcode}" in str(caught.value)
