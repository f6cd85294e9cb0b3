"""Measures many plans of the bandwidth family on decode shapes, to calibrate its cost model.

    python benchmarks/bandwidth_sweep.py --out FOLDER [--seed 1] [--seconds 170]

For each problem the tree's own choice, those that the model ranks next and a fixed-seed sample of
the others are built (in parallel, before any GPU is touched), checked against float64, and timed
side by side with torch.matmul, with the best plan of each other family, and with a plain read of
the long operand's bytes, which is the floor. The tree's choices are also timed with other hints on
their loads. A plan that fails to build, to launch or to be right is recorded and left out.
``--seconds`` bounds the run: what there is no time for is not measured. The JSON holds every plan
with its prediction, its resources and its microseconds; of each problem one line is printed.

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
from deepgemm_codegen.decide import BandwidthChoice, decide
from deepgemm_codegen.decide.bandwidth.menu import menu_for
from deepgemm_codegen.decide.bandwidth.predict import kernel_clocks, tile_cost
from deepgemm_codegen.decide.bandwidth.search import resident_blocks, search
from deepgemm_codegen.decide.bandwidth.task import task_of
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.harness.bench_ceilings import READ, READ_BYTES, READ_THREADS, READ_VECTORS
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

GPU = "H200"

FIELDS = tuple(BandwidthChoice.__slots__)

RIVALS = {"mma_sync": "sm_90", "wgmma": "sm_90a"}
"""The other families, and the target of each."""

RIGHT = 0.02
"""Largest error of a right result, relative to the largest element."""

NEAR = 1.25
"""A sampled choice is predicted within this of the best."""


class Problem(NamedTuple):
    """A product to measure, and how many choices of it."""

    m: int
    n: int
    k: int
    layout: str
    dtype: str
    choices: int

    def spec(self, arch: str = "sm_90", family: str = "bandwidth") -> GemmSpec:
        """The problem on the measured GPU."""
        fields = {name: getattr(self, name) for name in ("m", "n", "k", "layout", "dtype")}
        fields |= {"arch": arch, "gpu": GPU, "family": family}
        if family in RIVALS:
            fields["split_k"] = 1  # one kernel
        return GemmSpec.from_fields(fields)

    @property
    def long_bytes(self) -> int:
        """Bytes of the operand that is read once."""
        return 2 * max(self.m, self.n) * self.k


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
    *(Problem(1, n, k, "nt", "bf16", 16) for n, k in WEIGHTS),
    *(Problem(16, n, k, "nt", "bf16", 28) for n, k in WEIGHTS),
    *(Problem(1, n, k, "nn", "bf16", 28) for n, k in WEIGHTS),
    *(Problem(16, n, k, "nn", "bf16", 16) for n, k in WEIGHTS),
    *(Problem(8, n, k, "nt", "bf16", 14) for n, k in WEIGHTS),
    *(Problem(4, n, k, "nt", "fp16", 6) for n, k in WEIGHTS),
    *(Problem(2, n, k, "nt", "bf16", 4) for n, k in WEIGHTS),
    Problem(1, 50257, 768, "nt", "bf16", 8),
    Problem(1, 50257, 768, "nn", "bf16", 8),
    Problem(16, 1000, 2048, "nt", "bf16", 8),
    Problem(8192, 8, 8192, "nt", "bf16", 10),
    Problem(8192, 8, 8192, "nn", "bf16", 10),
    Problem(4, 4096, 4096, "tt", "bf16", 8),
    Problem(1, 2048, 2048, "nt", "bf16", 8),
    Problem(1, 1, 1, "nt", "bf16", 1),
)

SUMS = "    float acc[FRAGMENTS][4] = {};\n"
PREFETCH = """    for (int row = thread; row < TILE_N; row += THREADS)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                     : : "l"(b + min(n0 + row, N - 1) * LDB), "r"(PART) : "memory");

"""
"""Brings a block's rows of B to the L2 as soon as it begins."""

