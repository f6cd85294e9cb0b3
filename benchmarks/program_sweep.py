"""Measures programs under overrides beside cuBLAS: cut k, repack, tiles abreast, types, short k.

    python benchmarks/program_sweep.py --set cluster_k --out FOLDER [--seconds 240]

For each shape of a set the tree's own program and the programs under some overrides are built (in
parallel, before the GPU is touched), checked on random rows against float64, and timed side by
side with cuBLAS, all kernels of a program as one. ``program_sweep_SET.json`` holds every program
with its prediction and its microseconds, and how many of its clusters the GPU holds at a time; of
each shape some lines are printed, the fastest first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.harness.bench_data import Entry
from deepgemm_codegen.harness.bench_gpu import CupyBench, find_bench_gpu
from deepgemm_codegen.harness.bench_stats import Timing, launches_for, sets_for
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Wgmma
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

COMMON = "arch=sm_90a gpu=H200"


def _parts(*numbers: int) -> list[str]:
    """Overrides: each number of parts, by either family and in tiles that want some."""
    tiles = ("tile_m=64 tile_n=64", "tile_m=64 tile_n=128", "tile_m=128 tile_n=128")
    found = [f"split_k={number} family={f}" for number in numbers for f in ("wgmma", "mma_sync")]
    found += [f"split_k={number} family=wgmma {tile}" for number in numbers for tile in tiles]
    return ["split_k_from=0", *found]


TINY = [
    "abreast=1",
    "abreast=2",
    "abreast=4",
    "abreast=8",
    "abreast=16",
    *(f"abreast={number} family=mma_sync" for number in (1, 2, 4, 8)),
]
"""Overrides: so many tiles of a batch a block, by the tree's family and by mma.sync."""


def _gathered(*numbers: int, apart: tuple[int, ...] = ()) -> list[str]:
    """Overrides: parts that meet in a cluster, in several tiles, or by a second kernel."""
    tiles = ("", " tile_m=64 tile_n=32", " tile_m=64 tile_n=64", " tile_m=64 tile_n=128",
             " tile_m=128 tile_n=128")  # fmt: skip
    found = [f"cluster_k={number}{tile}" for number in numbers for tile in tiles]
    found += [f"split_k={number} cluster_k=1" for number in (*numbers, *apart)]
    return ["split_k_from=0", *found]


def _tiles(*shapes: str) -> list[str]:
    """Overrides of a wgmma tile, each "rows x columns consumers at once cluster_m cluster_n"."""
    names = ("tile_m", "tile_n", "consumers", "tiles_at_once", "cluster_m", "cluster_n")
    return [
        " ".join(f"{name}={value}" for name, value in zip(names, shape.split(), strict=True))
        for shape in shapes
    ]


WIDE = _tiles(
    *("128 256 2 1 1 1", "128 256 2 1 2 1", "128 256 2 1 1 2", "64 256 2 2 2 1", "64 256 2 2 1 1"),
    *("128 192 2 1 1 1", "128 192 2 1 2 1", "128 192 2 2 1 1", "128 192 2 2 2 1"),
    *("128 176 2 1 1 1", "128 176 2 2 1 1", "128 160 2 1 1 1", "128 160 2 1 2 1"),
    *("128 160 2 2 1 1", "128 128 2 1 1 1", "128 128 2 1 2 1", "128 128 2 2 1 1"),
    *("64 192 2 2 1 1", "64 128 2 2 1 1", "64 160 2 2 1 1", "128 144 2 2 1 1", "64 256 1 1 1 1"),
)
"""Overrides: the tiles of wgmma that large products want."""

SMALL = _tiles(
    *("64 64 1 1 1 1", "64 128 1 1 1 1", "64 96 1 1 1 1", "128 64 2 1 1 1", "128 96 2 1 1 1"),
)
"""Overrides: tiles for products that do not fill the GPU."""

STORING = [
    *(
        f"{tile} stages={stages}"
        for stages in (2, 4)
        for tile in WIDE[:1] + WIDE[3:6] + WIDE[14:20]
    ),
    *_tiles(
        "64 64 1 1 1 1", "64 128 1 1 1 1", "128 96 2 2 1 1", "128 64 2 2 1 1", "128 64 2 1 1 1"
    ),
    *(f"family=mma_sync tile_m={m} tile_n={n}" for m in (64, 128) for n in (64, 128)),
    *(f"family=mma_sync min_blocks={blocks}" for blocks in (2, 3, 4)),
    *(f"family=wgmma raster_group={group}" for group in (1, 4, 16)),
]
"""Overrides: what may matter where the time goes into writing D."""

LARGE = (
    "m=4096 n=4096 k=4096", "m=4096 n=4096 k=7168", "m=2048 n=28672 k=4096",
    "m=2048 n=4096 k=14336", "m=4096 n=24576 k=1536", "m=4096 n=7168 k=2048",
    "m=6144 n=3072 k=768",
)  # fmt: skip
"""Products of models that fill the GPU."""


