"""Distributed shared memory: loads, stores and atomics in another block of the cluster."""

from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.warpgroup import execute, kinds, module, output

SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"

# Each block writes 100 * rank + thread, reads the word of the same thread in the block after it,
# and stores it to global memory.
PASS = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
mov.u32 %r13, %cluster_nctarank;
mad.lo.u32 %r5, %r0, 4, %r4;
mad.lo.u32 %r6, %r12, 100, %r0;
st.shared.u32 [%r5], %r6;
FIRST
add.u32 %r7, %r12, 1;
rem.u32 %r7, %r7, %r13;
READ
SECOND
mov.u32 %r14, %ctaid.x;
mad.lo.u32 %r15, %r14, 32, %r0;
mad.wide.u32 %d9, %r15, 4, %d0;
st.global.u32 [%d9], %r9;
"""
DIRECT = "mapa.shared::cluster.u32 %r8, %r5, %r7;\nld.shared::cluster.u32 %r9, [%r8];"
GENERIC = """cvt.u64.u32 %d5, %r5;
cvta.shared.u64 %d6, %d5;
mapa.u64 %d7, %d6, %r7;
ld.u32 %r9, [%d7];"""
WIDE = """cvt.u64.u32 %d5, %r5;
mapa.shared::cluster.u64 %d7, %d5, %r7;
ld.shared::cluster.u32 %r9, [%d7];"""


def _pass(first: str = SYNC, read: str = DIRECT, second: str = SYNC) -> str:
    text = PASS
    for name, part in (("FIRST", first), ("READ", read), ("SECOND", second)):
        text = text.replace(f"\n{name}\n", f"\n{part}\n")
    return text


@pytest.mark.parametrize("read", [DIRECT, GENERIC, WIDE], ids=["direct", "generic", "wide"])
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_a_word_of_the_next_block(read: str, size: int) -> None:
    out, buffer = output(2 * size * 32)
    report = execute(_pass(read=read), [buffer], blocks=2 * size, cluster=size)
    assert report.findings == (), str(report)
    ranks = (np.arange(2 * size) % size + 1) % size
    np.testing.assert_array_equal(out.reshape(-1, 32), 100 * ranks[:, None] + np.arange(32))


def test_one_block_is_a_cluster_of_its_own() -> None:
    out, buffer = output(2 * 32)
    assert execute(_pass(), [buffer], blocks=2, cluster=1).findings == ()
    np.testing.assert_array_equal(out.reshape(-1, 32), np.tile(np.arange(32), (2, 1)))


@pytest.mark.parametrize("read", [DIRECT, GENERIC], ids=["direct", "generic"])
@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        # Nothing tells that the other block has begun, nor that it has written.
        ("bar.sync 0;", SYNC, {"race", "remote-before-start"}),
        # The block that is read may have ended.
        (SYNC, "", {"remote-after-exit"}),
        (SYNC, "bar.sync 0;", {"remote-after-exit"}),
        (SYNC.replace("arrive", "arrive.relaxed"), SYNC, {"race", "remote-before-start"}),
    ],
)
def test_a_missing_cluster_barrier(read: str, first: str, second: str, found: set[str]) -> None:
    _, buffer = output(64)
    report = execute(_pass(first, read, second), [buffer], blocks=2, cluster=2)
    assert set(kinds(report)) == found, str(report)


def test_a_store_into_another_block() -> None:
    text = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
xor.b32 %r7, %r12, 1;
mad.lo.u32 %r5, %r0, 8, %r4;
EARLY
mapa.shared::cluster.u32 %r8, %r5, %r7;
add.u32 %r9, %r12, 40;
st.shared::cluster.v2.u32 [%r8], {%r0, %r9};
LATE
ld.shared.v2.u32 {%r10, %r11}, [%r5];
mov.u32 %r14, %ctaid.x;
mad.lo.u32 %r15, %r14, 32, %r0;
mad.wide.u32 %d9, %r15, 8, %d0;
st.global.v2.u32 [%d9], {%r10, %r11};
"""
    out, buffer = output(2 * 64)
    report = execute(
        text.replace("EARLY", SYNC).replace("LATE", SYNC), [buffer], blocks=2, cluster=2
    )
    assert report.findings == (), str(report)
    words = out.reshape(2, 32, 2)
    np.testing.assert_array_equal(words[0], np.stack([np.arange(32), np.full(32, 41)], axis=1))
    np.testing.assert_array_equal(words[1], np.stack([np.arange(32), np.full(32, 40)], axis=1))
    for early, late, found in (
        ("", SYNC, {"remote-before-start"}),
        (SYNC, "bar.sync 0;", {"race", "remote-after-exit"}),
    ):
        body = text.replace("EARLY", early).replace("LATE", late)
        report = execute(body, [buffer], blocks=2, cluster=2)
        assert set(kinds(report)) == found, str(report)


