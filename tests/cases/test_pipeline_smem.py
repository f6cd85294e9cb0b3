"""Cases of kind pipeline_smem: rings, waits, phases, and shared memory that is used twice.

Those about plans and limits stand with the planner: P12, P16, P18, P19 in ``tests/decide``
(``test_overrides``, ``test_compiled``), P13 and P20 in its ``test_search``; P15 with the GPU's
launch in ``tests/harness/test_gpu_device``. What repeats a launch on a GPU is in ``tests/gpu``.
"""

from __future__ import annotations

import re

import pytest

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.inputs import Normal
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan.wgmma import Wgmma
from tests.cases import planted as faults
from tests.cases.planted import planted
from tests.harness.support import assert_right, device_of, launch, plan_of, source_of

RELAXED = faults.text(r"cp_async_wait<STAGES - 2>", "cp_async_wait<STAGES - 1>")
"""A slice is read while it may still be on its way."""


def ring(stages: int, tile_k: int = 32) -> MmaSyncChoice:
    """A 64 x 64 tile with so many slots."""
    return MmaSyncChoice(64, 64, tile_k, 2, 2, stages, 2, 8)


def _same_bits_without_a_pipeline(k: int) -> None:
    deep = plan_of(f"m=8192 n=8192 k={k} layout=nt", ring(3))
    flat = plan_of(f"m=8192 n=8192 k={k} layout=nt", ring(2))
    blocks = (deep.blocks.evaluate({}) - 1,)
    found = [launch(plan, blocks=blocks, a=Normal(1), b=Normal(2)).bits for plan in (deep, flat)]
    for one, other in zip(*found, strict=True):
        assert (one == other).all()


@planted(RELAXED)
def test_p01_as_a_build_without_a_pipeline() -> None:
    """Fault seen: copies of several stages race."""
    _same_bits_without_a_pipeline(1024)


@planted(RELAXED, full=True)
def test_p01_as_a_build_without_a_pipeline_at_full_length() -> None:
    """Fault seen: copies of several stages race, at larger sizes."""
    _same_bits_without_a_pipeline(8192)


@planted(faults.text(r"cp_async_wait<STAGES - 2>", "cp_async_wait<2 * (STAGES - 2)>"))
def test_p03_one_group_a_stage() -> None:
    """Fault seen: the wait counts other groups than are committed."""
    assert_right(f"m=64 n=64 k={7 * 32} layout=nt", ring(4))


@pytest.mark.parametrize(("groups", "right"), [(4, True), (5, False)])
def test_p03_two_groups_a_stage(groups: int, right: bool) -> None:
    """A and B committed apart: the wait has to count both."""
    plan = plan_of(f"m=64 n=64 k={7 * 32} layout=nt", ring(4))
    source = source_of(plan)
    for copy in ("start_a(write, slice);", "start_a(write, next);"):
        assert copy in source
        source = source.replace(copy, f"{copy} cp_async_commit();")
    # Where nothing is copied, two empty groups keep the count.
    source = re.sub(r"(if \((?:slice|next) < SLICES\)) \{", r"\1 {", source)
    source = re.sub(r"(\n +)\}(\n +cp_async_commit\(\);)", r"\1} else cp_async_commit();\2", source)
    source = source.replace("cp_async_wait<STAGES - 2>", f"cp_async_wait<{groups}>")
    verdict = judge(device_of(plan, source), plan, Settings(effort=0.2))
    assert verdict.passed == right
    if not right:
        assert "in-flight-read" in str(verdict.checks[0].faults)


@planted(
    faults.text(r"slice < SLICES; \+\+slice\) \{\n( +const)",
                r"slice < SLICES + SLICES % 2; ++slice) {\n\1")
)  # fmt: skip
def test_p04_odd_numbers_of_slices() -> None:
    """Fault seen: a loop over pairs of slices runs past the last."""
    for slices in (1, 3, 5):
        assert_right(f"m=64 n=64 k={64 * slices} layout=nt", ring(3, 64), effort=0.2)


@planted(faults.text(r"if \(slice < SLICES\) \{", "{"))
def test_p05_fewer_slices_than_stages() -> None:
    """Fault seen: the prologue fills slots for which there is no slice."""
    for slices in (1, 2, 3):
        assert_right(f"m=64 n=64 k={32 * slices} layout=nt", ring(4), effort=0.2)


@planted(faults.text(r"parity \^= slot == 0;[^\n]*", "parity = slot & 1;"))
def test_p06_parity_by_round() -> None:
    """Fault seen: the parity follows the slot, and a wait returns at once."""
    for stages in (3, 4):
        choice = WgmmaChoice(64, 64, 1, 1, stages, 1, 1, 8)
        assert_right(f"m=64 n=64 k={9 * 64} layout=nt arch=sm_90a", choice, effort=0.2)


