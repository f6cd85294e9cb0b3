"""Bulk copies of runs of bytes: in, out, across a cluster, and reduced into global memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, UnsupportedError, parse
from tests.emulator.warpgroup import execute, kinds, module, output

Array = np.ndarray[Any, np.dtype[Any]]

# %d0 is the source, %d1 the target, both of BYTES bytes.
ROUND_TRIP = """
mov.u32 %r4, shared;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [%r4], 1;
fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], BYTES;
add.u32 %r7, %r4, 16;
mov.u32 %r6, BYTES;
cp.async.bulk.SPACE.global.mbarrier::complete_tx::bytes [%r7+OFFSET], [%d0], %r6, [%r4];
made:
bar.sync 0;
wait:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
@!%p2 bra wait;
@%p1 bra done;
cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r7+OFFSET], BYTES;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
done:
"""


def _round_trip(count: int, *, space: str = "shared::cluster", offset: int = 0) -> str:
    body = ROUND_TRIP.replace("BYTES", str(count)).replace("SPACE", space)
    return body.replace("OFFSET", str(offset))


@pytest.mark.parametrize("space", ["shared::cluster", "shared::cta"])
@pytest.mark.parametrize("count", [16, 48, 4096])
def test_there_and_back(space: str, count: int) -> None:
    source = np.random.default_rng(1).integers(0, 256, count).astype(np.uint8)
    out, buffer = output(count, np.uint8)
    report = execute(_round_trip(count, space=space), [GlobalBuffer("a", source), buffer],
                     shared=8192)  # fmt: skip
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize(
    ("count", "offset", "found"),
    [(24, 0, "misaligned"), (32, 8, "misaligned"), (4096, 4096, "out-of-bounds-access")],
)
def test_sizes_and_places(count: int, offset: int, found: str) -> None:
    source = GlobalBuffer("a", np.zeros(8192, np.uint8))
    _, buffer = output(8192, np.uint8)
    report = execute(_round_trip(count, offset=offset), [source, buffer], shared=4200)
    assert found in kinds(report)


def test_a_source_that_ends_too_early_and_one_misaligned() -> None:
    _, buffer = output(64, np.uint8)
    report = execute(_round_trip(64), [GlobalBuffer("a", np.zeros(48, np.uint8)), buffer])
    assert "out-of-bounds-read" in kinds(report)
    source = GlobalBuffer("a", np.zeros(128, np.uint8))
    report = execute(_round_trip(64), [source.at(8), buffer])
    assert "misaligned" in kinds(report)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("@!%p2 bra wait;", "", "in-flight-read"),
        ("cp.async.bulk.wait_group 0;", "", "exit-in-flight"),
        ("fence.mbarrier_init.release.cluster;", "", "missing-fence"),
        ("_, [%r4], 64;", "_, [%r4], 80;", "deadlock"),
    ],
)
def test_what_is_missing_shows(old: str, new: str, found: str) -> None:
    body = _round_trip(64)
    assert old in body
    _, buffer = output(64, np.uint8)
    report = execute(body.replace(old, new), [GlobalBuffer("a", np.zeros(64, np.uint8)), buffer])
    assert found in kinds(report), str(report)


# Every thread writes its number as a KIND; thread 0 reduces the run into %d0.
REDUCE = """
mov.u32 %r4, shared;
CONVERT
mad.lo.u32 %r10, %r0, WIDTH, %r4;
STORE
fence.proxy.async.shared::cta;
bar.sync 0;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra done;
cp.reduce.async.bulk.global.shared::cta.bulk_group.WORDS [%d0], [%r4], BYTES;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
done:
"""


@pytest.mark.parametrize(
    ("words", "dtype", "function"),
    [
        ("add.u32", np.uint32, np.add), ("min.s32", np.int32, np.minimum),
        ("max.u32", np.uint32, np.maximum), ("xor.b32", np.uint32, np.bitwise_xor),
        ("add.f32", np.float32, np.add), ("add.noftz.f16", np.float16, np.add),
        ("add.noftz.bf16", ml_dtypes.bfloat16, np.add),
    ],
)  # fmt: skip
def test_reductions(words: str, dtype: Any, function: Any) -> None:
    kind = words.rsplit(".", maxsplit=1)[1]
    width = np.dtype(dtype).itemsize
    convert = {"f32": "cvt.rn.f32.u32 %r11, %r0;", "f16": "cvt.rn.f16.u32 %h1, %r0;",
               "bf16": "cvt.rn.bf16.u32 %h1, %r0;"}.get(kind, "mov.u32 %r11, %r0;")  # fmt: skip
    store = "st.shared.b16 [%r10], %h1;" if width == 2 else "st.shared.b32 [%r10], %r11;"
    body = REDUCE.replace("CONVERT", convert).replace("STORE", store).replace("WORDS", words)
    body = body.replace("BYTES", str(32 * width)).replace("WIDTH", str(width))
    start = np.random.default_rng(2).integers(0, 60, 32).astype(dtype)
    memory = start.copy()
    report = execute(body, [GlobalBuffer("d", memory, writable=True)])
    assert report.findings == (), str(report)
    numbers = np.arange(32).astype(dtype)
    np.testing.assert_array_equal(memory.view(np.uint8), function(start, numbers).view(np.uint8))


# Block 0 sends 64 words to block 1, which waits for them and copies them to %d0.
ACROSS = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [%r4], 1;
fence.mbarrier_init.release.cluster;
setp.eq.u32 %p4, %r12, 1;
@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 256;
made:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
setp.ne.u32 %p3, %r12, 0;
@%p3 bra take;
mad.lo.u32 %r5, %r0, 8, %r4;
st.shared.v2.u32 [%r5+512], {%r0, %r12};
FENCE
bar.sync 0;
@%p1 bra sent;
mov.u32 %r6, 1;
mapa.shared::cluster.u32 %r7, %r4, %r6;
add.u32 %r8, %r7, 1024;
add.u32 %r9, %r4, 512;
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [%r9], 256, [%r7];
sent:
LEAVE
bra done;
take:
WAIT
mad.lo.u32 %r5, %r0, 8, %r4;
ld.shared.v2.u32 {%r10, %r11}, [%r5+1024];
mad.wide.u32 %d9, %r0, 8, %d0;
st.global.v2.u32 [%d9], {%r10, %r11};
LEAVE
done:
"""
WAIT = """wait:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0;
@!%p2 bra wait;"""
LEAVE = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


