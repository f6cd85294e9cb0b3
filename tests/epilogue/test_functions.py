"""The device functions of single steps against their meaning, over the range of floats.

The functions are cut out of a generated file and run on the emulator by a kernel that applies one
to an array. The emulator rounds ex2 and rcp correctly; the hardware's last places are part of the
bound that the table states, so a part of it is left over here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from deepgemm_codegen.epilogue import STEPS
from tests.harness.support import compiled, plan_of, source_of

Array = np.ndarray[Any, np.dtype[Any]]

APPROXIMATE = [
    name for name, kind in STEPS.items() if not (kind.exact or kind.pairs or kind.normalizes)
]
GATED = [name for name, kind in STEPS.items() if kind.pairs]
THREADS = 1024
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4028235e38, -3.4028235e38)


@lru_cache(maxsize=16)
def kernel_of(step: str, expression: str, arch: str) -> Kernel:
    """A kernel ``apply`` that puts an expression of x through a step's functions."""
    source = source_of(plan_of(f"m=8 n=8 k=8 dtype_d=fp32 epilogue={step} arch={arch}"))
    head = source[: source.index("// ---- kernel ---")]
    body = (
        'extern "C" __global__ void apply(const float* in, float* out)\n'
        f"{{ const int i = blockIdx.x * {THREADS} + threadIdx.x; const float x = in[i];"
        f" out[i] = {expression}; }}\n"
    )
    return Kernel(parse(compiled(head + body, arch)), "apply", arithmetic=arch)


def applied(step: str, x: Array, expression: str = "", arch: str = "sm_80") -> Array:
    """What the step's function gives for float32 values."""
    blocks = -(-x.size // THREADS)
    padded = np.zeros(blocks * THREADS, np.float32)
    padded[: x.size] = x
    out = np.zeros_like(padded)
    buffers = [GlobalBuffer("in", padded), GlobalBuffer("out", out, writable=True)]
    kernel = kernel_of(step, expression or f"{step.partition(':')[0]}(x)", arch)
    report = run(kernel, Launch((blocks, 1, 1), (THREADS, 1, 1), 0, buffers))
    assert not report.findings
    return out[: x.size]


def sample(stride: int) -> Array:
    """Every so many floats of both signs, and more where activations bend."""
    everywhere = np.arange(0, 0x7F800000, stride, dtype=np.uint32)
    positive = everywhere.view(np.float32)
    bend = np.linspace(-16, 16, (1 << 34) // stride // 64, dtype=np.float32)
    return np.concatenate([positive, -positive, bend, np.array(SPECIAL, np.float32)])


def judge(step: str, x: Array, share: float, arch: str = "sm_80") -> None:
    """Demands that a share of the stated bound is enough."""
    kind = STEPS[step]
    wanted = kind.meaning(x.astype(np.float64))
    got = applied(step, x, arch=arch).astype(np.float64)
    assert (np.isnan(got) == np.isnan(x)).all()
    infinite = np.isinf(wanted)
    assert (got[infinite] == wanted[infinite]).all()
    finite = np.isfinite(wanted)
    error = np.abs(got[finite] - wanted[finite])
    bound = share * (kind.relative * np.abs(wanted[finite]) + kind.absolute)
    worst = int(np.argmax(error / bound))
    assert (error <= bound).all(), (x[finite][worst], got[finite][worst], wanted[finite][worst])


@pytest.mark.parametrize("step", APPROXIMATE)
def test_the_stated_bound_holds(step: str) -> None:
    judge(step, sample(1 << 17), share=0.75)


@pytest.mark.parametrize("step", GATED)
@pytest.mark.parametrize("value", [1.0, -3.25, 1e20])
def test_a_gated_pair_is_a_product(step: str, value: float) -> None:
    x = sample(1 << 20)
    x = x[np.abs(x) < 1e18]
    gate = applied(STEPS[step].uses, x).astype(np.float64)
    wanted = (gate * np.float64(np.float32(value))).astype(np.float32)
    assert np.array_equal(applied(step, x, f"{step}(x, {value}f)"), wanted, equal_nan=True)
    if value == 1.0:
        assert np.array_equal(
            STEPS[step].meaning(x, 1.0), STEPS[STEPS[step].uses].meaning(x), equal_nan=True
        )
        swapped = STEPS[step].meaning(np.float64(value), x, gate="second")
        assert np.array_equal(swapped, STEPS[step].meaning(x, value), equal_nan=True)


@pytest.mark.full
@pytest.mark.parametrize("step", APPROXIMATE)
def test_the_stated_bound_holds_everywhere(step: str) -> None:
    judge(step, sample(1 << 10), share=0.75)


@pytest.mark.parametrize("step", APPROXIMATE)
def test_turing_computes_the_same(step: str) -> None:
    x = sample(1 << 20)
    old, new = (applied(step, x, arch=arch) for arch in ("sm_75", "sm_80"))
    assert np.array_equal(old, new, equal_nan=True)


@pytest.mark.parametrize("step", APPROXIMATE)
def test_a_turn_is_where_the_meaning_turns(step: str) -> None:
    """The bound of a step knows where its meaning stops falling and begins to rise."""
    (turn,) = STEPS[step].turns
    x = np.linspace(-12.0, 12.0, 20001)
    rising = np.diff(STEPS[step].meaning(x)) > 0
    assert rising[x[:-1] > turn].all()
    assert not rising[x[1:] < turn].any()
    near = turn + np.array([-1e-6, 0.0, 1e-6])
    least = STEPS[step].meaning(near)
    assert least[1] <= min(least[0], least[2])


def test_b15_gelu_tanh_does_not_overflow_on_its_way() -> None:
    """B15: fp16 pre-activations 41 and 300; the cube of 41 is beyond fp16."""
    assert applied("gelu_tanh", np.array([41, 300], np.float32)).tolist() == [41, 300]


def test_b16_gelu_tanh_of_large_arguments() -> None:
    """B16: -13.5 and 200; exp(y) / exp(y) would be NaN."""
    low, high = applied("gelu_tanh", np.array([-13.5, 200], np.float32))
    assert abs(low) < 1e-30
    assert high == 200


@pytest.mark.parametrize(
    ("step", "expression", "wanted"),
    [
        ("clamp:-1:6", "at_most(at_least(x, -1.0f), 6.0f)", [-1, 0, 6, np.nan, 6, -1, 6, 5.5]),
        ("clamp:lo=0", "at_least(x, 0.0f)", [0, 0, 7, np.nan, np.inf, 0, 6, 5.5]),
        ("relu6", "", [0, 0, 6, np.nan, 6, 0, 6, 5.5]),
    ],
)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_clamps(step: str, expression: str, wanted: list[float], arch: str) -> None:
    x = np.array([-7, -0.0, 7, np.nan, np.inf, -np.inf, 6, 5.5], np.float32)
    assert np.array_equal(applied(step, x, expression, arch), wanted, equal_nan=True)
