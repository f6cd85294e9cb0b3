"""Order through memory: what atomic operations, strong accesses and fences let threads rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Report, UnsupportedError, parse
from tests.emulator.support import entry, launch
from tests.emulator.warpgroup import execute, kinds

Array = np.ndarray[Any, np.dtype[Any]]

# ``mbarrier`` or not: the second kernel is checked with vector clocks, the first one without.
CLOCKS = ["", "mov.u32 %r50, spare;\nmbarrier.init.shared::cta.b64 [%r50], 1;\n"]
BEFORE = ".shared .align 8 .b8 spare[8];\n.shared .align 16 .b8 box[4096];\n"


def run(body: str, clocks: str, *, threads: int = 64, blocks: int = 1) -> Report:
    text = BEFORE + "mov.u32 %r1, %tid.x;\nmov.u32 %r2, box;\n"
    init = f"setp.eq.u32 %p9, %r1, 0;\n@%p9 bra INIT;\nbra READY;\nINIT:\n{clocks}READY:\n"
    return launch(entry(text + (init if clocks else "") + body), [], threads=threads, blocks=blocks)


HISTOGRAM = """
    mad.lo.u32 %r3, %r1, 4, %r2;
    mov.u32 %r4, 0;
    st.shared.u32 [%r3], %r4;
    FIRST
    and.b32 %r5, %r1, 7;
    mad.lo.u32 %r6, %r5, 4, %r2;
    UPDATE
    SECOND
    ld.shared.u32 %r7, [%r3];
    THIRD
    st.shared.u32 [%r3], %r4;
"""


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
@pytest.mark.parametrize("update", ["red.shared.add.u32 [%r6], 1;",
                                    "atom.shared.add.u32 %r8, [%r6], 1;"])  # fmt: skip
@pytest.mark.parametrize("missing", ["", "FIRST", "SECOND"])
def test_a_histogram_and_its_barriers(clocks: str, update: str, missing: str) -> None:
    text = HISTOGRAM.replace("UPDATE", update)
    for name in ("FIRST", "SECOND", "THIRD"):
        text = text.replace(name, "" if name == missing else "bar.sync 0;")
    report = run(text, clocks)
    if not missing:
        assert report.findings == (), str(report)
        return
    assert {f.kind for f in report.findings} == {"race"}
    message = {
        "FIRST": "atomic access to bytes that another thread wrote",
        "SECOND": "read of bytes that another thread updates atomically",
    }[missing]
    assert any(f.message.startswith(message) for f in report.findings), str(report)
    finding = report.findings[0]
    assert finding.other_actor is not None
    assert finding.actor.thread != finding.other_actor.thread


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
def test_an_update_against_an_earlier_read_and_a_write_against_updates(clocks: str) -> None:
    report = run("ld.shared.u32 %r3, [%r2];\nred.shared.add.u32 [%r2], 1;", clocks)
    found = {(f.kind, f.message.split(",")[0]) for f in report.findings}
    assert ("race", "atomic update of bytes that another thread read") in found
    report = run(
        "atom.shared.exch.b32 %r3, [%r2], 1;\nmad.lo.u32 %r4, %r1, 0, %r2;\n"
        "setp.eq.u32 %p1, %r1, 5;\n@%p1 st.shared.u32 [%r4], %r1;",
        clocks,
    )
    messages = [f.message.split(",")[0] for f in report.findings if f.kind == "race"]
    assert messages == ["write to bytes that another thread accesses atomically"]


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
def test_every_pair_of_threads_is_compared(clocks: str) -> None:
    # The last lane of the read is the one that updated: the other 63 are still in a race.
    report = run(
        "mov.u32 %r4, 0;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 st.shared.u32 [%r2], %r4;\nbar.sync 0;\n"
        "setp.eq.u32 %p1, %r1, 63;\n@%p1 red.shared.add.u32 [%r2], 1;\nld.shared.u32 %r3, [%r2];",
        clocks,
    )
    (finding,) = report.findings
    assert finding.kind == "race"
    assert finding.count == 63


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
def test_an_atomic_operation_on_bytes_that_nobody_wrote(clocks: str) -> None:
    assert "uninitialised-read" in kinds(run("red.shared.add.u32 [%r2], 1;", clocks))
    body = "st.relaxed.cta.shared.u32 [%r2], %r1;\nld.relaxed.cta.shared.u32 %r3, [%r2];"
    assert run(body, clocks).findings == ()


# Thread 0 hands a word to thread 32 (another warp) through a flag; both words are shared.
HANDOVER = """
    mov.u32 %r4, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 st.shared.u32 [%r2+4], %r4;
    bar.sync 0;
    setp.eq.u32 %p2, %r1, 32;
    @%p2 bra TAKE;
    @%p1 bra GIVE;
    bra OUT;
