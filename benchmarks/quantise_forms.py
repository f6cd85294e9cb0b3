"""Product, bias, GELU and quantisation to int8: one kernel beside the forms in several.

    python benchmarks/quantise_forms.py --out benchmarks/results

Sides, interleaved in one run on the same inputs: one generated kernel; two generated kernels (the
plain product, then one row kernel for all of the steps); PyTorch eager (cuBLAS, then a kernel a
step); the same through torch.compile. Rows of the results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import cupy
import torch
from gpu_timing import interleaved, sets_for

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.harness.gpu import launch_arguments
from deepgemm_codegen.harness.launching import launch_kernel
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

SHAPES = [(8192, 8192, 1024), (4096, 2560, 320), (4096, 4096, 4096)]
SCALE = 20.0
STEPS = f"bias,gelu_tanh,quantize:int8:scale={SCALE}"
COMMON = "dtype=fp16 arch=sm_90a gpu=H200"
SIDES = ("one kernel", "two kernels", "torch eager", "torch.compile")


class Generated:
    """A generated program, launched on torch's current stream."""

    def __init__(self, text: str) -> None:
        spec = GemmSpec.from_text(text)
        self.program = decide(spec, load_arch(spec.arch, spec.gpu))
        self.problem = bind(self.program)
        source = render_program(self.program)
        built = build_cubin(source, name=self.program.name, arch=spec.arch)
        module = cupy.cuda.function.Module()
        module.load(built.cubin)
        self.functions = []
        for kernel in self.program.kernels:
            function = module.get_function(kernel.name)
            if kernel.shared_bytes > 48 * 1024:
                cupy.cuda.driver.funcSetAttribute(function.ptr, 8, kernel.shared_bytes)
            self.functions.append(function)
        if self.program.workspace.regions:
            raise SystemExit(f"{text}: the tree wants a workspace, which this script has not")
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count

    def launcher(self, operands: list[dict[str, torch.Tensor]]) -> Any:
        """A function that launches on one of several sets of operands, by parameter name."""
        arguments = [
            [
                launch_arguments(self.problem, k, {n: t.data_ptr() for n, t in each.items()})
                for k in self.program.kernels
            ]
            for each in operands
        ]

        def launch(index: int) -> None:
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                for number, kernel in enumerate(self.program.kernels):
                    blocks = self.problem.blocks_of(kernel, self.sms)
                    function = self.functions[number]
                    launch_kernel(cupy, function, kernel, blocks, arguments[index][number])

        return launch


def quantised(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What a PyTorch user writes."""
    y = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias), approximate="tanh")
    return torch.clamp(torch.round(y.float() * SCALE), -128, 127).to(torch.int8)


def measured(m: int, n: int, k: int) -> dict[str, Any]:
    """Times the sides of one shape."""
    one = Generated(f"m={m} n={n} k={k} layout=nt {COMMON} epilogue={STEPS}")
    plain = Generated(f"m={m} n={n} k={k} layout=nt {COMMON}")
    steps = Generated(f"op=epilogue m={m} n={n} {COMMON} epilogue={STEPS}")
    sets = sets_for(2 * (m * k + n * k) + m * n)
    xs = [torch.randn(m, k, device="cuda", dtype=torch.half) / k**0.5 for _ in range(sets)]
    weights = [torch.randn(n, k, device="cuda", dtype=torch.half) for _ in range(sets)]
    biases = [torch.randn(n, device="cuda", dtype=torch.half) for _ in range(sets)]
    results = [torch.empty(m, n, device="cuda", dtype=torch.int8) for _ in range(sets)]
    between = torch.empty(m, n, device="cuda", dtype=torch.half)
    fused = one.launcher(
        [
            {"a": x, "b": w, "bias0": bias, "d": d}
            for x, w, bias, d in zip(xs, weights, biases, results, strict=True)
        ]
    )
    product = plain.launcher(
        [{"a": x, "b": w, "d": between} for x, w in zip(xs, weights, strict=True)]
    )
    after = steps.launcher(
        [{"a": between, "bias0": bias, "d": d} for bias, d in zip(biases, results, strict=True)]
    )

    def two(index: int) -> None:
        product(index)
        after(index)

    compiled = torch.compile(quantised)

    def eager_side(index: int) -> None:
        quantised(xs[index], weights[index], biases[index])

    def compiled_side(index: int) -> None:
        compiled(xs[index], weights[index], biases[index])

    wanted = quantised(xs[0], weights[0], biases[0]).int()
    for side in (fused, two):
        results[0].fill_(99)
        side(0)
        torch.cuda.synchronize()
        off = (results[0].int() - wanted).abs()
        if off.max() > 1 or (off > 0).float().mean() > 0.02:  # torch rounds to fp16 in between
            raise SystemExit(f"{m}x{n}x{k}: {int((off > 1).sum())} values are off by more than 1")
    compiled_side(0)
    timings = interleaved([fused, two, eager_side, compiled_side], sets)
    return {
        "shape": [m, n, k],
        "us": {name: t.median_us for name, t in zip(SIDES, timings, strict=True)},
        "spread_us": {name: t.most_us - t.least_us for name, t in zip(SIDES, timings, strict=True)},
    }


def main() -> None:
    """Measures all shapes; writes JSON and a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    document = {
        "command": "python benchmarks/quantise_forms.py",
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "steps": STEPS,
        "shapes": [measured(*shape) for shape in SHAPES],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / "quantise_forms"
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [
        "# fp16 product, bias, GELU, int8: one kernel beside several",
        "",
        *(f"- {key}: {document[key]}" for key in ("command", "gpu", "torch", "steps")),
        "",
        f"| shape | {' | '.join(f'{name} us' for name in SIDES)} | ratios to one kernel |",
        f"| --- | {' | '.join('---' for _ in SIDES)} | --- |",
    ]
    for row in document["shapes"]:
        us = row["us"]
        ratios = ", ".join(f"{us[name] / us[SIDES[0]]:.2f}" for name in SIDES[1:])
        shape = "x".join(map(str, row["shape"]))
        lines.append(f"| {shape} | {' | '.join(f'{us[n]:.1f}' for n in SIDES)} | {ratios} |")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
