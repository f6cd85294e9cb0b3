"""Time the emulator: a 128 x 128 tile of fp16, k = 512, one thread block of 128 threads.

    python benchmarks/emulator_speed.py [--arch 80] [--repeat 20]

Needs NVRTC (the ``compile`` extra). Prints the best and the median of each case in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import nvrtc

from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, Launch, parse, run

SOURCE = Path(__file__).parents[1] / "tests" / "emulator" / "data" / "gemm.cu"
TILE, K = 128, 512
SIZES = ("-DTM=128", "-DTN=128", "-DTK=32", "-DWM=64", "-DWN=64", "-DSTAGES=3", '-DTYPE="f16"')


def ptx(arch: str) -> str:
    """The benchmark's kernel compiled for ``compute_<arch>``."""
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.read_bytes(), b"/gemm.cu", 0, [], [])
    options = [f"--gpu-architecture=compute_{arch}", "-lineinfo", "-fmad=false", *SIZES]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise SystemExit(f"NVRTC: {error}")
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.rstrip(b"\0").decode()


def measure(kernel: Kernel, repeat: int, *, whole: bool, checks: Checks) -> list[float]:
    """Milliseconds of each run."""
    rng = np.random.default_rng(0)
    shape = (TILE, K)
    numbers: Any = rng.integers(-8, 9, (2, *shape)) if whole else rng.standard_normal((2, *shape))
    a, b = numbers.astype(np.float16)
    d = np.zeros((TILE, TILE), np.float32)
    buffers = [GlobalBuffer("a", a), GlobalBuffer("b", b), GlobalBuffer("d", d, writable=True)]
    launch = Launch((1, 1, 1), (128, 1, 1), 0, [*buffers, TILE, TILE, K, K, K, TILE])
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        report = run(kernel, launch, None, checks)
        times.append(1e3 * (time.perf_counter() - start))
        if report.findings:
            raise SystemExit(str(report))
    return times[1:]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="80")
    parser.add_argument("--repeat", type=int, default=20)
    arguments = parser.parse_args()
    text = ptx(arguments.arch)
    start = time.perf_counter()
    module = parse(text)
    middle = time.perf_counter()
    kernel = Kernel(module, "gemm", arithmetic="sm_90")
    end = time.perf_counter()
    count = len(kernel.program.instructions)
    print(
        f"{count} instructions: parse {1e3 * (middle - start):.0f} ms, "
        f"translate {1e3 * (end - middle):.0f} ms"
    )
    for whole in (True, False):
        for races in (True, False):
            times = measure(kernel, arguments.repeat, whole=whole, checks=Checks(races=races))
            label = f"{'whole numbers' if whole else 'random numbers':15} "
            label += "races checked" if races else "unchecked    "
            print(f"{label}  best {min(times):6.1f} ms  median {statistics.median(times):6.1f} ms")


if __name__ == "__main__":
    main()
