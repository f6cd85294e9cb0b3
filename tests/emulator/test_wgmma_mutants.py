"""Mutants of the wgmma kernels: each fault must show, as a finding or in the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.hopper import Compiled, build, solve

# Two blocks compute four tiles of five slices each, through two slots.
TMA: dict[str, Any] = {"m": 256, "n": 256, "k": 320, "layout": "nt"}
KERNELS: dict[str, tuple[tuple[int, ...], dict[str, Any], dict[str, Any]]] = {
    "plain": ((128, 128, 2, 1, 2, 1, 1, 8), TMA, {}),
    "slab": (
        (64, 48, 1, 1, 2, 1, 1, 4),
        {"m": "dynamic:512", "n": 101, "k": 320, "layout": "nt", "epilogue": "bias"},
        {"m": 130},
    ),
    "cluster_m": ((128, 128, 2, 1, 2, 2, 1, 8), TMA, {}),
    "transposed": ((128, 128, 2, 1, 2, 1, 1, 8), {**TMA, "layout": "tn"}, {}),
    "cluster_n": ((128, 64, 2, 1, 2, 1, 2, 8), {**TMA, "n": 248, "layout": "tn"}, {}),
    "turns": ((64, 128, 2, 2, 2, 1, 1, 8), TMA, {}),
    # A D of 32 bits in rows: two boxes of two panels, twice, for each of a fragment's halves.
    "rows": (
        (64, 256, 2, 2, 2, 1, 1, 8),
        {**TMA, "m": "dynamic:65536", "dtype_d": "fp32"},  # so many that the L2 holds no D
        {"m": 250},
    ),
    "lanes": ((64, 96, 2, 2, 2, 1, 1, 8), {**TMA, "m": 250, "n": 200, "dtype_d": "fp32"}, {}),
}
FULL = "mbarrier_wait(full + slot * 8, parity);"
EMPTY = "mbarrier_wait(empty + slot * 8, parity);"
EXPECT = "mbarrier_arrive_expect(barrier, STAGE_BYTES);"
TURN = "parity ^= slot == 0;  // the next round"
WAIT = "wgmma_wait<1>();"
PRODUCER = "        int slot = 0;\n        u32 parity = 0;"
FIRST = "            for (int slice = started"
ACC = "float acc[FRAGMENTS_M][TILE_N / 8][4] = {};"
RELEASE = "mbarrier_arrive(empty + previous * 8)"
FIRST_BARRIER = "        mbarrier_init(full, 1);\n"
INIT = "mbarrier_init(empty + slot * 8, CONSUMERS"

# Kernel, what is replaced in its source by what, and the findings of which at least one must come.
RACE = {"in-flight-read", "in-flight-write", "race", "uninitialised-read"}
STUCK = {"deadlock"}
MUTANTS = [
    # The ring: waits missing, of the wrong parity, not carried from tile to tile (P06, P07).
    ("plain", FULL, "", {"in-flight-read"}),
    ("slab", FULL, "", {"in-flight-read"}),
    ("cluster_m", FULL, "", {"in-flight-read"}),
    ("cluster_n", FULL, "", {"in-flight-read"}),
    ("plain", EMPTY, "", {"in-flight-write"}),
    ("slab", EMPTY, "", {"in-flight-write"}),
    ("cluster_m", EMPTY, "", {"in-flight-write"}),
    ("cluster_n", EMPTY, "", {"in-flight-write"}),
    ("plain", "while (!done)", "", RACE),
    ("slab", "while (!done)", "", RACE),
    ("plain", PRODUCER, PRODUCER.replace("parity = 0", "parity = 1"), RACE | STUCK),
    ("cluster_m", "u32 parity = 1;", "u32 parity = 0;", STUCK),
    ("plain", "\n    u32 parity = 0;", "\n    u32 parity = 1;", RACE | STUCK),
    ("plain", TURN, "parity = slot & 1;", RACE | STUCK),
    ("cluster_m", TURN, "parity = slot & 1;", RACE | STUCK),
    ("plain", FIRST, "slot = 0, parity = 1;" + FIRST, RACE | STUCK),
    # The slices that start before anybody waits: counted wrongly, again for the next tile.
    ("plain", PRODUCER, PRODUCER.replace("slot = 0", "slot = 1"), RACE | STUCK),
    ("plain", "            started = 0;", "", RACE | STUCK),
    ("plain", FIRST, FIRST.replace("started", "0"), {"exit-in-flight"}),
    ("plain", "slice = 1; slice < STAGES;", "slice = 1; slice < SLICES;", RACE | STUCK),
    ("plain", "int started = STAGES;", "int started = STAGES - 1;", {"exit-in-flight"}),
    ("plain", ACC, "slot = 0, parity = 0; " + ACC, RACE | STUCK),
    # Bytes announced: too few, too many.
    ("plain", EXPECT, "mbarrier_arrive_expect(barrier, A_BYTES);", RACE | STUCK),
    ("plain", EXPECT, "mbarrier_arrive_expect(barrier, STAGE_BYTES + 16);", STUCK),
    ("plain", EXPECT, "mbarrier_arrive_expect(barrier, STAGE_BYTES - 16);", RACE | STUCK),
    ("cluster_m", EXPECT, "mbarrier_arrive_expect(barrier, A_BYTES);", RACE | STUCK),
    ("plain", EXPECT, EXPECT * 2, {"over-arrival"}),
    # A slot released before its products are formed, the wrong one, not at all.
    ("plain", WAIT, "wgmma_wait<2>();", {"in-flight-write"}),
    ("slab", WAIT, "wgmma_wait<2>();", {"in-flight-write"}),
    ("cluster_m", WAIT, "wgmma_wait<2>();", {"in-flight-write"}),
    ("cluster_n", WAIT, "wgmma_wait<2>();", {"in-flight-write"}),
    ("plain", WAIT, "", {"in-flight-write"}),
    ("plain", RELEASE, RELEASE.replace("previous", "slot"), RACE | STUCK),
    ("plain", RELEASE, "", STUCK),
    ("plain", "if (thread == 0) " + RELEASE, "if (thread < 2) " + RELEASE, RACE | STUCK),
    ("plain", INIT, "mbarrier_init(empty + slot * 8, 1 + CONSUMERS", STUCK),
    ("plain", INIT, "mbarrier_init(empty + slot * 8, -1 + CONSUMERS", RACE | STUCK),
    ("cluster_m", INIT + " * CLUSTER", INIT, RACE | STUCK),
    # Sums read before they are there.
    ("plain", "wgmma_wait<0>();", "", {"accumulator-in-flight", "in-flight-write"}),
    ("slab", "wgmma_wait<0>();", "wgmma_wait<1>();", {"accumulator-in-flight", "in-flight-write"}),
    ("plain", "wgmma_commit();", "", {"in-flight-write"}),
    ("plain", "            wgmma_fence();", "", {"missing-fence"}),
    # The epilogue's staging: fence, reuse, barriers, end.
    ("plain", "        fence_proxy_async();", "", {"missing-fence"}),
    ("cluster_n", "        fence_proxy_async();", "", {"missing-fence"}),
    ("plain", "            tma_store_wait_read<STORE_SLOTS - 1>();", ";", {"in-flight-write"}),
    ("plain", "            __syncwarp();\n#pragma", "#pragma", {"in-flight-write"}),
    ("plain", "__syncwarp();\n            if", "            if", {"race"}),
    ("plain", "    tma_store_wait();", "", {"exit-in-flight"}),
    ("turns", "        named_barrier(1 + consumer);\n#pragma", "#pragma", {"in-flight-write"}),
    ("turns", "named_barrier(1 + consumer);\n            if", "            if", {"race"}),
    ("turns", "named_barrier(1 + consumer);", "named_barrier(1);", {"divergent-barrier"}),
    ("turns", "    tma_store_wait();", "", {"exit-in-flight"}),
    ("rows", "tma_store_wait_read<0>();", "", {"in-flight-write"}),
    ("rows", "left\n            __syncwarp();", "left", {"in-flight-write"}),
    ("rows", "wrote\n            __syncwarp();", "wrote", {"race"}),
    ("rows", "            fence_proxy_async();", "", {"missing-fence"}),
    ("rows", "    tma_store_wait();", "", {"exit-in-flight"}),
    ("slab", "            __syncwarp();  // the rows", "  // the rows", {"race"}),
    ("slab", "            __syncwarp();  // these rows", "  // these rows", {"race"}),
    # The beginning and the end of clusters, and of all.
    ("plain", "    __syncthreads();", "", {"race"}),
    ("slab", "        fence_mbarrier_init();", "", {"missing-fence"}),
    # The first slice starts before the other barriers are made: each needs a fence of its own, and
    # the first is made once.
    ("plain", FIRST_BARRIER + "        fence_mbarrier_init();\n", FIRST_BARRIER, {"missing-fence"}),
    ("plain", "        }\n        fence_mbarrier_init();\n", "        }\n", {"missing-fence"}),
    ("plain", "if (slot > 0) mbarrier_init", "mbarrier_init", {"barrier-access"}),
    ("plain", "if (slot > 0) mbarrier_init", "if (slot > 1) mbarrier_init", RACE | STUCK),
    ("cluster_m", "    cluster_sync();", "", {"race"}),
    ("cluster_n", "    cluster_sync();", "    __syncthreads();", {"race"}),
    ("cluster_m", "waited < STAGES", "waited < 0", {"remote-after-exit"}),
    ("cluster_n", "waited < STAGES", "waited < STAGES - 1", {"remote-after-exit"}),
    ("cluster_m", "(1 << CLUSTER) - 1", "1", RACE | STUCK),
]  # fmt: skip


def _kernel(name: str) -> tuple[Compiled, dict[str, Any]]:
    choice, fields, sizes = KERNELS[name]
    return build(choice, **fields), sizes


@pytest.mark.parametrize("name", list(KERNELS))
def test_unmutated_there_is_nothing_to_find(name: str) -> None:
    kernel, sizes = _kernel(name)
    outcome = solve(kernel, grid=2, **sizes)
    assert outcome.report.findings == (), str(outcome.report)
    np.testing.assert_array_equal(outcome.d.astype(np.float64), outcome.want)


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    # Every other one belongs to the full run: each is a kernel built and run.
    [pytest.param(*mutant, marks=[pytest.mark.full] * (i % 2)) for i, mutant in enumerate(MUTANTS)],
)
def test_faults_of_order_are_found(name: str, old: str, new: str, found: set[str]) -> None:
    kernel, sizes = _kernel(name)
    outcome = solve(kernel.rewritten((old, new)), grid=2, max_findings=6, **sizes)
    assert outcome.kinds() & found, f"right numbers: {_right(outcome)}; {outcome.report}"


def _right(outcome: Any) -> bool:
    return bool(np.array_equal(outcome.d.astype(np.float64), outcome.want))


# Other ways to do it right, as other kernels do: nothing may be found in them.
ARRIVE = "if (thread == 0) " + RELEASE
ISSUE = " mbarrier_arrive_expect(barrier, STAGE_BYTES);"
GROUP_BARRIER = 'asm volatile("bar.sync %0, 128;" : : "r"(1 + consumer) : "memory");'
VARIANTS: dict[str, list[tuple[str, str]]] = {
    # Each warp releases a slot for itself; every thread does.
    "warps release": [(ARRIVE, ARRIVE.replace("thread", "lane")), (INIT, INIT + " * 4")],
    "threads release": [(ARRIVE, RELEASE), (INIT, INIT + " * 128")],
    # One thread waits for the bytes, and tells the others at a barrier.
    "one waits": [(FULL, f"if (thread == 0) {FULL} {GROUP_BARRIER}")],
    # The producer's whole warp lives, and one lane of it acts.
    "a warp produces": [
        ("if (threadIdx.x >= 32 || !elect_one()) return;", "if (threadIdx.x >= 32) return;"),
        (EMPTY, EMPTY + " __syncwarp(); if (threadIdx.x == 0) {"),
        (
            "                slot = slot + 1 == STAGES ? 0 : slot + 1;",
            "} __syncwarp(); slot = slot + 1 == STAGES ? 0 : slot + 1;",
        ),
    ],
    # No product in flight over the wait for the next slice.
    "no overlap": [(WAIT, "wgmma_wait<0>();")],
    # A wait that is tried once before the loop.
    "a peek": [("while (!done)", "for (int tried = 0; !done; ++tried)")],
    # Bytes announced one operand at a time, by two arrivals of one thread.
    "two announcements": [
        ("mbarrier_init(full + slot * 8, 1);", "mbarrier_init(full + slot * 8, 2);"),
        ("mbarrier_init(full, 1);", "mbarrier_init(full, 2);"),
        (
            ISSUE,
            " mbarrier_arrive_expect(barrier, A_BYTES); mbarrier_arrive_expect(barrier, B_BYTES);",
        ),
    ],
}


@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("name", ["plain", "slab"])
def test_other_right_ways_are_not_faulted(name: str, variant: str) -> None:
    kernel, sizes = _kernel(name)
    outcome = solve(kernel.rewritten(*VARIANTS[variant]), grid=2, **sizes)
    assert outcome.report.findings == (), str(outcome.report)
    assert _right(outcome)


# One side of a layout changed: the numbers are wrong, and the emulator says no more than that.
LAYOUTS = [
    ("plain", "(chunk ^ row % 8) * 16", "(chunk ^ row % 4) * 16"),
    ("plain", "(chunk ^ row % 8) * 16", "chunk * 16"),
    ("plain", "| u64{ 1 } << 62", ""),
    ("plain", "| u64{ 1 } << 62", "| u64{ 2 } << 62"),
    ("cluster_n", "| u64{ 1 } << 62", "| u64{ 2 } << 62"),
    ("plain", "u64{ 1024 >> 4 } << 32", "u64{ 512 >> 4 } << 32"),
    ("transposed", "LEADING >> 4 << 16", "LEADING >> 5 << 16"),
    ("plain", "b_ahead = step * B_STEP", "b_ahead = step * B_STEP * 2"),
    ("slab", "slab_index(slab_row, slab_column)", "slab_row * SLAB_N + slab_column"),
    ("rows", "(chunk ^ panel % 8) * 16", "(chunk ^ lane / 4) * 16"),
    ("lanes", "lane % 2 * 8 + lane / 2 % 2 * 4", "lane % 4 * 4"),
    ("lanes", "odd ? right[0] : first", "odd ? first : right[0]"),
    ("rows", "(n0 + first) / 32", "n0 / 32"),
    ("cluster_m", "n0 + rank * 64", "n0 + (1 - rank) * 64"),
]


@pytest.mark.parametrize(("name", "old", "new"), LAYOUTS)
def test_faults_of_layout_give_wrong_numbers(name: str, old: str, new: str) -> None:
    kernel, sizes = _kernel(name)
    outcome = solve(kernel.rewritten((old, new), count=1), grid=2, **sizes)
    assert not _right(outcome)


# The same in the PTX, where a compiler cannot hide it.
EDITS = [
    ("plain", "fence.proxy.async.shared::cta;", "", {"missing-fence"}),
    ("plain", "wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;", RACE),
    ("plain", "wgmma.wait_group.sync.aligned 0;", "", RACE | {"accumulator-in-flight"}),
    ("plain", "cp.async.bulk.wait_group.read 1;", "", {"in-flight-write"}),
    ("plain", "cp.async.bulk.commit_group;", "", {"in-flight-write", "exit-in-flight"}),
    ("cluster_m", "cluster.arrive.aligned;", "cluster.arrive.relaxed.aligned;", {"race"}),
    ("cluster_m", "fence.mbarrier_init.release.cluster;", "", {"missing-fence"}),
    ("plain", "setmaxnreg.dec.sync.aligned.u32 24;", "", STUCK),
    ("plain", "dec.sync.aligned.u32 24;", "dec.sync.aligned.u32 32;", STUCK),
    ("plain", "inc.sync.aligned.u32 240;", "inc.sync.aligned.u32 248;", STUCK),
    # One consumer and its producer have registers to spare.
    ("slab", "setmaxnreg.dec.sync.aligned.u32 24;", "", set()),
    ("plain", "mbarrier.arrive.shared::cta", "mbarrier.arrive.relaxed.cta.shared::cta", RACE),
    ("plain", "try_wait.parity.shared::cta", "try_wait.parity.relaxed.cta.shared::cta", RACE),
    ("plain", "fence.proxy.async.shared::cta;", "fence.proxy.async.global;", {"missing-fence"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "found"), EDITS)
def test_faults_in_the_ptx_are_found(name: str, old: str, new: str, found: set[str]) -> None:
    kernel, sizes = _kernel(name)
    outcome = solve(kernel.edited(old, new), grid=2, max_findings=6, **sizes)
    assert (outcome.kinds() & found) if found else not outcome.kinds(), str(outcome.report)


def test_a_deadlock_says_who_waits_for_what() -> None:
    kernel, _ = _kernel("plain")
    mutant = kernel.rewritten((EXPECT, "mbarrier_arrive_expect(barrier, STAGE_BYTES + 16);"))
    (finding,) = solve(mutant, grid=1).report.findings
    assert finding.kind == "deadlock"
    waits = [n for n, t in enumerate(mutant.ptx.splitlines(), 1) if "try_wait" in t]
    assert (
        f"warp 0 of block (0, 0, 0) at PTX line {waits[0]} for parity 0 of the mbarrier"
        in finding.message
    )
    assert (
        f"warps 4 to 11 of block (0, 0, 0) at PTX line {waits[1]} for parity 0" in finding.message
    )
    assert "0 of 1 arrivals pending, 16 bytes to come" in finding.message


def test_a_part_of_a_warpgroup_cannot_multiply() -> None:
    kernel, _ = _kernel("plain")
    mutant = kernel.rewritten(("            wgmma_fence();", "if (warp > 0) wgmma_fence();"))
    outcome = solve(mutant, grid=1, max_findings=3)
    assert outcome.kinds() & {"deadlock", "divergent-instruction"}, str(outcome.report)
