"""Measures many legal plans of the wgmma family, to calibrate the cost model against.

    python benchmarks/wgmma_sweep.py --out FOLDER [--per-shape 24] [--seed 1] [--dtype bf16]

For each shape the tree's own choice, the choices that the model ranks next and a fixed-seed sample
of the others are built (in parallel, before any GPU is touched), checked on random rows against
float64, and timed side by side with torch.matmul. A choice that fails to build, to launch or to be
right is recorded and left out. ``--seconds`` bounds the run: what there is no time for is not
measured, the tree's choice of each shape first. The JSON holds every plan with its prediction,
its resources and its microseconds; of each shape one line is printed.

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
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import WgmmaChoice
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.wgmma.constraints import violations
from deepgemm_codegen.decide.wgmma.menu import menu_for
from deepgemm_codegen.decide.wgmma.predict import predict
from deepgemm_codegen.decide.wgmma.search import search
from deepgemm_codegen.decide.wgmma.task import task_of
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

Shape = tuple[int, int, int]

SHAPES: tuple[Shape, ...] = (
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 320, 1280),
    (1024, 640, 640),
    (1024, 5120, 640),
    (512, 6144, 4096),
    (2048, 28672, 4096),
    (2048, 4096, 14336),
    (6144, 2304, 768),
    (6144, 3072, 768),
    (6144, 768, 3072),
    (784, 512, 2048),
    (1024, 3072, 768),
    (4096, 2112, 7168),
    (4096, 24576, 1536),
    (4096, 32768, 512),
    (4096, 4096, 7168),
    (4096, 7168, 2048),
    (4096, 320, 320),
    (8192, 960, 320),
    (4096, 2560, 320),
    (50176, 64, 256),
    (50176, 256, 64),
    (12544, 512, 128),
    (3136, 1024, 256),
    (4096, 4096, 320),
)
"""bf16 and fp16 products of real models, m of 512 and more, all aligned."""

GPU = "H200"

FIELDS = tuple(WgmmaChoice.__slots__)

RIGHT = 0.02
"""Largest error of a right result, relative to the largest element."""

MOST_SETS = 64
"""Input sets at most: small operands do not fill the L2 several times over then."""


def spec_of(shape: Shape, dtype: str) -> GemmSpec:
    """The nt problem of a shape on the measured GPU."""
    m, n, k = shape
    return GemmSpec.from_fields(
        {"m": m, "n": n, "k": k, "dtype": dtype, "layout": "nt", "arch": "sm_90a", "gpu": GPU}
    )


def choices(spec: GemmSpec, count: int, seed: int) -> tuple[list[tuple[WgmmaChoice, float]], int]:
    """(choice, predicted microseconds): the tree's, a third ranked next, a sample of the rest.

    One ring depth a tile, the deepest; of the rest only what is predicted within twice the best.

    Returns:
        the choices; how many are legal in all, each tile and cluster counted once.
    """
    arch = load_arch(spec.arch, spec.gpu)
    task = task_of(spec, problem_of(spec, arch), machine_of(arch, spec.dtype_a.name))
    menu = menu_for(task.problem, {})
    found = search(task, menu)
    assert found is not None
    ranked = []
    for tile_m, tile_n, consumers, at_once, cluster_m, cluster_n in itertools.product(
        menu.tile_m,
        menu.tile_n,
        menu.consumers,
        menu.tiles_at_once,
        menu.cluster_m,
        menu.cluster_n,
    ):
        for stages in reversed(menu.stages):
            choice = WgmmaChoice(
                tile_m, tile_n, consumers, at_once, stages, cluster_m, cluster_n, 8
            )
            if not any(violations(task, choice)):
                ranked.append((predict(task, choice).us, choice))
                break
    ranked.sort(key=lambda pair: pair[0])
    clock = arch.gpu.clock_mhz
    chosen = [(found.choice, found.clocks / clock)]
    seen = {_shape_of(found.choice)}
    generator = random.Random(f"{seed} {spec}")
    rest = [pair for pair in ranked[count // 3 :] if pair[0] <= 2 * ranked[0][0]]
    generator.shuffle(rest)
    for us, choice in [*ranked[: count // 3], *rest]:
        if len(chosen) > count:
            break
        if _shape_of(choice) not in seen:
            seen.add(_shape_of(choice))
            group = generator.choice((4, 8, 16, 32))
            chosen.append((replace(choice, raster_group=group), us))
    return chosen, len(ranked)


def _shape_of(choice: WgmmaChoice) -> tuple[int, ...]:
    """A choice without its stages and raster."""
    cluster = choice.cluster_m, choice.cluster_n
    return choice.tile_m, choice.tile_n, choice.consumers, choice.tiles_at_once, *cluster


Job = tuple[Shape, str, WgmmaChoice, float]


def build(job: Job) -> tuple[bytes, dict[str, Any]]:
    """The cubin of one choice and its facts; no bytes where it does not build."""
    shape, dtype, choice, predicted = job
    facts: dict[str, Any] = {name: getattr(choice, name) for name in FIELDS}
    facts["predicted_us"] = round(predicted, 3)
    try:
        plan = plan_of(shape, dtype, choice)
        built = build_cubin(render_kernel(plan), name=plan.name, arch="sm_90a", cached=False)
    except CodegenError as error:
        return b"", {**facts, "failed": f"build: {error}"[:500]}
    usage = built.resources[plan.name]
    facts |= {"registers": usage.registers, "spills": usage.spill_store_bytes}
    facts |= {"shared": plan.body.shared_bytes, "store": plan.body.store}
    return built.cubin, facts


def plan_of(shape: Shape, dtype: str, choice: WgmmaChoice) -> Any:
    """The plan of one choice."""
    spec = spec_of(shape, dtype)
    return choice.program(spec, load_arch(spec.arch, spec.gpu)).kernels[0]


def arguments_of(plan: Any, pointers: dict[str, int]) -> tuple[Any, ...]:
    """The kernel's arguments for one input set; alpha is 1."""
    import numpy as np

    from deepgemm_codegen.harness.tensor_map import encode_tensor_map

    maps = {description.name: description for description in plan.tensor_maps}
    found: list[Any] = []
    for parameter in plan.kernel_parameters:
        if parameter.role == "map":
            description = maps[parameter.name]
            found.append(encode_tensor_map(description, pointers[description.pointer], {}))
        elif parameter.pointer:
            found.append(np.uint64(pointers[parameter.name]))
        else:
            assert parameter.role == "alpha", parameter
            found.append(np.float32(1.0))
    return tuple(found)


