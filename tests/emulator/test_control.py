from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, Launch, LaunchError, parse, run
from tests.emulator.support import entry, execute, launch


def test_nested_divergence_and_loops_with_a_trip_count_a_lane() -> None:
    a = np.arange(96, dtype=np.int32)
    body = """
        mov.u32 %r40, 0;
        mov.u32 %r10, 0;
        setp.eq.s32 %p1, %r1, 0;
        @%p1 bra DONE;
    LOOP:
        and.b32 %r11, %r10, 1;
        setp.eq.s32 %p2, %r11, 0;
        @%p2 bra EVEN;
        add.s32 %r40, %r40, 100;
        setp.gt.s32 %p3, %r10, 5;
        @!%p3 bra NEXT;
        add.s32 %r40, %r40, 10000;
        bra.uni NEXT;
    EVEN:
        add.s32 %r40, %r40, 1;
    NEXT:
        add.s32 %r10, %r10, 1;
        setp.lt.s32 %p4, %r10, %r1;
        @%p4 bra LOOP;
    DONE:
    """
    want = []
    for n in a.tolist():
        total = 0
        for i in range(n):
            total += 1 if i % 2 == 0 else 100 + (10000 if i > 5 else 0)
        want.append(total)
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.int32), want)


def test_early_exit_leaves_the_others_running() -> None:
    a = np.arange(64, dtype=np.uint32)
    out = np.full(64, 9, np.uint32)
    body = """
        mov.u32 %r1, %tid.x;
        setp.gt.u32 %p1, %r1, 40;
        @%p1 ret;
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d2, %r1, 4, %d1;
        st.global.u32 [%d2], %r1;
        exit;
    """
    report = launch(entry(body, 1), [GlobalBuffer("out", out, writable=True)], threads=64)
    assert report.findings == ()
    np.testing.assert_array_equal(out, np.where(a > 40, 9, a))


