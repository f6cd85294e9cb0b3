"""Approximated functions: rounded once here, and flagged with the distance that a GPU may keep."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deepgemm_codegen.emulator import Kernel, parse
from deepgemm_codegen.emulator.instructions.approximate import Tolerance
from tests.emulator.support import entry, execute

_F32 = {
    "rcp": lambda x: 1 / x, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "ex2": lambda x: 2.0**x, "lg2": math.log2, "sin": math.sin, "cos": math.cos, "tanh": math.tanh,
}  # fmt: skip


@pytest.mark.parametrize("name", list(_F32))
def test_fp32_is_rounded_once(name: str) -> None:
    x = np.random.default_rng(5).uniform(0.01, 6, 256).astype(np.float32)
    got = execute(f"{name}.approx.f32 %r40, %r1;", [x], "%r40", np.float32)
    want = np.array([_F32[name](float(v)) for v in x]).astype(np.float32)
    # Two libraries' float64 functions may round to two sides of a tie.
    steps = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32))
    assert steps.max() <= 1
    assert np.count_nonzero(steps) <= 1


@pytest.mark.parametrize(
    ("text", "bits", "want"),
    [
        ("rcp.approx.f32", 0x80000000, 0xFF800000), ("rcp.approx.ftz.f32", 1, 0x7F800000),
        ("sqrt.approx.f32", 0x80000000, 0x80000000), ("sqrt.rn.f32", 0xBF800000, 0x7FFFFFFF),
        ("rsqrt.approx.f32", 0x80000000, 0xFF800000), ("rsqrt.approx.f32", 0x7F800000, 0),
        ("ex2.approx.f32", 0xFF800000, 0), ("ex2.approx.f32", 0xC3080000, 0x00002000),
        ("ex2.approx.ftz.f32", 0xC3080000, 0), ("ex2.approx.f32", 0x7FC00000, 0x7FFFFFFF),
        ("lg2.approx.f32", 0, 0xFF800000), ("lg2.approx.f32", 0xBF800000, 0x7FFFFFFF),
        ("sin.approx.f32", 0x7F800000, 0x7FFFFFFF), ("tanh.approx.f32", 0xFF800000, 0xBF800000),
    ],
)  # fmt: skip
def test_special_values(text: str, bits: int, want: int) -> None:
    got = execute(f"{text} %r40, %r1;", [np.array([bits], np.uint32)], "%r40", np.uint32)
    assert hex(int(got[0])) == hex(want)


@pytest.mark.parametrize("name", ["ex2", "tanh"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_single_and_packed(name: str, kind: str) -> None:
    dtype: Any = np.float16 if kind == "f16" else ml_dtypes.bfloat16
    x = np.random.default_rng(6).uniform(-4, 4, 64).astype(dtype)
    ftz = ".ftz" if (name, kind) == ("ex2", "bf16") else ""
    wide = x.astype(np.float64)
    want = (np.exp2(wide) if name == "ex2" else np.tanh(wide)).astype(dtype).view(np.uint16)
    bits = x.view(np.uint16)
    got = execute(f"{name}.approx{ftz}.{kind} %h40, %h1;", [bits], "%h40", np.uint16)
    np.testing.assert_array_equal(got, want)
    pairs = bits.view(np.uint32)
    got = execute(f"{name}.approx{ftz}.{kind}x2 %r40, %r1;", [pairs], "%r40", np.uint32)
    np.testing.assert_array_equal(got.view(np.uint16), want)


def test_a_kernel_says_which_of_its_instructions_are_approximate() -> None:
    kernel = Kernel(
        parse(entry("add.f32 %r1, %r2, %r3;\nex2.approx.ftz.f32 %r1, %r1;\nsqrt.rn.f32 %r2, %r1;\n"
                    "tanh.approx.bf16x2 %r2, %r1;\ndiv.full.f32 %r2, %r1, %r3;")), "k",
    )  # fmt: skip
    found = [(place.text.split()[0], bound) for place, bound in kernel.approximations()]
    assert found == [
        ("ex2.approx.ftz.f32", Tolerance(0, 2**-22)),
        ("tanh.approx.bf16x2", Tolerance(2**-8, 2**-7)),
        ("div.full.f32", Tolerance(0, 2**-22)),
    ]
    assert Kernel(parse(entry("add.f32 %r1, %r2, %r3;")), "k").approximations() == ()
