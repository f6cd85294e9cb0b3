"""The mma.sync family on a GPU: 4096-cubed against the instruction's own ceiling and cuBLAS.

    python benchmarks/mma_sync_rung.py [--plans sweep] [--out FOLDER]

The ceiling kernel, every plan and torch.matmul are interleaved in one run. Every plan's result is
compared with a float64 product on random rows before it is timed.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import cupy
import torch
from gpu_timing import interleaved, sets_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, decide
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

HERE = Path(__file__).resolve().parent
CEILING_ROUNDS = 2048


def load(cubin: bytes, name: str, shared: int) -> Any:
    """The kernel of a cubin, allowed to use its shared memory."""
    module = cupy.cuda.function.Module()
    module.load(cubin)
    function = module.get_function(name)
    if shared > 48 * 1024:
        cupy.cuda.driver.funcSetAttribute(function.ptr, 8, shared)
    return function


def ceiling() -> tuple[Any, float]:
    """A launcher of the register-only kernel and its FLOP a launch."""
    built = build_cubin((HERE / "mma_ceiling.cu").read_text(), name="mma_ceiling", arch="sm_90")
    function = load(built.cubin, "mma_ceiling", 0)
    blocks = torch.cuda.get_device_properties(0).multi_processor_count * 2
    sink = torch.zeros(blocks * 256, device="cuda")
    halves = torch.randn(2 * 2**20, device="cuda").half()

    def launch(_: int) -> None:
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        with stream:
            function(
                (blocks,),
                (256,),
                (sink.data_ptr(), halves.data_ptr(), cupy.int32(CEILING_ROUNDS)),
            )

    return launch, blocks * 8 * CEILING_ROUNDS * 16 * 2.0 * 16 * 8 * 16


def driver_version() -> str:
    """The driver's version as nvidia-smi tells it."""
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        check=True,
        capture_output=True,
        text=True,
    )
    return found.stdout.splitlines()[0]


def main() -> None:
    """Runs and prints; writes JSON where --out says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--layout", default="nt")
    parser.add_argument("--plans", default="tree", help="tree, or sweep")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    size = options.size
    spec = GemmSpec.from_fields(
        {"m": size, "n": size, "k": size, "layout": options.layout, "arch": "sm_90", "gpu": "H200"}
    )
    arch = load_arch(spec.arch, spec.gpu)
    plans = [decide(spec, arch).kernels[0]]
    if options.plans == "sweep":
        plans += [
            MmaSyncChoice(*numbers).program(spec, arch).kernels[0]
            for numbers in (
                (128, 128, 32, 2, 2, 4, 2, 8),
                (128, 128, 64, 2, 2, 3, 2, 8),
                (128, 128, 32, 2, 2, 5, 2, 16),
                (128, 256, 32, 2, 4, 4, 1, 8),
                (128, 256, 64, 2, 4, 3, 1, 8),
                (128, 256, 64, 2, 4, 4, 1, 8),
                (256, 128, 64, 4, 2, 4, 1, 8),
                (256, 128, 32, 4, 2, 5, 1, 8),
                (128, 192, 32, 2, 3, 4, 1, 8),
                (256, 192, 32, 4, 3, 4, 1, 8),
                (192, 128, 64, 3, 2, 3, 1, 8),
            )
        ]
    sets = sets_for(3 * 2 * size * size)
    shape_b = (size, size)
    a = [torch.randn(size, size, device="cuda").half() for _ in range(sets)]
    b = [torch.randn(*shape_b, device="cuda").half() for _ in range(sets)]
    d = [torch.empty(size, size, device="cuda", dtype=torch.half) for _ in range(sets)]
    flop = 2.0 * size**3
    ceiling_launch, ceiling_flop = ceiling()
    turn_a, turn_b = (letter == "t" for letter in options.layout)

    def cublas(i: int) -> None:
        torch.matmul(a[i].t() if turn_a else a[i], b[i].t() if turn_b else b[i], out=d[i])

    sides = [ceiling_launch, cublas]
    rows = torch.randint(0, size, (64,), device="cuda")
    left = (a[0].t() if turn_a else a[0])[rows].double()
    expected = left @ (b[0].t() if turn_b else b[0]).double()
    notes = []
    for plan in plans:
        built = build_cubin(render_kernel(plan), name=plan.name, arch="sm_90")
        shared = plan.body.shared_bytes
        function = load(built.cubin, plan.name, shared)
        blocks = plan.blocks.evaluate({})

        def launch(i: int, f: Any = function, p: Any = plan, n: int = blocks) -> None:
            stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
            with stream:
                f(
                    (n,),
                    (p.body.threads,),
                    (a[i].data_ptr(), b[i].data_ptr(), d[i].data_ptr(), cupy.float32(1.0)),
                    shared_mem=p.body.shared_bytes,
                )

        d[0].fill_(float("nan"))
        launch(0)
        torch.cuda.synchronize()
        error = ((d[0][rows].double() - expected).abs().max() / expected.abs().max()).item()
        usage = built.resources[plan.name]
        notes.append((error, usage.registers))
        sides.append(launch)
    timings = interleaved(sides, sets)
    ceiling_tflops = ceiling_flop / timings[0].median_us / 1e6
    cublas_us = timings[1].median_us
    result: dict[str, Any] = {
        "command": " ".join(sys.argv),
        "gpu": torch.cuda.get_device_name(0),
        "driver": driver_version(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "shape": [size, size, size],
        "layout": options.layout,
        "ceiling_tflops": ceiling_tflops,
        "cublas_us": cublas_us,
        "cublas_tflops": flop / cublas_us / 1e6,
        "plans": [],
    }
    print(f"ceiling {ceiling_tflops:.0f} TFLOP/s; cuBLAS {flop / cublas_us / 1e6:.0f} TFLOP/s")
    for plan, timing, (error, registers) in zip(plans, timings[2:], notes, strict=True):
        body = plan.body
        tflops = flop / timing.median_us / 1e6
        label = (
            f"{body.tile_m}x{body.tile_n}x{body.tile_k} warps {body.warps_m}x{body.warps_n}"
            f" stages {body.stages} blocks {body.min_blocks} group {plan.schedule.raster_group}"
        )
        result["plans"].append(
            {
                "plan": label,
                "registers": registers,
                "us": timing.median_us,
                "tflops": tflops,
                "of_ceiling": tflops / ceiling_tflops,
                "of_cublas": cublas_us / timing.median_us,
                "relative_error": error,
            }
        )
        print(
            f"{label:58s} {registers:3d} regs {timing.median_us:8.1f} us {tflops:6.1f} TFLOP/s"
            f" {100 * tflops / ceiling_tflops:5.1f} % of ceiling,"
            f" {cublas_us / timing.median_us:.3f} x cuBLAS, error {error:.1e}"
        )
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"mma_sync_{size}_{options.layout}_{options.plans}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
