"""Mutants under compute-sanitizer on a GPU: those that the CPU judge lets live, and planted faults.

    python3 benchmarks/mutation_sanitizer.py --out FOLDER [--limit 200]

Reads ``mutation_score.json`` of benchmarks/results, builds a representative of every group of
survivors anew, and for every operator a mutant that the CPU judge kills (in the smallest kernel of
each of two families, one that does not hang). They and the unbroken kernels run under memcheck,
racecheck, synccheck and initcheck, and D is compared. Writes ``mutation_sanitizer.json`` and
``mutation_sanitizer.md``: what each tool says, first of the planted faults, which show what a
tool's silence about a survivor is worth.

Exit code 1 when an unbroken kernel or a survivor gives wrong numbers, 3 when there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from gpu_jobs import operands
from gpu_single import Job
from sanitizers import TOOLS, run_tool, verdict_of

from deepgemm_codegen.emulator import parse
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness import gpu_arch
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.numbers import encode
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.problem import bind
from tests.mutation.explanations import groups
from tests.mutation.judging import Judge
from tests.mutation.kernels import draw
from tests.mutation.sass import assembled
from tests.mutation.score import Attempt, Record, attempts, ptx_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.mutation.kernels import Specimen

ROOT = Path(__file__).resolve().parent.parent
HANGS = ("deadlock", "timeout", "refused", "")
"""What the CPU judge says of mutants that make no planted fault: a GPU would hang, or not start."""

CONTROL_FAMILIES = ("mma_sync", "wgmma")
TRIES = 6
"""Mutants of an operator that are judged in search of a planted fault."""

Found = tuple[dict[str, str], Attempt]
"""What is told of a mutant, and the mutant."""


def work(specimen: Specimen) -> int:
    """Multiply-adds of a program."""
    plan = specimen.program.product
    return plan.m.size * plan.n.size * plan.k.size * plan.batch


def unbroken(specimens: Iterable[Specimen]) -> Iterator[Found]:
    """The kernels themselves."""
    for specimen in specimens:
        about = {"kind": "unbroken", "family": specimen.family, "judged": "passes", "line": ""}
        module = parse(ptx_of(specimen.program, specimen.source))
        yield {**about, "kernel": specimen.program.name}, Attempt("", "", 0, 0, module)


def survivors(score: dict[str, Any], pool: dict[str, Specimen]) -> Iterator[Found]:
    """A representative of every group of survivors: the one with the least to compute."""
    records = [Record.of_json(fields) for fields in score["kernels"]]
    wanted: dict[str, list[Any]] = {}
    for group in groups(records, []):
        name, fate = min(group.fates, key=lambda one: work(pool[one[0]]))
        wanted.setdefault(name, []).append((group, fate))
    for name, fates in wanted.items():
        specimen = pool[name]
        module = parse(ptx_of(specimen.program, specimen.source))
        known = {(a.operator, a.what, a.row): a for a in attempts(specimen, module)}
        for group, fate in fates:
            attempt = known.get((fate.operator, fate.what, fate.row))
            if attempt is None:
                print(f"not found again: {name}: {fate.operator}: {fate.what}", file=sys.stderr)
                continue
            about = {"kind": "survivor", "family": group.family, "kernel": name, "judged": "lives"}
            yield {**about, "line": fate.text}, attempt


def planted(pool: dict[str, Specimen]) -> Iterator[Found]:
    """For every operator a mutant that dies without hanging, in the smallest of each family."""
    for family in CONTROL_FAMILIES:
        specimen = min((s for s in pool.values() if s.family == family), key=work)
        name, lines = specimen.program.name, ["", *specimen.source.splitlines()]
        module = parse(ptx_of(specimen.program, specimen.source))
        judge = Judge(specimen.program, module)
        tried: dict[str, int] = {}
        for attempt in attempts(specimen, module):
            tried[attempt.operator] = tried.get(attempt.operator, 0) + 1
            if tried[attempt.operator] > TRIES:
                continue
            cause = judge.cause_of_death(attempt.module, attempt.host)
            if cause not in HANGS:
                tried[attempt.operator] = TRIES
                about = {"kind": "planted", "family": family, "kernel": name, "judged": cause}
                yield {**about, "line": lines[attempt.row].strip()}, attempt


def jobs_of(score: dict[str, Any], arch: str) -> list[Job]:
    """Everything that is run, the kernels that should be right first."""
    pool = {s.program.name: s for s in draw(score["kernels_of_family"], score["seed"])}
    mutants = [*survivors(score, pool), *planted(pool)]
    names = list(dict.fromkeys(about["kernel"] for about, _ in mutants))
    data = {name: data_of(bind(pool[name].program)) for name in names}
    jobs: list[Job] = []
    for number, (about, attempt) in enumerate([*unbroken(pool[n] for n in names), *mutants]):
        program = pool[about["kernel"]].program
        problem = bind(program)
        if attempt.host is not None:
            problem = replace(problem, program=attempt.host)
        target = program.target if program.target.endswith("a") else arch
        told = {**about, "operator": attempt.operator, "what": attempt.what}
        try:
            cubin = assembled(attempt.module, target)
        except CodegenError as error:
            print(f"{told}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        bits, wanted = data[about["kernel"]]
        jobs.append(Job(f"job_{number}", problem, cubin, bits, wanted, told))
    return jobs


def data_of(problem: Any) -> tuple[dict[str, Any], Any]:
    """Bits of the operands, and of D's elements: whole numbers, which the oracle has exactly."""
    oracle = Oracle(problem, inputs_for(problem, "exact", "integers", 1), np)
    dtype = problem.matrix("d").dtype
    parts = [
        encode(oracle.expected(region).value.astype(np.float32), dtype, np).reshape(-1)
        for region in problem.whole
    ]
    return operands(problem), np.concatenate(parts)


