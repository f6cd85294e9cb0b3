from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Report
from tests.emulator.support import entry, launch

Array = np.ndarray[Any, np.dtype[Any]]

_HEAD = """
    .shared .align 16 .b8 box[1024];
    mov.u32 %r1, %tid.x;
    ld.param.u64 %d1, [k_param_0];
    ld.param.u64 %d2, [k_param_1];
    mad.wide.u32 %d3, %r1, {width}, %d1;
    mad.wide.u32 %d4, %r1, {width}, %d2;
    mov.u32 %r2, box;
    mad.lo.u32 %r3, %r1, {width}, %r2;
"""
_TAIL = """
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.v{words}.u32 {registers}, [%r3];
    st.global.v{words}.u32 [%d4], {registers};
"""


def copy(width: int, middle: str, source: Array | None = None) -> tuple[Array, Report]:
    """Each thread copies its own bytes through shared memory; returns what came out."""
    source = source if source is not None else np.arange(1, 32 * width + 1).astype(np.uint8)
    out = np.zeros(32 * width, np.uint8)
    words = width // 4
    registers = "{" + ", ".join(f"%r{10 + i}" for i in range(words)) + "}"
    tail = _TAIL.format(words=words, registers=registers)
    if words == 1:
        tail = tail.replace(".v1", "")
    report = launch(
        entry(_HEAD.format(width=width) + middle + tail, 2),
        [GlobalBuffer("in", source), GlobalBuffer("out", out, writable=True)],
    )
    return out.reshape(32, width), report


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("size", ["", ", 0", ", 3", ", %r5", ", %p1"])
def test_widths_and_source_sizes(width: int, size: str) -> None:
    middle = f"""
        rem.u32 %r5, %r1, {width + 1};
        setp.lt.u32 %p1, %r1, 9;
        cp.async.ca.shared.global [%r3], [%d3], {width}{size};
    """
    got, report = copy(width, middle)
    assert report.findings == ()
    source = np.arange(1, 32 * width + 1).astype(np.uint8).reshape(32, width)
    thread = np.arange(32)[:, None]
    kept: Any = {
        "": width, ", 0": 0, ", 3": 3, ", %r5": thread % (width + 1),
        ", %p1": np.where(thread < 9, 0, width),
    }[size]  # fmt: skip
    np.testing.assert_array_equal(got, np.where(np.arange(width) < kept, source, 0))


@pytest.mark.parametrize(
    "opcode",
    [
        "cp.async.cg.shared.global",
        "cp.async.cg.shared.global.L2::128B",
        "cp.async.ca.shared::cta.global",
    ],
)
def test_spellings(opcode: str) -> None:
    got, report = copy(16, f"{opcode} [%r3], [%d3], 16;")
    assert report.findings == ()
    assert got[31, 15] == 0


def test_cache_hint() -> None:
    middle = """
        createpolicy.fractional.L2::evict_first.b64 %d9, 1.0;
        cp.async.cg.shared.global.L2::cache_hint [%r3], [%d3], 16, %d9;
    """
    got, report = copy(16, middle)
    assert report.findings == ()
    assert got[0].tolist() == list(range(1, 17))


def test_bytes_beyond_the_source_size_are_not_read() -> None:
    # The buffer ends where the source sizes say: no finding; one byte more is one.
    short = np.arange(31 * 16 + 4, dtype=np.uint8)
    middle = """
        mov.u32 %r5, 16;
        setp.eq.u32 %p1, %r1, 31;
        @%p1 mov.u32 %r5, {last};
        cp.async.cg.shared.global [%r3], [%d3], 16, %r5;
    """
    got, report = copy(16, middle.format(last=4), short)
    assert report.findings == ()
    assert got[31].tolist() == [*short[-4:].tolist(), *[0] * 12]
    _, report = copy(16, middle.format(last=5), short)
    assert [f.kind for f in report.findings] == ["out-of-bounds-read"]
    _, report = copy(16, middle.format(last=0), short)
    assert report.findings == ()


def test_dropping_the_source_size_of_a_tail_reads_outside() -> None:
    short = np.arange(31 * 16 + 4, dtype=np.uint8)
    _, report = copy(16, "cp.async.cg.shared.global [%r3], [%d3], 16;", short)
    assert [f.kind for f in report.findings] == ["out-of-bounds-read"]
    assert report.findings[0].actor.thread == 31


def test_a_source_size_above_the_width_is_told() -> None:
    _, report = copy(4, "mov.u32 %r5, 5; cp.async.ca.shared.global [%r3], [%d3], 4, %r5;")
    assert [f.kind for f in report.findings] == ["bad-size"]


def test_a_guard_leaves_the_bytes_unwritten() -> None:
    middle = """
        setp.ne.u32 %p1, %r1, 7;
        @%p1 cp.async.cg.shared.global [%r3], [%d3], 16;
    """
    got, report = copy(16, middle)
    assert [f.kind for f in report.findings] == ["uninitialised-read"]
    assert report.findings[0].actor.thread == 7
    assert report.findings[0].address == 7 * 16
    assert (got[7] == 0xFF).all()
    assert got[8, 0] == 8 * 16 + 1