HISTOGRAM = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
mad.lo.u32 %r5, %r0, 4, %r4;
mov.u32 %r6, 0;
st.shared.u32 [%r5], %r6;
FIRST
and.b32 %r7, %r0, 3;
mad.lo.u32 %r8, %r7, 4, %r4;
mov.u32 %r9, 0;
mapa.shared::cluster.u32 %r10, %r8, %r9;
red.relaxed.cluster.shared::cluster.add.u32 [%r10], 1;
SECOND
setp.ne.u32 %p1, %r12, 0;
@%p1 bra done;
ld.shared.u32 %r11, [%r5];
mad.wide.u32 %d9, %r0, 4, %d0;
st.global.u32 [%d9], %r11;
done:
"""


def test_atomics_in_the_first_block_of_a_cluster() -> None:
    out, buffer = output(32)
    text = HISTOGRAM.replace("FIRST", SYNC).replace("SECOND", SYNC)
    report = execute(text, [buffer], blocks=4, cluster=4)
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(out, [32] * 4 + [0] * 28)
    for first, second, found in (
        ("bar.sync 0;", SYNC, {"race", "remote-before-start"}),
        (SYNC, "bar.sync 0;", {"race", "remote-after-exit"}),
    ):
        text = HISTOGRAM.replace("FIRST", first).replace("SECOND", second)
        assert set(kinds(execute(text, [buffer], blocks=4, cluster=4))) == found


def test_a_flag_between_blocks() -> None:
    # Block 0 writes a word of its own, and releases a flag in block 1, which reads the word.
    text = f"""
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
mov.u32 %r6, 0;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
st.shared.v2.u32 [%r4], {{%r6, %r6}};
made:
{SYNC}
@%p1 bra out;
xor.b32 %r7, %r12, 1;
mapa.shared::cluster.u32 %r8, %r4, %r7;
setp.eq.u32 %p2, %r12, 1;
@%p2 bra take;
mov.u32 %r9, 77;
st.shared.u32 [%r4], %r9;
st.RELEASE.shared::cluster.u32 [%r8+4], 1;
bra out;
take:
ld.ACQUIRE.shared.u32 %r10, [%r4+4];
setp.eq.u32 %p3, %r10, 0;
@%p3 bra take;
ld.shared::cluster.u32 %r11, [%r8];
st.global.u32 [%d0], %r11;
out:
{SYNC}
"""
    for release, acquire, found in (
        ("release.cluster", "acquire.cluster", []),
        ("release.cta", "acquire.cluster", ["race"]),
        ("release.cluster", "acquire.cta", ["race"]),
        ("relaxed.cluster", "acquire.cluster", ["race"]),
    ):
        out, buffer = output(1)
        body = text.replace("RELEASE", release).replace("ACQUIRE", acquire)
        report = execute(body, [buffer], blocks=2, cluster=2)
        assert kinds(report) == found, str(report)
        assert out[0] == 77


def test_bounds_and_ranks() -> None:
    _, buffer = output(64)
    report = execute(
        _pass(read=DIRECT.replace("[%r8]", "[%r8+4096]")), [buffer], blocks=2, cluster=2
    )
    assert "out-of-bounds-read" in kinds(report)
    read = "mov.u32 %r8, 0x5000000;\nld.shared::cluster.u32 %r9, [%r8];"
    report = execute(_pass(read=read), [buffer], blocks=2, cluster=2)
    assert {"bad-rank", "out-of-bounds-read"} == set(kinds(report)), str(report)
    # A plain shared address does not reach another block.
    read = DIRECT.replace("ld.shared::cluster", "ld.shared")
    report = execute(_pass(read=read), [buffer], blocks=2, cluster=2)
    assert "out-of-bounds-read" in kinds(report)


def test_the_rank_of_an_address_and_its_space() -> None:
    text = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
xor.b32 %r7, %r12, 1;
mapa.shared::cluster.u32 %r8, %r4, %r7;
getctarank.shared::cluster.u32 %r9, %r8;
getctarank.shared::cluster.u32 %r10, %r4;
cvt.u64.u32 %d5, %r4;
cvta.shared.u64 %d6, %d5;
mapa.u64 %d7, %d6, %r7;
getctarank.u64 %r11, %d7;
mov.u32 %r20, 0;
ASK
mov.u32 %r14, %ctaid.x;
mad.lo.u32 %r15, %r14, 32, %r0;
mad.wide.u32 %d9, %r15, 16, %d0;
st.global.v4.u32 [%d9], {%r9, %r10, %r11, %r20};
"""
    questions = [("shared", "%d6"), ("shared::cta", "%d7"), ("shared::cluster", "%d7"),
                 ("global", "%d0"), ("global", "%d6"), ("local", "%d6")]  # fmt: skip
    ask = "".join(
        f"isspacep.{space} %p1, {address};\n@%p1 or.b32 %r20, %r20, {1 << i};\n"
        for i, (space, address) in enumerate(questions)
    )
    out, buffer = output(2 * 32 * 4)
    report = execute(text.replace("ASK", ask), [buffer], blocks=2, cluster=2)
    assert report.findings == (), str(report)
    for block, rows in enumerate(out.reshape(2, 32, 4)):
        np.testing.assert_array_equal(
            rows, np.tile([1 - block, block, 1 - block, 0b001101], (32, 1))
        )


def test_generic_addresses_of_parameters() -> None:
    out, buffer = output(32)
    body = """
mov.b64 %d5, k_param_1;
cvta.param.u64 %d6, %d5;
ld.u64 %d7, [%d6];
cvt.u32.u64 %r5, %d7;
mad.wide.u32 %d9, %r0, 4, %d0;
st.global.u32 [%d9], %r5;
"""
    assert execute(body, [buffer, 4711]).findings == ()
    assert set(out.tolist()) == {4711}
    assert kinds(execute(f"{body}st.u64 [%d6], %d7;", [buffer, 4711])) == ["read-only-write"]
    report = execute(body.replace("[%d6]", "[%d6+8]"), [buffer, 4711])
    assert kinds(report) == ["out-of-bounds-read"]


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("mapa.u32 %r1, %r2, %r3;", "unsupported modifier"),
        ("mapa.shared::cta.u32 %r1, %r2, %r3;", "unsupported modifier"),
        ("getctarank.u32 %r1, %r2;", "unsupported modifier"),
        ("isspacep.texture %p1, %d1;", "unknown address space"),
        ("red.async.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r1], %r2, [%r3];",
         "unsupported modifier"),
    ],
)  # fmt: skip
def test_what_has_no_semantics_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(instruction, [])), "k")
