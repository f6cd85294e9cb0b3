from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.warpgroup import execute, kinds, module, output

# The barrier lies at offset 1024; thread 0 makes it, expecting %s arrivals.
INIT = """
setp.ne.u32 %p1, %r0, 0;
mov.u32 %r3, COUNT;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [shared+1024], %r3;
made:
bar.sync 0;
mov.u32 %r4, shared;
"""


def init(count: int) -> str:
    return INIT.replace("COUNT", str(count))


def both(first: int) -> str:
    """Both parities tested, into two bits of ``%r<first>``."""
    return (
        "\n".join(
            f"mbarrier.test_wait.parity.shared::cta.b64 %p{2 + i}, [%r4+1024], {i};\n"
            f"selp.u32 %r{first + 1 + i}, {1 << i}, 0, %p{2 + i};"
            for i in range(2)
        )
        + f"\nor.b32 %r{first}, %r{first + 1}, %r{first + 2};\n"
    )


STORE = "mad.wide.u32 %d9, %r0, 4, %d0;\nst.global.u32 [%d9], {};\n"


def test_a_fresh_barrier_passes_parity_1_and_phases_alternate() -> None:
    # One thread: it arrives twice a phase.
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r4+1024];\n"
    body = init(2) + "mov.u32 %r20, 0;\n"
    for step in range(6):
        body += both(10) + f"shl.b32 %r10, %r10, {4 * step};\nor.b32 %r20, %r20, %r10;\n" + arrive
    out, buffer = output(1)
    report = execute(body + STORE.format("%r20"), [buffer], threads=1)
    assert report.findings == (), str(report)
    # Bit p says that parity p passes: first 1, after one phase 0, after two 1 again.
    assert [int(out[0]) >> (4 * i) & 3 for i in range(6)] == [2, 2, 1, 1, 2, 2]


def test_arrivals_with_a_count_and_tokens() -> None:
    body = (
        init(5)
        + """
mbarrier.arrive.shared::cta.b64 %d5, [%r4+1024], 3;
mbarrier.test_wait.shared::cta.b64 %p2, [%r4+1024], %d5;
mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4+1024], 2;
mbarrier.try_wait.shared::cta.b64 %p3, [%r4+1024], %d5;
selp.u32 %r10, 1, 0, %p2;
selp.u32 %r11, 2, 0, %p3;
or.b32 %r10, %r10, %r11;
"""
    )
    out, buffer = output(1)
    report = execute(body + STORE.format("%r10"), [buffer], threads=1)
    assert report.findings == ()
    assert out[0] == 2


# Warp 1 writes a word a lane and arrives; warp 0 waits and reads.
PASS = """
mov.u32 %r8, 128;
mad.lo.u32 %r5, %r1, 4, %r4;
setp.eq.u32 %p4, %r2, 0;
@%p4 bra reader;
add.u32 %r6, %r1, 100;
st.shared.u32 [%r5], %r6;
mbarrier.arrive.shared::cta.b64 _, [%r4+1024];
bra done;
reader:
mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4+1024], 0;
@!%p5 bra reader;
ld.shared.u32 %r7, [%r5];
mad.wide.u32 %d9, %r1, 4, %d0;
st.global.u32 [%d9], %r7;
done:
"""


def test_a_phase_orders_what_came_before_the_arrivals() -> None:
    out, buffer = output(32)
    report = execute(init(32) + PASS, [buffer], threads=64)
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(out, np.arange(32) + 100)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # Nobody obeys the barrier's answer, or looks at it.
        ("@!%p5 bra reader;", "", "race"),
        (
            "mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4+1024], 0;",
            "setp.eq.u32 %p5, 0, 0;",
            "race",
        ),
        # The phase that is waited for is the one before the first, or the one after: which one is
        # a matter of time.
        ("[%r4+1024], 0;\n@!%p5", "[%r4+1024], 1;\n@!%p5", "deadlock"),
        # The arrival comes before the write.
        (
            "st.shared.u32 [%r5], %r6;\nmbarrier.arrive.shared::cta.b64 _, [%r4+1024];",
            "mbarrier.arrive.shared::cta.b64 _, [%r4+1024];\nst.shared.u32 [%r5], %r6;",
            "race",
        ),
    ],
)
def test_without_that_order_a_read_is_a_race(old: str, new: str, found: str) -> None:
    assert old in PASS
    _, buffer = output(32)
    report = execute(init(32) + PASS.replace(old, new), [buffer], threads=64)
    assert kinds(report) == [found], str(report)


def test_a_barrier_that_expects_too_much_is_a_deadlock_that_names_the_warps() -> None:
    _, buffer = output(32)
    text = init(33) + PASS
    report = execute(text, [buffer], threads=64)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    source = module(text, [buffer])
    line = source[: source.index("mbarrier.try_wait")].count("\n") + 1
    assert (
        f"warp 0 of block (0, 0, 0) at PTX line {line} for parity 0 of the mbarrier at offset "
        "0x400 of block (0, 0, 0) (phase 0, 1 of 33 arrivals pending, 0 bytes to come)"
    ) in finding.message
    assert finding.count == 32


