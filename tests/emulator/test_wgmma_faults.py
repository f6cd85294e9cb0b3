from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Report
from tests.emulator import test_wgmma
from tests.emulator.test_wgmma import SHARED, fragment, place, whole
from tests.emulator.warpgroup import execute, kinds, output

Array = np.ndarray[Any, np.dtype[Any]]

# Two products into one accumulator, each a group.
CHAIN = """
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d3, %d4, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d3, %d4, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
"""


# Threads behind the first 128 leave; each block has sums of its own.
FIRST_WARPGROUP = """
setp.ge.u32 %p5, %r2, 4;
@%p5 exit;
"""
OWN_SUMS = """
mov.u32 %r20, %ctaid.x;
mul.wide.u32 %d11, %r20, 2048;
add.u64 %d10, %d10, %d11;
"""


def chain(
    body: str, *, threads: int = 128, blocks: int = 1, before: str = ""
) -> tuple[Array, Report, Array]:
    """Run a body between the loads of four sums and their stores."""
    a, bits_a = whole((64, 16), "f16", 1)
    b, bits_b = whole((8, 16), "f16", 2)
    memory = np.zeros(SHARED // 2, np.uint16)
    descriptors = [
        place(memory, bits_a, 0, 128, transposed=False),
        place(memory, bits_b, 32768, 128, transposed=False),
    ]
    out, buffer = output(4 * threads * blocks, np.float32)
    loads = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(4))
    stores = "".join(f"st.global.f32 [%d10+{512 * i}], %f{i};\n" for i in range(4))
    report = execute(
        before + test_wgmma.FILL + loads + body + stores,
        [GlobalBuffer("m", memory), GlobalBuffer("c", np.zeros(1, np.uint8)), buffer, *descriptors],
        threads=threads,
        blocks=blocks,
        shared=SHARED,
    )
    row, column = fragment(8)
    return out[512 * (blocks - 1) :][:512].reshape(4, 128), report, (a @ b.T)[row, column]


