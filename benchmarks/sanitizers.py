"""What compute-sanitizer says of shipped kernels, and which planted faults each tool sees.

    python benchmarks/sanitizers.py --out FOLDER [--jobs 8] [--tool racecheck] [--limit 60]
        [--race-limit 300] [--patience 30] [--shares 1]

Runs memcheck, synccheck, initcheck and racecheck over small launches: of shipped kernels and some
of each kind, which must be clean, and of kernels with one planted fault each. The emulator runs the
same faults. racecheck, which takes a hundred times as long, has the small ones alone. Writes
``sanitizers.json`` and ``sanitizers.md`` after each tool: a table of tools and kernels, and one of
tools and faults. Exit code 1 when a sound kernel is not clean, 3 when there is no GPU or no
compute-sanitizer.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gpu_jobs
from gpu_single import BEGIN, CONTEXT_LOST, END, elements

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.decide.around import program_around
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.harness.inputs import Inputs
from deepgemm_codegen.harness.memory import stray_writes
from deepgemm_codegen.parallel import in_processes
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("memcheck", "synccheck", "initcheck", "racecheck")
"""The slow one last: what the others said is written by then."""

BASES: dict[str, tuple[Any, str]] = {
    # Sixteen-byte copies with zero fill, C, steps, padding behind D's rows.
    "tails": (
        MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8),
        "m=150 n=132 k=200 dtype_c=fp16 epilogue=bias,relu ldd=140 ldc=136 arch=sm_90",
    ),
    # TMA both ways, two consumers; four tiles of five slices.
    "tma": (
        WgmmaChoice(128, 128, 2, 1, 2, 1, 1, 8),
        "m=256 n=256 k=320 layout=nt arch=sm_90a",
    ),
}
SPLIT_BARRIER = (
    'if (lane < 16) asm volatile("bar.sync 0; // low" : : : "memory");'
    ' else asm volatile("bar.sync 0; // high" : : : "memory");'
)


@dataclass(frozen=True)
class Fault:
    """One change of a kernel's source.

    Attributes:
        base: which kernel.
        pattern, replacement: a regular expression, and what stands there instead.
        which: the match that is changed; None for all.
        about: what it is.
    """

    base: str
    pattern: str
    replacement: str
    which: int | None
    about: str

    def apply(self, source: str) -> str:
        """The faulty text."""
        found = list(re.finditer(self.pattern, source))
        if not found:
            raise SystemExit(f"nothing in the kernel matches {self.pattern!r}")
        for match in reversed(found if self.which is None else [found[self.which]]):
            text = match.expand(self.replacement)
            source = source[: match.start()] + text + source[match.end() :]
        return source


BARRIER = r"__syncthreads\(\);"
FAULTS: dict[str, Fault] = {
    # -- order in shared memory, mma.sync --
    "loop_barrier": Fault("tails", BARRIER, "", -1, "barrier of the main loop removed"),
    "slabs_over_slice": Fault(
        "tails", r"(SLABS_OFFSET =)[^,]*", r"\1 (SLICES - 1) % STAGES * STAGE_BYTES", None,
        "the epilogue's slabs over the last slice, with no barrier behind the loop",
    ),
    "warp_barrier": Fault("tails", r"__syncwarp\(\);", "", -1, "barrier within a warp removed"),
    "wait_loosened": Fault(
        "tails", r"cp_async_wait<STAGES - 2>", "cp_async_wait<STAGES - 1>", None,
        "a slice read before its cp.async is waited for",
    ),
    "split_barrier": Fault(
        "tails", BARRIER, SPLIT_BARRIER, -1, "half a warp at each of two barriers"
    ),
    # -- bounds and contents --
    "read_behind_a": Fault(
        "tails", r"row < M \? K - column : 0", "K - column", None, "rows of A behind its end read"
    ),
    "write_behind_d": Fault(
        "tails", r"row >= M \|\| column >= N", "column >= N", None,
        "rows of D behind its end written",
    ),
    "write_padding": Fault(
        "tails", r"row >= M \|\| column >= N", "row >= M", None, "padding behind D's rows written"
    ),
    "read_unwritten_c": Fault(
        "tails", r"if \(beta != 0\.0f\)", "if (true)", None,
        "C read at beta 0, where nobody wrote it",
    ),
    "unwritten_slot": Fault(
        "tails", r"start_b\(write, slice\);", "", None, "B's first slices read and never copied"
    ),
    "wrong_slice": Fault(
        "tails", r"next = slice \+ STAGES - 1;", "next = slice + STAGES - 2;", None,
        "slices of k multiplied twice and left out",
    ),
    # -- between blocks --
    "tiles_overlap": Fault(
        "tails", r"(const int m0 = )(.*);", r"\1min(static_cast<int>(\2), M - TILE_M);", None,
        "two blocks write the same rows of D",
    ),
    # -- asynchronous copies and products, wgmma --
    "full_wait": Fault(
        "tma", r"mbarrier_wait\(full \+ slot \* 8, parity\);", "", None,
        "slices multiplied before TMA has delivered them",
    ),
    "empty_wait": Fault(
        "tma", r"mbarrier_wait\(empty \+ slot \* 8, parity\);", "", None,
        "slots filled while wgmma reads them",
    ),
    "released_early": Fault(
        "tma", r"wgmma_wait<1>\(\);", "wgmma_wait<2>();", None, "a slot released before it is read"
    ),
    "proxy_fence": Fault(
        "tma", r"fence_proxy_async\(\);  // TMA", ";  // TMA", None,
        "TMA stores what no fence made visible to it",
    ),
    "panel_reused": Fault(
        "tma", r"tma_store_wait_read<STORE_SLOTS - 1>\(\);", ";", None,
        "a panel overwritten while TMA reads it",
    ),
    "panel_barrier": Fault(
        "tma", r"__syncwarp\(\);", "", -1, "a panel stored before it is written"
    ),
    "exit_early": Fault(
        "tma", r"tma_store_wait\(\);(?=  // shared memory)", "", None,
        "the block ends while TMA reads its memory",
    ),
    "init_fence": Fault(
        "tma", r"fence_mbarrier_init\(\);", ";", None,
        "mbarriers used with no fence after their making",
    ),
    "consumers_overlap": Fault(
        "tma", r"m0 \+= consumer \* CONSUMER_M;", "", None,
        "two consumers store the same rows by TMA",
    ),
}  # fmt: skip


def base_program(name: str) -> Any:
    """The program of a base."""
    choice, text = BASES[name]
    spec = GemmSpec.from_text(text)
    arch = load_arch(spec.arch)
    return program_around(spec, arch, lambda inner: choice.program(inner, arch))


def build(name: str) -> Any:
    """The job of a sound kernel or of a fault, with what the emulator says of it."""
    fault = FAULTS.get(name)
    sound = name.removeprefix("sound_")
    if fault is None:
        program = base_program(sound) if sound in BASES else gpu_jobs.program_of(name)
        source = render_program(program)
    else:
        program = base_program(fault.base)
        source = fault.apply(render_program(program))
    fresh = ("c",) if program.spec.dtype_c is not None else ()
    job = gpu_jobs.job_of(name, program, source, fresh=fresh)
    begun = time.perf_counter()
    inputs = inputs_for(job.problem, "exact", "integers", 1)
    # What the GPU gets as allocated and not written, the emulator gets as a null pointer.
    inputs = Inputs("exact", {n: v for n, v in inputs.values.items() if n not in fresh})
    # `verify` looks for races in sampled blocks of the shipped ones; all of theirs take minutes.
    races = name not in gpu_jobs.SHIPPED
    emulator = EmulatorDevice(program, job.about.pop("ptx"), races=races)
    outcome = emulator.launch(job.problem, inputs, None)
    job.wanted = elements(job.problem, outcome.d)
    import numpy as np

    matrix = job.problem.matrix("d")
    strays = stray_writes(matrix, outcome.d, None, np, outcome.background)
    kinds = Counter(text.split(":")[0] for text in outcome.faults)
    job.about = {
        "emulator": sorted(kinds) + ["write outside D"] * bool(strays),
        "first": outcome.faults[0].splitlines()[0] if outcome.faults else "",
        "complete": outcome.complete,
        "seconds": round(time.perf_counter() - begun, 1),
        "base": f"sound_{fault.base}" if fault else "",
        "about": fault.about if fault else str(job.problem),
        "kernel": program.name,
    }
    return job


def command_of(tool: str) -> list[str]:
    """compute-sanitizer with a tool's options, those that this version knows."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        raise SystemExit("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    words = [program, "--tool", tool, "--print-limit", "20", "--show-backtrace", "no"]
    options = {
        "memcheck": ["--destroy-on-device-error kernel", "--padding 64"],
        "racecheck": ["--racecheck-report analysis"],
        "initcheck": ["--initcheck-address-space all"],
    }
    for option in options.get(tool, []):
        if option.split()[0] in known:
            words += option.split()
    return words