def test_a_barrier_that_expects_too_little_lets_the_reader_go_early() -> None:
    _, buffer = output(32)
    report = execute(init(31) + PASS, [buffer], threads=64)
    assert "race" in kinds(report)


def test_a_wait_tried_once_and_given_up_goes_on() -> None:
    body = (
        init(1)
        + """
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+1024], 0;
selp.u32 %r10, 1, 0, %p2;
"""
    )
    out, buffer = output(1)
    report = execute(body + STORE.format("%r10"), [buffer], threads=1)
    assert report.findings == ()
    assert out[0] == 0


def test_bytes_announced_hold_the_phase() -> None:
    body = init(1) + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+1024], 64;\n" + both(10)
    out, buffer = output(1)
    report = execute(body + STORE.format("%r10"), [buffer], threads=1)
    assert out[0] == 2
    assert kinds(report) == ["transaction-count"]
    assert "0 of 1 arrivals pending, 64 bytes to come" in report.findings[0].message


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            (
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+1024], 16;\n"
                "mbarrier.arrive.shared::cta.b64 _, [%r4+1024];"
            ),
            ["over-arrival", "transaction-count"],
        ),
        ("mbarrier.arrive.shared::cta.b64 _, [%r4+1024], 2;", ["over-arrival"]),
        ("mbarrier.arrive.shared::cta.b64 _, [%r4+1032];", ["no-mbarrier"]),
        ("mbarrier.init.shared::cta.b64 [%r4+1028], 1;", ["misaligned"]),
        ("mbarrier.init.shared::cta.b64 [%r4+8192], 1;", ["out-of-bounds-write"]),
        ("mbarrier.init.shared::cta.b64 [%r4+1032], 0;", ["bad-size"]),
        ("mbarrier.init.shared::cta.b64 [%r4+1024], 1;", ["barrier-access"]),
        (
            (
                "mbarrier.inval.shared::cta.b64 [%r4+1024];\n"
                "mbarrier.init.shared::cta.b64 [%r4+1024], 1;"
            ),
            [],
        ),
        ("ld.shared.u32 %r9, [%r4+1024];", ["barrier-access"]),
        ("st.shared.u32 [%r4+1028], %r4;", ["barrier-access"]),
    ],
)
def test_misuse(body: str, found: list[str]) -> None:
    report = execute(init(1) + body, [], threads=1)
    assert kinds(report) == found, str(report)


def test_a_barrier_used_before_its_initialisation_is_known_is_a_race() -> None:
    body = init(64).replace("bar.sync 0;", "") + "mbarrier.arrive.shared::cta.b64 _, [%r4+1024];"
    report = execute(body, [], threads=64)
    assert kinds(report) == ["race"]
    assert "with no order after its initialisation" in report.findings[0].message
    # A warp barrier is enough for the warp.
    body = body.replace("mov.u32 %r4", "bar.warp.sync 0xffffffff;\nmov.u32 %r4")
    assert execute(body.replace("COUNT", "32"), [], threads=32).findings == ()


# Threads 0 and 32 arrive, wait for the phase, and arrive in the next.
TWICE = (
    init(2)
    + """
setp.ne.u32 %p3, %r1, 0;
@%p3 exit;
mbarrier.arrive.ORDER.shared::cta.b64 _, [%r4+1024];
again:
mbarrier.try_wait.parity.WAIT.shared::cta.b64 %p2, [%r4+1024], 0;
@!%p2 bra again;
mbarrier.arrive.release.cta.shared::cta.b64 _, [%r4+1024];
"""
)


def test_an_arrival_must_come_after_the_phase_before() -> None:
    right = TWICE.replace("ORDER", "release.cta").replace("WAIT", "acquire.cta")
    assert execute(right, [], threads=64).findings == ()
    # Thread 32 leaves the loop after one try: both its arrivals may fall into the first phase.
    loop = "@!%p2 bra again;"
    tried = right.replace(loop, "@%p2 bra on;\nsetp.ne.u32 %p4, %r0, 32;\n@%p4 bra again;\non:")
    report = execute(tried, [], threads=64)
    assert kinds(report) == ["race"]
    assert "with no order after the end of its last phase" in report.findings[0].message
    # By one thread there is no other order.
    alone = init(1) + "mbarrier.arrive.shared::cta.b64 _, [%r4+1024];\n" * 3
    assert execute(alone, [], threads=1).findings == ()


WRITTEN = """
setp.ne.u32 %p3, %r1, 0;
@%p3 exit;
setp.eq.u32 %p4, %r0, 0;
@%p4 bra write;
again:
mbarrier.try_wait.parity.WAIT.shared::cta.b64 %p2, [%r4+1024], 0;
@!%p2 bra again;
ld.shared.u32 %r5, [%r4];
exit;
write:
st.shared.u32 [%r4], %r4;
mbarrier.arrive.ORDER.shared::cta.b64 _, [%r4+1024];
"""


