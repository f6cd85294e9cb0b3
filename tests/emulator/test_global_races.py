"""Races in global memory: within a block, between blocks, and what orders them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepgemm_codegen.emulator import Checks, GlobalBuffer, Report
from deepgemm_codegen.emulator.findings import Actor, Collector, Place
from deepgemm_codegen.emulator.globalraces import GlobalRaces
from deepgemm_codegen.emulator.listeners import Touch, make_ids
from tests.emulator.support import entry, launch

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Finding

HEAD = """
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    ld.param.u64 %d1, [k_param_0];
    mad.wide.u32 %d2, %r1, 4, %d1;   // by thread
    mad.wide.u32 %d3, %r4, 4, %d1;   // by thread of the grid
    mad.wide.u32 %d4, %r2, 4, %d1;   // by block
"""


def judged(body: str, *, threads: int = 32, blocks: int = 1, lanes: int = 512) -> Report:
    """Kernel ``k`` on a buffer of 4 KB that it may write."""
    buffer = GlobalBuffer("x", np.zeros(1024, np.uint32), writable=True)
    text = entry(HEAD + body + "ret;", 1)
    return launch(text, [buffer], threads=threads, blocks=blocks, checks=Checks(lanes=lanes))


def only(report: Report) -> Finding:
    (finding,) = report.findings
    assert finding.kind == "race"
    return finding


@pytest.mark.parametrize("lanes", [32, 512], ids=["one batch a block", "one batch"])
def test_two_blocks_that_write_the_same_bytes(lanes: int) -> None:
    report = judged("st.global.u32 [%d2], %r1;", blocks=3, lanes=lanes)
    finding = only(report)
    assert finding.message == (
        "write to byte 0 of buffer 'x', which another block wrote with no order between"
    )
    assert finding.other_actor is not None
    assert finding.actor.block != finding.other_actor.block
    assert (finding.actor.thread, finding.other_actor.thread) == (0, 0)
    assert finding.place == finding.other_place
    assert finding.count == 64
    assert f"by thread 0 (warp 0) of block {finding.other_actor.block}" in str(finding)


@pytest.mark.parametrize("lanes", [32, 512])
def test_blocks_that_keep_to_themselves(lanes: int) -> None:
    report = judged("st.global.u32 [%d3], %r1;", blocks=3, lanes=lanes)
    assert report.findings == ()


@pytest.mark.parametrize("lanes", [32, 512])
def test_a_block_that_reads_what_another_writes(lanes: int) -> None:
    # Each block writes its own words; thread t of each reads what thread t of block 0 wrote.
    body = "st.global.u32 [%d3], %r1;\n ld.global.u32 %r9, [%d2];"
    finding = only(judged(body, blocks=2, lanes=lanes))
    assert finding.message.startswith("read of byte 0 of buffer 'x', which another block wrote")
    assert finding.place.text.startswith("ld.global.u32")
    assert finding.other_place is not None
    assert finding.other_place.text.startswith("st.global.u32")
    assert (finding.actor.block, finding.count) == ((1, 0, 0), 32)


@pytest.mark.parametrize("lanes", [32, 512])
def test_a_block_that_writes_what_others_read(lanes: int) -> None:
    # All read word t; the last writes it. The reads of both others must be remembered.
    body = "ld.global.u32 %r9, [%d2]; setp.eq.u32 %p1, %r2, 2; @%p1 st.global.u32 [%d2], %r1;"
    finding = only(judged(body, blocks=3, lanes=lanes))
    assert finding.message.startswith("write to byte 0 of buffer 'x', which another block read")
    # 32 words, each read by the blocks 0 and 1; block 2 itself may overwrite what it read.
    assert finding.count == 64


OTHERS = "xor.b32 %r5, %r1, {0}; mad.wide.u32 %d5, %r5, 4, %d1;"


@pytest.mark.parametrize(
    ("distance", "between", "racy"),
    [
        (1, "", True),
        (1, "bar.warp.sync 0xffffffff;", False),
        (1, "bar.sync 0;", False),
        (32, "bar.warp.sync 0xffffffff;", True),
        (32, "bar.sync 0;", False),
        (0, "", False),
    ],
)
@pytest.mark.parametrize("order", ["write, read", "read, write", "write, write"])
def test_within_a_block(distance: int, between: str, racy: bool, order: str) -> None:
    access = {"read": "ld.global.u32 %r9, [{0}];", "write": "st.global.u32 [{0}], %r1;"}
    first, second = order.split(", ")
    body = (
        OTHERS.format(distance)
        + access[first].format("%d2")
        + between
        + access[second].format("%d5")
    )
    report = judged(body, threads=64)
    assert [f.kind for f in report.findings] == (["race"] if racy else [])
    if racy:
        assert "another thread" in report.findings[0].message
        assert report.findings[0].count == 64


def test_all_threads_write_one_word() -> None:
    finding = only(judged("st.global.u32 [%d1], %r1;"))
    assert finding.message.startswith("write to byte 0 of buffer 'x', which another thread wrote")
    assert finding.count == 31


def test_widths_that_overlap() -> None:
    # A 16-byte store of block 0, and single bytes of block 1 in its middle.
    body = """
        mov.u64 %d6, %d1; setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;
        and.pred %p3, %p1, %p2; not.pred %p4, %p1; and.pred %p4, %p4, %p2;
        @%p3 st.global.v4.u32 [%d6], {%r1, %r1, %r1, %r1};
        @%p4 ld.global.u8 %r9, [%d6+7];
    """
    finding = only(judged(body, blocks=2, lanes=32))
    assert finding.message.startswith("read of byte 7 of buffer 'x'")
    # The other way round: bytes first, then the wide store over them.
    body = body.replace("%r2, 0", "%r2, 1").replace("ld.global.u8 %r9, [%d6+7]", "{STORE}")
    body = body.replace("{STORE}", "st.global.u8 [%d6+7], %r1")
    finding = only(judged(body, blocks=2, lanes=32))
    assert finding.message.startswith("write to byte 7 of buffer 'x'")


def test_neighbours_of_one_word_do_not_meet() -> None:
    body = "cvt.u64.u32 %d7, %r4; add.u64 %d8, %d1, %d7; st.global.u8 [%d8], %r1;"
    assert judged(body, blocks=3, lanes=32).findings == ()


@pytest.mark.parametrize("lanes", [32, 512])
def test_atomic_operations_do_not_race_with_each_other(lanes: int) -> None:
    body = "red.global.add.u32 [%d1], 1; atom.global.max.u32 %r9, [%d2+4], %r1;"
    assert judged(body, blocks=3, lanes=lanes).findings == ()


@pytest.mark.parametrize("lanes", [32, 512])
@pytest.mark.parametrize(
    ("plain", "verb"), [("ld.global.u32 %r9, [%d1];", "read"), ("st.global.u32 [%d1], 7;", "write")]
)
def test_atomic_and_plain(lanes: int, plain: str, verb: str) -> None:
    # Thread 0 of the last block accesses plainly what all blocks, and it itself, added to.
    body = f"""
        setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 2; and.pred %p2, %p1, %p2;
        @%p1 red.global.add.u32 [%d1], 1;
        @%p2 {plain}
    """
    finding = only(judged(body, blocks=3, lanes=lanes))
    assert finding.message.startswith(f"{verb} ")
    # Both earlier additions are met, although the last one's took their place.
    assert finding.count == 2


def test_the_cuda_line_is_named() -> None:
    text = entry(HEAD + ".loc 1 17 0\n st.global.u32 [%d2], %r1; ret;", 1)
    text = text.replace(".visible", '.file 1 "gemm.cu"\n.visible')
    buffer = GlobalBuffer("x", np.zeros(64, np.uint32), writable=True)
    finding = only(launch(text, [buffer], blocks=2))
    assert finding.place.source == "gemm.cu:17"
    line = next(i for i, t in enumerate(text.splitlines(), 1) if "st.global" in t)
    assert f"PTX line {line}: st.global.u32 [%d2], %r1 (gemm.cu:17)" in str(finding)


def test_without_races_nothing_is_tracked() -> None:
    buffer = GlobalBuffer("x", np.zeros(64, np.uint32), writable=True)
    text = entry(HEAD + "st.global.u32 [%d2], %r1; ret;", 1)
    assert launch(text, [buffer], blocks=2, checks=Checks(races=False)).findings == ()


def test_what_is_only_read_costs_no_memory() -> None:
    # 16 TB, of which two bytes are touched; a table of its pages would take a terabyte.
    races = GlobalRaces(Collector(5, fail_fast=False))
    races.begin(_Clocks(4), _Names())
    far = np.array([0, (1 << 34) - 2], np.int64)
    touch = Touch(0, "huge", 1 << 34, far, 0, 2, make_ids(1, np.array([0, 1])))
    races.write(touch)
    assert races.shadow.shift == 1


# -- what orders blocks: a flag behind the partial results, as in a product split along k --

SPLIT = """
    st.global.u32 [%d3+64], %r1;          // this block's part
    {barrier}
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra TOLD;
    {before}
    atom.{order}.global.add.u32 %r6, [%d1], 1;
    {after}
    st.shared.u32 [box], %r6;