def wanted_under(tool: str, name: str) -> bool:
    """Whether a job is run under a tool."""
    return tool != "racecheck" or name not in gpu_jobs.SHIPPED


def parse(text: str) -> dict[str, dict[str, Any]]:
    """By job: what was said of it (first lines of each report, with counts), and of its values."""
    found: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {"reports": Counter(), "values": ""}
    for line in text.splitlines():
        if line.startswith(BEGIN):
            current = {"reports": Counter(), "values": "did not end"}
            found[line.split()[2]] = current
        elif line.startswith(END):
            current["values"] = line.split(maxsplit=3)[3]
        elif line.startswith("========= ") and (said := headline(line)):
            current["reports"][said] += 1
    return found


SILENT = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "Program hit", "Target app")
"""Lines that report nothing, or only what follows from a report before."""


def headline(line: str) -> str:
    """A report's first line without addresses and places; empty for all other lines.

    Details are indented.
    """
    said = line.removeprefix("========= ").removeprefix("Error: ").removeprefix("Warning: ")
    if not said.strip() or said.startswith((" ", *SILENT)):
        return ""
    said = re.sub(r" (at|in) \S*(\+0x[0-9a-f]+|:\d+|\.cu\S*)|0x[0-9a-f]+", "", said)
    return " ".join(said.split())[:90]


