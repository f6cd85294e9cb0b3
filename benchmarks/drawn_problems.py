"""Thousands of problems drawn at random, judged where this machine can.

    python benchmarks/drawn_problems.py --on gpu --out benchmarks/results [--count 2000] [--jobs 6]

The problems are those of ``tests/drawing.py``, or with ``--features`` of
``tests/drawing_features.py``, where what is forced is left out if nothing serves it: a case is its
seed and its number. Writes
``drawn_gpu.json`` and ``drawn_gpu.md`` (or ``..._emulator``): how many passed, of which kinds they
were, and each that failed. A limit of time ends the run early; the count says how far it came. On a
GPU ``--values`` compares every element of D, and no tile with the emulator's, which takes longest.
Exit code 1 when any fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from in_time import in_time

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

ARCHS = ("sm_80", "sm_90", "sm_90a")
"""What a Hopper GPU runs."""

EFFORT = 0.25
"""Of the emulator, as in the tests that draw problems; a GPU judges every element all the same."""

CROWDED = "the GPU's memory does not hold"
"""What a case says that found no room beside others; it is judged again when they have gone."""

Job = tuple[int, int, str, frozenset[str], bool]
"""Seed, number, where, checks to leave out, whether features are drawn."""

FEW = 3
"""Cases at a time then."""


def served(text: str) -> str:
    """A spec of drawn features, without what is forced where nothing serves it."""
    from deepgemm_codegen.arch import load_arch
    from deepgemm_codegen.decide import decide
    from deepgemm_codegen.errors import InputError
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.spec.overrides import Overrides

    spec = GemmSpec.from_text(text)
    try:
        decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    except InputError:
        free = Overrides(tensor_cores="off" if spec.dtype_a.name == "fp32" else None)
        return str(replace(spec, launch="plain", overrides=free))
    return text


def about(job: Job) -> dict[str, Any]:
    """A case's number, spec and facts."""
    from deepgemm_codegen.spec import GemmSpec
    from tests.drawing import draw, facts_of
    from tests.drawing_features import draw_features

    seed, number, *_, features = job
    text = served(draw_features(seed, number, ARCHS)) if features else draw(seed, number, ARCHS)
    facts = facts_of(GemmSpec.from_text(text))
    shares = {"large": facts.large, "narrow": facts.narrow, "odd": facts.odd}
    return {"number": number, "spec": text, **shares}


def never_ended(job: Job, limit: float) -> dict[str, Any]:
    """The record of a case whose process had to be killed, or died: it failed."""
    line = f"did not end in {limit:g} s, or took its process along"
    return {**about(job), "passed": False, "line": line, "seconds": limit}


def judged(job: Job) -> dict[str, Any]:
    """One case's verdict, or what went wrong."""
    from verify_kernels import judge

    from deepgemm_codegen.errors import CodegenError

    seed, _, on, leave, _ = job
    record = about(job)
    text = record["spec"]
    begun = time.monotonic()
    try:
        verdict = judge((text, "drawn", on, seed), EFFORT, leave)
    except Exception as error:  # noqa: BLE001  a crash is a failure of its case, not of the run
        what = "" if isinstance(error, CodegenError) else f"{type(error).__name__}: "
        verdict = {"passed": False, "line": f"{what}{error}"}
    seconds = round(time.monotonic() - begun, 1)
    return {**record, "passed": verdict["passed"], "line": verdict["line"], "seconds": seconds}


def main() -> int:
    """Judges the cases in parallel and writes both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--on", choices=("gpu", "emulator"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", action="store_true", help="of tests/drawing_features.py")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=1, help="the processes share these")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one case")
    parser.add_argument(
        "--values",
        action="store_true",
        help="on a GPU: every element of D, but no tile beside the emulator's, which takes longest",
    )
    options = parser.parse_args()
    leave = frozenset({"emulator"} if options.values else ())
    cases = range(options.first, options.count)
    jobs = [(options.seed, case, options.on, leave, options.features) for case in cases]
    begun = time.monotonic()
    ended = in_time(
        judged, jobs, options.jobs, options.seconds, gpus=options.gpus, limit=options.limit
    )
    done, stuck = ended.results, ended.stuck
    crowded = [index for index, record in done.items() if CROWDED in record["line"]]
    left = options.seconds - (time.monotonic() - begun)
    again = in_time(judged, [jobs[index] for index in crowded], FEW, left, limit=options.limit)
    done |= {crowded[index]: record for index, record in again.results.items()}
    stuck += [crowded[index] for index in again.stuck]
    running = ended.running + [crowded[index] for index in again.running]
    done |= {index: never_ended(jobs[index], options.limit) for index in stuck}
    records = [done[index] for index in sorted(done)]
    failed = [record for record in records if not record["passed"]]
    types = Counter(record["spec"].partition("dtype=")[2].split()[0] for record in records)
    shares = {kind: sum(each[kind] for each in records) for kind in ("large", "narrow", "odd")}
    document = {
        "command": " ".join(["python", *sys.argv]),
        "on": options.on,
        "gpu": _gpu() if options.on == "gpu" else "",
        "seed": options.seed,
        "asked": options.count,
        "judged": len(records),
        "passed": len(records) - len(failed),
        "running when the time was over": [options.first + index for index in running],
        "of a GFLOP or more": shares["large"],
        "with a dimension under 32": shares["narrow"],
        "with an odd leading dimension": shares["odd"],
        "types": dict(sorted(types.items())),
        "slowest": [
            f"{each['seconds']} s: {each['number']}: {each['spec']}"
            for each in sorted(records, key=lambda record: -record["seconds"])[:5]
        ],
        "failed": failed,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / f"drawn{'_features' if options.features else ''}_{options.on}"
    stem.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    lines = ["# Problems drawn at random", ""]
    lines += [f"- {key}: {value}" for key, value in document.items() if key != "failed" and value]
    lines += [
        "",
        *(f"- FAILED {each['number']}: {each['spec']}: {each['line']}" for each in failed),
    ]
    stem.with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n")
    print("\n".join(lines))
    return int(bool(failed))


def _gpu() -> str:
    import cupy

    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(0)["name"].decode()
    return f"{runtime.getDeviceCount()} {name}, driver {runtime.driverGetVersion()}"


if __name__ == "__main__":
    sys.exit(main())
