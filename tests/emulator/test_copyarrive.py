from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Report
from tests.emulator.warpgroup import execute, kinds, output

# The mbarrier lies at offset 1024. Warp 1 copies 16 bytes a lane and lets them arrive; warp 0
# waits, and writes out the first word of each. `%d0` is the source, `%d1` the output.
PASS = """
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [shared+1024], COUNT;
made:
bar.sync 0;
mov.u32 %r4, shared;
mad.lo.u32 %r5, %r1, 16, %r4;
setp.eq.u32 %p4, %r2, 0;
@%p4 bra reader;
mad.wide.u32 %d9, %r1, 16, %d0;
BEFORE
cp.async.cg.shared.global [%r5], [%d9], 16;
ARRIVE
bra done;
reader:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4+1024], 0;
@!%p5 bra reader;
READ
ld.shared.u32 %r7, [%r5];
mad.wide.u32 %d9, %r1, 4, %d1;
st.global.u32 [%d9], %r7;
done:
"""
NOINC = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r4+1024];"
INC = "cp.async.mbarrier.arrive.shared::cta.b64 [%r4+1024];"
PLAIN = "mbarrier.arrive.shared::cta.b64 _, [%r4+1024];"


def passed(
    arrive: str, count: int = 32, *, before: str = "", read: str = "", text: str = PASS
) -> tuple[list[int], Report]:
    """What warp 0 wrote, and the report."""
    source = np.arange(128, dtype=np.uint32)
    out, buffer = output(32)
    body = text.replace("COUNT", str(count)).replace("ARRIVE", arrive)
    body = body.replace("BEFORE", before).replace("READ", read)
    report = execute(body, [GlobalBuffer("in", source), buffer], threads=64)
    return out.tolist(), report


RIGHT = list(range(0, 128, 4))


@pytest.mark.parametrize(
    ("arrive", "count"),
    [
        (NOINC, 32),
        (NOINC.replace("shared::cta", "shared"), 32),
        # The phase gets an arrival more for each, and ends with the threads' own.
        (INC + PLAIN, 32),
        # Copies are known to whoever arrives for all.
        (INC + "bar.warp.sync 0xffffffff;\nsetp.ne.u32 %p6, %r1, 0;\n@%p6 bra done;\n" + PLAIN, 1),
        # Nothing in flight, and an arrival all the same.
        (NOINC + NOINC, 64),
    ],
)
def test_whoever_waits_for_the_phase_sees_the_copies(arrive: str, count: int) -> None:
    out, report = passed(arrive, count)
    assert report.findings == (), str(report)
    assert out == RIGHT


@pytest.mark.parametrize(
    ("arrive", "count", "found"),
    [
        # Nobody waits for the copies, or they are still on their way when the arrival is.
        (PLAIN, 32, {"in-flight-read", "exit-in-flight"}),
        ("", 32, {"deadlock"}),
        # The count has no room for the arrivals: the phase lacks those of the threads.
        (INC, 32, {"deadlock"}),
        # Too few are expected: the phase ends before the last copies arrive, or the next one too.
        (NOINC, 31, {"race", "in-flight-read"}),
        (NOINC, 16, {"race", "deadlock"}),
        (NOINC, 33, {"deadlock"}),
        # The threads arrive before their copies are handed over: the phase may have ended.
        (PLAIN + INC, 32, {"race", "in-flight-read"}),
        # One arrives for all, and no order says that the others' copies were handed over.
        (INC + "setp.ne.u32 %p6, %r1, 0;\n@%p6 bra done;\n" + PLAIN, 1, {"in-flight-read"}),
        (
            "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r4+1032];",
            32,
            {"no-mbarrier", "deadlock"},
        ),
    ],
)
def test_an_arrival_that_says_too_little_is_seen(arrive: str, count: int, found: set[str]) -> None:
    _, report = passed(arrive, count)
    assert set(kinds(report)) == found, str(report)


def test_copies_that_start_after_the_arrival_are_in_flight() -> None:
    copy = "cp.async.cg.shared.global [%r5], [%d9], 16;\n"
    text = PASS.replace(copy, "").replace("ARRIVE", "ARRIVE\n" + copy)
    _, report = passed(NOINC, text=text)
    assert kinds(report) == ["in-flight-read", "exit-in-flight"]


def test_the_wait_must_be_obeyed() -> None:
    _, report = passed(NOINC, text=PASS.replace("@!%p5 bra reader;", ""))
    assert set(kinds(report)) == {"in-flight-read"}


def test_the_arrival_says_nothing_of_what_the_thread_wrote() -> None:
    before = "add.u32 %r6, %r5, 512;\nst.shared.u32 [%r6], %r1;"
    read = "ld.shared.u32 %r7, [%r5+512];"
    _, report = passed(NOINC, before=before, read=read)
    assert kinds(report) == ["race"]
    # Its own arrival does.
    assert passed(NOINC + PLAIN, 64, before=before, read=read)[1].findings == ()


def test_the_copier_itself_has_to_wait() -> None:
    _, report = passed(NOINC + "ld.shared.u32 %r7, [%r5];")
    assert kinds(report) == ["in-flight-read"]


def test_bytes_belong_to_the_copy_until_the_phase_is_known_to_be_over() -> None:
    again = NOINC + "cp.async.cg.shared.global [%r5], [%d9], 16;"
    _, report = passed(again)
    assert "in-flight-write" in kinds(report)
    wait = "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p6, [%r4+1024], 0;\n@!%p6 bra again;"
    # The reader reads: that the copy landed says nothing of it.
    _, report = passed(NOINC + wait + "st.shared.u32 [%r5], %r1;")
    assert kinds(report) == ["race"]
    read = "bra done;"
    assert passed(NOINC + wait + "st.shared.u32 [%r5], %r1;", read=read)[1].findings == ()


def test_a_bulk_store_of_copied_bytes_wants_a_fence_of_a_thread_that_wrote_them() -> None:
    store = """
setp.ne.u32 %p6, %r1, 0;
@%p6 bra done;
cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r4], 128;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
bra done;
"""
    _, report = passed(NOINC, read=store)
    assert kinds(report) == ["missing-fence"]
    own = "cp.async.wait_all;\nfence.proxy.async;\n" + PLAIN
    assert passed(own, read=store)[1].findings == ()


def test_an_arrival_must_come_after_the_end_of_the_phase_before() -> None:
    # Lane 0 of either warp: both arrivals may fall into the first phase.
    body = """
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [shared+1024], 2;
made:
bar.sync 0;
mov.u32 %r4, shared;
setp.ne.u32 %p3, %r1, 0;
@%p3 exit;
ARRIVE
WAIT
ARRIVE
""".replace("ARRIVE", NOINC)
    wait = "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+1024], 0;\n@!%p2 bra again;"
    assert execute(body.replace("WAIT", wait), [], threads=64).findings == ()
    report = execute(body.replace("WAIT", ""), [], threads=64)
    assert kinds(report) == ["race"]
    assert "with no order after the end of its last phase" in report.findings[0].message


def test_more_arrivals_than_a_phase_counts() -> None:
    _, report = passed(INC + PLAIN, (1 << 20) - 1)
    assert "over-arrival" in kinds(report)
    (first,) = [f for f in report.findings if f.kind == "over-arrival"]
    assert (
        "more arrivals than an mbarrier counts: 32 at phase 0, 1048575 of 1048575" in first.message
    )