_PLACED = r"(place\(tile, m0, n0\);)(?!\s+if \(alpha)"  # not where the first copies start


@planted(faults.text(_PLACED, r"\1 slot = 0, parity = 1;", 0))
def test_p07_phase_is_carried_from_tile_to_tile() -> None:
    """Fault seen: each tile of a persistent block begins with a fresh phase."""
    assert_right(f"m=1300 n=1300 k={3 * 64} layout=nt arch=sm_90a",
                 WgmmaChoice(64, 64, 1, 1, 2, 1, 1, 8), effort=0.2)  # fmt: skip
    assert_right(f"m=190 n=190 k={3 * 64 - 8} layout=nt arch=sm_90a",
                 WgmmaChoice(64, 64, 1, 1, 2, 1, 1, 8))  # fmt: skip


@planted(faults.text(r"wgmma_wait<1>\(\);", "wgmma_wait<2>();"))
def test_p08_operands_stay_until_they_are_read() -> None:
    """Fault seen: operands overwritten while wgmma still reads them."""
    plan = plan_of(f"m=64 n=64 k={64 * 64} layout=nt arch=sm_90a",
                   WgmmaChoice(64, 64, 1, 1, 3, 1, 1, 8))  # fmt: skip
    launch(plan, a=Normal(1), b=Normal(2))


@planted(faults.text(r"        wgmma_wait<0>\(\);\n", ""))
def test_p08_sums_are_read_when_they_are_there() -> None:
    """Fault seen: the registers of an asynchronous product touched before it is done."""
    assert_right(f"m=64 n=64 k={4 * 64} layout=nt arch=sm_90a",
                 WgmmaChoice(64, 64, 1, 1, 3, 1, 1, 8), effort=0.2)  # fmt: skip


@planted(faults.text(r"waited < STAGES", "waited < 0"))
def test_p09_tiles_that_no_cluster_divides() -> None:
    """Fault seen: the odd tile's cluster leaves while its barriers are in use."""
    assert_right("m=1408 n=1408 k=200 layout=nt arch=sm_90a",
                 WgmmaChoice(128, 128, 2, 1, 3, 2, 1, 8), effort=0.2)  # fmt: skip


@planted(faults.text(r"__syncthreads\(\);  // the epilogue's slabs reuse the ring", ""))
def test_p10_slabs_reuse_the_ring() -> None:
    """Fault seen: the epilogue overwrites slices that are still read."""
    plan = plan_of(f"m=16384 n=4096 k=dynamic:{4 * 32} layout=nt", ring(3))
    launch(plan, blocks=(0, plan.blocks.evaluate({}) - 1), a=Normal(1), b=Normal(2))


@planted(faults.text(r"SLABS_OFFSET = [^,]*", "SLABS_OFFSET = (SLICES - 1) % STAGES * STAGE_BYTES"))
def test_p10_slabs_lie_beside_the_last_slice() -> None:
    """Fault seen: the same, where no barrier parts the main loop from the epilogue."""
    for slices in (2, 3, 4, 5):
        plan = plan_of(f"m=16384 n=4096 k={slices * 32} layout=nt", ring(3))
        launch(plan, blocks=(0, plan.blocks.evaluate({}) - 1), a=Normal(1), b=Normal(2))


@planted(faults.text(r"tma_store_wait_read<STORE_SLOTS - 1>\(\);", ""))
def test_p10_panels_are_reused_by_the_next_tile() -> None:
    """Fault seen: the next tile of a block overwrites what is still being stored."""
    assert_right("m=384 n=128 k=320 layout=nt arch=sm_90a",
                 WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 8), effort=0.2)  # fmt: skip


def test_p11_barriers_are_aligned_whatever_lies_before_them() -> None:
    """Fault seen: something of odd length before the barriers puts them off their 8 bytes."""
    seen = set()
    for n in (8, 64, 72, 128, 200):
        for stages in (2, 3):
            for step in ("", "ldd=233"):
                text = f"m=1000 n={n} k=1152 layout=nt arch=sm_90a {step}"
                body = plan_of(text, WgmmaChoice(64, n, 1, 1, stages, 1, 1, 8)).body
                assert isinstance(body, Wgmma)
                # The barriers end the block's memory: two of 8 bytes a slot.
                assert (body.shared_bytes - 16 * stages) % 8 == 0
                seen.add((stages, body.store))
    assert seen == {(2, "tma"), (3, "tma"), (2, "slab"), (3, "slab")}
