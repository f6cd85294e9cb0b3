from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Kernel, Launch, LaunchError, parse, run
from tests.emulator.warpgroup import execute, kinds, module, output

SPECIAL = """
mov.u32 %r3, %ctaid.x;
mad.lo.u32 %r4, %r3, 32, %r0;
mov.u32 %r5, %cluster_ctarank;
mov.u32 %r6, %cluster_nctarank;
mov.u32 %r7, %clusterid.x;
mov.u32 %r8, %nclusterid.x;
mov.u32 %r9, %cluster_ctaid.x;
mov.u32 %r10, %cluster_nctaid.x;
mov.u32 %r11, %clusterid.y;
mad.wide.u32 %d9, %r4, 32, %d0;
st.global.v4.u32 [%d9], {%r5, %r6, %r7, %r8};
st.global.v4.u32 [%d9+16], {%r9, %r10, %r11, %r3};
"""


def test_special_registers() -> None:
    out, buffer = output(6 * 32 * 8)
    assert execute(SPECIAL, [buffer], blocks=6, cluster=2).findings == ()
    for block, rows in enumerate(out.reshape(6, 32, 8)):
        want = [block % 2, 2, block // 2, 3, block % 2, 2, 0, block]
        np.testing.assert_array_equal(rows, np.tile(want, (32, 1)))
    execute(SPECIAL, [buffer], blocks=6)
    for block, rows in enumerate(out.reshape(6, 32, 8)):
        np.testing.assert_array_equal(rows[0], [0, 1, block, 6, 0, 1, 0, block])


def test_ranks_go_along_x_first() -> None:
    out, buffer = output(8 * 32 * 8)
    text = module(SPECIAL.replace("mov.u32 %r3, %ctaid.x;", """
mov.u32 %r12, %ctaid.y;
mov.u32 %r13, %ctaid.x;
mad.lo.u32 %r3, %r12, 4, %r13;
"""), [buffer])  # fmt: skip
    kernel = Kernel(parse(text), "k")
    launch = Launch((4, 2, 1), (32, 1, 1), 0, [buffer], cluster=(2, 2, 1))
    assert run(kernel, launch).findings == ()
    ranks = out.reshape(2, 4, 32, 8)[:, :, 0, 0]
    np.testing.assert_array_equal(ranks, [[0, 1, 0, 1], [2, 3, 2, 3]])


def test_the_blocks_of_a_cluster_run_together_or_not_at_all() -> None:
    _, buffer = output(6 * 32 * 8)
    assert execute(SPECIAL, [buffer], blocks=6, cluster=2, chosen=[4, 5]).findings == ()
    assert execute(SPECIAL, [buffer], blocks=6, cluster=2, chosen=[3, 0, 1, 2]).findings == ()
    message = r"block \(5, 0, 0\) is missing: it shares a cluster with \(4, 0, 0\)"
    with pytest.raises(LaunchError, match=message):
        execute(SPECIAL, [buffer], blocks=6, cluster=2, chosen=[0, 1, 4])
    with pytest.raises(LaunchError, match=r"grid \(5, 1, 1\) is no whole number of clusters"):
        execute(SPECIAL, [buffer], blocks=5, cluster=2)


# Each block's warp 0 arrives at the barrier of the other one, and waits for its own; its words
# are then in global memory. MAPA gives the address.
REMOTE = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [%r4+1024], 32;
made:
SYNC
xor.b32 %r13, %r12, 1;
add.u32 %r5, %r4, 1024;
mapa.shared::cluster.u32 %r6, %r5, %r13;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];
WAIT
DRAIN
"""
SYNC = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
WAIT = """wait:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4+1024], 0;
@!%p2 bra wait;"""


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((SYNC, WAIT, ""), []),
        # No order between the initialisation and the other block's arrival.
        (("bar.sync 0;", WAIT, ""), ["race"]),
        (("", WAIT, ""), ["race"]),
        # A block may end before the other one's arrival.
        ((SYNC, "", ""), ["remote-after-exit"]),
        ((SYNC, "", SYNC), []),
        ((SYNC, "", "barrier.cluster.arrive.aligned;"), ["remote-after-exit"]),
    ],
)
def test_arrivals_at_another_block(parts: tuple[str, str, str], found: list[str]) -> None:
    text = REMOTE
    for name, part in zip(("SYNC", "WAIT", "DRAIN"), parts, strict=True):
        text = text.replace(f"\n{name}\n", f"\n{part}\n")
    report = execute(text, [], blocks=4, cluster=2)
    assert sorted(set(kinds(report))) == found, str(report)


def test_a_rank_outside_the_cluster() -> None:
    text = REMOTE.replace("SYNC", SYNC).replace("WAIT", "").replace("DRAIN", "")
    report = execute(
        text.replace("xor.b32 %r13, %r12, 1", "mov.u32 %r13, 2"), [], cluster=2, blocks=2
    )
    assert "bad-rank" in kinds(report)


def test_blocks_that_wait_for_each_other_and_one_that_never_comes() -> None:
    text = """
