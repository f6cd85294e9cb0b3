"""Norms of rows beside a copy of as many bytes, the best that we can write, and beside PyTorch.

    python benchmarks/norm_rows.py [configs/bench/norm.yaml] [--json FILE] [--sweep] [--dry-run]

A row of the table is a kernel file's spec with op = epilogue. Its time stands beside that of the
fastest of some vectorised copies (`COPIES`, and the driver's own), which read half of the bytes
that the kernel moves and write the other half, and beside PyTorch's eager functions in a CUDA
graph. All sides of a row are timed in one run, interleaved, over inputs that no cache holds
(`gpu_timing`); each of them runs `WARM_SECONDS` before, as the GPU comes warm from the row above.
D is compared with PyTorch's in float64 first; `verify --on gpu` judges properly. The 42 rows of the
default file have 18 sides each, and take about a minute.

``--sweep`` times every choice of the tree's menu that is legal, to see what the model is worth.
``--dry-run`` builds all that would be timed, and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.rows.search import RowMenu, candidates, cost_of, violations
from deepgemm_codegen.decide.rows.task import row_task
from deepgemm_codegen.parallel import cores, in_processes
from deepgemm_codegen.render import render_program
from deepgemm_codegen.specfile import read_all
from deepgemm_codegen.toolchain import build_cubin

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

    Side = Callable[[int], None]

DEFAULT = Path(__file__).resolve().parent.parent / "configs" / "bench" / "norm.yaml"
EPS = 1e-5
WARM_SECONDS, FIRST_SECONDS = 0.01, 0.3
"""How long a side runs before it is timed, and one of the first row, by which the GPU wakes."""

TOLERANCE = {"bf16": 2.0**-7, "fp16": 2.0**-10, "fp32": 2.0**-17}
"""Largest difference from float64, relative to 1 + its magnitude: a rounding to the type."""

COPIES = [(threads, vectors, hint) for threads in (256, 512) for vectors in (1, 2, 4, 8)
          for hint in ("", ".L1::no_allocate")]  # fmt: skip
"""(threads of a block, 16-byte vectors of a thread, cache hint) of each copy that is tried."""


def copy_name(threads: int, vectors: int, hint: str) -> str:
    """The entry of a copy."""
    return f"copy_{threads}_{vectors}{'_streaming' if hint else ''}"


def copy_source() -> str:
    """All copies: a block copies threads * vectors neighbouring vectors, every load first."""
    kernels = ["typedef long long i64;\n"]
    for threads, vectors, hint in COPIES:
        kernels.append(f"""
extern "C" __global__ void __launch_bounds__({threads})
{copy_name(threads, vectors, hint)}(
    const uint4* __restrict__ from, uint4* __restrict__ to, i64 count)
{{
    const i64 first = i64{{blockIdx.x}} * {threads * vectors} + threadIdx.x;
    uint4 held[{vectors}];
#pragma unroll
    for (int i = 0; i < {vectors}; ++i) {{
        if (first + i * {threads} < count)
            asm volatile("ld.global.nc{hint}.v4.u32 {{ %0, %1, %2, %3 }}, [%4];"
                         : "=r"(held[i].x), "=r"(held[i].y), "=r"(held[i].z), "=r"(held[i].w)
                         : "l"(from + first + i * {threads}));
    }}
#pragma unroll
    for (int i = 0; i < {vectors}; ++i)
        if (first + i * {threads} < count) to[first + i * {threads}] = held[i];
}}
""")
    return "".join(kernels)


@dataclass
class Row:
    """One line of the table; times in microseconds, None where nothing was timed."""

    spec: str
    choice: str
    registers: int
    predicted_us: float
    bytes: int
    us: float | None = None
    copy_us: float | None = None
    copy: str = ""
    torch_us: float | None = None
    error: str = ""


def moved_bytes(spec: GemmSpec) -> int:
    """Bytes that a kernel reads and writes, without what all rows share."""
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    task = row_task(spec, machine_of(arch, spec.dtype_a.name))
    return task.rows * task.n * (task.read + task.written)


def built(spec: GemmSpec) -> list[tuple[Row, Program, bytes]]:
    """The tree's kernel of a spec."""
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    program = decide(spec, arch)
    return [_built(spec, program, "; ".join(d.choice for d in program.decisions[1:]))]


