"""Mutants under compute-sanitizer on a GPU: those that the CPU judge lets live, and planted faults.

    python3 benchmarks/mutation_sanitizer.py --out FOLDER [--limit 110] [--patience 15]
        [--shares 1]

Reads ``mutation_score.json`` of benchmarks/results, builds a representative of every group of
survivors anew, and for every operator a mutant that the CPU judge kills (in the smallest kernel of
each of two families, one that does not hang). They and the unbroken kernels run under memcheck,
racecheck, synccheck and initcheck at once, and D is compared. Writes ``mutation_sanitizer.json``
and ``mutation_sanitizer.md`` after each tool: what it says, first of the planted faults, which show
what a tool's silence about a survivor is worth.

Exit code 1 when an unbroken kernel or a survivor gives wrong numbers, 3 when there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from gpu_jobs import operands
from gpu_single import Job
from sanitizers import TOOLS, run_tool_in_shares, verdict_of

from deepgemm_codegen.emulator import parse
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness import gpu_arch
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.numbers import encode, round_to
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.parallel import cores, in_processes
from tests.mutation.explanations import groups
from tests.mutation.judging import Judge
from tests.mutation.kernels import Specimen, golden, shipped, work_of
from tests.mutation.sass import assembled
from tests.mutation.score import Attempt, Fate, Record, attempts, ptx_of

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
HANGS = ("deadlock", "timeout", "refused", "")
"""What the CPU judge says of mutants that make no planted fault: a GPU would hang, or not start."""

CONTROL_FAMILIES = ("mma_sync", "wgmma")
TRIES = 6
"""Mutants of an operator that are judged in search of a planted fault."""

RACE_WORK = 1 << 28
"""Multiply-adds up to which a kernel runs under racecheck: more take it longer than a job may."""


@dataclass(frozen=True)
class Errand:
    """What is wanted of one kernel beside itself.

    Attributes:
        specimen: the kernel.
        fates: survivors, each the representative of a group.
        planted: whether a mutant of every operator that dies is wanted.
        arch: the GPU's.
    """

    specimen: Specimen
    fates: tuple[Fate, ...]
    planted: bool
    arch: str


def errands(score: dict[str, Any], arch: str) -> list[Errand]:
    """Every kernel that is needed: of each group of survivors the one with the least to compute."""
    pool = {s.program.name: s for s in [*golden(), *shipped()]}
    wanted: dict[str, list[Fate]] = {}
    for group in groups([Record.of_json(fields) for fields in score["kernels"]], []):
        there = [(name, fate) for name, fate in group.fates if name in pool]
        if not there:
            print(f"no such kernel any more: {group.fates[0][0]}", file=sys.stderr)
            continue
        name, fate = min(there, key=lambda one: work_of(pool[one[0]].program))
        wanted.setdefault(name, []).append(fate)
    controls = set()
    for family in CONTROL_FAMILIES:
        judged = {fields["name"] for fields in score["kernels"] if fields["family"] == family}
        mine = sorted(judged & pool.keys(), key=lambda name: work_of(pool[name].program))
        controls |= {*mine[:1]}
    names = sorted({*wanted, *controls})
    return [Errand(pool[n], tuple(wanted.get(n, ())), n in controls, arch) for n in names]


def prepare(errand: Errand) -> list[Job]:
    """The jobs of an errand: the kernel itself, its survivors, its planted faults."""
    specimen = errand.specimen
    program, lines = specimen.program, ["", *specimen.source.splitlines()]
    module = parse(ptx_of(program, specimen.source))
    problem = bind(program)
    bits, wanted = data_of(problem)
    jobs: list[Job] = []

    def add(kind: str, judged: str, attempt: Attempt) -> None:
        target = program.target if program.target.endswith("a") else errand.arch
        about = {"kind": kind, "family": specimen.family, "kernel": program.name, "judged": judged}
        about |= {"operator": attempt.operator, "what": attempt.what}
        about |= {"line": lines[attempt.row].strip(), "work": work_of(program)}
        try:
            cubin = assembled(attempt.module, target)
        except CodegenError as error:
            print(f"{about}: {str(error).splitlines()[0]}", file=sys.stderr)
            return
        host = replace(problem, program=attempt.host or program)
        jobs.append(Job(f"{program.name}_{len(jobs)}", host, cubin, bits, wanted, about))

    add("unbroken", "passes", Attempt("", "", 0, 0, module))
    # A line of the CUDA text may stand several times in the PTX, of which one lives and one dies.
    missing = {(fate.operator, fate.what, fate.line, fate.row) for fate in errand.fates}
    judge = Judge(program, module) if errand.planted else None
    tried: Counter[str] = Counter()
    for attempt in attempts(specimen, module):
        if not missing and judge is None:
            break
        key = (attempt.operator, attempt.what, attempt.line, attempt.row)
        if key in missing:
            missing.remove(key)
            add("survivor", "lives", attempt)
        elif judge is not None and tried[attempt.operator] < TRIES:
            tried[attempt.operator] += 1
            cause = judge.cause_of_death(attempt.module, attempt.host)
            if cause not in HANGS:
                tried[attempt.operator] = TRIES
                add("planted", cause, attempt)
    for operator, what, *_ in missing:
        print(f"not found again: {program.name}: {operator}: {what}", file=sys.stderr)
    return jobs


def wanted_under(tool: str, job: Job) -> bool:
    """Whether a job is run under a tool."""
    return tool != "racecheck" or job.about["work"] <= RACE_WORK


def data_of(problem: Any) -> tuple[dict[str, Any], Any]:
    """Bits of the operands, and what is wanted of D's elements, see `Job`.

    Sums of whole numbers are exact, and so is D but for norms and activations.
    """
    oracle = Oracle(problem, inputs_for(problem, "exact", "integers", 1), np)
    dtype, saturates = problem.matrix("d").dtype, problem.spec.saturates
    found = [oracle.expected(region) for region in problem.whole]
    if all(np.array_equal(one.low, one.high, equal_nan=True) for one in found):
        bits = [encode(one.value.astype(np.float32), dtype, np).reshape(-1) for one in found]
        return operands(problem), np.concatenate(bits)
    low, high = (
        np.concatenate([round_to(end, dtype, np, saturates=saturates).reshape(-1) for end in ends])
        for ends in zip(*((one.low, one.high) for one in found), strict=True)
    )
    return operands(problem), (low, high)


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
            cells.append(about["judged"])
            cells += [
                verdict_of(found[tool].get(job.name)) if wanted_under(tool, job) else "left out"
                for tool in found
            ]
            cells.append(values_of(job, found))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Builds, runs every tool, writes both files after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes that build")
    parser.add_argument("--limit", type=float, default=110.0, help="seconds for each tool")
    parser.add_argument("--patience", type=float, default=15.0, help="seconds for a kernel")
    parser.add_argument("--shares", type=int, default=1, help="processes of each tool")
    options = parser.parse_args()
    try:
        arch = gpu_arch()
    except EnvironmentLackError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        return 3
    score = json.loads((ROOT / "benchmarks/results/mutation_score.json").read_text())
    begun = time.perf_counter()
    built = list(in_processes(prepare, errands(score, arch), options.jobs))
    order = ("unbroken", "survivor", "planted")  # what may take the context with it comes last
    jobs = sorted((j for made in built for j in made), key=lambda j: order.index(j.about["kind"]))
    print(f"{len(jobs)} kernels prepared in {time.perf_counter() - begun:.0f} s", flush=True)
    machine = {"command": "python3 benchmarks/mutation_sanitizer.py --out FOLDER", "gpu": arch}
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(len(TOOLS)) as threads:  # the tools share the GPU
        running = {
            threads.submit(
                run_tool_in_shares,
                tool,
                [job for job in jobs if wanted_under(tool, job)],
                options.limit,
                options.patience,
                options.shares,
            ): tool
            for tool in TOOLS
        }
        for done in as_completed(running):
            found[running[done]] = done.result()
            seconds = time.perf_counter() - begun
            print(f"{running[done]}: {len(done.result())} kernels, {seconds:.0f} s", flush=True)
            write(
                options.out, jobs, {tool: found[tool] for tool in TOOLS if tool in found}, machine
            )
    wrong = [
        job for job in jobs if job.about["kind"] != "planted" and values_of(job, found) != "right"
    ]
    for job in wrong:
        print(f"{job.about}: {values_of(job, found)}")
    print(f"{len(wrong)} of those that should be right are not")
    return int(bool(wrong))


def write(
    folder: Path, jobs: Sequence[Job], found: dict[str, dict[str, Any]], machine: dict[str, str]
) -> None:
    """Writes both files: what the tools have said so far."""
    records = [{**j.about, "tools": {t: found[t].get(j.name) for t in found}} for j in jobs]
    text = json.dumps({**machine, "kernels": records}, indent=1) + "\n"
    (folder / "mutation_sanitizer.json").write_text(text)
    (folder / "mutation_sanitizer.md").write_text(page(jobs, found, machine))


if __name__ == "__main__":
    sys.exit(main())
