"""Cases of kind splitk that streams tell: every launch has a workspace of its own, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from deepgemm_codegen.harness.cases import inputs_for
from deepgemm_codegen.harness.gpu import (
    find_gpu,
    launch_arguments,
    pointer_tables,
    region_matrices,
)
from deepgemm_codegen.harness.launching import launch_kernel
from deepgemm_codegen.harness.memory import fill
from deepgemm_codegen.harness.numbers import bits_dtype, poison
from deepgemm_codegen.harness.problem import Problem, bind
from deepgemm_codegen.render import render_program
from deepgemm_codegen.toolchain import build_cubin
from tests.harness.support import program_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import Program

pytestmark = pytest.mark.gpu

TEXTS = ["m=256 n=256 k=4096 layout=nt split_k=4", "m=64 n=512 k=8192 layout=nt split_k=7"]

BUSY = r"""
extern "C" __global__ void busy(long long cycles)
{
    const long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


@dataclass
class Loaded:
    """A program on this GPU, launched with no wait before or behind it."""

    cupy: Any
    problem: Problem
    functions: dict[str, Any]
    operands: dict[str, Any]
    sms: int

    @classmethod
    def of(cls, program: Program, arch: str) -> Loaded:
        cupy = find_gpu()
        module = cupy.cuda.function.Module()
        module.load(build_cubin(render_program(program), name=program.name, arch=arch).cubin)
        functions = {}
        for kernel in program.kernels:
            function = functions[kernel.name] = module.get_function(kernel.name)
            cupy.cuda.driver.funcSetAttribute(
                function.ptr,
                cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                kernel.shared_bytes,
            )
        problem = bind(program, alpha=0.5)
        inputs = inputs_for(problem, "random", "normal", 1)
        operands = {}
        for matrix in problem.matrices:
            if matrix.name in inputs.values and matrix.name not in problem.outputs:
                bits = operands[matrix.name] = cupy.empty(matrix.elements, bits_dtype(matrix.dtype))
                fill(matrix, inputs, bits, cupy)
        sms = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        return cls(cupy, problem, functions, operands, sms)

    def own(self) -> dict[str, Any]:
        """D and a workspace, full of NaN, for one launch at a time."""
        d = self.problem.matrix("d")
        return {m.name: self._poisoned(m) for m in (d, *region_matrices(self.problem))}

    def _poisoned(self, matrix: Any) -> Any:
        return self.cupy.full(
            max(matrix.elements, 1), poison(matrix.dtype), bits_dtype(matrix.dtype)
        )

    def launch(self, own: dict[str, Any]) -> None:
        """Starts the program's kernels on the current stream."""
        addresses = {n: int(a.data.ptr) for n, a in {**self.operands, **own}.items()}
        assert not pointer_tables(self.cupy, self.problem, addresses)
        for kernel in self.problem.program.kernels:
            arguments = launch_arguments(self.problem, kernel, addresses)
            grid = self.problem.blocks_of(kernel, self.sms)
            launch_kernel(self.cupy, self.functions[kernel.name], kernel, grid, arguments)


def loaded(text: str, arch: str) -> tuple[Loaded, Any]:
    """A program, and what it gives when it runs alone."""
    target = "sm_90a" if arch == "sm_90" else arch
    it = Loaded.of(program_of(f"{text} arch={target}", None), target)
    assert it.problem.program.workspace.regions  # else the case says nothing
    own = it.own()
    it.launch(own)
    it.cupy.cuda.get_current_stream().synchronize()
    return it, own["d"].copy()


@pytest.mark.parametrize("text", TEXTS)
def test_s03_behind_a_long_kernel_on_a_stream_of_its_own(text: str, arch: str) -> None:
    it, wanted = loaded(text, arch)
    busy = it.cupy.RawKernel(BUSY, "busy")
    with it.cupy.cuda.Stream(non_blocking=True) as stream:
        own = it.own()
        for _ in range(100):
            own["d"].fill(poison(it.problem.matrix("d").dtype))
            busy((1,), (1,), (200_000,))
            it.launch(own)
            stream.synchronize()
            assert bool((own["d"] == wanted).all())


@pytest.mark.parametrize("text", TEXTS)
def test_s04_the_same_kernel_on_two_streams_at_once(text: str, arch: str) -> None:
    it, wanted = loaded(text, arch)
    streams = [it.cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    owns = [it.own() for _ in streams]
    it.cupy.cuda.get_current_stream().synchronize()
    for _ in range(200):
        for stream, own in zip(streams, owns, strict=True):
            with stream:
                it.launch(own)
        for stream, own in zip(streams, owns, strict=True):
            stream.synchronize()
            assert bool((own["d"] == wanted).all())
            own["d"].fill(poison(it.problem.matrix("d").dtype))
        it.cupy.cuda.get_current_stream().synchronize()
