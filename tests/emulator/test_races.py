"""Mutants: each synchronisation of the sample kernels removed or loosened must be found."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks
from tests.emulator.gemms import CASES
from tests.emulator.support import entry, launch


def _occurrences(name: str, pattern: str) -> list[tuple[str, int]]:
    return [(name, i) for i in range(len(re.findall(pattern, CASES[name].text())))]


def _edit(text: str, pattern: str, index: int, new: str) -> str:
    found = list(re.finditer(pattern, text))[index]
    return text[: found.start()] + new + text[found.end() :]


_BARRIER = r"\tbar\.sync[^;]*;"
_WARP_BARRIER = r"\tbar\.warp\.sync[^;]*;"
_WAIT = r"cp\.async\.wait_group (\d+);"
_ALL = list(CASES)


@pytest.mark.parametrize(
    ("name", "index"), [x for name in _ALL for x in _occurrences(name, _BARRIER)]
)
def test_a_deleted_barrier_is_a_race(name: str, index: int) -> None:
    case = CASES[name]
    text = _edit(case.text(), _BARRIER, index, "")
    kinds: set[str] = set()
    # Unrolled loops run some copies of their body only for some numbers of slices.
    sizes: list[dict[str, Any]] = [{"k": k} for k in (64, 80, 96, 112, 128, 160)]
    for size in [{}] if name.startswith("slab") else sizes:
        _, report = case.run(text, **size)
        kinds |= {f.kind for f in report.findings}
    # An even number of slices leaves the last one in the slot that no slab reuses, so the barrier
    # before the epilogue of this problem orders nothing.
    spare = (name, index) in {("slab_sm80", 2), ("slab_sm100", 4)}
    assert kinds == (set() if spare else {"race"}), kinds


@pytest.mark.parametrize(
    ("name", "index"), [x for name in _ALL for x in _occurrences(name, _WARP_BARRIER)]
)
def test_a_deleted_warp_barrier_is_a_race(name: str, index: int) -> None:
    case = CASES[name]
    text = _edit(case.text(), _WARP_BARRIER, index, "")
    _, report = case.run(text)
    if index == 0:
        # The first one follows a block barrier and orders nothing new.
        assert report.findings == ()
    else:
        assert {f.kind for f in report.findings} == {"race"}


@pytest.mark.parametrize(("name", "index"), [x for name in _ALL for x in _occurrences(name, _WAIT)])
def test_a_loosened_wait_reads_bytes_in_flight(name: str, index: int) -> None:
    case = CASES[name]
    text = case.text()
    allowed = int(re.findall(_WAIT, text)[index])
    mutant = _edit(text, _WAIT, index, f"cp.async.wait_group {allowed + 1};")
    _, report = case.run(mutant)
    kinds = {f.kind for f in report.findings}
    if (name, index) in {("slab_sm80", 2), ("slab_sm100", 4)}:
        # The wait before the epilogue: the last slice's copies are all done by then.
        assert kinds == set()
        return
    assert "in-flight-read" in kinds
    assert kinds <= {"in-flight-read", "in-flight-write", "race"}


def test_the_numbers_alone_do_not_show_a_missing_barrier() -> None:
    # Lock-step execution gives the right result all the same: why races are tracked at all.
    case = CASES["gemm_f16_sm80"]
    problem, report = case.run(
        _edit(case.text(), _BARRIER, 0, ""), k=128, checks=Checks(races=False)
    )
    assert report.findings == ()
    np.testing.assert_array_equal(problem.d, problem.want)


def test_a_swizzle_broken_on_one_side_gives_wrong_numbers() -> None:
    case = CASES["gemm_f16_sm80"]
    text = case.text()
    wrong = 0
    xors = list(re.finditer(r"xor\.b32  \t(%r\d+), (%r\d+), (%r\d+);", text))
    assert xors
    for index in range(len(xors)):
        found = xors[index]
        mutant = text[: found.start()] + f"mov.b32 {found[1]}, {found[3]};" + text[found.end() :]
        problem, report = case.run(mutant, k=96)
        wrong += bool(report.findings) or not np.array_equal(problem.d, problem.want)
    assert wrong == len(xors)


def test_a_dropped_source_size_reads_outside_or_takes_garbage() -> None:
    case = CASES["gemm_f16_sm80"]
    text = case.text()
    pattern = r"(cp\.async\.cg\.shared\.global \[%r\d+\], \[%rd\d+\], 16), %r\d+;"
    found = list(re.finditer(pattern, text))
    assert len(found) == 12
    told = 0
    for match in found:
        mutant = text[: match.start()] + match[1] + ";" + text[match.end() :]
        # The last slice ends within a copy, and NaN follows; which copy depends on its number.
        for k in (20, 52, 84, 116, 148):
            problem, report = case.run(mutant, m=40, n=40, k=k, pad=4)
            if report.findings or not np.array_equal(problem.d, problem.want):
                told += 1
                break
    assert told == len(found)


def test_a_dropped_store_predicate_writes_outside() -> None:
    case = CASES["gemm_f16_sm80"]
    text = case.text()
    start = text.rindex("mma.sync")
    tail = text[start:]
    stores = list(re.finditer(r"@%p\d+ bra", tail))
    assert stores

    def kinds_without(match: re.Match[str]) -> set[str]:
        mutant = text[:start] + tail[: match.start()] + tail[match.end() + 1 :].split(";", 1)[1]
        _, report = case.run(mutant, m=33, n=31, k=64)
        return {f.kind for f in report.findings}

    assert any("out-of-bounds-write" in kinds_without(match) for match in stores)


def test_a_finding_names_both_sides_and_the_source_lines() -> None:
    case = CASES["gemm_f16_sm80"]
    _, report = case.run(_edit(case.text(), _BARRIER, 0, ""), max_findings=1)
    (finding,) = report.findings
    lines = case.text().splitlines()
    for place in (finding.place, finding.other_place):
        assert place is not None
        opcode = place.text.split()[0]
        assert opcode in lines[place.line - 1]
        assert re.fullmatch(r"gemm\.cu:\d+, inlined at gemm\.cu:\d+", place.source)
    assert finding.place.text.startswith("ldmatrix")
    assert finding.other_place is not None
    assert finding.other_place.text.startswith("cp.async")
    assert finding.actor.block == (0, 0, 0)
    assert finding.actor.warp == finding.actor.thread // 32
    assert finding.other_actor is not None
    assert finding.other_actor.thread != finding.actor.thread
    text = str(finding)
    assert text.startswith("race: read of bytes that another thread wrote, with no barrier between")
    assert "against PTX line" in text


def test_races_of_several_blocks_name_their_block() -> None:
    case = CASES["gemm_f16_sm80"]
    _, report = case.run(_edit(case.text(), _BARRIER, 0, ""), m=128, n=128, max_findings=100)
    blocks = {f.actor.block for f in report.findings}
    assert blocks
    assert all(
        f.other_actor is None or f.other_actor.block == f.actor.block for f in report.findings
    )


_BOX = """
    .shared .align 4 .b8 box[512];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    mad.lo.u32 %r3, %r1, 4, %r2;
    xor.b32 %r4, %r1, {partner};
    mad.lo.u32 %r5, %r4, 4, %r2;