GIVE:
    st.shared.u32 [%r2], %r1;
    WRITE
    bra OUT;
TAKE:
    READ
    setp.eq.u32 %p3, %r5, 0;
    @%p3 bra TAKE;
    THEN
    ld.shared.u32 %r6, [%r2];
OUT:
"""
ST_RELEASE = "st.release.cta.shared.u32 [%r2+4], 1;"
ST_RELAXED = "st.relaxed.cta.shared.u32 [%r2+4], 1;"
LD_ACQUIRE = "ld.acquire.cta.shared.u32 %r5, [%r2+4];"
LD_RELAXED = "ld.relaxed.cta.shared.u32 %r5, [%r2+4];"
FENCE = "fence.acq_rel.cta;"


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
@pytest.mark.parametrize(
    ("write", "read", "then", "found"),
    [
        (ST_RELEASE, LD_ACQUIRE, "", []),
        ("atom.release.cta.shared.exch.b32 %r7, [%r2+4], 1;", LD_ACQUIRE, "", []),
        (ST_RELEASE, "atom.acquire.cta.shared.or.b32 %r5, [%r2+4], 0;", "", []),
        ("red.release.cta.shared.add.u32 [%r2+4], 1;", LD_ACQUIRE, "", []),
        ("atom.acq_rel.gpu.shared.add.u32 %r7, [%r2+4], 1;", LD_ACQUIRE, "", []),
        (f"{FENCE} {ST_RELAXED}", f"{LD_RELAXED}", FENCE, []),
        (f"membar.gl; {ST_RELAXED}", f"{LD_RELAXED}", "membar.cta;", []),
        (f"fence.release.cta; {ST_RELAXED}", f"{LD_RELAXED}", "fence.acquire.cta;", []),
        (f"{FENCE} {ST_RELAXED}", LD_ACQUIRE, "", []),
        (ST_RELEASE, LD_RELAXED, FENCE, []),
        ("fence.cta; red.shared.add.u32 [%r2+4], 1;", LD_RELAXED, "fence.sc.sys;", []),
        # Something is missing:
        (ST_RELAXED, LD_ACQUIRE, "", ["race"]),
        (ST_RELEASE, LD_RELAXED, "", ["race"]),
        (f"{ST_RELAXED} {FENCE}", LD_ACQUIRE, "", ["race"]),
        (f"{FENCE} {ST_RELAXED}", f"{FENCE} {LD_RELAXED}", "", ["race"]),
        ("atom.acquire.cta.shared.exch.b32 %r7, [%r2+4], 1;", LD_ACQUIRE, "", ["race"]),
        (f"fence.acquire.cta; {ST_RELAXED}", LD_ACQUIRE, "", ["race"]),
        (ST_RELEASE, LD_RELAXED, "fence.release.cta;", ["race"]),
        # A strong write of the same thread to the same place carries what it released there.
        (f"{ST_RELEASE} st.relaxed.cta.shared.u32 [%r2+4], 2;", LD_ACQUIRE, "", []),
        (f"{ST_RELEASE} atom.relaxed.cta.shared.add.u32 %r7, [%r2+4], 2;", LD_ACQUIRE, "", []),
    ],
)
def test_a_flag_hands_memory_over(
    clocks: str, write: str, read: str, then: str, found: list[str]
) -> None:
    text = HANDOVER.replace("WRITE", write).replace("READ", read).replace("THEN", then)
    report = run(text, clocks)
    assert sorted({f.kind for f in report.findings}) == found, str(report)


def test_a_volatile_flag_in_shared_memory_is_racy() -> None:
    text = HANDOVER.replace("WRITE", "membar.cta; st.volatile.shared.u32 [%r2+4], 1;")
    text = text.replace("READ", "ld.volatile.shared.u32 %r5, [%r2+4];").replace("THEN", FENCE)
    assert {f.kind for f in run(text, "").findings} == {"race"}


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
@pytest.mark.parametrize(("third", "found"), [("st.relaxed.cta.shared.u32 [%r2+4], 2;", ["race"]),
                         ("atom.relaxed.cta.shared.add.u32 %r8, [%r2+4], 2;", [])])  # fmt: skip
def test_a_third_thread_writes_the_flag_in_between(
    clocks: str, third: str, found: list[str]
) -> None:
    # Thread 40 waits for the flag without acquiring it, writes it, and says so at another place;
    # thread 32 waits for that, and acquires the flag then.
    waits = f"""setp.ne.u32 %p4, %r1, 40;
    @%p4 bra OUT;
WAIT:
    {LD_RELAXED}
    setp.eq.u32 %p3, %r5, 0;
    @%p3 bra WAIT;
    {third}
    st.relaxed.cta.shared.u32 [%r2+8], 1;
    bra OUT;
