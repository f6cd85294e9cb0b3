"""Several tiles of a batch in one block: every tile its own, and none from a slot that is left."""

from __future__ import annotations

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice, MmaSyncChoice, SimtChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.blocks import blocks_for
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.teams import choose_blocks
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import Choice, assert_right, launch, plan_of

MMA = MmaSyncChoice(32, 32, 32, 2, 1, 2, 8, 2, abreast=4)
SIMT = SimtChoice(32, 32, 16, 2, 1, 2, 8, 1, abreast=3)
LANES = BandwidthChoice(2, 1, 2, 1, 4, abreast=4)

KINDS: dict[str, tuple[str, Choice]] = {
    "a last block of one": ("m=32 n=32 k=32 batch=9", MMA),
    "tails, C and steps": ("m=30 n=28 k=40 batch=7 dtype_c=fp16 epilogue=bias,residual", MMA),
    "several tiles a product": ("m=70 n=40 k=40 batch=3 layout=tt", MMA),
    "through registers": ("m=31 n=29 k=33 batch=6 layout=tn", MMA),
    "no batch": ("m=70 n=72 k=40", MMA),
    "column-major D": ("m=30 n=28 k=40 batch=7 layout_d=t", MMA),
    "bandwidth": ("m=16 n=16 k=16 batch=9", LANES),
    "bandwidth with tails": ("m=7 n=23 k=41 batch=6 dtype_c=fp16 layout=nt", LANES),
    "CUDA cores": ("m=24 n=20 k=12 batch=7 dtype=fp32 layout=nt", SIMT),
    "CUDA cores through registers": ("m=23 n=19 k=13 batch=5 layout=tn dtype_c=fp16", SIMT),
    "dependent": ("m=32 n=32 k=32 batch=9 launch=dependent arch=sm_90", MMA),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_tile_is_right(kind: str) -> None:
    text, choice = KINDS[kind]
    assert_right(text, choice, effort=0.3)


def test_the_same_bits_as_alone() -> None:
    text = "m=32 n=32 k=64 batch=5"
    alone = MmaSyncChoice(32, 32, 32, 2, 1, 2, 8, 2)
    together = MmaSyncChoice(32, 32, 32, 2, 1, 2, 8, 2, abreast=4)
    rows = [[0.5, -1.25, 3.0, 0.125], [7.0, -0.75, 2.5, 1.0]]
    found = [
        launch(plan_of(text, choice), a=rows, b=rows[::-1]).bits for choice in (alone, together)
    ]
    assert all((a == b).all() for a, b in zip(*found, strict=True))


def test_blocks_bring_all_their_tiles() -> None:
    problem = bind(plan_of("m=32 n=32 k=32 batch=1003", MMA))
    assert problem.grid == 1003
    assert problem.blocks_of(problem.plan) == 251
    tiles = choose_blocks(problem, 9, 0)
    assert len(tiles) % 4 == 3  # the last block has three
    blocks = blocks_for(problem, problem.plan, tiles)
    assert blocks is not None
    assert set(tiles) == {t for b in blocks for t in range(4 * b, min(4 * b + 4, 1003))}


TINY = {
    "m=8 n=8 k=8 batch=100000 dtype=fp32": 4,
    "m=16 n=16 k=16 batch=10000": 2,
    "m=32 n=32 k=32 batch=10000": 1,
    "m=8 n=8 k=32 batch=65537": 4,
    "m=16 n=16 k=16 batch=100": 1,
    "m=128 n=128 k=128 batch=10000": 1,
    "m=16 n=16 k=16": 1,
}


@pytest.mark.parametrize("text", TINY)
def test_the_tree_packs_what_would_only_start_blocks(text: str) -> None:
    spec = GemmSpec.from_text(f"{text} arch=sm_90 gpu=H200")
    kernel = decide(spec, load_arch(spec.arch, spec.gpu)).product
    assert kernel.abreast == TINY[text]
    told = [d for d in kernel.decisions if d.question == "tiles abreast"]
    assert [d.choice for d in told] == ([f"{TINY[text]} a block"] if TINY[text] > 1 else [])


def test_the_reason_tells_what_blocks_take_to_start() -> None:
    spec = GemmSpec.from_text("m=16 n=16 k=16 batch=10000 arch=sm_90 gpu=H200")
    last = explain(spec, load_arch(spec.arch, spec.gpu)).decisions[-1]
    assert (last.id, last.question, last.choice) == ("D16", "tiles abreast", "2 a block")
    assert last.reason == ("10000 blocks of 32 threads would take 10.0 us to start, 5000 take 5.0")


@pytest.mark.parametrize("number", [1, 2, 3, 16])
def test_the_user_s_number(number: int) -> None:
    spec = GemmSpec.from_text(f"m=24 n=24 k=24 batch=100 abreast={number}")
    assert decide(spec, load_arch(spec.arch)).product.abreast == number


REFUSED = {
    "m=128 n=128 k=4096 batch=4 abreast=16 warps_m=2 warps_n=2": (
        "abreast = 16: 589824 bytes of shared memory a block (0 of them static); sm_80 has "
        "166912; the nearest legal abreast is 2, or leave abreast out"
    ),
    "m=64 n=64 k=64 batch=4 abreast=17": (
        "abreast = 17: too large; the nearest legal is 16, or leave abreast out"
    ),
    "m=dynamic:64 n=64 k=64 batch=4 abreast=2": (
        "abreast = 2: m is known only at run time; give m, or leave abreast out"
    ),
    "m=64 n=64 k=4096 batch=4 abreast=2 split_k=4": (
        "abreast = 2 with split_k = 4: each part of k has blocks of its own; leave abreast out"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text: str) -> None:
    spec = GemmSpec.from_text(text)
    with pytest.raises(InputError) as raised:
        decide(spec, load_arch(spec.arch))
    assert str(raised.value) == REFUSED[text]