SETS: dict[str, list[tuple[str, list[str]]]] = {
    "split_k": [
        ("m=64 n=64 k=16384 layout=nt dtype=bf16", _parts(16, 32, 64, 128)),
        ("m=512 n=512 k=16384 layout=nt dtype=bf16", _parts(2, 4, 8, 16)),
        ("m=128 n=128 k=65536 layout=nt dtype=bf16", _parts(16, 32, 66, 128)),
        ("m=784 n=512 k=2048 layout=nt dtype=bf16", _parts(2, 3, 4)),
        ("m=256 n=1280 k=1280 layout=nt dtype=bf16", _parts(2, 3)),
        ("m=64 n=1280 k=1280 layout=nt dtype=bf16", _parts(2, 4, 6)),
        ("m=32 n=4096 k=4096 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=64 n=4096 k=4096 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=128 n=4096 k=4096 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=32 n=6144 k=4096 layout=nt dtype=bf16", _parts(2, 3)),
        ("m=64 n=4096 k=14336 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=128 n=4096 k=14336 layout=nt dtype=bf16", _parts(2, 4)),
        ("m=128 n=7168 k=16384 layout=nt dtype=bf16", _parts(2, 3)),
    ],
    "abreast": [
        ("m=16 n=16 k=16 batch=10000 dtype=bf16", TINY),
        ("m=32 n=32 k=32 batch=10000 dtype=bf16", TINY),
        ("m=64 n=64 k=64 batch=10000 dtype=bf16", TINY),
        ("m=8 n=8 k=32 batch=65537 dtype=bf16", TINY),
        ("m=16 n=16 k=64 batch=100000 dtype=bf16", TINY),
    ],
    "cluster_k": [
        ("m=64 n=64 k=16384 layout=nt dtype=bf16", _gathered(4, 8, apart=(16, 32))),
        ("m=512 n=512 k=16384 layout=nt dtype=bf16", _gathered(2, 4, 8)),
        ("m=128 n=128 k=65536 layout=nt dtype=bf16", _gathered(4, 8, apart=(16, 32))),
        ("m=784 n=512 k=2048 layout=nt dtype=bf16", _gathered(2, 3)),
        ("m=256 n=1280 k=1280 layout=nt dtype=bf16", _gathered(2, 3)),
        ("m=64 n=1280 k=1280 layout=nt dtype=bf16", _gathered(2, 3, 4)),
        ("m=32 n=4096 k=4096 layout=nt dtype=bf16", _gathered(2)),
        ("m=64 n=4096 k=4096 layout=nt dtype=bf16", _gathered(2, 4)),
        ("m=64 n=4096 k=7168 layout=nt dtype=bf16", _gathered(2, 4)),
        ("m=128 n=4096 k=4096 layout=nt dtype=bf16", _gathered(2, 4)),
        ("m=128 n=4096 k=14336 layout=nt dtype=bf16", _gathered(2, 4)),
    ],
    "short_k": [
        ("m=4096 n=4096 k=40 batch=8 dtype=fp16 layout=nt", STORING),
        ("m=1024 n=1024 k=80 batch=16 dtype=fp16 layout=nt", STORING),
        ("m=2048 n=2048 k=128 batch=32 dtype=fp16 layout=nt", STORING),
        ("m=4096 n=80 k=40 batch=8 dtype=fp16 layout=nt", STORING),
        ("m=64 n=64 k=64 batch=10000 dtype=fp16", STORING),
        ("m=4096 n=40 k=4096 batch=8 dtype=fp16", STORING),
        ("m=4928 n=320 k=768 dtype=fp16 layout=nt", STORING),
        ("m=8192 n=8192 k=1024 dtype=fp16 layout=nt", STORING),
    ],
    "int8": [(f"{shape} dtype=int8 layout=nt", WIDE) for shape in LARGE],
    "fp8": [(f"{shape} dtype=e4m3 layout=nt", WIDE) for shape in LARGE],
    "odd": [
        ("m=4097 n=4097 k=4097 dtype=fp16 layout=nt", ["repack=off", *WIDE]),
        ("m=4097 n=4097 k=4097 dtype=fp16", ["repack=off", *WIDE]),
        ("m=1023 n=1023 k=1023 dtype=fp16 layout=nt", ["repack=off", *WIDE, *SMALL]),
        ("m=1023 n=1023 k=1023 dtype=fp16", ["repack=off", *WIDE, *SMALL]),
        ("m=1024 n=50257 k=768 dtype=fp16", ["repack=off", *WIDE]),
        ("m=2048 n=4096 k=1024 dtype=fp16 layout=nt align_a=2", ["repack=off", *WIDE]),
    ],
}
"""By name: a problem, and overrides for it."""


def build(job: tuple[str, str]) -> tuple[Entry | None, dict[str, Any]]:
    """One program and its facts; no program where there is none."""
    text, overrides = job
    spec = GemmSpec.from_text(f"{text} {COMMON} {overrides}")
    arch = load_arch(spec.arch, spec.gpu)
    facts: dict[str, Any] = {"overrides": overrides}
    try:
        winner = consider(setting_of(spec, arch)).winner
        if winner is None:
            return None, {**facts, "fault": "nothing serves"}
        program = winner.choice.program(spec, arch, ())
        built = build_cubin(render_program(program), name=program.name, arch=program.target)
    except CodegenError as error:
        return None, {**facts, "fault": str(error)[:300]}
    facts["choice"] = winner.choice.words
    facts["kernels"] = [kernel.body.role for kernel in program.kernels]
    facts["predicted_us"] = round(winner.clocks / arch.gpu.clock_mhz, 3)
    facts["registers"] = {name: usage.registers for name, usage in built.resources.items()}
    facts["spills"] = sum(usage.spill_store_bytes for usage in built.resources.values())
    return Entry(program, built.cubin, built.arch), facts