def values_of(job: Job, found: dict[str, dict[str, Any]]) -> str:
    """Whether D came out right, in the runs under each tool."""
    said = [found[tool][job.name]["values"] for tool in found if job.name in found[tool]]
    return "; ".join(dict.fromkeys(said)) or "not run"


def page(jobs: Sequence[Job], found: dict[str, dict[str, Any]], machine: dict[str, str]) -> str:
    """The report."""
    lines = ["# Mutants under compute-sanitizer", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += [
        "",
        "Planted faults come first: a tool that is silent about an operator's planted faults says",
        "nothing by its silence about survivors. The CPU judge kills every planted fault.",
    ]
    titles = {
        "planted": "Planted faults",
        "survivor": "Survivors of the CPU judge, one of each group",
        "unbroken": "The kernels unbroken",
    }
    for kind, title in titles.items():
        head = ["family", "what", "at", "CPU judge", *found, "D on the GPU"]
        lines += ["", f"## {title}", "", f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
        for job in jobs:
            about = job.about
            if about["kind"] != kind:
                continue
            what = f"{about['operator']}: {about['what']}" if about["operator"] else about["kernel"]
            cells = [about["family"], what, f"`{about['line']}`" if about["line"] else ""]
            cells += [about["judged"], *(verdict_of(found[t].get(job.name)) for t in found)]
            cells.append(values_of(job, found))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Builds, runs every tool, writes both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--limit", type=float, default=200.0, help="seconds a tool may take at once"
    )
    options = parser.parse_args()
    try:
        arch = gpu_arch()
    except EnvironmentLackError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 3
    score = json.loads((ROOT / "benchmarks/results/mutation_score.json").read_text())
    jobs = jobs_of(score, arch)
    print(f"{len(jobs)} kernels prepared", flush=True)
    begun = time.perf_counter()
    with ThreadPoolExecutor(len(TOOLS)) as threads:  # the tools share the GPU
        results = threads.map(lambda tool: run_tool(tool, jobs, options.limit), TOOLS)
        found = dict(zip(TOOLS, results, strict=True))
    print(f"all tools: {time.perf_counter() - begun:.0f} s", flush=True)
    machine = {"command": "python3 benchmarks/mutation_sanitizer.py --out FOLDER", "gpu": arch}
    records = [{**j.about, "tools": {t: found[t].get(j.name) for t in found}} for j in jobs]
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**machine, "kernels": records}, indent=1) + "\n"
    (options.out / "mutation_sanitizer.json").write_text(text)
    (options.out / "mutation_sanitizer.md").write_text(page(jobs, found, machine))
    wrong = [
        job for job in jobs if job.about["kind"] != "planted" and values_of(job, found) != "right"
    ]
    for job in wrong:
        print(f"{job.about}: {values_of(job, found)}")
    print(f"{len(wrong)} of those that should be right are not")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
