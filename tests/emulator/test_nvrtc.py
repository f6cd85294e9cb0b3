"""The sample kernels compiled here and now, for every architecture the emulator should read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from tests.emulator.gemms import CASES
from tests.emulator.support import DATA

nvrtc: Any = pytest.importorskip("cuda.bindings.nvrtc")


def compile_ptx(source: str, arch: int, *options: str) -> str:
    """PTX of a CUDA source without includes."""
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"/kernel.cu", 0, [], [])
    flags = [f"--gpu-architecture=compute_{arch}", "-lineinfo", "-fmad=false", *options]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size + 1)  # never the one cached byte: NVRTC writes into it
    nvrtc.nvrtcGetProgramLog(program, log)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytes(size + 1)
    nvrtc.nvrtcGetPTX(program, text)
    decoded: str = text.rstrip(b"\0").decode()
    return decoded


@pytest.mark.parametrize("arch", [80, 86, 89, 90, 100, 120])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_the_pipelined_kernel(arch: int, kind: str) -> None:
    text = compile_ptx((DATA / "gemm.cu").read_text(), arch, f'-DTYPE="{kind}"')
    case = CASES["gemm_f16_sm80" if kind == "f16" else "gemm_bf16_sm100"]
    problem, report = case.run(text, m=70, n=60, k=104, arithmetic=f"sm_{arch}")
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(problem.d, problem.want)


@pytest.mark.parametrize("arch", [75, 80, 90, 100, 120])
@pytest.mark.parametrize("name", ["slab_sm80", "staged_f16_sm75"])
def test_the_other_kernels(arch: int, name: str) -> None:
    if name.startswith("slab") and arch == 75:
        pytest.skip("cp.async needs sm_80")
    source = (DATA / f"{name.split('_', 1)[0]}.cu").read_text()
    problem, report = CASES[name].run(compile_ptx(source, arch))
    assert report.findings == (), str(report)
    np.testing.assert_array_equal(problem.d, problem.want)


# What a compiler makes of ordinary code: local arrays, divisions, 64-bit arithmetic, loops.
_ORDINARY = """
extern "C" __global__ void ordinary(const int* in, int* out, float* real, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int table[8];
  for (int j = 0; j < 8; ++j) table[(j * 3 + i) & 7] = in[i] + j;
  long long sum = 0;
  for (int j = 0; j < (i & 7); ++j) sum += (long long)table[j] * in[(i + j) % n];
  unsigned word = (unsigned)in[i];
  word = __funnelshift_l(word, word, 5) ^ __brev(word) ^ __popc(word) ^ (word << (i & 31));
  out[i] = (int)(sum % 1000) + in[i] / (i + 1) + (int)(word % 17u);
  float x = in[i] * 0.25f;
  real[i] = i & 1 ? fmaf(x, x, -1.0f) : fmaxf(x, 2.0f) / (x * x + 1.0f);
}
"""


def _c_mod(a: int, b: int) -> int:
    return abs(a) % b * (1 if a >= 0 else -1)


@pytest.mark.parametrize("arch", [75, 80, 90, 100, 120])
def test_ordinary_code(arch: int) -> None:
    n = 100
    values = np.random.default_rng(arch).integers(-1000, 1000, n).astype(np.int32)
    out = np.zeros(n, np.int32)
    real = np.zeros(n, np.float32)
    kernel = Kernel(parse(compile_ptx(_ORDINARY, arch)), "ordinary")
    buffers = [
        GlobalBuffer("in", values),
        GlobalBuffer("out", out, writable=True),
        GlobalBuffer("real", real, writable=True),
    ]
    report = run(kernel, Launch((2, 1, 1), (64, 1, 1), 0, [*buffers, n]))
    assert report.findings == (), str(report)
    numbers = values.tolist()
    for i, value in enumerate(numbers):
        table = [0] * 8
        for j in range(8):
            table[(j * 3 + i) & 7] = value + j
        total = sum(table[j] * numbers[(i + j) % n] for j in range(i & 7))
        word = value & 0xFFFFFFFF
        mixed = ((word << 5 | word >> 27) & 0xFFFFFFFF) ^ int(f"{word:032b}"[::-1], 2)
        mixed ^= word.bit_count() ^ (word << (i & 31) & 0xFFFFFFFF)
        quotient = abs(value) // (i + 1) * (1 if value >= 0 else -1)
        assert out[i] == _c_mod(total, 1000) + quotient + mixed % 17
        x = np.float32(value) * np.float32(0.25)
        if i & 1:
            assert real[i] == np.float32(np.float64(x) * x - 1)
        else:
            assert real[i] == np.maximum(x, np.float32(2)) / (x * x + np.float32(1))
