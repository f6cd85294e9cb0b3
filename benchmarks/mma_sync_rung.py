"""The mma.sync family on a GPU: one size, several plans, against the ceiling and cuBLAS.

    python benchmarks/mma_sync_rung.py [--size 4096] [--plans sweep] [--out FOLDER]

Every plan is checked, then timed beside cuBLAS as `deepgemm_codegen bench` does it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import Choice, assemble, decide
from deepgemm_codegen.harness.bench import run_bench
from deepgemm_codegen.harness.bench_data import Entry
from deepgemm_codegen.harness.bench_gpu import find_bench_gpu
from deepgemm_codegen.harness.bench_table import as_json, plain
from deepgemm_codegen.render import render_kernel
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import build_cubin

CHOICES = (
    (128, 128, 32, 2, 2, 4, 2, 8),
    (128, 128, 64, 2, 2, 3, 2, 8),
    (128, 128, 32, 2, 2, 5, 2, 16),
    (128, 256, 32, 2, 4, 4, 1, 8),
    (128, 256, 64, 2, 4, 3, 1, 8),
    (128, 256, 64, 2, 4, 4, 1, 8),
    (256, 128, 64, 4, 2, 4, 1, 8),
    (256, 128, 32, 4, 2, 5, 1, 8),
    (128, 192, 32, 2, 3, 4, 1, 8),
    (256, 192, 32, 4, 3, 4, 1, 8),
    (192, 128, 64, 3, 2, 3, 1, 8),
)


def main() -> int:
    """Runs and prints; writes JSON where --out says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--layout", default="nt")
    parser.add_argument("--plans", choices=("tree", "sweep"), default="tree")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    size = options.size
    spec = GemmSpec.from_fields(
        {"m": size, "n": size, "k": size, "layout": options.layout, "arch": "sm_90", "gpu": "H200"}
    )
    arch = load_arch(spec.arch, spec.gpu)
    plans = [decide(spec, arch).kernels[0]]
    if options.plans == "sweep":
        plans = [assemble(spec, arch, Choice(*numbers)).kernels[0] for numbers in CHOICES]
    device = find_bench_gpu()
    entries = []
    for plan in plans:
        built = build_cubin(render_kernel(plan), name=plan.name, arch="sm_90")
        usage = built.resources[plan.name]
        entries.append(
            Entry(plan, built.cubin, built.arch, "", usage.registers, usage.spill_store_bytes)
        )
    report = run_bench(entries, device)
    print(plain(report), end="")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / f"mma_sync_{size}_{options.layout}_{options.plans}.json"
        path.write_text(as_json(report, command=" ".join(sys.argv)))
    return max(row.exit_code for row in report.rows)


if __name__ == "__main__":
    sys.exit(main())
