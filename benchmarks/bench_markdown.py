"""Turns the JSON of ``deepgemm_codegen bench --json`` into the table beside it.

python benchmarks/bench_markdown.py RESULT.json "COMMAND" [DRIVER] > RESULT.md
"""

from __future__ import annotations

import json
import sys
from math import exp, log
from pathlib import Path
from typing import Any

FUSED = "cuBLASLt fused"
"""cublasLt with an epilogue of its own; the other columns are the plain product."""

WRITING = "writing D"
"""A kernel that writes D's bytes and nothing else."""

PLAIN = "own plain"
"""Our own kernel without the steps, of kernels that have some."""

SHOWN = ("dtype", "m", "n", "k", "layout", "launch", "split_k", "epilogue", "dtype_d")


def problem(spec: str) -> str:
    """The spec's line without what the whole table shares."""
    fields = dict(word.split("=", 1) for word in spec.split() if "=" in word)
    sizes = "x".join(fields[name] for name in "mnk")
    rest = [fields[name] for name in SHOWN[4:] if name in fields]
    return " ".join([fields["dtype"], sizes, *rest])


def row(kernel: dict[str, Any], rivals: tuple[str, ...]) -> str:
    """One kernel's line."""
    if kernel.get("us") is None:
        return f"| {problem(kernel['spec'])} | {kernel.get('plan', '')} | {kernel['error']} |"
    cells = [problem(kernel["spec"]), kernel["plan"], f"{kernel['us']:.2f}"]
    cells += [f"{kernel['tflops']:.0f}", f"{kernel['gbs']:.0f}", f"{kernel['of_ceiling']:.0%}"]
    for rival in rivals:
        against = kernel["against"].get(rival, {})
        cells += (
            [f"{against['us']:.2f}", f"{against['ratio']:.3f}"] if against.get("us") else ["", ""]
        )
    return f"| {' | '.join(cells)} |"


def epilogue_lines(kernels: list[dict[str, Any]], rival: str) -> list[str]:
    """The means over a rival that epilogues are about, each epilogue's apart."""
    found: dict[str, list[dict[str, Any]]] = {}
    for kernel in kernels:
        beside = kernel.get("against", {}).get(rival, {})
        if kernel.get("us") and beside.get("us"):
            epilogue = kernel["spec"].split("epilogue=")[1].split()[0]
            found.setdefault(epilogue, []).append(beside)
    if not found:
        return []
    lines = ["", f"| epilogue | kernels | {rival} | least | |", "| --- | --: | --: | --: | --- |"]
    for epilogue, beside in found.items():
        ratios = [each["ratio"] for each in beside]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        note = beside[0]["note"].partition("; ")[2]
        lines.append(
            f"| {epilogue} | {len(ratios)} | **{mean:.3f}** | {min(ratios):.3f} | {note} |"
        )
    return lines


def dynamic_lines(kernels: list[dict[str, Any]]) -> list[str]:
    """A line for each kernel of a dynamic m: its ratio over that of the kernel for that m.

    Both ratios are over cuBLAS in the same row: rows are measured one after the other, and the
    chip's clock moves between them by more than the kernels differ.
    """
    ratios = {
        kernel["spec"]: kernel["against"]["cuBLAS"]["ratio"]
        for kernel in kernels
        if kernel.get("us") and kernel["against"].get("cuBLAS", {}).get("ratio")
    }
    pairs = [
        (spec, ratio / ratios[fixed])
        for spec, ratio in ratios.items()
        if (fixed := spec.replace("m=dynamic:", "m=")) in ratios and fixed != spec
    ]
    if not pairs:
        return []
    lines = ["", "| dynamic m | of the fixed kernel's speed, each over cuBLAS |", "| --- | --: |"]
    lines += [f"| {problem(spec)} | {ratio:.3f} |" for spec, ratio in pairs]
    mean = exp(sum(log(ratio) for _, ratio in pairs) / len(pairs))
    return [*lines, f"| geometric mean | {mean:.3f} |"]


def main() -> None:
    """Prints the document."""
    path, command, *driver = sys.argv[1:]
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    software, ceilings = found["machine"]["software"], found["ceilings"]
    print(f"# {Path(path).stem}: sm_90a against cuBLAS, on one H200\n")
    print(f"- command: `{command}`")
    named = driver[0] if driver else f"of CUDA {software['driver (CUDA version)']}"
    print(f"- {found['machine']['gpu']}, driver {named}, cuBLAS {software['cuBLAS']}")
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in ceilings["tflops"].items())
    gbs = f"{ceilings['gbs']:.0f} GB/s"
    if ceilings.get("write_gbs"):
        gbs = f"{gbs} read, {ceilings['write_gbs']:.0f} GB/s written"
    print(f"- ceilings in this run: {gbs}, {rates} TFLOP/s")
    print("- a ratio above 1 is faster than the library; cuBLAS is its default algorithm, cuBLASLt")
    print("  the best of its top eight heuristics")
    rivals: tuple[str, ...] = ("cuBLAS", "cuBLASLt")
    if any(FUSED in kernel.get("against", {}) for kernel in found["kernels"]):
        rivals = (*rivals, FUSED)
        print(f"- these two compute the plain product; {FUSED} adds the epilogue too, so that its")
        print("  column compares like with like, but for the exact gelu, of which it has none")
    if any(PLAIN in kernel.get("against", {}) for kernel in found["kernels"]):
        rivals = (*rivals, PLAIN)
        print(f"- {PLAIN}: our own kernel without the steps, timed in turn with the kernel on the")
        print("  same operands; 0.960 says that the steps take 4 % of the kernel's time")
    if any(WRITING in kernel.get("against", {}) for kernel in found["kernels"]):
        rivals = (*rivals, WRITING)
        print(f"- {WRITING}: a kernel that writes D's bytes and nothing else, where they are most")
    heads = ["problem", "plan", "us", "TFLOP/s", "GB/s", "of ceiling"]
    heads += [text for rival in rivals for text in (f"{rival} us", "ratio")]
    print(f"\n| {' | '.join(heads)} |\n| --- | --- |" + " --: |" * (len(heads) - 2))
    print("\n".join(row(kernel, rivals) for kernel in found["kernels"]))
    print("\n| geometric mean | kernels | cuBLAS | cuBLASLt | least of cuBLAS |")
    print("| --- | --: | --: | --: | --: |")
    groups: dict[str, list[dict[str, Any]]] = {}
    for kernel in found["kernels"]:
        if kernel.get("us"):
            groups.setdefault(kernel["group"], []).append(kernel)
    for name, kernels in [*groups.items(), ("all", [k for g in groups.values() for k in g])]:
        ratios = {
            rival: [r for k in kernels if (r := k["against"].get(rival, {}).get("ratio"))]
            for rival in ("cuBLAS", "cuBLASLt")
        }
        means = [f"{exp(sum(map(log, r)) / len(r)):.3f}" if r else "" for r in ratios.values()]
        least = f"{min(ratios['cuBLAS']):.3f}" if ratios["cuBLAS"] else ""
        print(f"| {name} | {len(kernels)} | {' | '.join(means)} | {least} |")
    lines = [line for rival in (FUSED, PLAIN) for line in epilogue_lines(found["kernels"], rival)]
    print("\n".join([*lines, *dynamic_lines(found["kernels"])]))


if __name__ == "__main__":
    main()
