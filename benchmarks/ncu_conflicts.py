"""The emulator's counts of shared-memory wavefronts and global sectors beside Nsight Compute's.

    python benchmarks/ncu_conflicts.py --out FOLDER [--jobs 8] [--limit 150]

Launches the programs of ``gpu_jobs.py`` under ncu, whole problems, and runs every block of their
kernels on the emulator. Writes ``ncu_conflicts.json`` and ``ncu_conflicts.md``: a line a kernel and
quantity with the metric's name, both counts, their difference, and what explains it. Exit code 1
when a kernel has bank conflicts that the emulator does not count, or was not measured, 3 when there
is no GPU or no ncu.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpu_jobs

from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.parallel import in_processes
from deepgemm_codegen.render import render_program

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Quantity:
    """One thing that both sides count.

    Attributes:
        metric: ncu's name, without ``.sum``.
        kinds: kinds of access that the emulator counts for it.
        field: what of each.
    """

    metric: str
    kinds: tuple[str, ...]
    field: str


LOADS, STORES = ("ld.shared", "ldmatrix"), ("st.shared", "stmatrix")
GLOBAL_LOADS = ("ld.global", "cp.async")
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
GLOBAL = "pipe_lsu_mem_global_op"
QUANTITIES: dict[str, Quantity] = {
    "shared load wavefronts": Quantity(f"{SHARED}_op_ld", LOADS, "wavefronts"),
    "shared store wavefronts": Quantity(f"{SHARED}_op_st", STORES, "wavefronts"),
    "shared wavefronts": Quantity(SHARED, (*LOADS, *STORES), "wavefronts"),
    "bank conflicts of loads": Quantity(f"{CONFLICTS}_op_ld", LOADS, "excess"),
    "bank conflicts of stores": Quantity(f"{CONFLICTS}_op_st", STORES, "excess"),
    "ldmatrix instructions": Quantity("smsp__inst_executed_op_ldsm", ("ldmatrix",), "requests"),
    "cp.async instructions": Quantity("smsp__inst_executed_op_ldgsts", ("cp.async",), "requests"),
    # What cp.async reads is a global load to ncu, too.
    "global load requests": Quantity(f"l1tex__t_requests_{GLOBAL}_ld", GLOBAL_LOADS, "requests"),
    "global load sectors": Quantity(f"l1tex__t_sectors_{GLOBAL}_ld", GLOBAL_LOADS, "sectors"),
    "global store requests": Quantity(f"l1tex__t_requests_{GLOBAL}_st", ("st.global",), "requests"),
    "global store sectors": Quantity(f"l1tex__t_sectors_{GLOBAL}_st", ("st.global",), "sectors"),
    "cp.async sectors": Quantity(f"l1tex__t_sectors_{GLOBAL}_ldgsts", ("cp.async",), "sectors"),
}

EXPLANATIONS: dict[str, str] = {
    "bank conflicts of stores": "ncu counts a store that waits while a copy writes the banks",
}
"""What is known of a difference, by quantity; printed beside one."""


def build(name: str) -> Any:
    """The job of a kernel, with what the emulator counts in all its blocks."""
    program = gpu_jobs.program_of(name)
    job = gpu_jobs.job_of(name, program, render_program(program))
    begun = time.perf_counter()
    device = EmulatorDevice(program, job.about.pop("ptx"), races=False, costs=True, aligned=True)
    outcome = device.launch(job.problem, inputs_for(job.problem, "exact", "integers", 1), None)
    if outcome.faults:
        raise SystemExit(f"{name}: {outcome.faults[0]}")
    job.about = {
        "problem": str(job.problem),
        "counts": {
            kernel.name: counted(statistics)
            for kernel, statistics in zip(program.kernels, outcome.statistics, strict=True)
        },
        "seconds": round(time.perf_counter() - begun, 1),
    }
    return job


def counted(statistics: Any) -> dict[str, dict[str, int]]:
    """What the emulator counts of one kernel, by kind of access."""
    counts: dict[str, Counter[str]] = {}
    for cost in statistics.shared_costs:
        kind = counts.setdefault(kind_of(cost.place.text, "shared"), Counter())
        for field in ("requests", "wavefronts", "excess"):
            kind[field] += getattr(cost, field)
    for cost in statistics.global_costs:
        kind = counts.setdefault(kind_of(cost.place.text, "global"), Counter())
        if not kind["wavefronts"]:  # cp.async is counted in both memories
            kind["requests"] += cost.requests
        kind["sectors"] += cost.sectors
    return {kind: dict(found) for kind, found in sorted(counts.items())}


def kind_of(text: str, space: str) -> str:
    """``ldmatrix``, ``cp.async``, ``st.shared`` and so on, of an instruction."""
    opcode = re.sub(r"^@\S+ ", "", text).split()[0]
    for word in ("ldmatrix", "stmatrix", "cp.async.bulk", "cp.async"):
        if opcode.startswith(word):
            return word
    return f"{opcode.split('.')[0]}.{space}"


def metrics_here(program: str) -> list[str]:
    """The metrics to ask for: those that this ncu knows on this GPU."""
    wanted = sorted({quantity.metric for quantity in QUANTITIES.values()})
    done = subprocess.run([program, "--query-metrics"], capture_output=True, text=True, check=False)
    known = [metric for metric in wanted if re.search(rf"^{metric}\s", done.stdout, re.MULTILINE)]
    return known or wanted


def run_ncu(program: str, jobs: list[Any], limit: float) -> dict[str, dict[str, float]]:
    """Metrics by kernel name."""
    metrics = ",".join(f"{metric}.sum" for metric in metrics_here(program))
    names = "|".join(kernel for job in jobs for kernel in job.about["counts"])
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "jobs", Path(folder) / "log"
        path.write_bytes(pickle.dumps(jobs))
        done = subprocess.run(
            [program, "--csv", "--page", "raw", "--print-units", "base", "--metrics", metrics,
             "--kernel-name", f"regex:^({names})$", "--clock-control", "none",
             "--cache-control", "none", "--log-file", str(log), "--force-overwrite",
             sys.executable, str(ROOT / "benchmarks" / "gpu_single.py"), str(path)],
            capture_output=True, text=True, check=False, timeout=limit,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        text = log.read_text() if log.exists() else ""
    found = read_csv(text)
    if not found:
        raise SystemExit(
            f"ncu measured nothing (exit code {done.returncode}):\n"
            f"{text[-1500:]}\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}"
        )
    wrong = [line for line in done.stdout.splitlines() if line.startswith("@@ end")]
    strange = [line for line in wrong if not line.endswith((" ran", " right"))]
    if strange:
        raise SystemExit("\n".join(strange))
    return found


def read_csv(text: str) -> dict[str, dict[str, float]]:
    """Ncu's raw page: a row of names, a row of units, a row a kernel."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[start:]):
        name = row.get("Kernel Name") or ""
        if not name:
            continue  # the row of units
        found[name.split("(")[0]] = {
            key.removesuffix(".sum"): float(value.replace(",", ""))
            for key, value in row.items()
            if key and key.endswith(".sum") and re.fullmatch(r"[0-9.,]+", value or "")
        }
    return found