@pytest.mark.parametrize(
    ("fence", "wait", "leave", "found"),
    [
        ("fence.proxy.async;", WAIT, LEAVE, []),
        ("", WAIT, LEAVE, ["missing-fence"]),
        ("fence.proxy.async;", "", LEAVE, ["in-flight-read"]),
    ],
)
def test_from_block_to_block(fence: str, wait: str, leave: str, found: list[str]) -> None:
    body = ACROSS
    for name, part in (("FENCE", fence), ("WAIT", wait), ("LEAVE", leave)):
        body = body.replace(f"\n{name}\n", f"\n{part}\n")
    out, buffer = output(64)
    report = execute(body, [buffer], blocks=2, cluster=2, shared=2048)
    assert sorted(set(kinds(report)) - {"exit-in-flight"}) == found, str(report)
    if not found:
        np.testing.assert_array_equal(out.reshape(32, 2)[:, 0], np.arange(32))


def test_the_sender_may_not_overwrite_what_is_still_read() -> None:
    body = ACROSS.replace("FENCE", "fence.proxy.async;").replace("WAIT", WAIT)
    early = body.replace("sent:\nLEAVE", f"sent:\n@!%p1 st.shared.u32 [%r4+512], %r0;\n{LEAVE}")
    _, buffer = output(64)
    report = execute(early.replace("LEAVE", LEAVE), [buffer], blocks=2, cluster=2, shared=2048)
    assert "in-flight-write" in kinds(report)
    after = body.replace("sent:\nLEAVE", f"sent:\n{LEAVE}\n@!%p1 st.shared.u32 [%r4+512], %r0;")
    report = execute(after.replace("LEAVE", LEAVE), [buffer], blocks=2, cluster=2, shared=2048)
    assert report.findings == (), str(report)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("cp.async.bulk.shared::cta.shared::cta.bulk_group [%r4], [%r5], 16;",
         "unsupported direction"),
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [%r5], 16;",
         "unsupported direction"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r5];",
         "a target, a source and a size"),
        (("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster "
         "[%r4], [%d0], 16, [%r4], %h1;"), "unsupported modifier"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.exch.b32 [%d0], [%r4], 16;",
         "unsupported operation or type"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%d0], [%r4], 16;",
         "unsupported operation or type"),
        ("cp.async.bulk.prefetch.L1.global [%d0], 16;", "unsupported modifier"),
    ],
)  # fmt: skip
def test_what_has_no_semantics_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Kernel(parse(module(instruction, [])), "k")
