"""st.async: threads write another block's shared memory, which an mbarrier counts."""

from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.emulator import Kernel, UnsupportedError, parse
from tests.emulator.warpgroup import execute, kinds, module, output

# Each thread tells the other block of its number, at its place, and reads what it was told.
EXCHANGE = """
mov.u32 %r4, shared;
mov.u32 %r12, %cluster_ctarank;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra made;
mbarrier.init.shared::cta.b64 [%r4], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], EXPECTED;
made:
barrier.cluster.arrive.aligned;
barrier.cluster.wait.aligned;
mad.lo.u32 %r5, %r0, SIZE, %r4;
xor.b32 %r13, %r12, 1;
mapa.shared::cluster.u32 %r6, %r5, %r13;
mapa.shared::cluster.u32 %r7, %r4, %r13;
mad.lo.u32 %r8, %r12, 32, %r0;
cvt.u64.u32 %d5, %r8;
cvt.rn.f32.u32 %f1, %r8;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.TYPE [%r6+64], VALUE, [%r7];
wait:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0;
@!%p2 bra wait;
READ
mad.wide.u32 %d6, %r8, 4, %d0;
st.global.u32 [%d6], %r9;
"""
READ = "ld.shared.u32 %r9, [%r5+64];"


def _exchange(kind: str = "b32", value: str = "%r8", size: int = 4) -> str:
    text = EXCHANGE.replace("SIZE", str(size)).replace("EXPECTED", str(32 * size))
    return text.replace("TYPE", kind).replace("VALUE", value).replace("READ", READ)


@pytest.mark.parametrize(
    ("kind", "value", "size"),
    [
        ("b32", "%r8", 4), ("u32", "%r8", 4), ("s32", "%r8", 4), ("b64", "%d5", 8),
        ("u64", "%d5", 8), ("v2.b32", "{%r8, %r0}", 8), ("v4.u32", "{%r8, %r0, %r0, %r0}", 16),
        ("v2.b64", "{%d5, %d5}", 16), ("f32", "%f1", 4), ("v4.f32", "{%f1, %f1, %f1, %f1}", 16),
    ],
)  # fmt: skip
def test_each_block_has_what_the_other_wrote(kind: str, value: str, size: int) -> None:
    out, buffer = output(2 * 32)
    report = execute(_exchange(kind, value, size), [buffer], blocks=2, cluster=2)
    assert report.findings == (), str(report)
    told = np.arange(64).reshape(2, 32)[::-1].reshape(-1)
    want = told.astype(np.float32).view(np.uint32) if "f32" in kind else told
    np.testing.assert_array_equal(out, want)


def test_without_the_word_weak_it_is_the_same() -> None:
    _, buffer = output(64)
    report = execute(_exchange().replace(".weak", ""), [buffer], blocks=2, cluster=2)
    assert report.findings == ()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("@!%p2 bra wait;", "", "in-flight-read"),
        ("_, [%r4], 128;", "_, [%r4], 132;", "deadlock"),
        ("_, [%r4], 128;", "_, [%r4], 124;", "in-flight-read"),
        ("[%r6+64]", "[%r6+66]", "misaligned"),
        ("[%r6+64]", "[%r6+4064]", "out-of-bounds-write"),
        ("mapa.shared::cluster.u32 %r7, %r4, %r13;", "mov.u32 %r7, %r4;", "bad-rank"),
        ("xor.b32 %r13, %r12, 1;", "mov.u32 %r13, 2;", "bad-rank"),
        ("[%r7];", "[%r7+8];", "no-mbarrier"),
        ("barrier.cluster.wait.aligned;", "", "race"),
    ],
)
def test_what_is_wrong_shows(old: str, new: str, found: str) -> None:
    body = _exchange()
    assert old in body
    _, buffer = output(64)
    report = execute(body.replace(old, new), [buffer], blocks=2, cluster=2)
    assert found in kinds(report), str(report)


def test_a_block_that_ends_before_the_bytes_are_there() -> None:
    body = _exchange()
    start = body.index("wait:\n")
    report = execute(body[:start], [output(64)[1]], blocks=2, cluster=2)
    assert "exit-in-flight" in kinds(report)


@pytest.mark.parametrize(
    ("between", "found"),
    [
        ("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", []),
        ("", ["in-flight-write", "race"]),
    ],
)
def test_a_place_that_may_not_have_been_read_is_not_written_again(
    between: str, found: list[str]
) -> None:
    body = _exchange().replace(
        "[%r4], 1;\n",
        "[%r4], 1;\nmbarrier.init.shared::cta.b64 [%r4+8], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4+8], 128;\n",
        1,
    )
    store = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32"
    body += f"""
{between}
{store} [%r6+64], %r8, [%r7+8];
again:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4+8], 0;
@!%p2 bra again;
"""
    report = execute(body, [output(64)[1]], blocks=2, cluster=2)
    assert sorted(set(kinds(report))) == found, str(report)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (".shared::cluster.mbarrier", ".shared::cta.mbarrier", "unsupported modifier"),
        (
            ".weak.shared::cluster.mbarrier::complete_tx::bytes",
            ".release.gpu.global",
            "unsupported",
        ),
        ("bytes.b32", "bytes.b16", "unsupported modifier or type"),
        ("bytes.b32", "bytes.v2.b32", "2 sources were expected"),
    ],
)
def test_other_forms_are_refused(old: str, new: str, said: str) -> None:
    body = _exchange()
    assert old in body
    with pytest.raises(UnsupportedError, match=said):
        Kernel(parse(module(body.replace(old, new), [output(64)[1]], cluster=2)), "k")