mov.u32 %r12, %cluster_ctarank;
setp.eq.u32 %p1, %r12, 1;
@%p1 bra last;
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
bra done;
last:
LAST
done:
"""
    report = execute(text.replace("LAST", "bar.sync 3, 96;"), [], blocks=2, cluster=2, threads=64)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert (
        "warps 0 to 1 of block (0, 0, 0) at PTX line 23 at the cluster's barrier" in finding.message
    )
    assert "warps 0 to 1 of block (1, 0, 0) at PTX line 26 at barrier 3" in finding.message
    # A block that has ended counts as arrived.
    report = execute(text.replace("LAST", ""), [], blocks=2, cluster=2, threads=64)
    assert report.findings == ()


def test_two_arrivals_in_a_row_and_half_a_warp() -> None:
    report = execute("barrier.cluster.arrive.aligned;\n" * 2, [], blocks=2, cluster=2)
    assert kinds(report) == ["divergent-barrier"]


def test_the_barrier_orders_ordinary_accesses() -> None:
    text = """
mov.u32 %r4, shared;
mad.lo.u32 %r5, %r0, 4, %r4;
st.shared.u32 [%r5], %r0;
barrier.cluster.arrive.release.aligned;
barrier.cluster.wait.acquire.aligned;
xor.b32 %r6, %r0, 63;
mad.lo.u32 %r7, %r6, 4, %r4;
ld.shared.u32 %r8, [%r7];
"""
    assert execute(text, [], blocks=2, cluster=2, threads=64).findings == ()
    report = execute(text.replace("arrive.release", "arrive.relaxed"), [], blocks=2, cluster=2,
                     threads=64)  # fmt: skip
    assert kinds(report) == ["race"]


def test_one_lane_is_elected() -> None:
    body = """
mov.u32 %r10, 0;
mov.u32 %r11, 0;
elect.sync %r12|%p1, 0xffffffff;
selp.u32 %r10, 1, 0, %p1;
setp.lt.u32 %p3, %r1, 4;
@%p3 bra out;
elect.sync _|%p2, 0xfffffff0;
selp.u32 %r11, 1, 0, %p2;
out:
mad.wide.u32 %d9, %r0, 8, %d0;
st.global.v2.u32 [%d9], {%r10, %r11};
"""
    out, buffer = output(64)
    assert execute(body, [buffer]).findings == ()
    elected = out.reshape(32, 2)
    assert elected[:, 0].tolist() == [1] + [0] * 31
    assert elected[:, 1].tolist() == [0] * 4 + [1] + [0] * 27


def test_registers_are_given_and_taken_by_whole_warpgroups() -> None:
    body = "setmaxnreg.inc.sync.aligned.u32 232;"
    assert execute(body, [], threads=256).findings == ()
    part = f"setp.eq.u32 %p1, %r2, 1;\n@%p1 exit;\n{body}"
    assert kinds(execute(part, [], threads=256)) == ["divergent-instruction"]
