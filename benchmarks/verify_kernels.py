"""Judges every kernel of ``configs/kernels`` where this machine can, and writes the table.

    python benchmarks/verify_kernels.py --on gpu --out benchmarks/results [--jobs 8] [FILE.yaml ...]

A kernel that several files ask for is judged once.

Writes ``verify_gpu.json`` and ``verify_gpu.md`` (or ``..._emulator``): a line a kernel with its
verdict, the architecture that the source was built for, blocks and input sets. Exit code 1 when
any kernel fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from in_time import in_time

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def judge(
    job: tuple[str, str, str, int], effort: float = 1.0, leave: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """The verdict on one spec, as a JSON object; ``lack`` is why this machine can give none.

    Args:
        job: the spec, where it is from, where it is judged, the seed.
        effort: the emulator's.
        leave: checks that are left out.
    """
    from deepgemm_codegen.arch import load_arch
    from deepgemm_codegen.checks import DEFAULT_CHECKS, Settings
    from deepgemm_codegen.decide import decide
    from deepgemm_codegen.errors import EnvironmentLackError
    from deepgemm_codegen.harness import as_json, format_verdict
    from deepgemm_codegen.render import render_program
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.toolchain import build_cubin
    from deepgemm_codegen.verification.judging import verdict_of

    text, source, on, seed = job
    spec = GemmSpec.from_text(text)
    program = decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    code = render_program(program)

    def build(target: str) -> Any:
        return build_cubin(code, name=program.name, arch=target)

    settings = Settings(seed, effort, DEFAULT_CHECKS - leave)
    begun = time.process_time()
    try:
        verdict = verdict_of(program, build, on=on, settings=settings)  # type: ignore[arg-type]
    except EnvironmentLackError as error:
        return {"source": source, "spec": text, "lack": str(error)}
    return {
        "source": source,
        "spec": text,
        "seconds": round(time.process_time() - begun, 2),
        "line": format_verdict(verdict)[0],
        **as_json(verdict),
    }


def main() -> int:
    """Judges all kernels in parallel and writes both files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--on", choices=("gpu", "emulator"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=1, help="the processes share these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0, help="what runs then is killed")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one kernel")
    parser.add_argument("files", nargs="*", type=Path, help="or folders; configs/kernels if none")
    options = parser.parse_args()
    from deepgemm_codegen.specfile import read

    given = options.files or [ROOT / "configs" / "kernels"]
    files = [file for path in given for file in sorted(path.glob("*.yaml")) or [path]]
    found: dict[str, str] = {}  # a spec and the first file that asks for it
    for file in files:
        for entry in read(file):
            found.setdefault(str(entry.spec), file.name)
    jobs = [(spec, name, options.on, options.seed) for spec, name in found.items()]
    ended = in_time(
        judge, jobs, options.jobs, options.seconds, gpus=options.gpus, limit=options.limit
    )
    records = [ended.results[index] for index in sorted(ended.results)]
    machine = {"command": " ".join(["python", *sys.argv]), "on": options.on}
    if options.on == "gpu":
        import cupy

        properties = cupy.cuda.runtime.getDeviceProperties(0)
        machine["gpu"] = properties["name"].decode()
        machine["driver"] = str(cupy.cuda.runtime.driverGetVersion())
    lacking = [record for record in records if "lack" in record]
    records = [record for record in records if "lack" not in record]
    failed = [record for record in records if not record["passed"]]
    for index in ended.running:
        print(f"running when the time was over: {jobs[index][0]}")
    for index in ended.stuck:
        print(f"did not end in {options.limit:g} s, or took its process along: {jobs[index][0]}")
    options.out.mkdir(parents=True, exist_ok=True)
    stem = options.out / f"verify_{options.on}"
    document = {**machine, "seed": options.seed, "kernels": records}
    stem.with_suffix(".json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    lines = [
        f"# Every kernel of the files, judged on the {options.on}",
        "",
        *(f"- {key}: {value}" for key, value in machine.items()),
        f"- {len(records) - len(failed)} of {len(records)} judged passed, {len(jobs)} asked",
        *(f"- not judged: {record['lack']}" for record in lacking),
        f"- seed: {options.seed}",
        "",
        "| kernel | from | verdict |",
        "| --- | --- | --- |",
    ]
    for record in records:
        verdict = " ".join(record["line"].split()).replace("|", "/")
        notes = "; ".join(record.get("notes", ()))
        text = f"{verdict}{'; ' if notes else ''}{notes}"
        lines.append(f"| {record['name']} | {record['source']} | {text} |")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    for record in lacking:
        print(f"not judged: {record['lack']}")
    passed, able = len(records) - len(failed), len(jobs) - len(lacking)
    print(f"{passed} of {able} passed")
    for record in failed:
        print(record["line"])
    return int(passed < able)


if __name__ == "__main__":
    sys.exit(main())