"""


def _kinds(body: str, partner: int = 1, threads: int = 64) -> list[tuple[str, int]]:
    report = launch(entry(_BOX.format(partner=partner) + body), [], threads=threads)
    return [(f.kind, f.count) for f in report.findings]


def test_the_four_kinds_of_conflict() -> None:
    own, other = "[%r3]", "[%r5]"
    store, load = "st.shared.u32 {}, %r1;", "ld.shared.u32 %r10, {};"
    barrier = "bar.sync 0;"
    first = store.format(own) + barrier
    assert _kinds(first + load.format(own) + load.format(other)) == []
    assert _kinds(store.format(own) + load.format(own)) == []
    assert _kinds(store.format(own) + load.format(other)) == [("race", 64)]
    assert _kinds(store.format(own) + store.format(other)) == [("race", 64)]
    assert _kinds(first + load.format(other) + store.format(own)) == [("race", 64)]
    assert _kinds(first + load.format(own) + store.format(own)) == []
    assert _kinds(first + load.format(other) + barrier + store.format(own)) == []
    assert _kinds(load.format(own)) == [("uninitialised-read", 64)]


def test_a_cell_read_by_two_threads_and_written_by_one_of_them() -> None:
    body = """
        st.shared.u32 [%r3], %r1;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        ld.shared.u32 %r10, [%r3];
        st.shared.u32 [%r3], %r1;
    """
    assert _kinds(body) == [("race", 64)]


def test_two_lanes_storing_to_one_word_at_once() -> None:
    assert _kinds("st.shared.u32 [%r2], %r1;", threads=32) == [("race", 31)]
    assert _kinds("setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1;") == []


def test_warp_barriers_order_a_warp_and_not_the_block() -> None:
    body = """
        st.shared.u32 [%r3], %r1;
        bar.warp.sync -1;
        ld.shared.u32 %r10, [%r5];
        bar.warp.sync -1;
        st.shared.u32 [%r5], %r1;
    """
    assert _kinds(body, partner=1) == []
    assert _kinds(body, partner=32) == [("race", 64), ("race", 64)]
    assert _kinds(body.replace("bar.warp.sync -1;", "", 1)) == [("race", 64)]


def test_partial_barriers_order_their_members() -> None:
    # Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2.
    body = """
        shr.u32 %r6, %r1, 6;
        add.u32 %r6, %r6, 1;
        st.shared.u32 [%r3], %r1;
        bar.sync %r6, 64;
        ld.shared.u32 %r10, [%r5];
    """
    assert _kinds(body, partner=32, threads=128) == []
    assert _kinds(body, partner=64, threads=128) == [("race", 128)]


def test_narrow_stores_of_two_threads_to_one_word_are_no_race() -> None:
    body = """
        add.u32 %r7, %r2, %r1;
        cvt.u16.u32 %h1, %r1;
        st.shared.u8 [%r7], %h1;
    """
    assert _kinds(body) == []


def test_findings_stop_at_the_limit_and_at_the_first() -> None:
    case = CASES["slab_sm80"]
    text = _edit(case.text(), _BARRIER, 0, "")
    assert len(case.run(text, max_findings=3)[1].findings) == 3
