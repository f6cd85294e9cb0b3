"""Measures programs under overrides beside cuBLAS: one of the sets of ``program_sets.py``.

    python benchmarks/program_sweep.py --set cluster_k --out FOLDER [--seconds 240] [--warm 0.1]

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

from program_sets import SETS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide.around import layers_of, program_around
from deepgemm_codegen.decide.families import consider
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.errors import CodegenError
from deepgemm_codegen.harness.bench_ceilings import datasheet
from deepgemm_codegen.harness.bench_data import Entry
from deepgemm_codegen.harness.bench_gpu import CupyBench, find_bench_gpu
from deepgemm_codegen.harness.bench_stats import Timing, launches_for, sets_for, work_of
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Wgmma
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

COMMON = "arch=sm_90a gpu=H200"
"""What every problem has."""


def build(job: tuple[str, str]) -> tuple[Entry | None, dict[str, Any]]:
    """One program and its facts; no program where there is none."""
    text, overrides = job
    spec = GemmSpec.from_text(f"{text} {COMMON} {overrides}")
    arch = load_arch(spec.arch, spec.gpu)
    facts: dict[str, Any] = {"overrides": overrides}
    try:
        inner, layers = layers_of(spec)
        winner = consider(setting_of(inner, arch)).winner
        if winner is None:
            return None, {**facts, "fault": "nothing serves"}
        program = program_around(spec, arch, lambda seen: winner.choice.program(seen, arch, ()))
        built = build_cubin(render_program(program), name=program.name, arch=program.target)
    except CodegenError as error:
        return None, {**facts, "fault": str(error)[:300]}
    facts["choice"] = winner.choice.words
    facts["kernels"] = [kernel.body.role for kernel in program.kernels]
    clocks = winner.clocks + sum(layer.clocks(layer.spec, arch) for layer in layers)
    facts["predicted_us"] = round(clocks / arch.gpu.clock_mhz, 3)
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
    device: CupyBench, text: str, built: list[tuple[Entry | None, dict[str, Any]]], warm: float
) -> dict[str, Any]:
    """Times every right program of a shape beside cuBLAS; a wrong one has its fault instead.

    Each program runs ``warm`` seconds first, and a graph lasts as long as in ``bench``.
    """
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
    machine = device.machine
    roof = datasheet(machine.arch, machine.gpu, machine.sms).roof_us(work_of(problem), "wgmma")
    taken = loaded.time(sides, launches_for(sets, roof), warm_seconds=warm)
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
    parser.add_argument("--warm", type=float, default=0.1)
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
    document: dict[str, Any] = {
        "command": " ".join(sys.argv),
        "gpu": device.machine.gpu,
        "software": dict(device.machine.software),
        "common": COMMON,
        "shapes": (results := []),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"program_sweep_{options.set}.json"
    for text, overrides in cases:
        if time.perf_counter() - begun > options.seconds:
            print(f"no time for {text}")
            continue
        results.append(measure(device, text, [built[text, each] for each in ("", *overrides)],
                               options.warm))  # fmt: skip
        _show(results[-1])
        path.write_text(json.dumps(document) + "\n", encoding="utf-8")  # what is known so far


if __name__ == "__main__":
    main()
