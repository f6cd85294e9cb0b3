"""Kernels for ``sanitizers.py`` and ``ncu_conflicts.py``: shipped ones, and more of each kind.

Whole problems, small enough that the emulator runs every block in seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpu_single import Job

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import BandwidthChoice, MmaSyncChoice, SimtChoice, WgmmaChoice, decide
from deepgemm_codegen.decide.around import program_around
from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.memory import fill
from deepgemm_codegen.harness.numbers import bits_dtype
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import read
from deepgemm_codegen.toolchain import build_cubin

if TYPE_CHECKING:
    from deepgemm_codegen.plan import Program

ROOT = Path(__file__).resolve().parent.parent
KERNELS, BENCH = ROOT / "configs" / "kernels", ROOT / "configs" / "bench"

SHIPPED: dict[str, tuple[Path, dict[str, Any]]] = {
    "prime_nn": (KERNELS / "awkward.yaml", {"label": "prime", "layout": "nn", "arch": "sm_90"}),
    "k_1023_nn": (KERNELS / "awkward.yaml", {"label": "k_1023", "layout": "nn", "arch": "sm_90"}),
    "long_k_nt": (KERNELS / "awkward.yaml", {"label": "long_k", "layout": "nt", "arch": "sm_90"}),
    "conv5_nt": (
        KERNELS / "resnet50_1x1.yaml",
        {"label": "resnet50_conv5_reduce", "arch": "sm_90"},
    ),
    "sd15_c1280_nt": (
        KERNELS / "stable_diffusion_1_5.yaml",
        {"label": "sd15_proj_16x16_c1280", "arch": "sm_90"},
    ),
    "wgmma_784": (BENCH / "hopper.yaml", {"m": 784, "n": 512, "k": 2048, "dtype_a": "fp16"}),
    "wgmma_1024": (BENCH / "hopper.yaml", {"m": 1024, "n": 1024, "k": 1024, "dtype_a": "bf16"}),
    "wgmma_640": (BENCH / "hopper.yaml", {"m": 1024, "n": 640, "k": 640, "dtype_a": "fp16"}),
}
"""Kernels of the repository's own files: the file, and fields that tell which."""

SMALL: dict[str, tuple[Any, str]] = {
    "mma_tt_column_major": (
        MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8),
        "m=256 n=256 k=256 layout=tt layout_d=t arch=sm_90",
    ),
    "mma_tn_c_fp32": (
        MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8),
        "m=256 n=256 k=256 layout=tn dtype_c=fp32 dtype_d=fp32 epilogue=bias,relu arch=sm_90",
    ),
    "wgmma_pair_nt": (  # of five slices the second consumer starts two when the first has all
        WgmmaChoice(128, 128, 2, 1, 3, 1, 1, 8),
        "m=256 n=256 k=320 layout=nt arch=sm_90a",
    ),
    "wgmma_ping_pong_nn": (
        WgmmaChoice(64, 128, 2, 2, 3, 1, 1, 8),
        "m=256 n=256 k=256 layout=nn dtype=bf16 arch=sm_90a",
    ),
    "wgmma_cluster_tn": (
        WgmmaChoice(128, 128, 2, 1, 3, 2, 1, 8),
        "m=256 n=256 k=320 layout=tn epilogue=bias,relu arch=sm_90a",
    ),
    "wgmma_rows_nt": (  # three blocks tell each other of rows, consumers in turns
        WgmmaChoice(64, 128, 2, 2, 3, 1, 1, 1, cluster_rows=3),
        "m=512 n=384 k=200 layout=nt epilogue=bias,layer_norm arch=sm_90a",
    ),
    "wgmma_rows_shared_nt": (  # four that share A
        WgmmaChoice(128, 64, 2, 1, 3, 1, 1, 1, cluster_rows=4),
        "m=512 n=250 k=256 layout=nt epilogue=residual,rms_norm arch=sm_90a",
    ),
    "wgmma_slab_nt": (
        WgmmaChoice(64, 48, 1, 1, 4, 1, 1, 4),
        "m=256 n=249 k=256 layout=nt epilogue=bias arch=sm_90a",
    ),
    "simt_nt": (
        SimtChoice(64, 64, 16, 2, 2, 3, 1, 8),
        "m=128 n=128 k=128 dtype=fp32 layout=nt arch=sm_90",
    ),
    "bandwidth_nt": (
        BandwidthChoice(2, 2, 4, 4, 1),
        "m=8 n=256 k=1024 dtype=bf16 layout=nt arch=sm_90",
    ),
    "mma_split_nt": (
        MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8, 3),
        "m=128 n=128 k=448 layout=nt epilogue=bias,relu arch=sm_90",
    ),
    "wgmma_split_nt": (
        WgmmaChoice(128, 64, 2, 1, 4, 1, 1, 8, split_k=2),
        "m=256 n=128 k=512 layout=nt arch=sm_90a",
    ),
    "wgmma_gather_nt": (
        WgmmaChoice(128, 64, 2, 1, 4, 1, 1, 8, split_k=3, cluster_k=3),
        "m=256 n=128 k=512 layout=nt epilogue=bias,relu arch=sm_90a",
    ),
}
"""Programs of one kind each, at most 256-cubed: name to choice and spec."""


def program_of(name: str) -> Program:
    """The program of a name in `SHIPPED` or `SMALL`."""
    if name in SMALL:
        choice, text = SMALL[name]
        spec = GemmSpec.from_text(text)
        arch = load_arch(spec.arch)
        return program_around(spec, arch, lambda inner: choice.program(inner, arch))
    path, fields = SHIPPED[name]
    for entry in read(path):
        spec = entry.spec
        if all(_is(getattr(spec, field), value) for field, value in fields.items()):
            return decide(spec, load_arch(spec.arch, spec.gpu, spec.sms))
    raise SystemExit(
        f"{path.name} has no kernel with {fields} any more; mend {Path(__file__).name}"
    )


def _is(value: Any, wanted: Any) -> bool:
    size = getattr(value, "size", None)
    return wanted in (value, size, getattr(value, "name", None))


def operands(problem: Any, *, fresh: tuple[str, ...] = ()) -> dict[str, Any]:
    """Whole numbers for every operand that is read, but those that stay as they were allocated."""
    inputs = inputs_for(problem, "exact", "integers", 1)
    found = {}
    for matrix in problem.matrices:
        if matrix.name in problem.outputs or matrix.name in fresh:
            continue
        bits = np.zeros(max(matrix.elements, 1), bits_dtype(matrix.dtype))
        fill(matrix, inputs, bits[: matrix.elements], np)
        found[matrix.name] = bits
    return found


def job_of(
    name: str, program: Program, source: str, *, fresh: tuple[str, ...] = (), beta: float = 0.0
) -> Job:
    """A job for the runner."""
    problem = bind(program, alpha=1.0, beta=beta)
    built = build_cubin(source, name=program.name, arch=program.target, line_info=True)
    return Job(name, problem, built.cubin, operands(problem, fresh=fresh), about={"ptx": built.ptx})
