"""Measures many plans of the bandwidth family on decode shapes, to calibrate its cost model.

    python benchmarks/bandwidth_sweep.py --out FOLDER [--seed 1] [--seconds 190]

For each problem a few fixed choices and a fixed-seed sample of the others are built (in parallel,
before any GPU is touched), checked against float64, and timed side by side with torch.matmul;
so are the fixed choices with other hints on their streaming loads. The same run measures the read
ceiling. A choice that fails to build, to launch or to be right is recorded and left out.
``--seconds`` bounds the run: what there is no time for is not measured. The JSON holds every plan
with its resources and its microseconds; of each problem one line is printed.

Imports of torch and cupy stand in the functions that run after the builds, so that
``--build-only`` needs no GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

GPU = "H200"

FIELDS = tuple(BandwidthChoice.__slots__)

RIGHT = 0.02
"""Largest error of a right result, relative to the largest element."""


class Problem(NamedTuple):
    """A product to measure, and how many sampled choices of it."""

    m: int
    n: int
    k: int
    layout: str
    dtype: str
    sampled: int

    @property
    def spec(self) -> GemmSpec:
        """The problem on the measured GPU."""
        fields = {name: getattr(self, name) for name in ("m", "n", "k", "layout", "dtype")}
        return GemmSpec.from_fields({**fields, "arch": "sm_90", "gpu": GPU})

    @property
    def long_bytes(self) -> int:
        """Bytes of the operand that is read once."""
        return 2 * self.n * self.k


WEIGHTS = (
    (4096, 4096),
    (6144, 4096),
    (1024, 4096),
    (14336, 4096),
    (4096, 14336),
    (28672, 4096),
    (128256, 4096),
)
"""n and k of Llama 3 8B's projections; k and v share the third."""

PROBLEMS = (
    *(Problem(1, n, k, "nt", "bf16", 44) for n, k in WEIGHTS),
    *(Problem(16, n, k, "nt", "bf16", 30) for n, k in WEIGHTS),
    *(Problem(8, n, k, "nt", "fp16", 10) for n, k in WEIGHTS),
    *(Problem(1, n, k, "nn", "bf16", 20) for n, k in WEIGHTS[:5]),
    *(Problem(16, n, k, "nn", "bf16", 12) for n, k in WEIGHTS[:5]),
    Problem(1, 50257, 768, "nt", "bf16", 10),
    Problem(16, 1000, 2048, "nt", "bf16", 10),
    Problem(1, 1, 1, "nt", "bf16", 1),
)

FIXED = {
    "nt": (
        BandwidthChoice(2, 1, 8, 4, 2),
        BandwidthChoice(1, 1, 8, 4, 2),
        BandwidthChoice(2, 1, 4, 3, 4),
    ),
    "nn": (BandwidthChoice(8, 1, 8, 3, 2), BandwidthChoice(8, 1, 16, 2, 1)),
}
"""Choices measured for every problem of a layout; the first also with other hints."""

HINT = "ld.global.nc.L1::no_allocate.L2::128B.v4.u32"
HINTS = {
    "no prefetch": "ld.global.nc.L1::no_allocate.v4.u32",
    "256 bytes": "ld.global.nc.L1::no_allocate.L2::256B.v4.u32",
    "allocate": "ld.global.nc.v4.u32",
    "evict first": "ld.global.nc.L1::evict_first.L2::128B.v4.u32",
}
"""Other ways to load what is read once."""

REGISTERS = 65536
MOST_WARPS = 64
"""Of a multiprocessor."""


def registers(choice: BandwidthChoice, layout: str, m: int) -> int:
    """About what a thread needs: slots, sums, addresses and what is under way between them."""
    rows = 1 if m <= 8 else 2
    if layout == "nt":
        return choice.stages * 8 * (choice.fragments + rows) + 4 * choice.fragments + 22
    return choice.stages * 2 * (choice.fragments + rows) + 4 * choice.fragments + 50


