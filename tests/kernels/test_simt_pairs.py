"""Gated pairs on CUDA cores: a thread has the quads of one half and, as many on, of the other."""

from __future__ import annotations

import re

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import SimtChoice, decide
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Simt
from deepgemm_codegen.plan.simt import LANES_N
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import assert_right, assert_wrong, program_of, source_of

PLAIN = SimtChoice(64, 64, 16, 2, 1, 3, 1, 8)
WIDE = SimtChoice(32, 128, 8, 2, 2, 3, 1, 8)

CASES = {
    "fp32": ("m=70 n=96 k=40 dtype=fp32 arch=sm_80 epilogue=swiglu", PLAIN),
    "tails and steps on both sides": (
        "m=70 n=101 k=41 dtype=fp32 arch=sm_80 epilogue=bias,geglu:second,residual",
        WIDE,
    ),
    "fp16 without cp.async": (
        "m=70 n=101 k=40 dtype=fp16 tensor_cores=off arch=sm_75 epilogue=swiglu",
        WIDE._replace(stages=2),
    ),
    "fewer columns than a half": (
        "m=20 n=5 k=24 dtype=fp32 arch=sm_80 epilogue=swiglu,quantize:int8:per_token",
        None,
    ),
    "sizes at run time": (
        "m=dynamic:70 n=dynamic:101 k=dynamic:40 batch=2 dtype=fp32 arch=sm_80 epilogue=swiglu",
        PLAIN,
    ),
}


@pytest.mark.parametrize("layout", ["nn", "tt"])
@pytest.mark.parametrize("name", CASES)
def test_both_halves_of_b_meet_in_a_thread(name: str, layout: str) -> None:
    text, choice = CASES[name]
    assert_right(f"{text} layout={layout}", choice)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"v \+ THREAD_N / 2\]", "v]"),
        (r"within / WARP_D \* half", "0 * half"),
        (r"within % WARP_D \+ within / WARP_D", "within / 2 + within % 2"),
        (r"warp_n \* WARP_D \+", "warp_n * WARP_N +"),
    ],
    ids=["twice the first half", "both halves from the first", "halves mixed", "columns apart"],
)
def test_a_mutant_fails(pattern: str, replacement: str) -> None:
    text, choice = CASES["tails and steps on both sides"]
    program = program_of(f"{text} layout=nt", choice)
    source, count = re.subn(pattern, replacement, source_of(program))
    assert count
    assert_wrong(program, source, effort=0.3)


def test_the_tree_gives_each_lane_as_much_of_either_half() -> None:
    spec = GemmSpec.from_text("m=512 n=11008 k=4096 dtype=fp32 arch=sm_80 epilogue=swiglu")
    body = decide(spec, load_arch(spec.arch)).kernels[0].body
    assert isinstance(body, Simt)
    assert body.tile_n // body.warps_n // LANES_N % 8 == 0


def test_a_tile_without_whole_halves_is_refused() -> None:
    """Lanes take four columns at a time, eight lanes side by side: 32 columns of each half."""
    text = "m=64 n=64 k=64 dtype=fp32 arch=sm_80 epilogue=swiglu tile_n=64 warps_n=2"
    spec = GemmSpec.from_text(text)
    with pytest.raises(InputError, match="columns are no whole half of a paired tile"):
        decide(spec, load_arch(spec.arch))
