"""Time the emulator: fp16, k = 512, one thread block.

A 128 x 128 tile by mma.sync with 128 threads, and tiles of 128 x 128 and 128 x 256 by wgmma with
384 threads.

    python benchmarks/emulator_speed.py [--arch 80] [--repeat 20]

Needs NVRTC (the ``compile`` extra). Prints the best and the median of each case in milliseconds of
processor time on one core, which says the same on a busy machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import numpy as np
from cuda.bindings import nvrtc

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.emulator import Checks, GlobalBuffer, Kernel, Launch, TensorMap, parse, run
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import compile_ptx

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

SOURCE = Path(__file__).parents[1] / "tests" / "emulator" / "data" / "gemm.cu"
TILE, K = 128, 512
CHECKED = (
    (Checks(races=True, costs=True), "races and costs"),
    (Checks(races=True), "races checked"),
    (Checks(races=False), "unchecked"),
)
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


def hopper(columns: int) -> tuple[KernelPlan, str]:
    """The plan of a wgmma kernel for one tile of so many columns, and its PTX."""
    spec = GemmSpec.from_fields({"m": TILE, "n": columns, "k": K, "layout": "nt", "arch": "sm_90a"})
    choice = WgmmaChoice(TILE, columns, 2, 1, 3, 1, 1, 8)
    plan = choice.program(spec, load_arch(spec.arch)).kernels[0]
    return plan, compile_ptx(render_kernel(plan), name=plan.name, arch=plan.target).ptx


def operands(rows: int, *, whole: bool) -> list[GlobalBuffer]:
    """A and B, K-major."""
    rng = np.random.default_rng(0)
    shapes = ((TILE, K), (rows, K))
    return [
        GlobalBuffer(
            name,
            (rng.integers(-8, 9, s) if whole else rng.standard_normal(s)).astype(np.float16),
        )
        for name, s in zip("ab", shapes, strict=True)
    ]


def launch_mma(*, whole: bool) -> Launch:
    """The mma.sync kernel's launch."""
    d = GlobalBuffer("d", np.zeros((TILE, TILE), np.float32), writable=True)
    buffers = [*operands(TILE, whole=whole), d]
    return Launch((1, 1, 1), (128, 1, 1), 0, [*buffers, TILE, TILE, K, K, K, TILE])


def launch_wgmma(plan: KernelPlan, *, whole: bool) -> Launch:
    """The wgmma kernel's launch."""
    columns = plan.body.tile_n
    d = GlobalBuffer("d", np.zeros((TILE, columns), np.float16), writable=True)
    buffers = {b.name: b for b in (*operands(columns, whole=whole), d)}
    maps = [
        TensorMap(
            buffers[t.pointer],
            2,
            (t.inner.evaluate({}), t.outer.evaluate({})),
            (t.stride.evaluate({}) * 2,),
            (t.box_inner, t.box_outer),
            128,
        )
        for t in plan.tensor_maps
    ]
    shared = plan.body.shared_bytes
    return Launch((1, 1, 1), (plan.body.threads, 1, 1), shared, [*maps, 1.0])


def measure(kernel: Kernel, launch: Launch, repeat: int, checks: Checks) -> list[float]:
    """Milliseconds of each run."""
    times = []
    for _ in range(repeat + 1):
        start = time.process_time()
        report = run(kernel, launch, None, checks)
        times.append(1e3 * (time.process_time() - start))
        if report.findings:
            raise SystemExit(str(report))
    return times[1:]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="80")
    parser.add_argument("--repeat", type=int, default=20)
    arguments = parser.parse_args()
    cases = [("mma.sync 128x128", ptx(arguments.arch), "gemm", launch_mma)]
    for columns in (128, 256):
        plan, text = hopper(columns)
        cases.append((f"wgmma 128x{columns}", text, plan.name, partial(launch_wgmma, plan)))
    for name, text, entry, launch in cases:
        start = time.process_time()
        module = parse(text)
        middle = time.process_time()
        kernel = Kernel(module, entry, arithmetic="sm_90")
        end = time.process_time()
        print(
            f"{name}: {len(kernel.program.instructions)} instructions: "
            f"parse {1e3 * (middle - start):.0f} ms, translate {1e3 * (end - middle):.0f} ms"
        )
        for whole in (True, False):
            for checks, words in CHECKED:
                times = measure(kernel, launch(whole=whole), arguments.repeat, checks)
                label = f"{'whole numbers' if whole else 'random numbers':15} {words:15}"
                best, median = min(times), statistics.median(times)
                print(f"{label}  best {best:6.1f} ms  median {median:6.1f} ms")


if __name__ == "__main__":
    main()
