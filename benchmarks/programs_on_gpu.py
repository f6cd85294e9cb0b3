"""Run the emulator's sample programs on a GPU and on the emulator, and compare the bits.

    python benchmarks/programs_on_gpu.py [FOLDER]

The same PTX and the same inputs in both places. Writes ``programs_gpu.md`` and
``programs_gpu.json`` to FOLDER ($OUT, else the current one): a line a launch. Programs that use an
approximating instruction may differ by their stated bound. Exit code 1 when any launch differs.
Needs numpy, cupy and a GPU of sm_90 or newer.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from tests.emulator.programs import PROGRAMS, Program, ptx


def on_gpu(cupy: Any, program: Program) -> list[Any]:
    """The arrays that a launch wrote on the GPU."""
    module = cupy.cuda.function.Module()
    module.load(ptx(program.name).encode() + b"\0")
    kernel = module.get_function(program.name)
    held, arguments = [], []
    for i, value in enumerate(program.arguments):
        if isinstance(value, np.ndarray):
            array = cupy.asarray(np.ascontiguousarray(value).view(np.uint8).reshape(-1))
            held.append(array)
            start = array.data.ptr + (program.offset if i == 0 else 0)
            arguments.append(np.uint64(start))
        else:
            held.append(None)
            raw = value if isinstance(value, bytes) else value.tobytes()
            arguments.append(np.frombuffer(raw, np.dtype((np.void, len(raw))))[0])
    kernel(program.grid, program.block, tuple(arguments), shared_mem=program.shared)
    cupy.cuda.runtime.deviceSynchronize()
    return [
        cupy.asnumpy(held[i]).view(program.arguments[i].dtype).reshape(program.arguments[i].shape)
        for i in program.outputs
    ]


def on_emulator(program: Program) -> tuple[list[Any], list[str]]:
    """The arrays that it wrote on the emulator, and the kinds of its findings."""
    parameters: list[Any] = []
    arrays: list[Any] = []
    for i, value in enumerate(program.arguments):
        arrays.append(value.copy() if isinstance(value, np.ndarray) else None)
        if arrays[i] is None:
            parameters.append(value)
            continue
        buffer = GlobalBuffer(f"argument{i}", arrays[i].view(np.uint8).reshape(-1), writable=True)
        parameters.append(buffer.at(program.offset) if i == 0 else buffer)
    kernel = Kernel(parse(ptx(program.name)), program.name)
    report = run(kernel, Launch(program.grid, program.block, program.shared, parameters))
    return [arrays[i] for i in program.outputs], [f.kind for f in report.findings]


def compare(program: Program, gpu: list[Any], emulator: list[Any]) -> dict[str, Any]:
    """How many elements differ, and by how much of the emulator's at most."""
    total = unequal = beyond = 0
    largest = 0.0
    for a, b in zip(gpu, emulator, strict=True):
        size = a.dtype.itemsize
        pair = [np.ascontiguousarray(x).view(np.uint8).reshape(-1, size) for x in (a, b)]
        differs = (pair[0] != pair[1]).any(axis=1)
        total += differs.size
        unequal += int(differs.sum())
        if program.relative:
            with np.errstate(all="ignore"):
                near = np.abs(a - b) <= program.relative * np.abs(b)
                apart = np.where(a == b, 0.0, np.abs(a - b) / np.abs(b))
            beyond += int((~near).sum())
            largest = max(largest, float(np.nanmax(apart, initial=0.0)))
        else:
            beyond += int(differs.sum())
    return {
        "elements": total, "unequal": unequal, "beyond_bound": beyond, "bound": program.relative,
        "largest_relative": largest,
    }  # fmt: skip


def main() -> int:
    """Run all, print and write the table."""
    import cupy

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("OUT", "."))
    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    rows, failed = [], 0
    for program in PROGRAMS:
        emulated, findings = on_emulator(program)
        row = {"program": program.name, "launch": program.label, "findings": findings}
        row |= compare(program, on_gpu(cupy, program), emulated)
        failed += bool(row["beyond_bound"] or findings)
        rows.append(row)
        print(json.dumps(row))
    lines = [
        f"# Programs of nvcc on {device} and on the emulator", "",
        "The same PTX (nvcc 13.0, sm_90) and the same inputs: `benchmarks/programs_on_gpu.py`.", "",
        "| program | launch | elements | unequal bits | bound | largest relative difference |",
        "| --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for r in rows:
        bound = f"2^{np.log2(r['bound']):.0f}" if r["bound"] else "equal bits"
        lines.append(
            f"| {r['program']} | {r['launch']} | {r['elements']} | {r['unequal']} | {bound} | "
            f"{r['largest_relative']:.1e} |"
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "programs_gpu.md").write_text("\n".join(lines) + "\n")
    (folder / "programs_gpu.json").write_text(json.dumps({"device": device, "rows": rows}) + "\n")
    print(f"{len(rows) - failed} of {len(rows)} launches agree")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