def compared(counts: dict[str, Any], measured: dict[str, float]) -> list[dict[str, Any]]:
    """Both counts of each quantity of one kernel."""
    rows = []
    for name, quantity in QUANTITIES.items():
        ours = sum(counts.get(kind, {}).get(quantity.field, 0) for kind in quantity.kinds)
        theirs = measured.get(quantity.metric)
        if theirs is None and not ours:
            continue
        why = EXPLANATIONS.get(name, "") if theirs is not None and theirs != ours else ""
        rows.append(
            {
                "quantity": name,
                "metric": f"{quantity.metric}.sum",
                "ncu": theirs,
                "emulator": ours,
                "explanation": why,
            }
        )
    return rows


def difference(row: dict[str, Any]) -> str:
    """Ncu's count over the emulator's, in words."""
    if row["ncu"] is None:
        return "no such metric here"
    more = row["ncu"] - row["emulator"]
    if not more:
        return "equal"
    share = f" ({100 * more / row['emulator']:+.2f} %)" if row["emulator"] else ""
    return f"{more:+,.0f}{share}"


def table(records: list[dict[str, Any]], machine: dict[str, str]) -> str:
    """The report."""
    rows = [row for record in records for row in record["rows"]]
    equal = sum(row["ncu"] == row["emulator"] for row in rows)
    lines = ["# Shared-memory wavefronts and sectors: Nsight Compute and the emulator", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += [f"- {equal} of {len(rows)} counts are equal"]
    for record in records:
        lines += [
            "", f"## {record['name']}", "", f"`{record['kernel']}`, {record['problem']}", "",
            "| quantity | metric | ncu | emulator | difference | explanation |",
            "| --- | --- | --: | --: | --: | --- |",
        ]  # fmt: skip
        for row in record["rows"]:
            theirs = "" if row["ncu"] is None else f"{row['ncu']:,.0f}"
            lines.append(
                f"| {row['quantity']} | `{row['metric']}` | {theirs} | {row['emulator']:,} |"
                f" {difference(row)} | {row['explanation']} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Builds, measures, compares, writes both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=150.0, help="seconds that ncu may take")
    options = parser.parse_args()
    program = shutil.which("ncu")
    if program is None:
        print("ncu is not on the PATH; it comes with the CUDA toolkit", file=sys.stderr)
        return 3
    try:
        import cupy

        properties = cupy.cuda.runtime.getDeviceProperties(0)
    except Exception as error:  # noqa: BLE001  cupy's own errors are no subclass of one of ours
        print(f"no GPU: {error}", file=sys.stderr)
        return 3
    names = [*gpu_jobs.SHIPPED, *gpu_jobs.SMALL]
    jobs = list(in_processes(build, names, options.jobs))
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    begun = time.perf_counter()
    measured = run_ncu(program, jobs, options.limit)
    machine = {
        "command": "python benchmarks/ncu_conflicts.py --out FOLDER",
        "gpu": properties["name"].decode(),
        "ncu": " ".join(re.findall(r"Version \S+", version.stdout)[:1]),
        "seconds": f"{time.perf_counter() - begun:.0f}",
    }
    records = [
        {
            "name": job.name,
            "kernel": kernel,
            "problem": job.about["problem"],
            "emulator": counts,
            "rows": compared(counts, measured.get(kernel, {})),
        }
        for job in jobs
        for kernel, counts in job.about["counts"].items()
    ]
    options.out.mkdir(parents=True, exist_ok=True)
    document = {**machine, "kernels": records}
    (options.out / "ncu_conflicts.json").write_text(json.dumps(document, indent=1) + "\n")
    (options.out / "ncu_conflicts.md").write_text(table(records, machine))
    unseen = [
        f"{record['name']}: {row['quantity']}: {difference(row)}"
        for record in records
        for row in record["rows"]
        if row["quantity"].startswith("bank") and row["ncu"] not in (None, row["emulator"])
    ]
    missing = [r["kernel"] for r in records if all(row["ncu"] is None for row in r["rows"])]
    unseen += [f"{kernel}: ncu measured nothing" for kernel in missing]
    print("\n".join(unseen) or "ncu's bank conflicts are the emulator's")
    return int(bool(unseen))


if __name__ == "__main__":
    sys.exit(main())