TOLD:
    bar.sync 0;
    ld.shared.u32 %r6, [box];
    sub.u32 %r7, {blocks}, 1;
    setp.ne.u32 %p2, %r6, %r7;
    @%p2 ret;                             // the last block reads all parts
    mov.u32 %r8, 0;
NEXT:
    mad.lo.u32 %r9, %r8, %r3, %r1;
    mad.wide.u32 %d6, %r9, 4, %d1;
    ld.global.u32 %r10, [%d6+64];
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, {blocks};
    @%p3 bra NEXT;
"""
FENCE = "fence.acq_rel.gpu;"


def split(
    order: str = "acq_rel.gpu", barrier: str = "bar.sync 0;", before: str = "", after: str = ""
) -> list[str]:
    """Kinds of what is found, with one batch a block, with two and with all in one."""
    body = SPLIT.format(order=order, barrier=barrier, before=before, after=after, blocks=4)
    box = ".shared .align 4 .b8 box[4];\n"
    reports = [judged(box + body, threads=64, blocks=4, lanes=lanes) for lanes in (64, 128, 512)]
    kinds = [[f.kind for f in report.findings] for report in reports]
    assert kinds[0] == kinds[1] == kinds[2], reports[0]
    return kinds[0]


@pytest.mark.parametrize(
    "right",
    [
        {},
        {"order": "acq_rel.sys"},
        {"order": "relaxed.gpu", "before": FENCE, "after": FENCE},
        {"order": "relaxed.gpu", "before": "membar.gl;", "after": "fence.sc.gpu;"},
        {"order": "release.gpu", "after": FENCE},
        {"order": "acquire.gpu", "before": FENCE},
    ],
)
def test_a_flag_that_orders(right: dict[str, str]) -> None:
    assert split(**right) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"barrier": ""},  # the flag is raised for one thread's part only
        {"order": "relaxed.gpu"},
        {"order": "release.gpu"},
        {"order": "acquire.gpu"},
        {"order": "acq_rel.cta"},  # tells no other block
        {"order": "relaxed.gpu", "before": FENCE},
        {"order": "relaxed.gpu", "after": FENCE},
        {"order": "relaxed.gpu", "before": "membar.cta;", "after": FENCE},
        {"order": "relaxed.gpu", "before": FENCE, "after": "fence.acq_rel.cta;"},
    ],
)
def test_a_flag_that_does_not(wrong: dict[str, str]) -> None:
    assert set(split(**wrong)) == {"race"}


@pytest.mark.parametrize("lanes", [32, 64, 512])
@pytest.mark.parametrize("acquire", [True, False])
def test_what_is_passed_on(lanes: int, acquire: bool) -> None:
    # Block 0 writes a word and raises flag 1; block 1 sees that and raises flag 2; the others see
    # flag 2 and read the word. Without the acquire in the middle they know nothing of block 0.
    order = "acquire" if acquire else "relaxed"
    body = f"""
        setp.ne.u32 %p1, %r1, 0; @%p1 ret;
        setp.eq.u32 %p2, %r2, 0; @%p2 bra FIRST;
        setp.eq.u32 %p2, %r2, 1; @%p2 bra SECOND;
    WAIT:
        ld.acquire.gpu.global.u32 %r5, [%d1+8]; setp.eq.u32 %p3, %r5, 0; @%p3 bra WAIT;
        ld.global.u32 %r6, [%d1];
        ret;
    FIRST:
        st.global.u32 [%d1], 7; st.release.gpu.global.u32 [%d1+4], 1; ret;
    SECOND:
        ld.{order}.gpu.global.u32 %r5, [%d1+4]; setp.eq.u32 %p3, %r5, 0; @%p3 bra SECOND;
        st.release.gpu.global.u32 [%d1+8], 1;
    """
    report = judged(body, blocks=4, lanes=lanes)
    if acquire:
        assert report.findings == ()
    else:
        assert only(report).message.startswith("read of byte 0 of buffer 'x'")
        assert only(report).count == 2


@pytest.mark.parametrize("lanes", [32, 512])
def test_a_flag_that_is_lowered_tells_no_more(lanes: int) -> None:
    # Block 1 overwrites the flag of block 0 with a relaxed store: what block 2 then reads there
    # was not released by anybody.
    body = """
        setp.ne.u32 %p1, %r1, 0; @%p1 ret;
        setp.eq.u32 %p2, %r2, 1; @%p2 bra SECOND; setp.eq.u32 %p2, %r2, 2; @%p2 bra THIRD;
        st.global.u32 [%d1], 7; st.release.gpu.global.u32 [%d1+4], 1; ret;
    SECOND:
        ld.relaxed.gpu.global.u32 %r5, [%d1+4]; setp.eq.u32 %p3, %r5, 0; @%p3 bra SECOND;
        st.relaxed.gpu.global.u32 [%d1+4], 2; ret;
    THIRD:
        ld.acquire.gpu.global.u32 %r5, [%d1+4]; setp.ne.u32 %p3, %r5, 2; @%p3 bra THIRD;
        ld.global.u32 %r6, [%d1];
    """
    assert only(judged(body, blocks=3, lanes=lanes)).message.startswith("read of byte 0")


# -- against a checker that remembers everything --


class _Names:
    def place(self, site: int) -> Place:
        return Place(site, f"instruction {site}")

    def actor(self, lane: int) -> Actor:
        return Actor((lane // 4, 0, 0), 0, lane % 4)


class _Clocks:
    """Vector clocks of some threads, each a row."""

    def __init__(self, lanes: int) -> None:
        self.known = np.zeros((lanes, lanes), np.int64)
        self.time = 1

    @property
    def now(self) -> int:
        return self.time

    def ordered(self, lanes: Any, others: Any, times: Any) -> Any:
        return (lanes == others) | (self.known[lanes, others] >= times)

    def meet(self, lanes: list[int]) -> None:
        merged = self.known[lanes].max(axis=0)
        merged[lanes] = self.time
        self.known[lanes] = merged
        self.time += 1


LANES, BYTES = 8, 32
ACCESSES = st.tuples(
    st.sampled_from(["read", "write", "update"]),
    st.sampled_from([1, 2, 4, 16]),
    st.lists(st.tuples(st.integers(0, LANES - 1), st.integers(0, 15)), min_size=1, max_size=4),
)
STEPS = st.one_of(
    ACCESSES,
    st.tuples(st.just("meet"), st.sets(st.integers(0, LANES - 1), min_size=2, max_size=LANES)),
    st.tuples(st.just("batch")),
)


def _racy_by_the_book(steps: list[Any]) -> set[tuple[int, int]]:
    """Pairs of steps that conflict, by comparing every access with every earlier one."""
    clocks, batch = _Clocks(LANES), 0
    history: list[tuple[int, str, int, int, int, int, int]] = []
    found = set()
    for number, step in enumerate(steps):
        if step[0] == "meet":
            clocks.meet(sorted(step[1]))
        elif step[0] == "batch":
            clocks, batch = _Clocks(LANES), batch + 1
        else:
            kind, width, accesses = step
            for lane, place in accesses:
                start = place * width % BYTES
                for other, was, low, high, who, when, where in history:
                    apart = start >= high or start + width <= low
                    harmless = kind == was and kind != "write"
                    if apart or harmless:
                        continue
                    same = where == batch
                    if not same or not (who == lane or clocks.known[lane, who] >= when):
                        found.add((other, number))
                history.append((number, kind, start, start + width, lane, clocks.now, batch))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=14), st.booleans())
def test_as_a_checker_that_remembers_everything(steps: list[Any], thin: bool) -> None:
    """Every pair found is a race, and no launch with one goes by without."""
    collector = Collector(1000, fail_fast=False)
    collector.lookup = _Names()
    races = GlobalRaces(collector)
    clocks = _Clocks(LANES)
    races.begin(clocks, _Names())
    if thin:
        races.shadow._limit = 0  # what is kept is thinned out at every chance
    for number, step in enumerate(steps):
        if step[0] == "meet":
            clocks.meet(sorted(step[1]))
        elif step[0] == "batch":
            clocks = _Clocks(LANES)
            races.begin(clocks, _Names())
        else:
            kind, width, accesses = step
            lanes = np.array([a[0] for a in accesses])
            offsets = np.array([a[1] * width % BYTES for a in accesses], np.int64)
            touch = Touch(0, "x", BYTES, offsets, 4096, width, make_ids(number, lanes))
            if kind == "read":
                races.read(touch)
            else:
                races.write(touch._replace(strong=kind == "update"))
    found = {
        (f.other_place.line, f.place.line)
        for f in collector.findings()
        if f.other_place is not None
    }
    wanted = _racy_by_the_book(steps)
    assert found <= wanted
    # A cell forgets what a plain write follows, or races with; so the first race is never missed.
    assert min((b for _, b in found), default=0) == min((b for _, b in wanted), default=0)


def test_bulk_stores_write_until_they_are_waited_for() -> None:
    collector = Collector(9, fail_fast=False)
    collector.lookup = _Names()
    races = GlobalRaces(collector)
    clocks = _Clocks(LANES)
    races.begin(clocks, _Names())
    at = np.array([0], np.int64)

    def touch(site: int, lane: int, group: int = 0) -> Touch:
        return Touch(0, "x", BYTES, at, 0, 16, make_ids(site, np.array([lane])), group=group)

    races.write(touch(1, 0, group=1))
    races.read(touch(2, 0))  # the thread itself must wait, too
    assert [f.place.line for f in collector.findings()] == [2]
    races.settle(0, 1)
    races.read(touch(3, 0))
    races.read(touch(4, 1))  # nobody has told this one
    clocks.meet([0, 2])
    races.read(touch(5, 2))
    assert [f.place.line for f in collector.findings()] == [2, 4]