def test_products_in_flight_add_up() -> None:
    d, report, once = chain(CHAIN)
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(d, 2 * once)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # The first product, or every one, has no fence before it.
        ("wgmma.fence.sync.aligned;", "", ["missing-fence"]),
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned;\nmov.f32 %f1, 0f00000000;",
         ["missing-fence"]),
        # Sums are read, or written, before the wait.
        ("wgmma.wait_group.sync.aligned 0;", "", ["accumulator-in-flight", "exit-in-flight"]),
        ("wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;",
         ["accumulator-in-flight", "exit-in-flight"]),
        ("wgmma.wait_group", "mov.f32 %f9, %f2;\nwgmma.wait_group", ["accumulator-in-flight"]),
        ("wgmma.wait_group", "mov.f32 %f2, %f9;\nwgmma.wait_group", ["accumulator-in-flight"]),
        ("wgmma.wait_group", "bar.sync 1;\nadd.f32 %f9, %f9, %f3;\nwgmma.wait_group",
         ["accumulator-in-flight"]),
        # Of the two groups only the first has been waited for.
        ("wgmma.wait_group.sync.aligned 0;",
         "wgmma.wait_group.sync.aligned 1;\nmov.f32 %f9, %f0;\nwgmma.wait_group.sync.aligned 0;",
         ["accumulator-in-flight"]),
        # A product that is in no group is not waited for.
        ("wgmma.commit_group.sync.aligned;\nwgmma.wait_group", "wgmma.wait_group",
         ["accumulator-in-flight", "exit-in-flight"]),
        # Operands are overwritten while they are read, or after the wait.
        ("wgmma.wait_group", "st.shared.u32 [%r10-65024], %r10;\nwgmma.wait_group",
         ["in-flight-write"]),
        ("wgmma.wait_group.sync.aligned 0;",
         ("wgmma.wait_group.sync.aligned 0;\nbar.sync 1;\n"
         "st.shared.u32 [%r10-65024], %r10;"), []),
        # Two accumulators overlap.
        (("{%f0, %f1, %f2, %f3}, %d3, %d4, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n"
         "wgmma.wait"), ("{%f1, %f0, %f2, %f3}, %d3, %d4, 1, 1, 1, 0, 0;\n"
         "wgmma.commit_group.sync.aligned;\nwgmma.wait"), ["accumulator-in-flight"]),
        # Descriptors and scales that differ between threads.
        ("wgmma.fence", "cvt.u64.u32 %d11, %r1;\nadd.u64 %d3, %d3, %d11;\nwgmma.fence",
         ["divergent-instruction"]),
        # A start outside shared memory, a base offset, both.
        ("wgmma.fence", "or.b64 %d3, %d3, 8192;\nwgmma.fence", ["bad-descriptor"]),
        ("wgmma.fence", "or.b64 %d3, %d3, 562949953421312;\nwgmma.fence", ["bad-descriptor"]),
        ("wgmma.fence", "or.b64 %d3, %d3, 562949953429504;\nwgmma.fence", ["bad-descriptor"]),
        # A part of the warpgroup has ended.
        ("wgmma.fence.sync", "setp.eq.u32 %p5, %r2, 3;\n@%p5 exit;\nwgmma.fence.sync",
         ["divergent-instruction"]),
    ],
)  # fmt: skip
def test_faults(old: str, new: str, found: list[str]) -> None:
    assert old in CHAIN
    count = 1 if "wgmma.fence" in old or "{" in old else -1
    _, report, _ = chain(CHAIN.replace(old, new, count))
    assert sorted(set(kinds(report))) == sorted(found), str(report)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("fence.proxy.async.shared::cta;", "", ["missing-fence"]),
        ("bar.sync 0;", "", ["missing-fence", "race"]),
    ],
)
def test_operands_written_by_threads_need_a_fence_and_a_barrier(
    old: str, new: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_wgmma, "FILL", test_wgmma.FILL.replace(old, new))
    _, report, _ = chain(CHAIN)
    assert sorted(set(kinds(report))) == found


@pytest.mark.parametrize("threads", [128, 160, 224])
def test_warps_that_come_at_different_times_are_gathered(threads: int) -> None:
    # Each warp loops as often as its number says before it joins.
    body = (
        OWN_SUMS
        + """
mov.u32 %r20, %r2;
spin:
setp.eq.u32 %p5, %r20, 0;
@%p5 bra joined;
sub.u32 %r20, %r20, 1;
bra spin;
joined:
"""
        + CHAIN
    )
    d, report, once = chain(body, threads=threads, blocks=3, before=FIRST_WARPGROUP)
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(d, 2 * once)


def test_warps_behind_the_last_whole_warpgroup_are_none() -> None:
    """The block's 160 threads are a warpgroup and a warp, whatever follows in the next block."""
    late = "setp.lt.u32 %p5, %r2, 4;\n@%p5 exit;\n" + CHAIN
    _, report, _ = chain(OWN_SUMS + late, threads=160, blocks=2)
    found = [f for f in report.findings if f.kind == "divergent-instruction"]
    assert {f.actor.thread for f in found} == {128}
    assert all(f.count == 2 * 32 for f in found), str(report)


def test_a_warpgroup_whose_rest_never_comes_is_a_deadlock_that_says_so() -> None:
    body = "setp.lt.u32 %p5, %r2, 2;\n@%p5 bra here;\nbar.sync 3, 128;\nhere:\n" + CHAIN
    _, report, _ = chain(body)
    (finding,) = report.findings
    assert finding.kind == "deadlock"
    assert "warps 0 to 1 of block (0, 0, 0) at PTX line" in finding.message
    assert "an instruction that the rest of its warpgroup never reaches" in finding.message
    assert "warps 2 to 3 of block (0, 0, 0) at PTX line" in finding.message
