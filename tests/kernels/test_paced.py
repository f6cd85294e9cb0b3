"""Polynomials that wait for those before them, where the other consumer multiplies meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from deepgemm_codegen.plan import Wgmma
from deepgemm_codegen.render import render_program
from tests.epilogue.test_functions import applied, sample
from tests.harness.support import assert_right, compiled, program_of

IN_TURN = WgmmaChoice(64, 64, 2, 2, 3, 1, 1, 2)
TALL = WgmmaChoice(128, 64, 2, 2, 3, 1, 1, 2)
TOGETHER = WgmmaChoice(128, 64, 2, 1, 3, 1, 1, 2)
CUT = WgmmaChoice(64, 64, 2, 1, 3, 1, 1, 2, 2)


@pytest.mark.parametrize(
    ("text", "choice", "wanted"),
    [
        ("k=64 epilogue=bias,gelu", IN_TURN, True),
        ("k=64 epilogue=bias,gelu dtype_d=fp32", IN_TURN, True),
        ("k=64 epilogue=geglu", IN_TURN, True),
        ("k=64 epilogue=bias,gelu", TOGETHER, False),  # nobody multiplies meanwhile
        ("k=64 epilogue=bias,gelu ldd=129", IN_TURN, False),  # one element at a time already
        ("k=256 epilogue=bias,gelu", CUT, False),  # the steps are another kernel's
        ("k=64 epilogue=gelu_tanh", IN_TURN, False),  # two special functions space it out
        ("k=64 epilogue=gelu,layer_norm", IN_TURN, False),
        ("k=64 epilogue=relu", IN_TURN, False),
    ],
)
def test_they_wait_where_consumers_take_turns(text: str, choice: WgmmaChoice, wanted: bool) -> None:
    program = program_of(f"m=256 n=128 {text} layout=nt arch=sm_90a", choice)
    body = program.product.body
    assert isinstance(body, Wgmma)
    assert body.paced == wanted
    source = render_program(program)
    assert ("float& before" in source) == wanted
    assert ("float before[2] = {};" in source) == wanted


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("dtype=fp16 k=192 epilogue=bias,gelu,residual", IN_TURN),
        ("dtype=bf16 k=200 batch=2 dtype_d=fp32 epilogue=gelu", TALL),  # by slabs
        ("dtype=fp16 k=136 epilogue=geglu:gate=second", IN_TURN),
        ("dtype=fp16 k=192 epilogue=gelu,bias,gelu,quantize:int8:scale=20.0", IN_TURN),
    ],
    ids=["TMA", "slabs", "pairs", "twice and bytes"],
)
def test_they_are_right(text: str, choice: WgmmaChoice) -> None:
    assert_right(f"m=200 n=136 {text} layout=nt arch=sm_90a", choice, effort=0.1)


IN_A_ROW = 4
"""Elements that a thread of the test's kernel takes one after the other."""


def test_waiting_changes_no_bit_whatever_was_before() -> None:
    """Infinities and NaN among them: what is waited for is multiplied by zero, and finite."""
    program = program_of("m=256 n=128 k=64 epilogue=gelu layout=nt arch=sm_90a", IN_TURN)
    source = render_program(program)
    body = (
        'extern "C" __global__ void apply(const float* in, float* out)\n'
        f"{{ const int first = (blockIdx.x * 1024 + threadIdx.x) * {IN_A_ROW};"
        f" float before = 0.0f; for (int e = 0; e < {IN_A_ROW}; ++e)"
        " out[first + e] = gelu(in[first + e], before); }\n"
    )
    head = source[: source.index("// ---- kernel ---")]
    kernel = Kernel(parse(compiled(head + body, "sm_90a")), "apply", arithmetic="sm_90")
    x = np.random.default_rng(3).permutation(sample(1 << 18))
    blocks = -(-x.size // (1024 * IN_A_ROW))
    x = np.concatenate([x, np.zeros(blocks * 1024 * IN_A_ROW - x.size, np.float32)])
    out = np.zeros_like(x)
    buffers = [GlobalBuffer("in", x), GlobalBuffer("out", out, writable=True)]
    assert not run(kernel, Launch((blocks, 1, 1), (1024, 1, 1), 0, buffers)).findings
    plain = applied("gelu", x, arch="sm_90")
    assert np.array_equal(out.view(np.uint32), plain.view(np.uint32))