def resident(choice: BandwidthChoice, layout: str, m: int) -> int:
    """Blocks whose registers and threads fit a multiprocessor."""
    warps = choice.warps_long * choice.warps_k
    cap = max(registers(choice, layout, m), 32)
    return min(REGISTERS // 32 // (-(-cap // 8) * 8) // warps, MOST_WARPS // warps, 16)


def candidates(problem: Problem) -> list[BandwidthChoice]:
    """Every choice that has whole slices and fits the registers, with full and half occupancy."""
    fragments, warp_k = ((1, 2, 4), 64) if problem.layout == "nt" else ((4, 8), 16)
    found = []
    for numbers in itertools.product(fragments, (1, 2, 4), (1, 2, 4, 8, 16), (1, 2, 3, 4, 6)):
        choice = BandwidthChoice(*numbers, 1)
        warps = choice.warps_long * choice.warps_k
        if not 2 <= warps <= 16 or choice.warps_k * warp_k > problem.k:
            continue
        if problem.layout == "nn" and choice.fragments == 4:
            continue  # vectors of eight columns make groups of eight fragments
        blocks = resident(choice, problem.layout, problem.m)
        found.extend(BandwidthChoice(*numbers, count) for count in {blocks, blocks // 2} if count)
    return found


def choices(problem: Problem, seed: int) -> list[BandwidthChoice]:
    """The fixed choices and a sample of the others."""
    fixed = [choice for choice in FIXED[problem.layout] if registers_fit(choice, problem)]
    rest = [choice for choice in candidates(problem) if choice not in fixed]
    random.Random(f"{seed} {problem}").shuffle(rest)
    return [*fixed, *rest[: problem.sampled]]


def registers_fit(choice: BandwidthChoice, problem: Problem) -> bool:
    """Whether the blocks that a choice plans for fit."""
    return resident(choice, problem.layout, problem.m) >= choice.min_blocks


Job = tuple[Problem, BandwidthChoice, str]
"""A problem, a choice, and a key of `HINTS` or nothing."""


def plan_of(problem: Problem, choice: BandwidthChoice) -> Any:
    """The plan of one choice."""
    spec = problem.spec
    return choice.program(spec, load_arch(spec.arch, spec.gpu)).kernels[0]


def build(job: Job) -> tuple[bytes, dict[str, Any]]:
    """The cubin of one choice and its facts; no bytes where it does not build."""
    problem, choice, hint = job
    facts: dict[str, Any] = {name: getattr(choice, name) for name in FIELDS}
    facts["hint"] = hint
    try:
        plan = plan_of(problem, choice)
        source = render_kernel(plan)
        if hint and HINT not in source:
            return b"", {**facts, "failed": "no streaming load"}
        source = source.replace(HINT, HINTS.get(hint, HINT))
        built = build_cubin(source, name=plan.name, arch="sm_90", cached=False)
    except CodegenError as error:
        return b"", {**facts, "failed": f"build: {error}"[:500]}
    usage = built.resources[plan.name]
    facts |= {"registers": usage.registers, "spills": usage.spill_store_bytes}
    facts |= {"shared": plan.body.shared_bytes, "blocks": plan.blocks.evaluate({})}
    return built.cubin, facts


def measure(
    problem: Problem, built: list[tuple[bytes, dict[str, Any]]], seconds: float
) -> dict[str, Any]:
    """Times every cubin of a problem beside torch.matmul, as many as there is time for."""
    import torch
    from gpu_timing import interleaved, sets_for
    from wgmma_sweep import MOST_SETS, launcher

    m, n, k = problem.m, problem.n, problem.k
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem.dtype]
    sets = min(sets_for(2 * (m * k + n * k + m * n)), MOST_SETS)
    # All tensors live until the last replay: a graph's capture empties torch's cache.
    shape = (n, k) if problem.layout == "nt" else (k, n)
    a = [torch.randn(m, k, device="cuda", dtype=kind) for _ in range(sets)]
    stored = [torch.randn(*shape, device="cuda", dtype=kind) for _ in range(sets)]
    b = [x.t() if problem.layout == "nt" else x for x in stored]
    d = [torch.empty(m, n, device="cuda", dtype=kind) for _ in range(sets)]
    columns = torch.randint(0, n, (min(n, 512),), device="cuda")
    expected = a[0].double() @ b[0][:, columns].double()

    def cublas(i: int) -> None:
        torch.matmul(a[i], b[i], out=d[i])

    sides: list[Any] = [cublas]
    timed: list[dict[str, Any]] = []
    each = (problem.long_bytes / 4e12 + 6e-6) * max(20, sets)
    end = time.perf_counter() + seconds
    for cubin, facts in built:
        if "failed" in facts:
            continue
        if timed and time.perf_counter() > end - (len(sides) + 1) * (0.03 + 9 * each):
            facts["failed"] = "no time"
            continue
        try:
            choice = BandwidthChoice(*(facts[name] for name in FIELDS))
            launch = launcher(plan_of(problem, choice), cubin, a, stored, d)
            d[0].fill_(float("nan"))
            launch(0)
            torch.cuda.synchronize()
            error = (d[0][:, columns].double() - expected).abs().max() / expected.abs().max()
            facts["error"] = error.item()
            if not facts["error"] <= RIGHT:  # NaN fails too
                facts["failed"] = "wrong result"
                continue
        except Exception as error:  # noqa: BLE001  whatever the driver says, the sweep goes on
            facts["failed"] = f"launch: {error}"[:500]
            continue
        sides.append(launch)
        timed.append(facts)
    timings = interleaved(sides, sets, warm_seconds=0.01)
    for facts, timing in zip(timed, timings[1:], strict=True):
        facts["us"] = round(timing.median_us, 3)
    return {
        **problem._asdict(),
        "cublas_us": round(timings[0].median_us, 3),
        "plans": [facts for _, facts in built],
    }


def read_ceiling() -> float:
    """GB/s of plain 16-byte loads over 2 GiB, the best of a few shapes of block."""
    import cupy
    import torch
    from mma_sync_rung import load

    from deepgemm_codegen.harness.bench_ceilings import (
        READ,
        READ_BYTES,
        READ_THREADS,
        READ_VECTORS,
    )

    data = torch.ones(READ_BYTES // 4, dtype=torch.int32, device="cuda")
    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    cubin = build_cubin(READ, name="read.cu", arch="sm_90").cubin
    count = READ_BYTES // 16
    best = 0.0
    for vectors, threads in itertools.product(READ_VECTORS, READ_THREADS):
        function = load(cubin, f"read_{vectors}", 0)
        grid = (-(-count // (vectors * threads)),)
        for _ in range(6):
            begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                begin.record()
                function(grid, (threads,), (data.data_ptr(), sink.data_ptr(), cupy.int64(count)))
                done.record()
            torch.cuda.synchronize()
            best = max(best, READ_BYTES / begin.elapsed_time(done) / 1e6)
    return best


def line_of(result: dict[str, Any], ceiling: float) -> str:
    """What is printed of a problem."""
    problem = Problem(*(result[name] for name in Problem._fields))
    plans = [plan for plan in result["plans"] if "us" in plan]
    text = f"{problem.layout} {problem.dtype} {problem.m}x{problem.n}x{problem.k}"
    text = f"{text:26} cuBLAS {result['cublas_us']:8.2f} us"
    if plans:
        best = min(plans, key=lambda plan: plan["us"])
        share = problem.long_bytes / best["us"] / 1e3 / ceiling
        text += f"; best of {len(plans)} {best['us']:8.2f} {[best[name] for name in FIELDS]}"
        text += f" {best['hint']}" if best["hint"] else ""
        text += f" = {result['cublas_us'] / best['us']:.3f} x cuBLAS, {share:.3f} of the ceiling"
    failed = [plan for plan in result["plans"] if plan.get("failed", "no time") != "no time"]
    if failed:
        text += f"; {len(failed)} failed, first: {failed[0]['failed'][:80]!r}"
    return text


def main() -> None:
    """Builds in parallel, measures in turn, writes one JSON."""
    begin = time.perf_counter()
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=190.0, help="the run ends before that")
    parser.add_argument("--build-only", action="store_true", help="no GPU: build and report")
    parser.add_argument("--problems", type=int, default=len(PROBLEMS), help="the first so many")
    options = parser.parse_args()
    problems = PROBLEMS[: options.problems]
    jobs: list[Job] = []
    for problem in problems:
        chosen = choices(problem, options.seed)
        jobs.extend((problem, choice, "") for choice in chosen)
        if problem.sampled > 16:
            jobs.extend((problem, chosen[0], hint) for hint in HINTS)
    with ProcessPoolExecutor() as pool:
        built = list(pool.map(build, jobs, chunksize=2))
    print(f"{len(jobs)} kernels built in {time.perf_counter() - begin:.0f} s", flush=True)
    if options.build_only:
        for (problem, *_), (cubin, facts) in zip(jobs, built, strict=True):
            print(problem, len(cubin), facts)
        return
    import torch

    ceiling = read_ceiling()
    print(f"read ceiling {ceiling:.0f} GB/s", flush=True)
    results = []
    for place, problem in enumerate(problems):
        mine = [pair for job, pair in zip(jobs, built, strict=True) if job[0] == problem]
        left = options.seconds - (time.perf_counter() - begin)
        result = measure(problem, mine, left / (len(problems) - place))
        torch.cuda.empty_cache()
        results.append(result)
        print(line_of(result, ceiling), flush=True)
    document = {
        "command": " ".join(sys.argv),
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "read_gbs": round(ceiling, 1),
        "problems": results,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bandwidth_sweep.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
