"""Barriers of a block: counts, arrivals that do not wait, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Report, UnsupportedError, parse
from tests.emulator.support import entry, launch

Array = np.ndarray[Any, np.dtype[Any]]

BEFORE = """
    .shared .align 8 .b8 spare[8];
    .shared .align 16 .b8 box[1024];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    and.b32 %r3, %r1, 31;
    mad.lo.u32 %r4, %r3, 4, %r2;
    shr.u32 %r5, %r1, 5;
"""
# With an mbarrier the kernel is checked with vector clocks.
CLOCKS = ["", "mov.u32 %r50, spare;\n@%p9 mbarrier.init.shared::cta.b64 [%r50], 1;\n"]


def _run(body: str, clocks: str = "", *, threads: int = 64, buffers: Any = ()) -> Report:
    made = f"setp.eq.u32 %p9, %r1, 0;\n{clocks}" if clocks else ""
    text = entry(BEFORE + made + body, len(buffers))
    return launch(text, list(buffers), threads=threads)


# Warp 0 fills the box and arrives; warp 1 waits for it, empties it, and arrives at the other
# barrier, at which warp 0 waits before it fills the box again.
HANDOVER = """
    setp.ne.u32 %p1, %r5, 0;
    mov.u32 %r10, 0;
    @%p1 bra CONSUME;
PRODUCE:
    st.shared.u32 [%r4], %r10;
    FULL_ARRIVE
    EMPTY_WAIT
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p2, %r10, 4;
    @%p2 bra PRODUCE;
    bra OUT;
CONSUME:
    FULL_WAIT
    ld.shared.u32 %r11, [%r4];
    EMPTY_ARRIVE
    add.u32 %r10, %r10, 1;
    setp.lt.u32 %p2, %r10, 4;
    @%p2 bra CONSUME;
OUT:
"""
PARTS = {
    "FULL_ARRIVE": "bar.arrive 1, 64;",
    "FULL_WAIT": "bar.sync 1, 64;",
    "EMPTY_ARRIVE": "barrier.cta.arrive.aligned 2, 64;",
    "EMPTY_WAIT": "barrier.cta.sync.aligned 2, 64;",
}


def _handover(**changes: str) -> str:
    text = HANDOVER
    for name, part in (PARTS | changes).items():
        text = text.replace(name, part)
    return text


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
def test_producer_and_consumer(clocks: str) -> None:
    assert _run(_handover(), clocks).findings == ()
    # Waiting on both sides is as good.
    both = _handover(FULL_ARRIVE="bar.sync 1, 64;", EMPTY_ARRIVE="bar.sync 2, 64;")
    assert _run(both, clocks).findings == ()


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
@pytest.mark.parametrize(
    "changes",
    [
        {"FULL_WAIT": "bar.arrive 1, 64;", "FULL_ARRIVE": "bar.sync 1, 64;"},
        {"EMPTY_WAIT": "", "EMPTY_ARRIVE": ""},
    ],
)
def test_what_nobody_waits_for_is_a_race(clocks: str, changes: dict[str, str]) -> None:
    kinds = {f.kind for f in _run(_handover(**changes), clocks).findings}
    assert "race" in kinds or "divergent-barrier" in kinds, kinds


def test_too_few_and_too_many() -> None:
    report = _run("setp.eq.u32 %p1, %r5, 0;\n@%p1 bar.arrive 1, 96;\n@!%p1 bar.sync 1, 96;")
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert "warp 1 of block (0, 0, 0) at PTX line" in finding.message
    report = _run("setp.eq.u32 %p1, %r5, 0;\n@%p1 bar.arrive 1, 32;\n@!%p1 bar.sync 1, 32;")
    assert [f.message for f in report.findings] == [
        "32 arrivals at barrier 1, which 32 threads complete: none is left to wait there",
        "64 threads at once at barrier 1, which 32 complete",
    ]


def test_a_barrier_that_is_used_again_too_early() -> None:
    # Warp 0 arrives twice: nothing tells it that the first use is over.
    body = """
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra FIRST;
    bar.sync 1, 64;
    bar.sync 1, 64;
    bra OUT;
FIRST:
    bar.arrive 1, 64;
    bar.arrive 1, 64;
OUT:
    """
    report = _run(body, CLOCKS[1])
    assert {f.kind for f in report.findings} & {"divergent-barrier", "deadlock"}


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "bar.arrive 1, 64;\n@%p2 bar.arrive 1, 64;",
            "64 arrivals at barrier 1, which 64 threads complete: none is left to wait there",
        ),
        (
            "@%p2 bar.arrive 1, 64;",
            "the block ends with nobody having waited at barrier 1, where 32 threads arrived",
        ),
    ],
    ids=["by all", "by a half"],
)
def test_arrivals_that_nobody_waits_for(clocks: str, body: str, said: str) -> None:
    report = _run("setp.eq.u32 %p2, %r5, 0;\n" + body, clocks)
    assert {finding.kind for finding in report.findings} == {"divergent-barrier"}
    assert said in {finding.message for finding in report.findings}


@pytest.mark.parametrize("aligned", ["", ".aligned"])
def test_only_aligned_barriers_want_whole_warps(aligned: str) -> None:
    body = f"""
    setp.lt.u32 %p1, %r3, 16;
    @%p1 bra LOW;
    barrier.cta.sync{aligned} 0;
    bra OUT;
