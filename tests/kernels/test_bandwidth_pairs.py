"""Gated pairs of few rows: half of a bandwidth kernel's tile is of either half of B."""

from __future__ import annotations

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice, decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from tests.harness.support import assert_right

CASES = {
    # A tile of four columns of D: both halves in one fragment.
    "m=1 n=37 k=256 layout=nt epilogue=swiglu": BandwidthChoice(1, 1, 2, 2, 1),
    "m=3 n=37 k=333 layout=nt epilogue=bias,swiglu": BandwidthChoice(2, 2, 2, 2, 1),
    "m=9 n=68 k=200 layout=nt epilogue=geglu:gate=second,bias dtype_d=fp32 arch=sm_75":
        BandwidthChoice(1, 2, 2, 3, 1),
    # Columns of B in vectors, which N alone allows or does not.
    "m=7 n=72 k=200 batch=2 epilogue=scale:column,geglu": BandwidthChoice(4, 1, 4, 2, 1),
    "m=7 n=36 k=200 epilogue=swiglu,quantize:int8": BandwidthChoice(8, 1, 4, 2, 1),
    "m=7 n=37 k=200 ldb=80 epilogue=swiglu": BandwidthChoice(4, 1, 4, 2, 1),
    # Two instructions' rows, and a ring in shared memory.
    "m=20 n=50 k=200 layout=nt epilogue=swiglu,residual": BandwidthChoice(2, 1, 2, 2, 1),
    "m=20 n=52 k=512 layout=nt epilogue=swiglu arch=sm_90":
        BandwidthChoice(3, 1, 4, 2, 1, ring="shared"),
    "m=dynamic:9 n=dynamic:50 k=dynamic:300 layout=nt epilogue=swiglu":
        BandwidthChoice(1, 2, 2, 2, 1),
    "m=5 n=64 k=128 layout=nt epilogue=swiglu,quantize:int8:dynamic": None,
}  # fmt: skip


@pytest.mark.parametrize("text", CASES)
def test_both_halves_meet(text: str) -> None:
    choice = CASES[text]
    assert_right(text if choice else f"{text} family=bandwidth", choice)


@pytest.mark.parametrize(("m", "n"), [(1, 14336), (8, 1408), (16, 14336)])
def test_decode_of_a_gated_layer_streams_its_weights(m: int, n: int) -> None:
    """The tree takes the family that reads B once, as it does for as many plain columns."""
    text = f"m={m} n={n} k=4096 layout=nt epilogue=swiglu arch=sm_90a gpu=H200"
    paired = GemmSpec.from_text(text)
    plain = GemmSpec.from_text(text.replace(f"n={n}", f"n={2 * n}").replace("swiglu", "silu"))
    arch = load_arch("sm_90a", "H200")
    assert decide(paired, arch).decisions[0].choice == "bandwidth"
    us = [explain(spec, arch).prediction.us for spec in (paired, plain)]
    assert us[0] == pytest.approx(us[1], rel=0.02)


def test_pairs_along_the_short_side_are_left_to_others() -> None:
    text = "m=512 n=4 k=512 layout=nt epilogue=swiglu arch=sm_80 family=bandwidth"
    with pytest.raises(InputError) as caught:
        decide(GemmSpec.from_text(text), load_arch("sm_80"))
    assert str(caught.value) == (
        "family = bandwidth: swiglu pairs columns along D's short side; the nearest legal family is"
        " mma_sync, or leave family out"
    )
