from __future__ import annotations

import numpy as np

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, nodes, parse
from deepgemm_codegen.emulator.registry import lookup
from deepgemm_codegen.emulator.schedule import schedule
from tests.emulator.support import entry, launch


def batches(body: str) -> list[list[str]]:
    """Opcode roots and first operands of each batch."""
    kernel = Kernel(parse(entry(body)), "k")
    members = [(ins, lookup(ins)) for ins in kernel.program.instructions]
    found = []
    for batch in schedule(members):
        names = []
        for ins, _ in batch:
            first = ins.operands[0] if ins.operands else nodes.Name("")
            text = getattr(first, "text", "") or str(getattr(first, "offset", ""))
            names.append(f"{ins.opcode[0]} {text}".strip())
        found.append(names)
    return found


def test_alike_instructions_meet_across_others() -> None:
    found = batches("""
        ld.global.u32 %r1, [%d1];
        add.u32 %r10, %r11, 1;
        ld.global.u32 %r2, [%d1+4];
        add.u32 %r12, %r1, 1;
        ld.global.u32 %r3, [%d1+8];
    """)
    assert found == [["add %r10"], ["ld %r1", "ld %r2", "ld %r3"], ["add %r12"]]


def test_an_address_that_changes_splits_a_batch() -> None:
    found = batches("""
        ld.global.u32 %r1, [%d1];
        add.s64 %d1, %d1, 4;
        ld.global.u32 %r2, [%d1];
    """)
    assert found == [["ld %r1"], ["add %d1"], ["ld %r2"]]


def test_loads_do_not_cross_stores_to_the_same_memory() -> None:
    found = batches("""
        ld.shared.u32 %r1, [%r9];
        st.shared.u32 [%r9], %r2;
        ld.shared.u32 %r3, [%r9];
        ld.global.u32 %r4, [%d1];
    """)
    assert found == [["ld %r1"], ["ld %r4"], ["st 0"], ["ld %r3"]]


def test_stores_share_a_batch_in_order_and_wait_for_their_values() -> None:
    found = batches("""
        st.shared.u32 [%r9], %r1;
        st.shared.u32 [%r9+4], %r2;
        add.u32 %r3, %r1, %r2;
        st.shared.u32 [%r9+8], %r3;
        st.shared.u16 [%r9+12], %h1;
        st.shared.u32 [%r9+16], %r3;
    """)
    assert found == [["add %r3"], ["st 0", "st 4", "st 8"], ["st 12"], ["st 16"]]


def test_the_later_of_two_stores_to_one_place_wins() -> None:
    out = np.zeros(32, np.uint32)
    body = """
        mov.u32 %r1, %tid.x;
        add.u32 %r2, %r1, 100;
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d2, %r1, 4, %d1;
        setp.lt.u32 %p1, %r1, 8;
        st.global.u32 [%d2], %r2;
        @%p1 st.global.u32 [%d2], %r1;
    """
    assert launch(entry(body, 1), [GlobalBuffer("out", out, writable=True)]).findings == ()
    lanes = np.arange(32)
    np.testing.assert_array_equal(out, np.where(lanes < 8, lanes, lanes + 100))


def test_guarded_loads_and_stores_of_a_batch_keep_their_lanes() -> None:
    data = np.arange(64, dtype=np.uint32)
    out = np.zeros(64, np.uint32)
    body = """
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        mad.wide.u32 %d3, %r1, 8, %d1;
        mad.wide.u32 %d4, %r1, 8, %d2;
        setp.lt.u32 %p1, %r1, 10;
        mov.u32 %r2, 7;
        mov.u32 %r3, 8;
        @%p1 ld.global.u32 %r2, [%d3];
        @!%p1 ld.global.u32 %r3, [%d3+4];
        st.global.u32 [%d4], %r2;
        @%p1 st.global.u32 [%d4+4], %r3;
    """
    buffers = [GlobalBuffer("in", data), GlobalBuffer("out", out, writable=True)]
    assert launch(entry(body, 2), buffers).findings == ()
    lane = np.arange(32)
    pairs = out.reshape(32, 2)
    np.testing.assert_array_equal(pairs[:, 0], np.where(lane < 10, data[::2], 7))
    np.testing.assert_array_equal(pairs[:, 1], np.where(lane < 10, 8, 0))


def test_a_wait_stays_between_the_copy_and_the_read() -> None:
    found = batches("""
        cp.async.ca.shared.global [%r1], [%d1], 4;
        cp.async.ca.shared.global [%r1+4], [%d1+4], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.u32 %r2, [%r1];
        cp.async.ca.shared.global [%r1+8], [%d1+8], 4;
    """)
    assert found == [["cp 0", "cp 4"], ["cp"], ["cp 0"], ["ld %r2"], ["cp 8"]]