def swept(spec: GemmSpec) -> list[tuple[Row, Program, bytes]]:
    """Every legal choice of the menu that holds its rows."""
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    task = row_task(spec, machine_of(arch, spec.dtype_a.name))
    legal = [c for c in candidates(task, RowMenu()) if c.held and not any(violations(task, c))]
    return [_built(spec, choice.program(spec, arch), choice.words) for choice in legal]


def _built(spec: GemmSpec, program: Program, words: str) -> tuple[Row, Program, bytes]:
    made = build_cubin(render_program(program), name=program.name, arch=program.target)
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    machine = machine_of(arch, spec.dtype_a.name)
    task = row_task(spec, machine)
    body: Any = program.kernels[0].body
    choice = next(
        c
        for c in candidates(task, RowMenu((body.warps_m,), (body.warps_n,)))
        if c.held == body.held
    )
    row = Row(
        spec=str(spec),
        choice=words,
        registers=made.resources[program.name].registers,
        predicted_us=cost_of(task, choice).clocks / machine.clock_mhz,
        bytes=moved_bytes(spec),
    )
    return row, program, made.cubin


class Gpu:
    """What a run needs of PyTorch and cupy, on one stream."""

    def __init__(self) -> None:
        import cupy
        import torch

        self.cupy, self.torch = cupy, torch
        major, minor = torch.cuda.get_device_capability()
        self.arch = f"sm_{major}{minor}"
        self.copies = self.module(build_cubin(copy_source(), name="copy", arch=self.arch).cubin)
        self.warm_seconds = FIRST_SECONDS

    def module(self, cubin: bytes) -> Any:
        """Machine code, loaded."""
        loaded = self.cupy.cuda.function.Module()
        loaded.load(cubin)
        return loaded

    def on_stream(self) -> Any:
        """Cupy launches where PyTorch does."""
        return self.cupy.cuda.ExternalStream(self.torch.cuda.current_stream().cuda_stream)

    def copy_sides(self, bytes_each: int, sets: int) -> list[tuple[str, Side]]:
        """Every copy of so many bytes."""
        torch = self.torch
        pairs = [
            tuple(torch.empty(bytes_each, dtype=torch.uint8, device="cuda") for _ in "ab")
            for _ in range(sets)
        ]
        count = bytes_each // 16

        def side_of(threads: int, vectors: int, hint: str) -> Side:
            function = self.copies.get_function(copy_name(threads, vectors, hint))
            blocks = -(-count // (threads * vectors))

            def side(index: int) -> None:
                source, target = (tensor.data_ptr() for tensor in pairs[index])
                with self.on_stream():
                    function((blocks, 1, 1), (threads, 1, 1), (source, target, count))

            return side

        def driver(index: int) -> None:
            pairs[index][1].copy_(pairs[index][0])

        found = [(copy_name(*c), side_of(*c)) for c in COPIES]
        return [*found, ("driver", driver)]


def time_row(gpu: Gpu, made: tuple[Row, Program, bytes], *, copies: bool, rival: bool) -> None:
    """Fills a row in; everything that a row compares is timed in one run."""
    from gpu_timing import interleaved, sets_for

    from deepgemm_codegen.harness.gpu import launch_arguments
    from deepgemm_codegen.harness.launching import launch_kernel
    from deepgemm_codegen.harness.problem import bind

    row, program, cubin = made
    torch = gpu.torch
    spec, problem = program.spec, bind(program)
    sets = sets_for(row.bytes)
    types = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
    torch.manual_seed(1)
    operands = [
        {
            matrix.name: torch.randn(matrix.elements, device="cuda").to(types[matrix.dtype.name])
            for matrix in problem.matrices
        }
        for _ in range(sets)
    ]
    kernel = program.kernels[0]
    function = gpu.module(cubin).get_function(kernel.name)
    blocks = problem.blocks_of(kernel)
    arguments = [
        launch_arguments(problem, kernel, {name: t.data_ptr() for name, t in each.items()})
        for each in operands
    ]

    def ours(index: int) -> None:
        with gpu.on_stream():
            launch_kernel(gpu.cupy, function, kernel, blocks, arguments[index])

    def torch_norm(values: dict[str, Any], wide: Any = None) -> Any:
        given = {name: t if wide is None else t.to(wide) for name, t in values.items()}
        x = given["a"].view(problem.m, problem.n)
        if "residual0" in given:
            x = x + given["residual0"].view(problem.m, problem.n)
        step = spec.epilogue[spec.norm or 0]
        weight, bias = (given.get(f"{what}{spec.norm}") for what in ("weight", "bias"))
        if step.kind == "layer_norm":
            return torch.nn.functional.layer_norm(x, (problem.n,), weight, bias, EPS)
        return torch.nn.functional.rms_norm(x, (problem.n,), weight, EPS)

    ours(0)
    torch.cuda.synchronize()
    wanted = torch_norm(operands[0], torch.float64)
    got = operands[0]["d"].view(problem.m, problem.n).to(torch.float64)
    off = ((got - wanted).abs() / (1 + wanted.abs())).max().item()
    if not off <= 4 * TOLERANCE[spec.dtype_d.name]:
        row.error = f"wrong, not timed: off by {off:.3g}"
        return
    del wanted, got
    named = [("", ours)]
    if rival:
        named.append(("torch", lambda index: torch_norm(operands[index])))
    if copies:
        named += gpu.copy_sides(row.bytes // 2, sets)
    taken = interleaved([side for _, side in named], sets, gpu.warm_seconds)
    gpu.warm_seconds = WARM_SECONDS
    times = dict(zip((name for name, _ in named), taken, strict=True))
    row.us = times.pop("").median_us
    if rival:
        row.torch_us = times.pop("torch").median_us
    if times:
        row.copy = min(times, key=lambda name: times[name].median_us)
        row.copy_us = times[row.copy].median_us


def line(row: Row) -> str:
    """A row of the table in markdown."""
    cells = [row.spec.replace("op=epilogue ", ""), row.choice, str(row.registers)]
    cells.append(f"{row.predicted_us:.1f}")
    if row.us is None:
        return f"| {' | '.join(cells)} | {row.error} |"
    cells += [f"{row.us:.2f}", f"{row.bytes / row.us / 1e3:.0f}"]
    cells.append("" if row.copy_us is None else f"{row.copy_us:.2f} ({row.copy})")
    cells.append("" if row.copy_us is None else f"{row.copy_us / row.us:.3f}")
    cells.append("" if row.torch_us is None else f"{row.torch_us:.2f}")
    cells.append("" if row.torch_us is None else f"{row.torch_us / row.us:.2f}")
    return f"| {' | '.join(cells)} |"


HEAD = (
    "| kernel | choice | registers | predicted us | us | GB/s | best copy us | of the copy |"
    " PyTorch us | x PyTorch |\n| --- | --- |" + " --: |" * 8
)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", default=str(DEFAULT))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    specs = [entry.spec for entry in read_all([options.file])]
    if any(spec.multiplies for spec in specs):
        parser.error("every kernel of the file must have op: epilogue")
    if options.dry_run:
        build_cubin(copy_source(), name="copy", arch="sm_90")
    kernels = in_processes(swept if options.sweep else built, specs, cores())
    if not options.dry_run:
        kernels = iter(list(kernels))  # no compiler runs beside the timings
    gpu = None if options.dry_run else Gpu()
    print(HEAD, flush=True)
    rows = []
    for of_spec in kernels:
        for number, made in enumerate(of_spec):
            if gpu is not None:
                time_row(gpu, made, copies=number == 0, rival=number == 0)
            rows.append(made[0])
            print(line(made[0]), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return int(any(row.error for row in rows))


if __name__ == "__main__":
    sys.exit(main())