def measure(
    shape: Shape, dtype: str, built: list[tuple[bytes, dict[str, Any]]], seconds: float
) -> dict[str, Any]:
    """Times every cubin of a shape beside torch.matmul, as many as there is time for."""
    import torch
    from gpu_timing import interleaved, sets_for

    m, n, k = shape
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    sets = min(sets_for(2 * (m * k + n * k + m * n)), MOST_SETS)
    # All tensors live until the last replay: a graph's capture empties torch's cache.
    a = [torch.randn(m, k, device="cuda").to(kind) for _ in range(sets)]
    b = [torch.randn(n, k, device="cuda").to(kind) for _ in range(sets)]
    d = [torch.empty(m, n, device="cuda", dtype=kind) for _ in range(sets)]
    rows = torch.randint(0, m, (32,), device="cuda")
    expected = a[0][rows].double() @ b[0].t().double()

    def cublas(i: int) -> None:
        torch.matmul(a[i], b[i].t(), out=d[i])

    sides: list[Any] = [cublas]
    timed: list[dict[str, Any]] = []
    end = time.perf_counter() + seconds
    for cubin, facts in built:
        if "failed" in facts:
            continue
        if timed and time.perf_counter() > end - _replay_seconds(facts, sets, len(sides)):
            facts["failed"] = "no time"
            continue
        try:
            plan = plan_of(shape, dtype, WgmmaChoice(*(facts[name] for name in FIELDS)))
            launch = launcher(plan, cubin, a, b, d)
            d[0].fill_(float("nan"))
            launch(0)
            torch.cuda.synchronize()
            got = d[0][rows].double()
            error = ((got - expected).abs().max() / expected.abs().max()).item()
            facts["error"] = error
            if not error <= RIGHT:  # NaN fails too
                facts["failed"] = "wrong result"
                continue
        except Exception as error:  # noqa: BLE001  whatever the driver says, the sweep goes on
            facts["failed"] = f"launch: {error}"[:500]
            continue
        sides.append(launch)
        timed.append(facts)
    timings = interleaved(sides, sets, warm_seconds=0.02)
    for facts, timing in zip(timed, timings[1:], strict=True):
        facts["us"] = round(timing.median_us, 3)
    return {
        "shape": shape,
        "cublas_us": round(timings[0].median_us, 3),
        "plans": [facts for _, facts in built],
    }