def test_special_registers_follow_the_real_grid() -> None:
    out = np.zeros((2, 32, 12), np.uint32)
    names = [f"%{n}.{x}" for n in ("tid", "ntid", "ctaid", "nctaid") for x in "xyz"]
    lines = [
        "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 3; selp.u32 %r2, 1, 0, %p1;",
        "mov.u32 %r3, %tid.x; mov.u32 %r4, %tid.y; mov.u32 %r5, %tid.z;",
        "mad.lo.u32 %r4, %r5, 2, %r4; mad.lo.u32 %r3, %r4, 8, %r3;",
        "mad.lo.u32 %r2, %r2, 32, %r3; ld.param.u64 %d1, [k_param_0];",
        "mad.wide.u32 %d1, %r2, 48, %d1;",
    ]
    for i, name in enumerate(names):
        lines.append(f"mov.u32 %r20, {name}; st.global.u32 [%d1+{4 * i}], %r20;")
    kernel = Kernel(parse(entry("\n".join(lines), 1)), "k")
    shape = Launch((4, 5, 6), (8, 2, 2), 0, [GlobalBuffer("out", out, writable=True)])
    report = run(kernel, shape, [(2, 4, 5), (3, 0, 1)])
    assert report.findings == ()
    assert report.statistics.blocks == 2
    for block, (x, y, z) in enumerate([(2, 4, 5), (3, 0, 1)]):
        for t in range(32):
            want = [t % 8, t // 8 % 2, t // 16, 8, 2, 2, x, y, z, 4, 5, 6]
            assert out[block, t].tolist() == want


def test_a_block_outside_the_grid_is_refused() -> None:
    kernel = Kernel(parse(entry("ret;")), "k")
    with pytest.raises(LaunchError, match=r"block \(1, 0, 0\) lies outside the grid \(1, 1, 1\)"):
        run(kernel, Launch((1, 1, 1), (32, 1, 1)), [(1, 0, 0)])


def test_lane_and_warp_registers_and_masks() -> None:
    a = np.arange(64, dtype=np.uint32)
    for name, want in {
        "laneid": a % 32,
        "warpid": a // 32,
        "lanemask_eq": np.uint32(1) << a % 32,
        "lanemask_lt": (np.uint64(1) << a.astype(np.uint64) % 32) - 1,
        "lanemask_ge": np.uint32(0xFFFFFFFF) << a % 32,
    }.items():
        got = execute(f"mov.u32 %r40, %{name};", [a], "%r40", np.uint32)
        np.testing.assert_array_equal(got, want)


def test_a_barrier_reached_by_half_a_warp_is_divergent() -> None:
    body = """
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bra SKIP;
        bar.sync 0;
    SKIP:
        ret;
    """
    report = launch(entry(body), [], threads=32)
    assert [f.kind for f in report.findings] == ["divergent-barrier"]
    finding = report.findings[0]
    assert finding.place.text == "bar.sync 0"
    assert finding.actor.thread == 16


def test_a_barrier_that_one_warp_skips_is_a_deadlock_unless_it_exits() -> None:
    waits = """
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra OTHER;
        bar.sync 0;
        ret;
    OTHER:
        bar.sync 1;
        ret;
    """
    report = launch(entry(waits), [], threads=64)
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert report.findings[0].count == 64
    exits = waits.replace("bar.sync 1;", "")
    assert launch(entry(exits), [], threads=64).findings == ()


def test_warps_that_meet_at_two_barrier_instructions_are_told() -> None:
    body = """
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra OTHER;
        bar.sync 0;
        ret;
    OTHER:
        bar.sync 0;
        ret;
    """
    report = launch(entry(body), [], threads=64)
    assert [f.kind for f in report.findings] == ["divergent-barrier"]
    assert report.findings[0].other_place is not None


def test_a_guarded_barrier() -> None:
    body = "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 1, 32; ret;"
    assert launch(entry(body), [], threads=64).findings == ()


def test_an_endless_loop_ends() -> None:
    report = launch(entry("LOOP: bra LOOP;"), [], checks=Checks(step_limit=1000))
    assert [f.kind for f in report.findings] == ["timeout"]


_POLL = """
    ld.param.u64 %d1, [k_param_0];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 32;
    cvt.u64.u32 %d2, %r2;
    add.u64 %d1, %d1, %d2;
LOOP:
    ld.acquire.gpu.global.u32 %r3, [%d1];
    setp.eq.u32 %p1, %r3, 0;
    @%p1 bra LOOP;
"""


@pytest.mark.parametrize("threads", [32, 64])
def test_a_wait_for_a_flag_that_nobody_sets_ends_soon(threads: int) -> None:
    """By the default limit alone it took minutes."""
    flags = GlobalBuffer("flags", np.zeros(32, np.uint32))
    report = launch(entry(_POLL, 1), [flags], threads=threads)
    (finding,) = report.findings
    assert finding.kind == "timeout"
    assert finding.message.startswith(
        "a wait for memory that nobody is left to write: the threads that could go on only polled"
    )
    assert finding.message.endswith("have to run at once (Checks.lanes)")
    assert "bra LOOP" in str(finding)
    assert report.statistics.steps < 10_000


def test_a_flag_that_a_later_block_would_set() -> None:
    """With room for both at once they come to an end."""
    body = """
        ld.param.u64 %d1, [k_param_0];
        mov.u32 %r1, %ctaid.x;
        setp.eq.u32 %p1, %r1, 1;
        @%p1 bra SET;
    LOOP:
        ld.acquire.gpu.global.u32 %r3, [%d1];
        setp.eq.u32 %p1, %r3, 0;
        @%p1 bra LOOP;
        ret;
    SET:
        st.release.gpu.global.u32 [%d1], 1;
    """
    for lanes, kinds in ((32, ["timeout"]), (64, [])):
        flag = GlobalBuffer("flag", np.zeros(1, np.uint32), writable=True)
        report = launch(entry(body, 1), [flag], blocks=2, checks=Checks(lanes=lanes))
        assert [finding.kind for finding in report.findings] == kinds


@pytest.mark.parametrize(
    "turn",
    [
        "atom.global.add.u32 %r3, [%d1], 1; setp.lt.u32 %p1, %r3, 9000;",
        """ld.relaxed.gpu.global.u32 %r3, [%d1]; add.u32 %r4, %r4, 1;
        setp.eq.u32 %p1, %r3, 0; setp.lt.and.u32 %p1, %r4, 9000, %p1;""",
    ],
)
def test_polls_that_come_to_an_end_are_no_endless_wait(turn: str) -> None:
    body = f"ld.param.u64 %d1, [k_param_0]; mov.u32 %r4, 0;\nLOOP: {turn}\n@%p1 bra LOOP;"
    flags = GlobalBuffer("flags", np.zeros(1, np.uint32), writable=True)
    report = launch(entry(body, 1), [flags], threads=1)
    assert report.findings == ()
    assert report.statistics.steps >= 9000


def test_lanes_may_wait_for_others_in_a_loop() -> None:
    # The waiting loop stands before the code that ends it.
    out = np.zeros(64, np.uint32)
    body = """
        ld.param.u64 %d1, [k_param_0];
        mov.u32 %r1, %tid.x;
        setp.ge.u32 %p1, %r1, 32;
        @%p1 bra SIGNAL;
    WAIT:
        ld.acquire.gpu.global.u32 %r2, [%d1];
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra WAIT;
        mad.wide.u32 %d2, %r1, 4, %d1;
        st.global.u32 [%d2+4], %r2;
        ret;
    SIGNAL:
        mov.u32 %r3, 5;
        st.release.gpu.global.u32 [%d1], %r3;
        ret;
    """
    buffer = GlobalBuffer("out", out, writable=True)
    assert launch(entry(body, 1), [buffer], threads=64).findings == ()
    assert (out[1:33] == 5).all()


def written(*arrays: Any) -> list[GlobalBuffer]:
    return [GlobalBuffer(f"b{i}", array, writable=True) for i, array in enumerate(arrays)]


WARP_WIDE = {
    "barrier": "bar.sync 0;\nld.shared.u32 %r4, [%r5];",
    "shuffle": "shfl.sync.idx.b32 %r4|%p3, %r3, 0, 31, 0xffffffff;",
}


@pytest.mark.parametrize("how", WARP_WIDE)
@pytest.mark.parametrize("clocks", ["", "@%p0 mbarrier.init.shared::cta.b64 [spare], 1;\n"])
def test_a_warp_waits_for_the_thread_that_polls(how: str, clocks: str) -> None:
    """Thread 0 polls another block's flag, the others come to what their warp does together."""
    body = f"""
        .shared .align 4 .b8 box[4];
        .shared .align 8 .b8 spare[8];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        mov.u32 %r5, box;
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        setp.eq.u32 %p0, %r1, 31;
        {clocks}
        setp.eq.u32 %p1, %r2, 0;
        @%p1 bra SETS;
        mov.u32 %r3, 0;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra JOIN;
    POLL:
        atom.acquire.gpu.global.add.u32 %r3, [%d1], 0;
        setp.eq.u32 %p2, %r3, 0;
        @%p2 bra POLL;
        st.shared.u32 [%r5], %r3;
    JOIN:
        {WARP_WIDE[how]}
        mad.wide.u32 %d2, %r1, 4, %d2;
        st.global.u32 [%d2], %r4;
        ret;
    SETS:
        setp.ne.u32 %p1, %r1, 0;
        @%p1 ret;
        atom.release.gpu.global.exch.b32 %r3, [%d1], 42;
    """
    flag, out = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    report = launch(entry(body, 2), written(flag, out), blocks=2)
    assert str(report) == "no findings"
    assert (out == 42).all()


@pytest.mark.parametrize("how", WARP_WIDE)
def test_a_warp_waits_for_the_thread_that_counts_for_long(how: str) -> None:
    """Lanes that are passed over get a turn now and then, but not before their warp is there."""
    body = f"""
        .shared .align 4 .b8 box[4];
        mov.u32 %r1, %tid.x;
        mov.u32 %r5, box;
        ld.param.u64 %d2, [k_param_0];
        mov.u32 %r3, 0;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra JOIN;
    COUNT:
        add.u32 %r3, %r3, 1;
        setp.ne.u32 %p2, %r3, 9000;
        @%p2 bra COUNT;
        st.shared.u32 [%r5], %r3;
    JOIN:
        {WARP_WIDE[how]}
        mad.wide.u32 %d2, %r1, 4, %d2;
        st.global.u32 [%d2], %r4;
    """
    out = np.zeros(32, np.uint32)
    assert str(launch(entry(body, 1), written(out))) == "no findings"
    assert (out == 9000).all()


@pytest.mark.parametrize("how", WARP_WIDE)
def test_a_warp_waits_for_lanes_whose_code_stands_behind(how: str) -> None:
    """Compilers put loops that few lanes run behind the code that all go on with."""
    body = f"""
        .shared .align 4 .b8 box[4];
        mov.u32 %r1, %tid.x;
        mov.u32 %r5, box;
        ld.param.u64 %d2, [k_param_0];
        mov.u32 %r3, 0;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra COUNT;
    JOIN:
        {WARP_WIDE[how]}
        mad.wide.u32 %d2, %r1, 4, %d2;
        st.global.u32 [%d2], %r4;
        ret;
    COUNT:
        add.u32 %r3, %r3, 1;
        setp.ne.u32 %p2, %r3, 5;
        @%p2 bra COUNT;
        st.shared.u32 [%r5], %r3;
        bra JOIN;
    """
    out = np.zeros(32, np.uint32)
    assert str(launch(entry(body, 1), written(out))) == "no findings"
    assert (out == 5).all()


def test_half_a_warp_polls_for_the_other_half() -> None:
    """Which shuffles on its own: that the first half has to come, too, is nowhere said."""
    body = """
        mov.u32 %r1, %tid.x;
        ld.param.u64 %d1, [k_param_0];
        ld.param.u64 %d2, [k_param_1];
        setp.ge.u32 %p1, %r1, 16;
        @%p1 bra SHUFFLE;
    POLL:
        ld.acquire.gpu.global.u32 %r3, [%d1];
        setp.eq.u32 %p2, %r3, 0;
        @%p2 bra POLL;
        bra STORE;
    SHUFFLE:
        shfl.sync.bfly.b32 %r3|%p3, %r1, 1, 31, 0xffff0000;
        setp.ne.u32 %p1, %r1, 16;
        @%p1 bra STORE;
        st.release.gpu.global.u32 [%d1], 7;
    STORE:
        mad.wide.u32 %d2, %r1, 4, %d2;
        st.global.u32 [%d2], %r3;
    """
    flag, out = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    assert str(launch(entry(body, 2), written(flag, out))) == "no findings"
    assert out.tolist() == [7] * 16 + [lane ^ 1 for lane in range(16, 32)]


def test_a_trap_ends_the_run() -> None:
    report = launch(entry("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 7; @%p1 trap; ret;"), [])
    assert [(f.kind, f.actor.thread) for f in report.findings] == [("trap", 7)]
    assert report.statistics.blocks == 0


def test_a_block_larger_than_the_kernel_allows_is_refused() -> None:
    text = entry("ret;").replace(")\n{", ")\n.maxntid 64, 1, 1\n{")
    assert launch(text, [], threads=64).findings == ()
    with pytest.raises(LaunchError) as caught:
        launch(text, [], threads=96)
    assert str(caught.value) == "96 threads in a block; k allows 64"


def test_a_warp_barrier_waits_for_the_named_lanes() -> None:
    # The lower lanes arrive first and must wait; without the wait they would read 0.
    out = np.zeros(32, np.uint32)
    body = """
        .shared .align 4 .b8 box[128];
        mov.u32 %r1, %tid.x;
        mov.u32 %r3, box;
        xor.b32 %r4, %r1, 31;
        shl.b32 %r5, %r1, 2;
        add.u32 %r5, %r3, %r5;
        shl.b32 %r6, %r4, 2;
        add.u32 %r6, %r3, %r6;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bra LOW;
        bra HIGH;
    LOW:
        st.shared.u32 [%r5], %r1;
        bar.warp.sync -1;
        bra READ;
    HIGH:
        st.shared.u32 [%r5], %r1;
        bar.warp.sync -1;
    READ:
        ld.shared.u32 %r7, [%r6];
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d1, %r1, 4, %d1;
        st.global.u32 [%d1], %r7;
    """
    report = launch(entry(body, 1), [GlobalBuffer("out", out, writable=True)])
    assert report.findings == ()
    np.testing.assert_array_equal(out, 31 - np.arange(32))


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffle(mode: str, width: int) -> None:
    a = np.arange(64, dtype=np.uint32) * 3
    limit = (32 - width) << 8 | (0 if mode == "up" else 31)
    body = f"shfl.sync.{mode}.b32 %r40|%p1, %r1, 3, {limit}, -1;"
    got = execute(body, [a], "%r40", np.uint32)
    valid = execute(body, [a], "%p1", np.uint32)
    for lane in range(64):
        inside = lane % width
        source = {"up": inside - 3, "down": inside + 3, "bfly": inside ^ 3, "idx": 3}[mode]
        good = 0 <= source < width
        base = lane - inside
        assert valid[lane] == good
        assert got[lane] == a[base + source if good else lane]


def test_votes_and_masks() -> None:
    a = np.arange(64, dtype=np.uint32)
    body = "setp.gt.u32 %p2, %r1, 20; vote.sync.ballot.b32 %r40, %p2, -1;"
    want = np.where(a < 32, sum(1 << i for i in range(21, 32)), 0xFFFFFFFF)
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.uint32), want)
    for mode, low in (("any", 1), ("all", 0), ("uni", 0)):
        got = execute(
            f"setp.gt.u32 %p2, %r1, 20; vote.sync.{mode}.pred %p1, %p2, -1;", [a], "%p1", np.uint32
        )
        np.testing.assert_array_equal(got, np.where(a < 32, low, 1))
    body = """
        mov.u32 %r40, 0;
        setp.lt.u32 %p1, %r1, 5;
        @%p1 activemask.b32 %r40;
    """
    np.testing.assert_array_equal(execute(body, [a], "%r40", np.uint32), np.where(a < 5, 31, 0))


