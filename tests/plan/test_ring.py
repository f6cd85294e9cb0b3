"""The ring of stages: which slot is whose, told by walking a block's slices one by one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.plan import MmaSync
from deepgemm_codegen.plan.ring import Ring
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from tests.decide.specs import random_spec
from tests.rendering.plans import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.plan import KernelPlan, Program

BARRIER = "__syncthreads();  // the epilogue's slabs reuse the ring"

rings = st.builds(
    Ring,
    stages=st.integers(2, 9),
    stage_bytes=st.integers(1, 40).map(lambda n: 128 * n),
    slices=st.one_of(st.none(), st.integers(1, 40)),
)


@given(rings)
def test_a_ring_turns_when_a_slot_is_filled_twice(ring: Ring) -> None:
    if ring.slices is None:
        assert ring.turns
        assert ring.refilled
        return
    slots = [s % ring.stages for s in range(ring.slices)]
    assert ring.turns == (len(set(slots)) < len(slots))
    assert ring.refilled == (len(slots[ring.stages - 1 :]) > 0)


@given(rings, st.integers(1, 60).map(lambda n: 512 * n))
def test_what_lies_beside_the_last_slice_meets_no_byte_of_it(ring: Ring, size: int) -> None:
    found = ring.beside_last(size)
    if ring.slices is None or ring.slices == 1:
        assert found is None
        return
    last = (ring.slices - 1) % ring.stages * ring.stage_bytes
    if found is None:  # no piece beside it is large enough
        assert size > max(last, (ring.stages - 1) * ring.stage_bytes - last)
        return
    assert found % ring.stage_bytes == 0
    assert found + size <= ring.stages * ring.stage_bytes
    assert found >= last + ring.stage_bytes or found + size <= last


def _assert_no_slab_over_the_last_slice(plan: KernelPlan) -> None:
    """The kernel has a barrier before its slabs, or they are clear of the last slice."""
    body, offset = plan.body, plan.slabs_offset
    assert isinstance(body, MmaSync)
    assert (offset is None) == (BARRIER in render_kernel(plan)), plan.spec
    if offset is None:
        return
    assert not plan.k.dynamic
    last = (plan.k.tiles - 1) % body.stages * body.stage_bytes
    end = offset + body.slabs_bytes
    assert offset >= last + body.stage_bytes or end <= last, plan.spec
    assert offset % 128 == 0, plan.spec  # all banks once, so that slabs meet them as at zero


def _with_slabs(programs: Iterable[Program]) -> list[KernelPlan]:
    products = [program.product for program in programs]
    return [p for p in products if isinstance(p.body, MmaSync) and not p.output.partial]


def test_no_slab_lies_over_the_last_slice_without_a_barrier() -> None:
    rng = random.Random(3)
    specs = [random_spec(rng) for _ in range(60)]
    plans = _with_slabs([*GOLDEN.values(), *(decide(s, load_arch(s.arch)) for s in specs)])
    assert len(plans) > 60
    assert {plan.slabs_offset is None for plan in plans} == {True, False}
    assert {plan.slabs_offset == 0 for plan in plans if plan.slabs_offset is not None} == {
        True, False
    }  # fmt: skip
    for plan in plans:
        _assert_no_slab_over_the_last_slice(plan)


@pytest.mark.full
def test_no_slab_lies_over_the_last_slice_of_any_plan() -> None:
    rng = random.Random(4)
    specs = [random_spec(rng) for _ in range(3000)]
    for plan in _with_slabs(decide(spec, load_arch(spec.arch)) for spec in specs):
        _assert_no_slab_over_the_last_slice(plan)


@pytest.mark.parametrize("name", ["slices", "parts"])
def test_a_ring_that_does_not_turn_has_no_text_for_it(name: str) -> None:
    """With one slice more than slots it goes round, and the text says so."""
    cut = " split_k=3" if name == "parts" else ""
    seen = set()
    for slices in range(1, 12):
        k = slices * 64 * (3 if cut else 1)
        spec = GemmSpec.from_text(
            f"m=128 n=128 k={k} layout=nt arch=sm_80 stages=4 tile_k=64" + cut
        )
        plan = decide(spec, load_arch("sm_80")).product
        source = render_kernel(plan)
        seen.add(plan.ring.turns)
        assert plan.ring.turns == (slices > 4)
        assert ("== RING_BYTES ? 0" in source) == plan.ring.turns
        assert ("const int next" in source) == (slices >= 4)
    assert seen == {True, False}
