"""Any steps in any order, in both families, judged whole by the emulator."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
from tests.epilogue.strategies import chains
from tests.harness.support import assert_right

CHOICES: dict[str, MmaSyncChoice | WgmmaChoice] = {
    "sm_75": MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
    "sm_80": MmaSyncChoice(64, 48, 32, 2, 1, 2, 2, 8),
    "sm_120": MmaSyncChoice(32, 32, 32, 1, 2, 3, 2, 4),
    "sm_90a": WgmmaChoice(64, 128, 1, 1, 4, 1, 1, 4),
}
"""A small tile for each kind of code."""


@st.composite
def specs(draw: st.DrawFn) -> tuple[str, str]:
    """(spec, architecture): small, with tails or none, with C or without, D of any type."""
    arch = draw(st.sampled_from(list(CHOICES)))
    m = draw(st.sampled_from([64, 70, 1]))
    n = draw(st.sampled_from([64, 72, 67, 128]))
    k = 40 if arch == "sm_90a" else draw(st.sampled_from([32, 33, 0]))
    dtype = "fp16" if arch == "sm_75" else draw(st.sampled_from(["fp16", "bf16"]))
    words = [f"m={m} n={n} k={k} dtype={dtype} arch={arch}"]
    steps = draw(chains(most=4))
    if not steps or not steps[-1].startswith("quantize"):
        words.append(f"dtype_d={draw(st.sampled_from(['fp16', 'bf16', 'fp32']))}")
    gated = any(step.startswith(("swiglu", "geglu")) for step in steps)
    if arch == "sm_90a":
        words.append("layout=nt")
    else:
        words.append(f"layout={draw(st.sampled_from(['nn', 'nt']))}")
        words.append(f"layout_d={draw(st.sampled_from('nt'))}")
        words.append(f"batch={draw(st.sampled_from([1, 2]))}")
    if not gated and draw(st.booleans()):
        words.append("dtype_c=fp16")
    if steps:
        words.append(f"epilogue={','.join(steps)}")
    return " ".join(words), arch


def judge(spec: tuple[str, str]) -> None:
    text, arch = spec
    assert_right(text, CHOICES[arch], effort=0.25)


settings.register_profile(
    "judging",
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],  # shrinking costs a compilation a try
)
JUDGING = settings.get_profile("judging")


@settings(JUDGING, max_examples=12, derandomize=True)
@given(specs())
def test_random_chains_are_right(spec: tuple[str, str]) -> None:
    judge(spec)


@pytest.mark.full
@settings(JUDGING, max_examples=300)
@given(specs())
def test_many_random_chains_are_right(spec: tuple[str, str]) -> None:
    judge(spec)


def test_steps_run_in_the_order_given() -> None:
    """Two orders of the same steps differ, and each is right."""
    for order in ("bias,scale,relu6", "relu6,bias,scale"):
        assert_right(f"m=33 n=36 k=20 dtype_d=fp32 epilogue={order}")


@pytest.mark.parametrize("arch", ["sm_80", pytest.param("sm_90a", marks=pytest.mark.full)])
def test_sixty_four_steps(arch: str) -> None:
    """The most that a spec may have, in a random order."""
    draw = random.Random(3)
    menu = ["bias", "bias:row", "scale:row", "scale", "relu", "clamp:-9:9", "residual", "silu"]
    steps = ",".join(draw.choice(menu) for _ in range(64))
    layout = "nt" if arch == "sm_90a" else "nn"
    text = f"m=24 n=24 k=16 layout={layout} arch={arch} dtype_d=fp32 epilogue={steps}"
    assert_right(text, CHOICES[arch], effort=0.1)


@pytest.mark.parametrize("scale", ["0.3", "1.3"])
@pytest.mark.parametrize("dtype", ["fp16", "int8"])
def test_a_number_is_what_fp32_makes_of_it(dtype: str, scale: str) -> None:
    """95 * 0.3 is below 28.5, and times the kernel's 0.3f above: the judge takes the kernel's."""
    assert_right(f"m=130 n=96 k=72 dtype={dtype} epilogue=quantize:int8:scale={scale}", effort=0.3)