def run_tool(
    tool: str, jobs: list[Any], limit: float, patience: float = inf
) -> dict[str, dict[str, Any]]:
    """All jobs under one tool; a job that takes the context with it is gone on behind.

    Args:
        tool: one of `TOOLS`.
        jobs: in the order in which they run.
        limit: seconds for all of them; what is left then is not run.
        patience: seconds for one; the next one is gone on with then.
    """
    words = command_of(tool)
    found: dict[str, dict[str, Any]] = {}
    until = time.monotonic() + limit
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jobs"
        path.write_bytes(pickle.dumps(jobs))
        while len(found) < len(jobs) and time.monotonic() < until:
            runner = [sys.executable, str(ROOT / "benchmarks" / "gpu_single.py"), str(path)]
            command = [*words, *runner, "--from", str(len(found))]
            text, code = watched(command, Path(folder) / "log", until, patience)
            new = parse(text)
            if not new:
                print(f"{tool} ran nothing more (exit code {code}):\n{text[-2000:]}", flush=True)
                break
            found |= new
            if code not in (CONTEXT_LOST, STOPPED) and len(found) < len(jobs):
                break
    return found


def run_tool_in_shares(
    tool: str, jobs: list[Any], limit: float, patience: float, shares: int
) -> dict[str, dict[str, Any]]:
    """As `run_tool`, but the jobs are dealt out to so many processes, which share the GPU."""
    dealt = [jobs[share::shares] for share in range(shares)]
    with ThreadPoolExecutor(shares) as threads:
        said = list(threads.map(lambda mine: run_tool(tool, mine, limit, patience), dealt))
    together = {name: report for found in said for name, report in found.items()}
    return {job.name: together[job.name] for job in jobs if job.name in together}


STOPPED = -1
"""Exit code of a command that was stopped."""


def watched(command: list[str], log: Path, until: float, patience: float) -> tuple[str, int]:
    """What a command says, and its exit code; it is stopped when it falls silent, and in time.

    A tool starts the program in a process of its own: both are stopped.

    Args:
        command: the words.
        log: a file for what it says.
        until: time (``time.monotonic``) when it is stopped.
        patience: seconds after its last line when it is stopped.
    """
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        said, last = 0, time.monotonic()
        while (code := process.poll()) is None:
            time.sleep(0.05)
            now, size = time.monotonic(), log.stat().st_size
            if size > said:
                said, last = size, now
            if now > min(until, last + patience):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = STOPPED
                break
    return log.read_bytes().decode("utf-8", "replace"), code


def verdict_of(result: dict[str, Any] | None) -> str:
    """One cell of a table."""
    if result is None:
        return "not run"
    reports = result["reports"]
    if not reports:
        return "clean" if not result["values"].startswith(("failed", "did not")) else "stopped"
    (said, count), *more = Counter(reports).most_common()
    return f"**{said}**" + (f" x{count}" if count > 1 else "") + (" ..." if more else "")