GIVE:"""
    text = HANDOVER.replace("WRITE", ST_RELEASE).replace("THEN", LD_ACQUIRE)
    text = text.replace("READ", "ld.relaxed.cta.shared.u32 %r5, [%r2+8];")
    text = text.replace(
        "@%p1 st.shared.u32 [%r2+4], %r4;", "@%p1 st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4};"
    )
    text = text.replace("bra OUT;\nGIVE:", waits)
    assert sorted({f.kind for f in run(text, clocks).findings}) == found


@pytest.mark.parametrize("clocks", CLOCKS, ids=["floors", "clocks"])
def test_a_lock_in_shared_memory(clocks: str) -> None:
    # One thread a warp adds to a plain word under a lock.
    lock = """
        mov.u32 %r4, 0;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 st.shared.v2.u32 [%r2], {%r4, %r4};
        bar.sync 0;
        and.b32 %r3, %r1, 31;
        setp.ne.u32 %p2, %r3, 0;
        @%p2 bra OUT;
    SPIN:
        atom.acquire.cta.shared.cas.b32 %r5, [%r2], 0, 1;
        setp.ne.u32 %p3, %r5, 0;
        @%p3 bra SPIN;
        ld.shared.u32 %r6, [%r2+4];
        add.u32 %r6, %r6, 1;
        st.shared.u32 [%r2+4], %r6;
        atom.release.cta.shared.exch.b32 %r5, [%r2], 0;
    OUT:
    """
    assert run(lock, clocks, threads=256).findings == ()
    word = "release" if clocks else "acquire"
    report = run(lock.replace(word, "relaxed"), clocks, threads=256)
    assert {f.kind for f in report.findings} == {"race"}


# Global flags: two blocks of a cluster, of which one waits for the other and for what it knew.
CLUSTER = """
    mov.u32 %r3, shared;
    mov.u32 %r4, %ctaid.x;
    setp.ne.u32 %p1, %r0, 0;
    @%p1 bra OUT;
    mov.u32 %r5, 7;
    setp.eq.u32 %p2, %r4, 1;
    @%p2 bra TAKE;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    WRITE
    bra OUT;
TAKE:
    READ
    setp.eq.u32 %p3, %r6, 0;
    @%p3 bra TAKE;
    mov.u32 %r8, 0;
    mapa.shared::cluster.u32 %r9, %r3, %r8;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];
OUT:
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
"""


@pytest.mark.parametrize(
    ("write", "read", "found"),
    [
        ("st.release.gpu.global.u32 [%d0], 1;", "ld.acquire.gpu.global.u32 %r6, [%d0];", []),
        ("red.release.cluster.global.add.u32 [%d0], 1;",
         "ld.acquire.cluster.global.u32 %r6, [%d0];", []),
        ("fence.acq_rel.gpu; st.volatile.global.u32 [%d0], 1;",
         "ld.acquire.sys.global.u32 %r6, [%d0];", []),
        ("st.release.cta.global.u32 [%d0], 1;", "ld.acquire.gpu.global.u32 %r6, [%d0];", ["race"]),
        ("st.release.gpu.global.u32 [%d0], 1;", "ld.acquire.cta.global.u32 %r6, [%d0];", ["race"]),
        ("fence.acq_rel.cta; st.relaxed.gpu.global.u32 [%d0], 1;",
         "ld.acquire.gpu.global.u32 %r6, [%d0];", ["race"]),
        ("st.global.u32 [%d0], 1;", "ld.acquire.gpu.global.u32 %r6, [%d0];", ["race"]),
    ],
)  # fmt: skip
def test_scopes_in_a_cluster(write: str, read: str, found: list[str]) -> None:
    flag = np.zeros(1, np.uint32)
    text = CLUSTER.replace("WRITE", write).replace("READ", read)
    report = execute(text, [GlobalBuffer("f", flag, writable=True)], blocks=2, cluster=2)
    assert sorted(set(kinds(report))) == found, str(report)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("membar.gpu;", "cta, gl or sys was expected"),
        ("fence.acq_rel;", "a memory order and a scope were expected"),
        ("fence.acq_rel.grid;", "a memory order and a scope were expected"),
        ("fence.acquire.sync_restrict::shared::cluster.cluster;", "a memory order and a scope"),
        ("ld.acquire.global.u32 %r1, [%d1];", "a memory order without a scope"),
        ("ld.gpu.global.u32 %r1, [%d1];", "a scope without a memory order"),
        ("ld.release.gpu.global.u32 %r1, [%d1];", "unsupported modifier release"),
        ("st.acquire.gpu.global.u32 [%d1], %r1;", "unsupported modifier acquire"),
        ("st.volatile.gpu.global.u32 [%d1], %r1;", "a scope without a memory order"),
        ("ld.global.shared.u32 %r1, [%d1];", "unsupported modifier"),
    ],
)
def test_what_has_no_meaning_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(entry(instruction)), "k")
