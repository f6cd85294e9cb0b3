"""Launchers under nvcc, called without a GPU: what they refuse, and what they launch.

`runtime.c` stands for CUDA's runtime and for the driver's encoder of tensor maps, whose rules the
harness keeps by a function of its own: only a launcher shows whether the generated text does.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.plan.signature import Parameter

pytestmark = pytest.mark.skipif(
    which("nvcc") is None or which("cc") is None, reason="nvcc or a C compiler is not installed"
)

SUCCESS, INVALID_VALUE = 0, 1
"""cudaSuccess and cudaErrorInvalidValue."""

SPECS = {
    "mma_sync": "m=dynamic:300 n=200 k=dynamic:512 dtype_c=fp16 epilogue=bias arch=sm_80",
    "k of 0": "m=64 n=64 k=0 dtype_c=fp32 epilogue=bias,residual arch=sm_80",
    "wgmma": "m=256 n=256 k=512 layout=nt family=wgmma arch=sm_90a",
    "wgmma, dynamic": "m=dynamic n=256 k=dynamic:512 lda=512 ldb=512 layout=nt family=wgmma"
    " dtype_c=fp16 arch=sm_90a",
    "wgmma, a batch": "m=dynamic n=256 k=dynamic:512 lda=512 ldb=512 batch=3 layout=nt"
    " family=wgmma arch=sm_90a",
    "pointers": "m=64 n=64 k=dynamic:128 batch=3 stride_a=pointers stride_d=pointers arch=sm_90",
    "several kernels": "m=64 n=64 k=dynamic:4096 split_k=4 dtype=bf16 dtype_c=fp32 arch=sm_90a",
    "scales by block": "m=dynamic n=256 k=512 dtype=e4m3 scale_a=1x128 scale_b=128x128 layout=nt"
    " arch=sm_90a",
    "int32": "m=64 n=64 k=64 dtype=int8 dtype_c=int32 arch=sm_80",
    "rows": "op=epilogue m=dynamic:64 n=256 epilogue=layer_norm arch=sm_80",
}


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library that stands for CUDA's runtime."""
    built = tmp_path_factory.mktemp("runtime") / "libruntime.so"
    source = Path(__file__).parent / "runtime.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", built, source], check=True)
    return ctypes.CDLL(str(built), mode=ctypes.RTLD_GLOBAL)


class Launcher:
    """A program's launcher, and what it is called with where a test says nothing else."""

    def __init__(self, text: str, runtime: Any, folder: Path) -> None:
        spec = GemmSpec.from_text(text)
        self.program: Program = decide(spec, load_arch(spec.arch))
        self.count = ctypes.c_int.in_dll(runtime, "launches")
        source, built = folder / "kernel.cu", folder / "kernel.so"
        source.write_text(render_program(self.program), encoding="utf-8")
        number = self.program.target.removeprefix("sm_")
        code = f"-gencode=arch=compute_{number},code=compute_{number}"  # PTX: nothing runs it
        words = ["nvcc", code, "--shared", "--compiler-options=-fPIC", "--cudart=none"]
        subprocess.run([*words, "-o", built, source], check=True, capture_output=True)
        self.function = getattr(ctypes.CDLL(str(built)), f"{self.program.name}_launch")

    def __call__(
        self,
        alpha: float = 1.0,
        beta: float = 0.0,
        *,
        null: Collection[str] = (),
        at: Mapping[str, int] | None = None,
    ) -> tuple[int, int]:
        """(status, launches) of a call; every pointer leads nowhere, and some are null.

        ``at`` holds dynamic sizes that are not the planned ones.
        """
        m, n, k = ((at or {}).get(size) for size in "mnk")
        problem = bind(self.program, m=m, n=n, k=k, alpha=alpha, beta=beta)
        arguments = [
            self._argument(problem, parameter, (i + 1) << 36, null)
            for i, parameter in enumerate(self.program.parameters)
        ]
        if self.program.workspace.regions:
            arguments.append(ctypes.c_void_p(0 if "workspace" in null else 1 << 42))
        self.count.value = 0
        return self.function(*arguments, ctypes.c_void_p(0)), self.count.value

    @staticmethod
    def _argument(
        problem: Problem, parameter: Parameter, address: int, null: Collection[str]
    ) -> Any:
        if parameter.pointer:
            return ctypes.c_void_p(0 if parameter.name in null else address)
        if parameter.role in ("alpha", "beta"):
            return ctypes.c_float(getattr(problem, parameter.role))
        if parameter.role == "stride":
            return ctypes.c_longlong(problem.matrix(parameter.name[2:]).leading)
        return ctypes.c_int(getattr(problem, parameter.name))

    def named(self, *roles: str) -> list[str]:
        """Pointers of some roles, but arrays of pointers, which are followed in any case."""
        return [p.name for p in self.program.parameters if p.role in roles and not p.array]


@pytest.mark.parametrize("name", SPECS)
def test_null_pointers_and_sizes_of_zero(name: str, runtime: Any, tmp_path: Path) -> None:
    """What nobody reads may be null; no size from 0 on is refused.

    Faults seen: maps of no elements, or of a null pointer, which the driver refuses; an A of no
    elements, whose pointer is null in an empty tensor.
    """
    call = Launcher(SPECS[name], runtime, tmp_path)
    spec, kernels = call.program.solved, len(call.program.kernels)
    assert call() == (SUCCESS, kernels)
    dynamic = [size for size in "mnk" if getattr(spec, size).dynamic]
    for size in dynamic:
        assert call(at={size: 1}) == (SUCCESS, kernels)
        assert call(at={size: 0}) == (SUCCESS, kernels if size == "k" else 0)
    operands = call.named("a", "b", "scales")
    if spec.multiplies:
        assert call(alpha=0.0, null=[*operands, "c"]) == (SUCCESS, kernels)
    if "k" in dynamic:
        assert call(null=operands, at={"k": 0}) == (SUCCESS, kernels)
    for parameter in call.program.parameters:
        if parameter.pointer:
            empty = spec.multiplies and spec.k.size == 0 and parameter.name in operands
            read = parameter.role != "c" and not empty
            assert call(null=[parameter.name])[0] == (INVALID_VALUE if read else SUCCESS)
    if "c" in call.named("c"):
        assert call(beta=1.0, null=["c"]) == (INVALID_VALUE, 0)
    if call.program.workspace.regions:
        assert call(null=["workspace"]) == (INVALID_VALUE, 0)


def test_int32_has_an_alpha_and_a_beta_of_one_or_nothing(runtime: Any, tmp_path: Path) -> None:
    call = Launcher(SPECS["int32"], runtime, tmp_path)
    for alpha in (0.0, -0.0, 1.0):
        for beta in (0.0, 1.0):
            assert call(alpha, beta) == (SUCCESS, 1)
    for odd in (0.5, -1.0, 2.0, float("nan"), float("inf")):
        assert call(odd) == (INVALID_VALUE, 0)
        assert call(1.0, odd) == (INVALID_VALUE, 0)