STREAM, LOAD = "ld.global.nc.L1::no_allocate.L2::128B", "ld.global.nc.L2::128B"
HINTS: dict[str, tuple[tuple[str, str], ...]] = {
    "64 bytes": ((STREAM, "ld.global.nc.L1::no_allocate.L2::64B"),),
    "evict first": ((STREAM, "ld.global.nc.L1::evict_first.L2::128B"),),
    "short stays": ((LOAD, "ld.global.nc.L1::evict_last.L2::128B"),),
    "short alone": ((LOAD, "ld.global.nc"),),
    "prefetch all": ((SUMS, PREFETCH.replace("PART", "K * 2") + SUMS),),
    "prefetch 4 KB": ((SUMS, PREFETCH.replace("PART", "min(K * 2, 4096)") + SUMS),),
}
"""Other hints: what is replaced by what, of the text that the tree's choice has."""

PREFETCHES = ("prefetch all", "prefetch 4 KB")
"""Those that are measured with several choices, where B has rows along k."""


class Job(NamedTuple):
    """One plan to build: a choice of the family, perhaps with other hints, or a rival's best."""

    problem: Problem
    family: str
    choice: BandwidthChoice | None
    predicted_us: float
    hint: str = ""

    @property
    def plan(self) -> Any:
        """The kernel's plan."""
        arch = RIVALS.get(self.family, "sm_90")
        spec = self.problem.spec(arch, self.family)
        facts = load_arch(arch, GPU)
        program = decide(spec, facts) if self.choice is None else self.choice.program(spec, facts)
        return program.product