def test_misaligned_source_and_target() -> None:
    _, report = copy(16, "cp.async.cg.shared.global [%r3], [%d3+8], 16, 8;")
    assert "misaligned" in {f.kind for f in report.findings}
    _, report = copy(16, "cp.async.cg.shared.global [%r3+8], [%d3], 16;")
    assert "misaligned" in {f.kind for f in report.findings}


def test_reading_before_the_wait_gives_poison() -> None:
    middle = """
        cp.async.cg.shared.global [%r3], [%d3], 16;
        cp.async.commit_group;
        ld.shared.u32 %r20, [%r3];
        st.global.u32 [%d4], %r20;
    """
    _, report = copy(16, middle)
    assert [f.kind for f in report.findings] == ["in-flight-read"]
    finding = report.findings[0]
    assert finding.other_place is not None
    assert finding.other_place.text.startswith("cp.async.cg.shared.global")
    assert finding.count == 32


def test_writing_bytes_in_flight() -> None:
    for again in ("st.shared.u32 [%r3], %r1;", "cp.async.cg.shared.global [%r3], [%d3], 16;"):
        middle = f"""
            cp.async.cg.shared.global [%r3], [%d3], 16;
            cp.async.commit_group;
            {again}
        """
        _, report = copy(16, middle)
        assert "in-flight-write" in {f.kind for f in report.findings}, again


def test_wait_group_counts_groups_and_empty_ones_too() -> None:
    middle = """
        cp.async.cg.shared.global [%r3], [%d3], 16;
        cp.async.commit_group;
        {empty}
        cp.async.wait_group {allowed};
        ld.shared.u32 %r20, [%r3];
    """
    for empty, allowed, kinds in (
        ("", 0, set()),
        ("", 1, {"in-flight-read"}),
        ("cp.async.commit_group;", 1, set()),
        ("cp.async.commit_group;", 2, {"in-flight-read"}),
    ):
        _, report = copy(16, middle.format(empty=empty, allowed=allowed))
        assert {f.kind for f in report.findings} == kinds, (empty, allowed)


def test_wait_all_covers_uncommitted_copies() -> None:
    middle = """
        cp.async.cg.shared.global [%r3], [%d3], 16;
        {wait}
        ld.shared.u32 %r20, [%r3];
    """
    _, report = copy(16, middle.format(wait="cp.async.wait_all;"))
    assert report.findings == ()
    _, report = copy(16, middle.format(wait="cp.async.wait_group 0;"))
    assert {f.kind for f in report.findings} == {"in-flight-read"}


def test_a_wait_of_some_lanes_completes_their_copies_alone() -> None:
    middle = """
        cp.async.cg.shared.global [%r3], [%d3], 16;
        cp.async.commit_group;
        setp.lt.u32 %p1, %r1, 10;
        @%p1 cp.async.wait_group 0;
        ld.shared.u32 %r20, [%r3];
    """
    _, report = copy(16, middle)
    assert [(f.kind, f.count, f.actor.thread) for f in report.findings] == [
        ("in-flight-read", 22, 10)
    ]


def test_another_threads_copy_needs_a_barrier_after_the_wait() -> None:
    middle = """
        cp.async.cg.shared.global [%r3], [%d3], 16;
        cp.async.commit_group;
        cp.async.wait_group 0;
        {barrier}
        xor.b32 %r6, %r1, 1;
        mad.lo.u32 %r6, %r6, 16, %r2;
        ld.shared.u32 %r20, [%r6];
        {barrier}
    """
    for barrier, kinds in (("", {"race"}), ("bar.sync 0;", set()), ("bar.warp.sync -1;", set())):
        _, report = copy(16, middle.format(barrier=barrier))
        assert {f.kind for f in report.findings} == kinds, barrier


@pytest.mark.parametrize("commit", ["", "cp.async.commit_group;"])
def test_copies_that_nobody_waits_for_are_named(commit: str) -> None:
    start = "cp.async.cg.shared.global [%r3], [%d3], 16;"
    tail = _TAIL.format(words=4, registers="{%r10, %r11, %r12, %r13}")
    body = _HEAD.format(width=16) + start + tail + f"\n{start}\n{commit}\n"
    buffers = [
        GlobalBuffer("in", np.ones(512, np.uint8)),
        GlobalBuffer("out", np.zeros(512, np.uint8), writable=True),
    ]
    (found,) = launch(entry(body, 2), buffers).findings
    assert (found.kind, found.count) == ("exit-in-flight", 32)
    assert found.message == "the thread ends with nobody having waited for this cp.async"
    assert found.place.text.startswith("cp.async.cg")
    assert launch(entry(body + "cp.async.wait_all;\n", 2), buffers).findings == ()