def _replay_seconds(facts: dict[str, Any], sets: int, sides: int) -> float:
    """About how long the sides so far and one more take to time: capture, warm-up, 7 replays."""
    each = facts["predicted_us"] * 1e-6 * max(20, sets)
    return (sides + 1) * (0.04 + 9 * each)


def launcher(plan: Any, cubin: bytes, a: list[Any], b: list[Any], d: list[Any]) -> Any:
    """A function that launches the kernel once on input set i, on torch's current stream."""
    import cupy
    import torch
    from mma_sync_rung import load

    function = load(cubin, plan.name, plan.body.shared_bytes)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    grid = (plan.blocks.evaluate({"sms": sms}), 1, 1)
    sets = [
        arguments_of(plan, {"a": x.data_ptr(), "b": y.data_ptr(), "d": z.data_ptr()})
        for x, y, z in zip(a, b, d, strict=True)
    ]

    def launch(i: int) -> None:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function(grid, (plan.body.threads, 1, 1), sets[i], shared_mem=plan.body.shared_bytes)

    return launch


def line_of(result: dict[str, Any]) -> str:
    """What is printed of a shape."""
    tree, plans = result["plans"][0], [plan for plan in result["plans"] if "us" in plan]
    text = f"{'x'.join(map(str, result['shape'])):16} cuBLAS {result['cublas_us']:8.2f} us"
    failed = [plan for plan in result["plans"] if plan.get("failed", "no time") != "no time"]
    if "us" in tree:
        text += f", tree {tree['us']:8.2f} (predicted {tree['predicted_us']:.2f})"
        text += f" {[tree[name] for name in FIELDS]}"
        text += f" = {result['cublas_us'] / tree['us']:.3f} x cuBLAS"
    else:
        text += f", tree FAILED: {tree['failed']}"
    if plans:
        best = min(plans, key=lambda plan: plan["us"])
        text += f"; best of {len(plans)} {best['us']:8.2f} {[best[name] for name in FIELDS]}"
        if "us" in tree:
            text += f", tree at {best['us'] / tree['us']:.3f} of it"
    if failed:
        text += f"; {len(failed)} failed, first: {failed[0]['failed'][:80]!r}"
    return text


def main() -> None:
    """Builds in parallel, measures in turn, writes one JSON."""
    begin = time.perf_counter()
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--per-shape", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "fp16"))
    parser.add_argument("--seconds", type=float, default=190.0, help="the run ends before that")
    parser.add_argument("--build-only", action="store_true", help="no GPU: build and report")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="the first so many only")
    options = parser.parse_args()
    shapes = SHAPES[: options.shapes]
    drawn = {
        shape: choices(spec_of(shape, options.dtype), options.per_shape, options.seed)
        for shape in shapes
    }
    jobs: list[Job] = [
        (shape, options.dtype, choice, predicted)
        for shape in shapes
        for choice, predicted in drawn[shape][0]
    ]
    with ProcessPoolExecutor() as pool:
        built = list(pool.map(build, jobs, chunksize=2))
    print(f"{len(jobs)} kernels built in {time.perf_counter() - begin:.0f} s", flush=True)
    if options.build_only:
        for (shape, *_), (cubin, facts) in zip(jobs, built, strict=True):
            print(shape, len(cubin), facts)
        return
    import torch

    results = []
    for place, shape in enumerate(shapes):
        mine = [pair for job, pair in zip(jobs, built, strict=True) if job[0] == shape]
        left = options.seconds - (time.perf_counter() - begin)
        result = measure(shape, options.dtype, mine, left / (len(shapes) - place))
        result["legal"] = drawn[shape][1]
        torch.cuda.empty_cache()
        results.append(result)
        print(line_of(result), flush=True)
    document = {
        "command": " ".join(sys.argv),
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "dtype": options.dtype,
        "shapes": results,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "wgmma_sweep.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