def jobs_of(problem: Problem, seed: int) -> list[Job]:
    """The tree's choice, half of the rest as the model ranks it, half drawn; then the others."""
    spec = problem.spec()
    setting = setting_of(spec, load_arch(spec.arch, spec.gpu))
    clock = setting.machine.clock_mhz
    task = task_of(setting)
    assert task is not None
    menu = menu_for(task, {})
    found = search(task, menu)
    assert found is not None
    ranked = []
    for (fragments, warps_long), warps_k, stages in itertools.product(
        menu.tile, menu.warps_k, menu.stages
    ):
        numbers = fragments, warps_long, warps_k, stages
        if warps_long * warps_k > 16:
            continue
        blocks = resident_blocks(task, menu, *numbers)
        tile = tile_cost(task, fragments, warps_long)
        slices = max(task.slices(warps_k), 1)
        for count in {blocks, (blocks + 1) // 2} - {0}:
            clocks = kernel_clocks(task, tile, warps_k, min(stages, slices), slices, count)
            ranked.append((clocks / clock, BandwidthChoice(*numbers, count)))
    ranked.sort(key=lambda pair: pair[0])
    first = ranked[: problem.choices // 2]
    rest = [pair for pair in ranked[len(first) :] if pair[0] <= NEAR * ranked[0][0]]
    random.Random(f"{seed} {problem}").shuffle(rest)
    chosen = [(found.clocks / clock, found.choice), *first, *rest]
    distinct = list({choice: us for us, choice in chosen}.items())[: problem.choices]
    jobs = [Job(problem, "bandwidth", choice, us) for choice, us in distinct]
    for family, arch in RIVALS.items():
        jobs.append(Job(problem, family, None, rival_us(problem.spec(arch, family))))
    if problem.choices > 12:
        jobs.extend(jobs[0]._replace(hint=hint) for hint in HINTS if hint not in PREFETCHES)
    if problem.layout == "nt" and problem.n > problem.m:
        own = jobs[: min(4, len(distinct))]
        jobs.extend(job._replace(hint=hint) for job in own for hint in PREFETCHES)
    return jobs


def rival_us(spec: GemmSpec) -> float:
    """What another family's best is predicted to take; 0 where it does not serve."""
    from deepgemm_codegen.decide.families import consider

    try:
        winner = consider(setting_of(spec, load_arch(spec.arch, spec.gpu))).winner
    except CodegenError:
        return 0.0
    return 0.0 if winner is None else winner.prediction().us


def build(job: Job) -> tuple[bytes, dict[str, Any]]:
    """The cubin of one plan and its facts; no bytes where it does not build."""
    facts: dict[str, Any] = {"family": job.family, "hint": job.hint}
    facts["predicted_us"] = round(job.predicted_us, 3)
    if job.choice is not None:
        facts |= {name: getattr(job.choice, name) for name in FIELDS}
    try:
        plan = job.plan
        source = render_kernel(plan)
        for old, new in HINTS.get(job.hint, ()):
            if old not in source:
                return b"", {**facts, "failed": f"nothing to replace by {new}"}
            source = source.replace(old, new)
        built = build_cubin(source, name=plan.name, arch=plan.target, cached=False)
    except CodegenError as error:
        return b"", {**facts, "failed": f"build: {error}"[:500]}
    usage = built.resources[plan.name]
    facts |= {"registers": usage.registers, "spills": usage.spill_store_bytes}
    facts |= {"shared": plan.body.shared_bytes, "threads": plan.body.threads}
    facts |= {"tiles": plan.tiles.evaluate({})}
    return built.cubin, facts


def measure(
    problem: Problem,
    built: list[tuple[Job, bytes, dict[str, Any]]],
    readers: list[Any],
    seconds: float,
) -> dict[str, Any]:
    """Times every cubin of a problem beside torch.matmul, as many as there is time for."""
    import torch
    from gpu_timing import interleaved, sets_for
    from wgmma_sweep import MOST_SETS, launcher

    m, n, k = problem.m, problem.n, problem.k
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem.dtype]
    sets = min(sets_for(2 * (m * k + n * k + m * n)), MOST_SETS)

    def operand(rows: int, columns: int, letter: str) -> tuple[list[Any], list[Any]]:
        """(as stored, as multiplied) of every set."""
        shape = (rows, columns) if letter == "n" else (columns, rows)
        stored = [torch.randn(*shape, device="cuda", dtype=kind) for _ in range(sets)]
        return stored, stored if letter == "n" else [x.t() for x in stored]

    # All tensors live until the last replay: a graph's capture empties torch's cache.
    stored_a, a = operand(m, k, problem.layout[0])
    stored_b, b = operand(k, n, problem.layout[1])
    d = [torch.empty(m, n, device="cuda", dtype=kind) for _ in range(sets)]
    rows = torch.randint(0, m, (min(m, 64),), device="cuda")
    columns = torch.randint(0, n, (min(n, 512),), device="cuda")
    expected = a[0][rows].double() @ b[0][:, columns].double()

    def cublas(i: int) -> None:
        torch.matmul(a[i], b[i], out=d[i])

    long = stored_b if n >= m else stored_a
    sides: list[Any] = [cublas, *(reader(long) for reader in readers)]
    timed: list[dict[str, Any]] = []
    each = (problem.long_bytes / 4e12 + 6e-6) * max(20, sets)
    end = time.perf_counter() + seconds
    for job, cubin, facts in built:
        if "failed" in facts:
            continue
        if timed and time.perf_counter() > end - (len(sides) + 1) * (0.03 + 9 * each):
            facts["failed"] = "no time"
            continue
        try:
            launch = launcher(job.plan, cubin, stored_a, stored_b, d)
            d[0].fill_(float("nan"))
            launch(0)
            torch.cuda.synchronize()
            difference = (d[0][rows][:, columns].double() - expected).abs().max()
            facts["error"] = (difference / expected.abs().max()).item()
            if not facts["error"] <= RIGHT:  # NaN fails too
                facts["failed"] = "wrong result"
                continue
        except Exception as error:  # noqa: BLE001  whatever the driver says, the sweep goes on
            facts["failed"] = f"launch: {error}"[:500]
            continue
        sides.append(launch)
        timed.append(facts)
    timings = interleaved(sides, sets, warm_seconds=0.01)
    first = 1 + len(readers)
    for facts, timing in zip(timed, timings[first:], strict=True):
        facts["us"] = round(timing.median_us, 3)
    return {
        **problem._asdict(),
        "cublas_us": round(timings[0].median_us, 3),
        "floor_us": round(min(timing.median_us for timing in timings[1:first]), 3),
        "plans": [facts for _, _, facts in built],
    }


def readers_of(cubin: bytes) -> list[Any]:
    """Plain reads: functions that take tensors and give a launcher over them."""
    import cupy
    import torch
    from mma_sync_rung import load

    sink = torch.zeros(1, dtype=torch.int32, device="cuda")

    def reader(vectors: int, threads: int) -> Any:
        function = load(cubin, f"read_{vectors}", 0)

        def over(tensors: list[Any]) -> Any:
            count = tensors[0].numel() * tensors[0].element_size() // 16
            grid = (max(-(-count // (vectors * threads)), 1),)

            def launch(i: int) -> None:
                arguments = (tensors[i].data_ptr(), sink.data_ptr(), cupy.int64(count))
                with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                    function(grid, (threads,), arguments)

            return launch

        return over

    return [reader(*pair) for pair in itertools.product(READ_VECTORS, READ_THREADS[:2])]


def read_ceiling(readers: list[Any]) -> float:
    """GB/s of plain 16-byte loads over 2 GiB, the best of a few shapes of block."""
    import torch

    data = [torch.ones(READ_BYTES // 4, dtype=torch.int32, device="cuda")]
    best = 0.0
    for reader in readers:
        launch = reader(data)
        for _ in range(6):
            begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            launch(0)
            done.record()
            torch.cuda.synchronize()
            best = max(best, READ_BYTES / begin.elapsed_time(done) / 1e6)
    return best


def line_of(result: dict[str, Any], ceiling: float) -> str:
    """What is printed of a problem."""
    problem = Problem(*(result[name] for name in Problem._fields))
    plans = [plan for plan in result["plans"] if "us" in plan]
    text = f"{problem.layout} {problem.dtype} {problem.m}x{problem.n}x{problem.k}"
    text = f"{text:26} cuBLAS {result['cublas_us']:7.2f}, floor {result['floor_us']:7.2f}"
    tree = result["plans"][0]
    if "us" in tree:
        share = problem.long_bytes / tree["us"] / 1e3 / ceiling
        text += f", tree {tree['us']:7.2f} (predicted {tree['predicted_us']:.2f})"
        text += f" {[tree[name] for name in FIELDS]} = {result['cublas_us'] / tree['us']:.3f}"
        text += f" x cuBLAS, {share:.3f} of the ceiling"
    own = [plan for plan in plans if plan["family"] == "bandwidth"]
    if own:
        best = min(own, key=lambda plan: plan["us"])
        text += f"; best of {len(own)} {best['us']:7.2f} {[best[name] for name in FIELDS]}"
        text += f" {best['hint']}"
    for plan in plans:
        if plan["family"] in RIVALS:
            text += f"; {plan['family']} {plan['us']:.2f} (predicted {plan['predicted_us']:.2f})"
    failed = [plan for plan in result["plans"] if plan.get("failed", "no time") != "no time"]
    if failed:
        text += f"; {len(failed)} failed, first: {failed[0]['failed'][:60]!r}"
    return text


def main() -> None:
    """Builds in parallel, measures in turn, writes one JSON."""
    begin = time.perf_counter()
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=170.0, help="the run ends before that")
    parser.add_argument("--build-only", action="store_true", help="no GPU: build and report")
    parser.add_argument("--problems", type=int, default=len(PROBLEMS), help="the first so many")
    options = parser.parse_args()
    problems = PROBLEMS[: options.problems]
    with ProcessPoolExecutor() as pool:
        lists = pool.map(jobs_of, problems, itertools.repeat(options.seed))
        jobs = [job for jobs in lists for job in jobs]
        built = list(pool.map(build, jobs, chunksize=2))
    print(f"{len(jobs)} kernels built in {time.perf_counter() - begin:.0f} s", flush=True)
    if options.build_only:
        for job, (cubin, facts) in zip(jobs, built, strict=True):
            print(job.problem, len(cubin), facts)
        return
    import torch

    readers = readers_of(build_cubin(READ, name="read.cu", arch="sm_90").cubin)
    ceiling = read_ceiling(readers)
    print(f"read ceiling {ceiling:.0f} GB/s", flush=True)
    results = []
    for place, problem in enumerate(problems):
        mine = [(job, *pair) for job, pair in zip(jobs, built, strict=True) if job[0] == problem]
        left = options.seconds - (time.perf_counter() - begin)
        result = measure(problem, mine, readers, left / (len(problems) - place))
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