@pytest.mark.parametrize(
    ("order", "wait", "found"),
    [
        ("release.cta", "acquire.cta", []),
        ("relaxed.cta", "acquire.cta", ["race"]),
        ("release.cta", "relaxed.cta", ["race"]),
    ],
)
def test_what_is_relaxed_orders_nothing(order: str, wait: str, found: list[str]) -> None:
    body = init(1) + WRITTEN.replace("ORDER", order).replace("WAIT", wait)
    assert kinds(execute(body, [], threads=64)) == found


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("mbarrier.arrive.noComplete.shared::cta.b64 _, [%r4], 1;", "unsupported modifier"),
        ("mbarrier.arrive_drop.shared::cta.b64 _, [%r4];", "unknown instruction"),
        ("mbarrier.arrive.b64 _, [%d0];", "generic addresses of mbarriers are not supported"),
        ("mbarrier.init.shared::cluster.b64 [%r4], 1;", "only arrivals and announced bytes"),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4];", "another number of operands"),
        ("cp.async.mbarrier.arrive.b64 [%d0];", "generic addresses of mbarriers are not supported"),
        ("cp.async.mbarrier.arrive.noinc.shared::cluster.b64 [%r4];", "unsupported modifier"),
        ("cp.async.mbarrier.arrive.shared::cta.noinc.b64 [%r4];", "unsupported modifier"),
        ("cp.async.mbarrier.test.shared::cta.b64 [%r4];", "unknown instruction|unsupported"),
        ("fence.proxy.alias;", "only fence.proxy.async is supported"),
        ("mapa.u32 %r1, %r2, %r3;", "unsupported modifier"),
        ("barrier.cluster.arrive.acquire;", "unsupported modifier"),
        ("setmaxnreg.inc.sync.aligned.u32 100;", "a multiple of 8 from 24 to 256"),
    ],
)
def test_what_has_no_semantics_is_refused_loudly(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(instruction, [])), "k")


# Two warps hand a turn to and fro, three times each; ARRIVE says who of a warp says so.
# Barrier 1024 is warp 0's turn, 1032 warp 1's; warp 0 begins.
TURNS = """
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [shared+1024], COUNT;
mbarrier.init.shared::cta.b64 [shared+1032], COUNT;
made:
bar.sync 0;
mov.u32 %r4, shared;
shr.u32 %r5, %r0, 5;
and.b32 %r6, %r0, 31;
mad.lo.u32 %r7, %r5, 8, %r4;
xor.b32 %r8, %r5, 1;
mad.lo.u32 %r9, %r8, 8, %r4;
mov.u32 %r10, %r8;
mov.u32 %r11, 0;
again:
wait:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7+1024], %r10;
@!%p2 bra wait;
xor.b32 %r10, %r10, 1;
SYNC
setp.ne.u32 %p3, %r6, 0;
@%p3 bra handed;
mbarrier.arrive.shared::cta.b64 _, [%r9+1024];
handed:
add.u32 %r11, %r11, 1;
setp.lt.u32 %p4, %r11, 3;
@%p4 bra again;
"""


def test_a_wait_that_may_come_when_its_phase_is_over_is_found() -> None:
    """A thread that comes late finds the next phase's parity and sleeps: for ever, on a GPU."""
    text = TURNS.replace("COUNT", "1")
    report = execute(text.replace("SYNC", "bar.warp.sync 0xffffffff;"), [], threads=64)
    assert report.findings == (), str(report)
    # Lane 0 hands over when it has waited; the others of its warp may be anywhere.
    (found,) = execute(text.replace("SYNC", ""), [], threads=64).findings
    assert found.kind == "missed-phase"
    assert "try_wait.parity" in found.place.text
    assert found.other_place is not None
    assert "mbarrier.arrive" in found.other_place.text
    assert found.actor.thread % 32 == 1


def test_a_fresh_barrier_can_be_missed_too() -> None:
    """Parity 1 passes before the first phase ends, and not between the first and the second."""
    body = """
setp.ge.u32 %p2, %r0, 32;
@%p2 bra other;
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+1024], 1;
BETWEEN
bra end;
other:
BETWEEN
mbarrier.arrive.shared::cta.b64 _, [%r4+1024];
end:
"""
    unordered = execute(init(32) + body.replace("BETWEEN", ""), [], threads=64)
    assert kinds(unordered) == ["missed-phase"]
    ordered = execute(init(32) + body.replace("BETWEEN", "bar.sync 1, 64;"), [], threads=64)
    assert kinds(ordered) == []


def test_a_token_names_its_phase_however_late_it_is_asked() -> None:
    body = """
mbarrier.arrive.shared::cta.b64 %d5, [%r4+1024];
again:
mbarrier.try_wait.shared::cta.b64 %p2, [%r4+1024], %d5;
@!%p2 bra again;
mbarrier.arrive.shared::cta.b64 %d5, [%r4+1024];
once_more:
mbarrier.try_wait.shared::cta.b64 %p2, [%r4+1024], %d5;
@!%p2 bra once_more;
"""
    assert kinds(execute(init(64) + body, [], threads=64)) == []