def test_a_shuffle_in_divergent_code_is_told() -> None:
    body = """
        mov.u32 %r1, %tid.x;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bra SKIP;
        shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
    SKIP:
        ret;
    """
    report = launch(entry(body), [])
    assert {f.kind for f in report.findings} == {"divergent-instruction"}


def test_many_blocks_at_once_equal_blocks_one_by_one() -> None:
    body = """
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        mov.u32 %r3, %ntid.x;
        mad.lo.u32 %r4, %r2, %r3, %r1;
        mul.lo.u32 %r5, %r4, %r2;
        setp.gt.u32 %p1, %r5, 300;
        @%p1 bra BIG;
        add.u32 %r5, %r5, 7;
    BIG:
        ld.param.u64 %d1, [k_param_0];
        mad.wide.u32 %d1, %r4, 4, %d1;
        st.global.u32 [%d1], %r5;
    """
    results = []
    for lanes in (32, 512):
        out = np.zeros(48 * 10, np.uint32)
        report = launch(
            entry(body, 1), [GlobalBuffer("out", out, writable=True)], threads=48, blocks=10,
            checks=Checks(lanes=lanes),
        )  # fmt: skip
        assert report.findings == ()
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])


def test_registers_that_nobody_wrote_hold_nan_in_every_block() -> None:
    """They held zeros in a kernel's first blocks, and what others left there in later ones."""
    out = np.zeros(64, np.uint32)
    body = """
        ld.param.u64 %d1, [k_param_0];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r3, %r2, 32, %r1;
        mad.wide.u32 %d2, %r3, 4, %d1;
        add.f32 %r5, %r5, 0f3F800000;
        st.global.u32 [%d2], %r5;
        mov.u32 %r5, 7;
    """
    kernel = Kernel(parse(entry(body, 1)), "k")
    for _ in range(2):
        out[:] = 0
        buffer = GlobalBuffer("out", out, writable=True)
        report = run(kernel, Launch((2, 1, 1), (32, 1, 1), 0, [buffer]), checks=Checks(lanes=32))
        assert report.findings == ()
        assert np.isnan(out.view(np.float32)).all()
