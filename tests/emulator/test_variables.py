"""Variables of a module: constant tables and global counters, with their initialisers."""

from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, UnsupportedError, parse
from tests.emulator.support import entry, launch

BEFORE = """
.visible .const .align 4 .u32 table[4] = {10, 0x14, -30, 40U};
.const .align 4 .f32 scale = 0f40200000;
.global .align 8 .b8 bytes[8] = {1, 2, 3, 4, 255};
.visible .global .align 4 .u32 counter;
.global .align 4 .u32 shape[] = {7, 8};
.extern .global .align 4 .u32 elsewhere;
"""
BODY = """
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 3;
    mov.u64 %d1, table;
    mad.wide.u32 %d2, %r2, 4, %d1;
    ld.const.u32 %r3, [%d2];
    ld.const.f32 %r4, [scale];
    cvta.const.u64 %d3, %d1;
    ld.u32 %r5, [%d3+4];
    ld.global.u64 %d4, [bytes];
    ld.global.u32 %r6, [shape+4];
    mov.u64 %d6, counter;
    cvta.global.u64 %d7, %d6;
    atom.add.u32 %r7, [%d7], 1;
    ld.param.u64 %d5, [k_param_0];
    mad.wide.u32 %d5, %r1, 32, %d5;
    st.global.v4.u32 [%d5], {%r3, %r4, %r5, %r6};
    st.global.u64 [%d5+16], %d4;
    st.global.u32 [%d5+24], %r7;
"""


def test_tables_and_counters() -> None:
    out = np.zeros((32, 8), np.uint32)
    for _ in range(2):  # each run starts from the initialisers
        report = launch(entry(BODY, 1, BEFORE), [GlobalBuffer("out", out, writable=True)])
        assert report.findings == (), str(report)
        assert out[:4, 0].view(np.int32).tolist() == [10, 20, -30, 40]
        assert out[:, 1].view(np.float32).tolist() == [2.5] * 32
        assert set(out[:, 2].tolist()) == {20}
        assert set(out[:, 3].tolist()) == {8}
        assert out[:1, 4:6].copy().view(np.uint8).tolist() == [[1, 2, 3, 4, 255, 0, 0, 0]]
        assert out[:, 6].tolist() == list(range(32))


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("mov.u64 %d1, table; ld.const.u32 %r1, [%d1+16];", "out-of-bounds-read",
         "at offset 16 of buffer 'table' (16 bytes)"),
        ("mov.u64 %d1, table; st.global.u32 [%d1], %r1;", "read-only-write",
         "read-only buffer 'table'"),
        ("st.global.u32 [counter+4], %r1;", "out-of-bounds-write", "buffer 'counter'"),
        ("mov.u32 %r1, %tid.x; st.global.u32 [counter], %r1;", "race", "buffer 'counter'"),
    ],
)  # fmt: skip
def test_faults_name_the_variable(body: str, kind: str, message: str) -> None:
    report = launch(entry(body, 0, BEFORE), [])
    assert [f.kind for f in report.findings] == [kind]
    assert message in report.findings[0].message


@pytest.mark.parametrize(
    ("before", "body", "message"),
    [
        (".global .u32 a[2] = {1, 2, 3};", "ret;", "3 values for 2 elements: a"),
        (".global .u64 a = generic(b);", "ret;", "an initialiser that is no number: 'generic'"),
        (".global .u32 a = 1.5;", "ret;", "an initialiser that is no number: '1.5'"),
        (".extern .global .u32 a;", "ld.global.u32 %r1, [a];", "unknown name 'a'"),
        (".global .u32 a;", "mov.u32 %r1, a;", "a 64-bit register was expected"),
        (".const .u32 a;", "st.const.u32 [a], %r1;", "unsupported modifier const"),
    ],
)
def test_what_is_no_variable_is_refused(before: str, body: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(body, 0, before)), "k")