def tables(jobs: list[Any], found: dict[str, dict[str, Any]], machine: dict[str, str]) -> str:
    """The report."""
    lines = ["# compute-sanitizer on generated kernels", ""]
    lines += [f"- {name}: {value}" for name, value in machine.items()]
    lines += [
        "", "## Sound kernels", "",
        f"| job | kernel | problem | {' | '.join(found)} | D on the GPU | emulator |",
        f"| --- | --- | --- |{' --- |' * (len(found) + 2)}",
    ]  # fmt: skip
    for job in (j for j in jobs if j.name not in FAULTS):
        cells = [
            verdict_of(found[tool].get(job.name)) if wanted_under(tool, job.name) else "left out"
            for tool in found
        ]
        about = job.about
        lines.append(
            f"| {job.name} | {about['kernel']} | {about['about']} | {' | '.join(cells)} |"
            f" {values_of(job, found)} | {', '.join(about['emulator']) or 'clean'} |"
        )
    lines += [
        "", "## Planted faults", "",
        f"| fault | in | what | {' | '.join(found)} | D on the GPU | emulator and harness |",
        f"| --- | --- | --- |{' --- |' * (len(found) + 2)}",
    ]  # fmt: skip
    only = []
    for job in (j for j in jobs if j.name in FAULTS):
        cells = [verdict_of(found[tool].get(job.name)) for tool in found]
        about = job.about
        lines.append(
            f"| {job.name} | {FAULTS[job.name].base} | {about['about']} | {' | '.join(cells)} |"
            f" {values_of(job, found)} | {', '.join(about['emulator']) or 'nothing'} |"
        )
        if about["emulator"] and all(cell == "clean" for cell in cells):
            only.append(job.name)
    lines += ["", f"Seen by the emulator alone: {', '.join(only) or 'none'}."]
    return "\n".join(lines) + "\n"


def values_of(job: Any, found: dict[str, dict[str, Any]]) -> str:
    """Whether D came out right, in the runs under each tool."""
    said = [found[tool][job.name]["values"] for tool in found if job.name in found[tool]]
    return "; ".join(dict.fromkeys(said))


def main() -> int:
    """Builds, runs every tool, writes both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tool", action="append", choices=TOOLS)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a tool may take")
    parser.add_argument("--race-limit", type=float, default=300.0, help="seconds racecheck may")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds a job may take")
    parser.add_argument("--shares", type=int, default=1, help="processes of each tool")
    options = parser.parse_args()
    names = [*gpu_jobs.SHIPPED, *gpu_jobs.SMALL, *(f"sound_{b}" for b in BASES), *FAULTS]
    jobs = list(in_processes(partial(build), names, options.jobs))
    sound = {job.name: job.wanted for job in jobs}
    for job in jobs:
        complete = job.about.pop("complete")
        if job.about["base"]:
            wanted = sound[job.about["base"]]
            if complete and (job.wanted != wanted).any():
                job.about["emulator"].append("wrong values")
            job.wanted = wanted
    try:
        import cupy

        properties = cupy.cuda.runtime.getDeviceProperties(0)
    except Exception as error:  # noqa: BLE001  cupy's own errors are no subclass of one of ours
        print(f"no GPU: {error}", file=sys.stderr)
        return 3
    version = subprocess.run(
        [shutil.which("compute-sanitizer") or "false", "--version"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    machine = {
        "command": "python benchmarks/sanitizers.py --out FOLDER",
        "gpu": properties["name"].decode(),
        "compute-sanitizer": " ".join(re.findall(r"[Vv]ersion \S+", version.stdout)[:1]),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    seconds: dict[str, float] = {}
    for tool in options.tool or TOOLS:
        mine = [job for job in jobs if wanted_under(tool, job.name)]
        limit = options.race_limit if tool == "racecheck" else options.limit
        begun = time.perf_counter()
        found[tool] = run_tool_in_shares(tool, mine, limit, options.patience, options.shares)
        seconds[tool] = round(time.perf_counter() - begun, 1)
        print(f"{tool}: {len(found[tool])} of {len(mine)} jobs in {seconds[tool]} s", flush=True)
        machine["seconds"] = ", ".join(f"{tool} {time}" for tool, time in seconds.items())
        write(options.out, jobs, found, machine)
    unclean = [
        f"{job.name}: {tool}: {verdict_of(found[tool].get(job.name))}"
        for job in jobs
        for tool in found
        if job.name not in FAULTS
        and wanted_under(tool, job.name)
        and verdict_of(found[tool].get(job.name)) != "clean"
    ]
    print("\n".join(unclean) or "every sound kernel is clean under every tool")
    return int(bool(unclean))


def write(
    folder: Path, jobs: list[Any], found: dict[str, dict[str, Any]], machine: dict[str, str]
) -> None:
    """Writes both files: what the tools have said so far."""
    records = [
        {"name": job.name, **{k: v for k, v in job.about.items() if k != "seconds"},
         "tools": {tool: found[tool].get(job.name) for tool in found}}
        for job in jobs
    ]  # fmt: skip
    document = {**machine, "jobs": records}
    (folder / "sanitizers.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "sanitizers.md").write_text(tables(jobs, found, machine))


if __name__ == "__main__":
    sys.exit(main())
