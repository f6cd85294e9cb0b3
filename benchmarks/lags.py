"""Times kernels whose second consumer lags beside the same kernels with other lags.

    python benchmarks/lags.py [FILE ...] --out FOLDER [--build-only]

Of every kernel of the files (those of ``configs/`` by default) for which the tree decides a lag
(`decide.wgmma.lagging`): with it, with one slice less, and with none, built in parallel, then timed
in turn on the same operands, three times in orders drawn by a fixed seed; medians of the medians.
``lags_h200.json`` holds them; a line a kernel is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.batch.workers import make
from deepgemm_codegen.harness.bench import BETA
from deepgemm_codegen.harness.bench_ceilings import datasheet
from deepgemm_codegen.harness.bench_data import Entry
from deepgemm_codegen.harness.bench_gpu import CupyBench, find_bench_gpu
from deepgemm_codegen.harness.bench_stats import (
    Timing,
    geometric_mean,
    launches_for,
    sets_for,
    work_of,
)
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Program, Wgmma
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import read
from deepgemm_codegen.toolchain import build_cubin

CONFIGS = Path(__file__).resolve().parent.parent / "configs"

ROUNDS = 3


def with_lag(program: Program, lag: int) -> Program:
    """The program with another lag of its product."""
    kernels = tuple(
        replace(kernel, body=replace(kernel.body, lag=lag))
        if isinstance(kernel.body, Wgmma)
        else kernel
        for kernel in program.kernels
    )
    return replace(program, kernels=kernels)


def build(text: str) -> tuple[str, str, dict[int, Entry]]:
    """A spec's text, its plan in words, and its programs by their lags; none where it has none."""
    program, _ = make(GemmSpec.from_text(text))
    bodies = [kernel.body for kernel in program.kernels if isinstance(kernel.body, Wgmma)]
    if not bodies or not bodies[0].lag:
        return text, "", {}
    body = bodies[0]
    found = {}
    for lag in sorted({0, body.lag - 1, body.lag}):
        other = with_lag(program, lag)
        built = build_cubin(render_program(other), name=other.name, arch=other.target)
        found[lag] = Entry(other, built.cubin, built.arch)
    slices = program.product.k.part_tiles
    words = f"{body.tile_m}x{body.tile_n}, {body.stages} stages, {body.store}, slices {slices}"
    return text, words, found


def measure(device: CupyBench, entries: dict[int, Entry]) -> dict[int, float]:
    """Microseconds by lag."""
    first = entries[0]
    problem = bind(first.program, beta=BETA)
    sets = sets_for(sum(m.elements * m.dtype.bytes for m in problem.matrices), device.free_bytes)
    loaded = device.load(first, problem, sets, "none")
    sides = {lag: loaded.side(entry) for lag, entry in entries.items()}
    for lag, side in sides.items():
        if fault := loaded.fault_of(side):
            raise SystemExit(f"{first.program.name} with a lag of {lag}: {fault}")
    machine = device.machine
    roof = datasheet(machine.arch, machine.gpu, machine.sms).roof_us(work_of(problem), "wgmma")
    taken: dict[int, list[float]] = {lag: [] for lag in sides}
    drawn = random.Random(0)
    for number in range(ROUNDS):
        order = list(sides)
        drawn.shuffle(order)
        launches = launches_for(sets, roof)
        samples = loaded.time([sides[lag] for lag in order], launches, 0.02 if number else 0.1)
        for lag, each in zip(order, samples, strict=True):
            taken[lag].append(Timing.of(each).median_us)
    return {lag: round(statistics.median(times), 3) for lag, times in taken.items()}


def main() -> None:
    """Builds in parallel, measures in turn, writes one JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    files = options.files or sorted(CONFIGS.glob("*/*.yaml"))
    texts = list(dict.fromkeys(str(each.spec) for file in files for each in read(file)))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        built = [each for each in pool.map(build, texts, chunksize=4) if each[2]]
    print(f"{len(built)} of {len(texts)} kernels have a lag", flush=True)
    if options.build_only:
        return
    device = find_bench_gpu(1)
    document: dict[str, Any] = {
        "command": " ".join(sys.argv),
        "gpu": device.machine.gpu,
        "software": dict(device.machine.software),
        "kernels": [],
    }
    ratios = []
    options.out.mkdir(parents=True, exist_ok=True)
    for text, words, entries in built:
        us = measure(device, entries)
        ratios.append(us[max(us)] / us[0])
        document["kernels"].append({"spec": text, "plan": words, "us": us})
        parts = ", ".join(f"{lag}: {each:.2f} us ({each / us[0]:.3f})" for lag, each in us.items())
        print(f"{text}\n  {words}: {parts}", flush=True)
        (options.out / "lags_h200.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
    print(f"geometric mean of the lag's time over none: {geometric_mean(ratios):.4f}")


if __name__ == "__main__":
    main()