def clusters_at_once(device: CupyBench, entry: Entry) -> int | str:
    """Clusters of the product that the GPU holds at a time, or why that cannot be told."""
    body = entry.plan.body
    try:
        from cuda.bindings import driver

        function = device.function(entry.cubin, entry.plan.name, body.shared_bytes)
        attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = body.cluster, 1, 1
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value = value
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = body.cluster, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = body.threads, 1, 1
        config.sharedMemBytes = body.shared_bytes
        config.attrs, config.numAttrs = [attribute], 1
        status, count = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(function.ptr), config)
    except (ImportError, AttributeError, TypeError, RuntimeError, CodegenError) as error:
        return str(error)[:120]
    return int(count) if int(status) == 0 else str(status)


def measure(
    device: CupyBench, text: str, built: list[tuple[Entry | None, dict[str, Any]]]
) -> dict[str, Any]:
    """Times every right program of a shape beside cuBLAS; a wrong one has its fault instead."""
    entries = [(entry, facts) for entry, facts in built if entry is not None]
    problem = bind(entries[0][0].program)
    sets = sets_for(sum(m.elements * m.dtype.bytes for m in problem.matrices), device.free_bytes)
    loaded = device.load(entries[0][0], problem, sets, "cublas")
    rivals = [rival for rival in loaded.rivals() if rival.side is not None]
    sides, timed, seen = [rival.side for rival in rivals], [], set()
    for entry, facts in entries:
        if facts["choice"] in seen:
            facts["fault"] = "as another"
            continue
        seen.add(facts["choice"])
        side = loaded.side(entry)
        facts["fault"] = loaded.fault_of(side)
        if not facts["fault"]:
            sides.append(side)
            timed.append(facts)
    taken = loaded.time(sides, launches_for(sets, 2.0), warm_seconds=0.02)
    for facts, samples in zip(timed, taken[len(rivals) :], strict=True):
        facts["us"] = round(Timing.of(samples).median_us, 3)
    for entry, facts in entries:
        if isinstance(entry.plan.body, Wgmma) and entry.plan.body.cluster > 1 and "us" in facts:
            facts["clusters_at_once"] = clusters_at_once(device, entry)
    times = {
        rival.name: round(Timing.of(samples).median_us, 3)
        for rival, samples in zip(rivals, taken, strict=False)
    }
    return {"problem": text, "rivals": times, "programs": [facts for _, facts in built]}


def _show(result: dict[str, Any]) -> None:
    """The tree's program and the five fastest, beside cuBLAS."""
    rivals = ", ".join(f"{name} {us:.2f}" for name, us in result["rivals"].items())
    print(f"{result['problem']}: {rivals} us")
    cublas = next(iter(result["rivals"].values()), float("nan"))
    tree, *others = result["programs"]
    wrong = [facts for facts in others if "us" not in facts and facts["fault"] != "as another"]
    others = sorted((facts for facts in others if "us" in facts), key=lambda facts: facts["us"])
    for name, facts in [("tree", tree), *(("", facts) for facts in others[:5])]:
        us = facts.get("us", float("nan"))
        print(
            f"  {name:4} {us:8.2f} us {cublas / us:6.3f} x  predicted {facts.get('predicted_us')}"
            f"  {facts.get('choice')} {facts['fault']}"
            f"{' ' + str(facts['clusters_at_once']) if 'clusters_at_once' in facts else ''}"
        )
    for facts in wrong[:3]:
        print(f"       {facts['overrides']}: {facts['fault']}")
    sys.stdout.flush()


def main() -> None:
    """Builds in parallel, measures in turn, writes one JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", choices=tuple(SETS), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    begun = time.perf_counter()
    cases = SETS[options.set]
    jobs = [(text, each) for text, overrides in cases for each in ("", *overrides)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        built = dict(zip(jobs, pool.map(build, jobs, chunksize=2), strict=True))
    print(f"{len(jobs)} programs in {time.perf_counter() - begun:.0f} s", flush=True)
    if options.build_only:
        for (text, _), (_, facts) in built.items():
            print(text, facts)
        return
    device = find_bench_gpu(1)
    results = []
    for text, overrides in cases:
        if time.perf_counter() - begun > options.seconds:
            print(f"no time for {text}")
            continue
        results.append(measure(device, text, [built[text, each] for each in ("", *overrides)]))
        _show(results[-1])
    document = {
        "command": " ".join(sys.argv),
        "gpu": device.machine.gpu,
        "software": dict(device.machine.software),
        "common": COMMON,
        "shapes": results,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"program_sweep_{options.set}.json"
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