LOW:
    barrier.cta.sync{aligned} 0;
OUT:
    """
    kinds = {f.kind for f in _run(body).findings}
    assert kinds == {"divergent-barrier"}
    # The same instruction for all, some later than others.
    body = f"""
    mov.u32 %r10, 0;
    setp.lt.u32 %p1, %r3, 16;
    @%p1 bra LATE;
TOGETHER:
    barrier.cta.sync{aligned} 0, 64;
    bra OUT;
LATE:
    add.u32 %r10, %r10, 1;
    bra TOGETHER;
OUT:
    """
    kinds = {f.kind for f in _run(body).findings}
    assert kinds <= ({"divergent-barrier"} if aligned else set())


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("popc.u32", 21), ("and.pred", 0), ("or.pred", 1)],
)
@pytest.mark.parametrize("count", ["", ", 64"])
def test_reductions(operation: str, expected: int, count: str) -> None:
    out = np.zeros(64, np.uint32)
    target = "%r10" if operation.startswith("popc") else "%p3"
    body = f"""
    setp.lt.u32 %p1, %r1, 21;
    bar.red.{operation} {target}, 0{count}, %p1;
    {"" if target == "%r10" else "selp.u32 %r10, 1, 0, %p3;"}
    barrier.cta.red.popc.aligned.u32 %r11, 1{count}, !%p1;
    mad.lo.u32 %r10, %r11, 1000, %r10;
    ld.param.u64 %d1, [k_param_0];
    mad.wide.u32 %d2, %r1, 4, %d1;
    st.global.u32 [%d2], %r10;
    """
    report = _run(body, buffers=[GlobalBuffer("out", out, writable=True)])
    assert report.findings == (), str(report)
    assert set(out.tolist()) == {43 * 1000 + expected}


def test_a_reduction_orders_memory_as_a_barrier_does() -> None:
    body = """
    setp.lt.u32 %p1, %r1, 21;
    mad.lo.u32 %r6, %r1, 4, %r2;
    st.shared.u32 [%r6], %r1;
    BARRIER
    xor.b32 %r7, %r1, 63;
    mad.lo.u32 %r7, %r7, 4, %r2;
    ld.shared.u32 %r8, [%r7];
    """
    assert _run(body.replace("BARRIER", "bar.red.popc.u32 %r10, 0, %p1;")).findings == ()
    assert {f.kind for f in _run(body.replace("BARRIER", "")).findings} == {"race"}


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("bar.sync.wide 0;", "unsupported modifier wide"),
        ("bar.arrive 1;", "a barrier and a count of threads were expected"),
        ("bar.sync 1, 64, 3;", "a barrier and a count of threads were expected"),
        ("bar.sync %d1;", "a 32-bit register or a whole number was expected"),
        ("bar.sync 1.5;", "a 32-bit register or a whole number was expected"),
        ("bar.red.sum.u32 %r1, 0, %p1;", "popc.u32, and.pred or or.pred with a predicate"),
        ("bar.red.popc.u32 %p1, 0, %p1;", "registers of other types were expected"),
        ("bar.warp.sync;", ""),
        ("bar.warp.sync.all -1;", "a member mask was expected"),
        ("bra.fast OUT;", "unsupported modifier or number of operands"),
        ("ret %r1;", "unsupported modifier or number of operands"),
        ("call.uni (%r1), f, (%r2);", "calls are not supported: functions have to be inlined"),
        ("brx.idx %r1, list;", "branches through a table are not supported"),
        ("trap 1;", "0 operands were expected"),
    ],
)
def test_what_has_no_meaning_is_refused(instruction: str, message: str) -> None:
    text = entry(f"OUT:\n{instruction}")
    if not message:
        Kernel(parse(text), "k")
        return
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(text), "k")


def test_a_warps_barrier_whose_mask_leaves_out_a_thread() -> None:
    """It must not count as having met the others: the read of what they wrote is a race."""
    body = """
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 2;
        mov.u32 %r3, buffer;
        add.u32 %r4, %r3, %r2;
        st.shared.u32 [%r4], %r1;
        bar.warp.sync 0x0000ffff;
        xor.b32 %r5, %r2, 64;
        add.u32 %r6, %r3, %r5;
        ld.shared.u32 %r7, [%r6];
    """
    text = entry(body, before=".shared .align 4 .b8 buffer[128];\n")
    kinds = {finding.kind for finding in launch(text, [], threads=32).findings}
    assert kinds == {"divergent-barrier", "race"}
    whole = text.replace("0x0000ffff", "-1")
    assert launch(whole, [], threads=32).findings == ()
