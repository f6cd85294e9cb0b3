"""Everything about batches that wants a GPU, one after the other, each within its time.

    python benchmarks/batches_on_gpu.py [--out FOLDER] [--only launchers,verify,bench,abreast]

- ``launchers``: the files of batches under nvcc, their C launchers called (tests/gpu).
- ``verify``: every kernel of configs/bench/batched.yaml, and odd ones, judged on the GPU.
- ``bench``: configs/bench/batched.yaml beside cuBLAS; ``bench_batched.json``.
- ``abreast``: tiny products with 1 to 16 tiles a block; ``program_sweep_abreast.json``.

The first two take under nine minutes together, and so do the others.

Writes what each printed to FOLDER ($OUT, else the current one). Exit code 1 when any failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = str(ROOT / "configs" / "bench" / "batched.yaml")
CLI = (sys.executable, "-m", "deepgemm_codegen")

ODD = """\
defaults: {arch: sm_90a, gpu: H200}
kernels:
  - {m: 199, n: 136, k: 72, batch: 7, dtype_c: fp16, epilogue: "bias,residual"}
  - {m: 199, n: 136, k: 72, batch: 7, layout: tt, layout_d: t, family: wgmma}
  - {m: "dynamic:300", n: 136, k: 264, batch: 7, layout: nt, dtype: bf16}
  - {m: 199, n: 136, k: 4104, batch: 3, layout: nt, split_k: 5, family: wgmma}
  - {m: 199, n: 136, k: 144, batch: 7, layout: nt, dtype: int8, dtype_d: int32}
  - {m: 199, n: 136, k: 144, batch: 7, layout: nt, dtype: e4m3}
  - {m: 199, n: 136, k: 72, batch: 7, layout: nt, epilogue: swiglu}
  - {m: 199, n: 136, k: 72, batch: 7, layout: nt, stride: {a: 15000, b: shared, d: 30000}}
  - {m: 199, n: 136, k: 72, batch: 7, stride: {a: pointers, b: pointers, d: pointers}}
  - {m: 199, n: 131, k: 73, batch: 7, stride: {a: pointers, b: pointers}, align: {a: 2, b: 2}}
  - {m: 3, n: 136, k: 72, batch: 7, layout: nt, stride: {b: pointers}, family: bandwidth}
  - {m: 40, n: 40, k: 40, batch: 7, dtype: fp32, stride: {a: pointers, d: pointers}}
  - {m: 16, n: 16, k: 16, batch: 65537, abreast: 8}
  - {m: 8, n: 8, k: 8, batch: 65537, dtype_c: fp16, abreast: 16}
  - {m: 8, n: 8, k: 8, batch: 65537, dtype: fp32}
  - {m: 199, n: 136, k: 73, batch: 7, layout: nt, stride: {a: pointers, b: 10001}, repack: "on"}
  - {m: 199, n: 136, k: 73, batch: 7, layout: tn, dtype: e4m3, stride: {a: pointers}}
  - {m: 64, n: 72, k: 56, batch: 65537, layout: nt, family: wgmma}
"""
"""Kernels that nobody would time: every family and tail, strides of every kind."""


def commands(out: Path) -> dict[str, tuple[int, tuple[str, ...]]]:
    """By name: seconds, and what is run within them."""
    odd = out / "batches_odd.yaml"
    odd.write_text(ODD, encoding="utf-8")
    launchers = (
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        str(ROOT / "tests" / "gpu" / "test_launcher.py"),
    )
    sweep = str(ROOT / "benchmarks" / "program_sweep.py")
    return {
        "launchers": (120, (sys.executable, *launchers, "-k", "batch")),
        "verify": (420, (*CLI, "verify", str(odd), LIST, "--on=gpu", "--effort=0.2")),
        "bench": (240, (*CLI, "bench", LIST, "--json")),
        "abreast": (
            180,
            (sys.executable, sweep, "--set", "abreast", "--out", str(out), "--seconds", "120"),
        ),
    }


def main() -> int:
    """Runs what is asked for; 1 when any of it failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--only", default="launchers,verify,bench,abreast")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    failed = []
    everything = commands(given.out)
    for name in given.only.split(","):
        seconds, step = everything[name]
        log = given.out / ("bench_batched.json" if name == "bench" else f"batches_{name}.txt")
        with log.open("w", encoding="utf-8") as file:
            try:
                code = subprocess.run(
                    step,
                    stdout=file,
                    timeout=seconds,
                    env=environment,
                    cwd=ROOT,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                code = 124
        print(f"{name}: exit code {code}, {log}", flush=True)
        if name != "bench":
            print(log.read_text(encoding="utf-8")[-4000:], flush=True)
        failed += [name] * (code != 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
