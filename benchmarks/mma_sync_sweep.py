"""Measures many legal plans of the mma.sync family, to calibrate the cost model against.

    python benchmarks/mma_sync_sweep.py --out FOLDER [--per-shape 60] [--seed 1]

For each shape a fixed-seed sample of the legal choices, and the tree's own choice, are built,
checked on random rows against float64, and timed in turn with cuBLAS's default algorithm, all in
one run. The JSON holds every plan with its registers, spills and microseconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, decide
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.harness.bench_data import Entry
from deepgemm_codegen.harness.bench_gpu import CupyBench, find_bench_gpu
from deepgemm_codegen.harness.bench_stats import Timing, launches_for, sets_for
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import as_program
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

SHAPES = (
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (1024, 1024, 1024),
    (4096, 320, 320),
    (4096, 2560, 320),
    (512, 6144, 4096),
    (64, 28672, 4096),
    (16, 4096, 14336),
    (1, 4096, 4096),
    (8192, 8192, 64),
    (1023, 1023, 1023),
    (256, 1280, 1280),
)

GPU = "H200"


def spec_of(shape: tuple[int, int, int]) -> GemmSpec:
    """The fp16 nt problem of a shape on the measured GPU."""
    m, n, k = shape
    return GemmSpec.from_fields(
        {"m": m, "n": n, "k": k, "layout": "nt", "arch": "sm_90", "gpu": GPU}
    )


def choices(spec: GemmSpec, count: int, seed: int) -> list[MmaSyncChoice]:
    """The tree's choice, then a sample of legal ones."""
    arch = load_arch(spec.arch, spec.gpu)
    chosen = decide(spec, arch).kernels[0]
    body = chosen.body
    found = [
        MmaSyncChoice(
            body.tile_m,
            body.tile_n,
            body.tile_k,
            body.warps_m,
            body.warps_n,
            body.stages,
            body.min_blocks,
            chosen.schedule.raster_group,
        )
    ]
    space = list(
        itertools.product(
            (16, 32, 48, 64, 80, 96, 112, 128, 192, 256),
            (8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256),
            (32, 64, 128),
            ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (2, 4), (4, 2)),
            (2, 3, 4, 5, 6, 8),
            (1, 2, 3, 4, 6),
            (4, 8, 16),
        )
    )
    generator = random.Random(f"{seed} {spec}")
    generator.shuffle(space)
    for tile_m, tile_n, tile_k, (warps_m, warps_n), stages, blocks, group in space:
        if len(found) > count:
            break
        choice = MmaSyncChoice(tile_m, tile_n, tile_k, warps_m, warps_n, stages, blocks, group)
        if _legal(spec, choice, arch.shared_per_block, arch.shared_per_sm):
            found.append(choice)
    return found


def _legal(spec: GemmSpec, c: MmaSyncChoice, per_block: int, per_sm: int) -> bool:
    if c.tile_m % (16 * c.warps_m) or c.tile_n % (8 * c.warps_n):
        return False
    if c.tile_m >= 2 * max(16, spec.m.size) or c.tile_n >= 2 * max(8, spec.n.size):
        return False
    warps = c.warps_m * c.warps_n
    accumulators = c.tile_m * c.tile_n // (32 * warps)
    if accumulators > 128 or accumulators < 4:
        return False
    if 32 * warps * c.min_blocks * min(255, accumulators + 90) > 65536:
        return False
    try:
        body = c.program(spec, load_arch(spec.arch, spec.gpu)).kernels[0].body
    except CodegenError:
        return False
    if body.operands_in_registers and c.stages != 2:
        return False
    resident = c.min_blocks * (body.shared_bytes + 1024)
    return body.shared_bytes <= per_block and resident <= per_sm


def build(job: tuple[tuple[int, int, int], MmaSyncChoice]) -> tuple[Entry, dict[str, Any]]:
    """One choice's kernel and its facts."""
    shape, choice = job
    spec = spec_of(shape)
    plan = choice.program(spec, load_arch(spec.arch, spec.gpu)).kernels[0]
    built = build_cubin(render_kernel(plan), name=plan.name, arch="sm_90", cached=False)
    usage = built.resources[plan.name]
    facts = {field: getattr(choice, field) for field in MmaSyncChoice.__slots__}
    facts |= {"registers": usage.registers, "spills": usage.spill_store_bytes}
    facts |= {"shared": plan.body.shared_bytes, "swizzle": plan.body.a.swizzle_bytes}
    return Entry(as_program(plan), built.cubin, built.arch), facts


def measure(
    device: CupyBench, shape: tuple[int, int, int], built: list[tuple[Entry, dict[str, Any]]]
) -> dict[str, Any]:
    """Times every right kernel of a shape, cuBLAS first; a wrong one has its fault instead."""
    problem = bind(built[0][0].plan)
    sets = sets_for(sum(m.elements * m.dtype.bytes for m in problem.matrices), device.free_bytes)
    loaded = device.load(built[0][0], problem, sets, "cublas")
    rival = loaded.cublas()
    if rival.side is None:
        raise SystemExit(f"cuBLAS: {rival.note}")
    sides, timed = [rival.side], []
    for entry, facts in built:
        side = loaded.side(entry)
        facts["fault"] = loaded.fault_of(side)
        if not facts["fault"]:
            sides.append(side)
            timed.append(facts)
    cublas, *rest = loaded.time(sides, launches_for(sets, 2.0), warm_seconds=0.02)
    for facts, samples in zip(timed, rest, strict=True):
        facts["us"] = round(Timing.of(samples).median_us, 3)
    return {
        "shape": shape,
        "cublas_us": round(Timing.of(cublas).median_us, 3),
        "plans": [facts for _, facts in built],
    }


def main() -> None:
    """Builds in parallel, measures in turn, writes one JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--per-shape", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    jobs = [
        (shape, choice)
        for shape in SHAPES
        for choice in choices(spec_of(shape), options.per_shape, options.seed)
    ]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        built = list(pool.map(build, jobs, chunksize=4))
    device = find_bench_gpu(options.seed)
    results = []
    for shape in SHAPES:
        mine = [pair for job, pair in zip(jobs, built, strict=True) if job[0] == shape]
        result = measure(device, shape, mine)
        results.append(result)
        plans = result["plans"]
        best = min((facts for facts in plans if "us" in facts), key=lambda facts: facts["us"])
        wrong = sum(bool(facts["fault"]) for facts in plans)
        print(
            f"{shape!s:22} cuBLAS {result['cublas_us']:8.1f} us, tree {plans[0].get('us', 0):8.1f},"
            f" best of {len(plans)} {best['us']:8.1f}"
            f" {[best[f] for f in MmaSyncChoice.__slots__]}, tree {list(plans[0].values())[:8]},"
            f" {wrong} wrong",
            flush=True,
        )
    document = {
        "command": " ".join(sys.argv),
        "gpu": device.machine.gpu,
        "software": dict(device.machine.software),
        "shapes": results,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "mma_sync_sweep.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
