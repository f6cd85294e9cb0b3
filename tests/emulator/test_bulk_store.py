from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Checks, GlobalBuffer, TensorMap
from tests.emulator.test_bulk import plain, text, unswizzled
from tests.emulator.warpgroup import execute, kinds, output

# Each thread writes its number to the words that it is congruent to; thread 0 stores the box.
STORE = """
mov.u32 %r4, shared;
mov.u32 %r8, %r0;
fill:
setp.ge.u32 %p3, %r8, WORDS;
@%p3 bra filled;
shl.b32 %r9, %r8, 2;
add.u32 %r10, %r4, %r9;
st.shared.u32 [%r10], %r8;
add.u32 %r8, %r8, 32;
bra fill;
filled:
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra done;
mov.u32 %r5, X;
mov.u32 %r6, Y;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r5, %r6}], [%r4];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
st.shared.u32 [%r4], %r5;
cp.async.bulk.wait_group 0;
done:
"""


@pytest.mark.parametrize(("box", "swizzle"), [((64, 32), 128), ((16, 8), 32), ((24, 10), 0)])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (64, 30), (-5, -3), (61, 0), (2000, 0)])
def test_a_store_writes_the_box_cut_to_the_bounds(
    box: tuple[int, int], swizzle: int, x: int, y: int
) -> None:
    d = np.full((40, 112), 0xEEEE, np.uint16)
    tensor = TensorMap(GlobalBuffer("d", d, writable=True), 2, (101, 40), (224,), box, swizzle)
    total = box[0] * box[1] * 2
    report = execute(text(STORE, total, x, y), [tensor], shared=8192)
    assert report.findings == (), str(report)
    words = np.arange(total // 4, dtype=np.uint32).view(np.uint8)
    tile = unswizzled(words, swizzle, box[0] * 2).view(np.uint16).reshape(box[1], box[0])
    want = np.full_like(d, 0xEEEE)
    for j in range(box[1]):
        for i in range(box[0]):
            # A row ends at its 101st element, but is written to the end of those 16 bytes.
            if 0 <= y + j < 40 and 0 <= x + i < 104:
                want[y + j, x + i] = tile[j, i]
    np.testing.assert_array_equal(d, want)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("fence.proxy.async.shared::cta;", "", ["missing-fence"]),
        # The fence of the thread that stores says nothing of what others wrote.
        (
            "fence.proxy.async.shared::cta;\nbar.sync 0;",
            "bar.sync 0;\nfence.proxy.async.shared::cta;",
            ["missing-fence"],
        ),
        ("bar.sync 0;", "", ["race", "missing-fence"]),
        ("cp.async.bulk.wait_group.read 0;", "", ["in-flight-write"]),
        (
            "cp.async.bulk.wait_group.read 0;",
            "cp.async.bulk.wait_group.read 1;",
            ["in-flight-write"],
        ),
        ("cp.async.bulk.commit_group;", "", ["in-flight-write", "exit-in-flight"]),
        (
            STORE[STORE.index("cp.async.bulk.wait") : STORE.index("done:")],
            "",
            ["exit-in-flight"],
        ),
        ("setp.ge.u32 %p3, %r8, WORDS;", "setp.ge.u32 %p3, %r8, 64;", ["uninitialised-read"]),
        ("], [%r4];", "], [%r4+16];", ["misaligned"]),
    ],
)
def test_faults_of_a_store(old: str, new: str, found: list[str]) -> None:
    d = np.zeros((40, 112), np.uint16)
    tensor = TensorMap(GlobalBuffer("d", d, writable=True), 2, (101, 40), (224,), (64, 32), 128)
    assert old in STORE
    report = execute(text(STORE.replace(old, new), 4096, 0, 0), [tensor], shared=8192)
    assert set(kinds(report)) == set(found), str(report)


def test_a_store_to_a_buffer_that_is_not_writable() -> None:
    d = np.zeros((40, 112), np.uint16)
    tensor = TensorMap(GlobalBuffer("d", d), 2, (101, 40), (224,), (64, 32), 128)
    report = execute(text(STORE, 4096, 0, 0), [tensor], shared=8192)
    assert kinds(report) == ["read-only-write"]
    assert not d.any()


# Block 0 of a cluster of two loads a box for both, and waits; so does block 1.
MULTICAST = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [%r4+32768], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+32768], 4096;
made:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
setp.ne.u32 %p2, %r12, 0;
or.pred %p2, %p1, %p2;
@%p2 bra wait;
mov.u32 %r5, 0;
add.u32 %r7, %r4, 32768;
mov.u16 %h1, 3;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
    [%r4], [%d0, {%r5, %r5}], [%r7], %h1;
wait:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+32768], 0;
@!%p3 bra wait;
shl.b32 %r9, %r0, 2;
add.u32 %r10, %r4, %r9;
ld.shared.u32 %r11, [%r10];
shl.b32 %r13, %r12, 7;
add.u32 %r13, %r13, %r9;
cvt.u64.u32 %d9, %r13;
add.u64 %d9, %d9, %d1;
st.global.u32 [%d9], %r11;
"""


def test_multicast_brings_the_box_to_both_blocks() -> None:
    tensor, _ = plain()
    out, buffer = output(64)
    report = execute(MULTICAST, [tensor, buffer], shared=32776, cluster=2, blocks=2)
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(out[:32], np.arange(64).astype(np.uint16).view(np.uint32))
    np.testing.assert_array_equal(out[32:], out[:32])


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", "bar.sync 0;", {"race"}),
        ("barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;", {"race"}),
        ("mov.u16 %h1, 3;", "mov.u16 %h1, 1;", {"deadlock"}),
        ("mov.u16 %h1, 3;", "mov.u16 %h1, 7;", {"bad-rank"}),
        ("mov.u16 %h1, 3;", "mov.u16 %h1, 0;", {"bad-rank", "deadlock"}),
        ("setp.ne.u32 %p2, %r12, 0;", "setp.eq.u32 %p2, %r12, 2;", {"in-flight-write"}),
    ],
)
def test_faults_of_multicast(old: str, new: str, found: set[str]) -> None:
    tensor, _ = plain()
    assert old in MULTICAST
    report = execute(
        MULTICAST.replace(old, new), [tensor, output(64)[1]], shared=32776, cluster=2, blocks=2
    )
    assert found <= set(kinds(report)), str(report)


def test_copies_run_unchecked_too() -> None:
    tensor, _ = plain()
    out, buffer = output(64)
    report = execute(
        MULTICAST, [tensor, buffer], shared=32776, cluster=2, blocks=2, checks=Checks(races=False)
    )
    assert report.findings == ()
    assert out[1] == (3 << 16) + 2
