from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, UnsupportedError, parse
from tests.emulator.warpgroup import execute, kinds, module, output

# Register r of lane l holds the halves 256 r + 2 l and 256 r + 2 l + 1; matrix rows lie 16 bytes
# apart in an order that the lanes' addresses give, here reversed.
BODY = """
mov.u32 %r4, shared;
shl.b32 %r5, %r1, 1;
shl.b32 %r6, %r5, 16;
add.u32 %r6, %r6, %r5;
add.u32 %r6, %r6, 65536;
mov.u32 %r10, %r6;
add.u32 %r11, %r6, 16777472;
add.u32 %r12, %r11, 16777472;
add.u32 %r13, %r12, 16777472;
mov.u32 %r7, 31;
sub.u32 %r7, %r7, %r1;
shl.b32 %r7, %r7, 4;
shl.b32 %r8, %r2, 9;
add.u32 %r7, %r7, %r8;
add.u32 %r7, %r7, %r4;
STORE
bar.sync 0;
shl.b32 %r9, %r0, 4;
add.u32 %r9, %r9, %r4;
ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r9];
mad.wide.u32 %d9, %r0, 16, %d0;
st.global.v4.u32 [%d9], {%r20, %r21, %r22, %r23};
"""
# Lanes whose rows nobody writes read zeros.
ZERO = """
shl.b32 %r9, %r0, 4;
add.u32 %r9, %r9, %r4;
st.shared.v4.u32 [%r9], {%r30, %r30, %r30, %r30};
bar.sync 0;
"""
REGISTERS = {1: "{%r10}", 2: "{%r10, %r11}", 4: "{%r10, %r11, %r12, %r13}"}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("warps", [1, 3])
def test_fragments_go_to_the_rows_that_the_lanes_name(
    count: int, transposed: bool, warps: int
) -> None:
    trans = ".trans" if transposed else ""
    store = (
        f"mov.u32 %r30, 0;\n{ZERO}"
        f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r7], {REGISTERS[count]};"
    )
    out, buffer = output(128 * warps)
    report = execute(BODY.replace("STORE", store), [buffer], threads=32 * warps)
    assert report.findings == (), str(report)
    want = np.zeros((warps, 32, 8), np.uint16)
    for matrix in range(count):
        for row in range(8):
            for column in range(8):
                # The lane that holds the element, and which half of its register.
                g, t = (column, row) if transposed else (row, column)
                lane, half = 4 * g + t // 2, t % 2
                value = 256 * matrix + 2 * lane + half
                want[:, 31 - (8 * matrix + row), column] = value
    np.testing.assert_array_equal(out.view(np.uint16).reshape(warps, 32, 8), want)


def test_it_undoes_ldmatrix() -> None:
    content = np.arange(128, dtype=np.uint32) * 65537
    body = """
mov.u32 %r4, shared;
shl.b32 %r5, %r1, 4;
mad.wide.u32 %d9, %r1, 16, %d0;
mad.wide.u32 %d10, %r1, 16, %d1;
add.u32 %r6, %r5, %r4;
ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d9];
st.shared.v4.u32 [%r6], {%r20, %r21, %r22, %r23};
bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m8n8.x4TL.shared.b16 {%r10, %r11, %r12, %r13}, [%r6];
stmatrix.sync.aligned.m8n8.x4TS.shared.b16 [%r6+512], {%r10, %r11, %r12, %r13};
bar.warp.sync 0xffffffff;
ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r6+512];
st.global.v4.u32 [%d10], {%r20, %r21, %r22, %r23};
"""
    for trans in ("", ".trans"):
        out, buffer = output(128)
        text = body.replace("TL", trans).replace("TS", trans)
        report = execute(text, [GlobalBuffer("in", content), buffer])
        assert report.findings == ()
        np.testing.assert_array_equal(out, content)


def test_a_store_of_rows_is_an_access_like_any_other() -> None:
    store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r7], {%r10, %r11, %r12, %r13};"
    text = BODY.replace("STORE", store)
    report = execute(text.replace("bar.sync 0;", ""), [output(128)[1]])
    assert kinds(report) == ["race"]
    report = execute(text.replace("[%r7]", "[%r7+8]"), [output(128)[1]])
    assert "misaligned" in kinds(report)
    report = execute(text.replace("[%r7]", "[%r7+4000]"), [output(128)[1]])
    assert "out-of-bounds-write" in kinds(report)
    masked = text.replace(store, f"setp.lt.u32 %p1, %r1, 16;\n@!%p1 bra out;\n{store}\nout:")
    assert "divergent-instruction" in kinds(execute(masked, [output(128)[1]]))


def test_bank_conflicts_are_counted() -> None:
    store = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r7], {%r10, %r11, %r12, %r13};"
    text = BODY.replace("STORE", store)
    report = execute(text, [output(128)[1]], checks=Checks(costs=True))
    (cost,) = [c for c in report.statistics.shared_costs if "stmatrix" in c.place.text]
    assert (cost.requests, cost.wavefronts, cost.excess) == (1, 4, 0)
    # Rows 128 bytes apart all start in one bank.
    text = text.replace("shl.b32 %r7, %r7, 4;", "shl.b32 %r7, %r7, 7;")
    report = execute(text, [output(128)[1]], checks=Checks(costs=True), shared=8192)
    (cost,) = [c for c in report.statistics.shared_costs if "stmatrix" in c.place.text]
    assert (cost.wavefronts, cost.excess, cost.degree) == (32, 28, 8)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r4], {%r5};", "unsupported modifier"),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r4], {%r5};", "2 registers were expected"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 %r4, {%r5};", "an address was expected"),
    ],
)
def test_what_has_no_semantics_is_refused_loudly(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(instruction, [])), "k")
