"""The benchmark's GPU: loads a kernel, and measures the machine's ceilings. Decides nothing."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness import bench_ceilings
from deepgemm_codegen.harness.bench_loaded import LoadedKernel
from deepgemm_codegen.harness.bench_stats import Ceilings
from deepgemm_codegen.harness.bench_stream import ANYTHING, GpuStream
from deepgemm_codegen.harness.gpu import find_gpu
from deepgemm_codegen.harness.inputs import Normal
from deepgemm_codegen.toolchain import build_cubin, explain_mismatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.harness.bench_ceilings import TensorKernel
    from deepgemm_codegen.harness.bench_data import Entry
    from deepgemm_codegen.harness.problem import Problem

__all__ = ["CupyBench", "find_bench_gpu"]


def find_bench_gpu(seed: int = 0) -> CupyBench:
    """The GPU of this machine; the seed is that of the operands.

    Raises:
        EnvironmentLackError: there is none that cupy can use.
    """
    try:
        return CupyBench(find_gpu(), seed)
    except EnvironmentLackError as error:
        cause = str(error).replace("; verify --on emulator needs none", "")
        raise EnvironmentLackError(f"bench measures on an NVIDIA GPU: {cause}") from error


class CupyBench(GpuStream):
    """See `BenchDevice`."""

    _loaded: LoadedKernel | None = None

    @property
    def free_bytes(self) -> int:
        """See `BenchDevice`; three quarters, as the check needs room beside the operands."""
        self._release()
        free: int = self.cupy.cuda.runtime.memGetInfo()[0]
        return free * 3 // 4

    def _release(self) -> None:
        """Frees the kernel before."""
        if self._loaded is not None:
            self._loaded = None
            gc.collect()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def load(self, entry: Entry, problem: Problem, sets: int, against: str) -> LoadedKernel:
        """See `BenchDevice`."""
        self._release()
        mismatch = explain_mismatch(entry.built_for, self._machine.arch, ptx=False)
        if mismatch is not None:
            raise EnvironmentLackError(mismatch)
        with self.errors(), self.stream:
            self._loaded = LoadedKernel(self, entry, problem, sets, against)
            self.stream.synchronize()
        return self._loaded

    def ceilings(self) -> Ceilings:
        """See `BenchDevice`."""
        self._release()
        machine = self._machine
        sheet = bench_ceilings.datasheet(machine.arch, machine.gpu, machine.sms)
        work: dict[str, Callable[[], float]] = {
            "memory": self._reading,
            "writing": self._writing,
        }
        for kernel in bench_ceilings.tensor_kernels(machine.arch):
            work[kernel.unit] = partial(self._tensor, kernel)
        found: dict[str, float] = {}
        reasons = []
        with self.stream:
            for name, measure in work.items():
                try:
                    with self.errors():
                        found[name] = measure()
                except CodegenError as error:
                    reasons.append((name, str(error)))
        self._release()
        return Ceilings(
            found.get("memory", sheet.gbs),
            {unit: found.get(unit, rate) for unit, rate in sheet.tflops.items()},
            tuple(found),
            tuple(reasons),
            found.get("writing", 0.0),
        )

    def _reading(self) -> float:
        sink = self.cupy.zeros(4, np.uint32)
        return self._moving("read", bench_ceilings.READ, np.uint64(sink.data.ptr))

    def _writing(self) -> float:
        return self._moving("write", bench_ceilings.WRITE, ANYTHING)

    def _moving(self, name: str, source: str, second: np.generic) -> float:
        """GB/s of the best of the kernels that read or write memory; `second` is their argument."""
        cupy = self.cupy
        total = min(bench_ceilings.READ_BYTES, cupy.cuda.runtime.memGetInfo()[0] // 2)
        data = cupy.zeros(total // 8, np.uint64)
        data[...] = cupy.arange(data.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        pointer, count = np.uint64(data.data.ptr), total // 16
        least = float("inf")
        for move in self.movers(name, source):
            run = partial(move, pointer, second, count)
            run()
            least = min(least, *(self.elapsed(run) for _ in range(5)))
        return float(total / least / 1e3)

    def _tensor(self, kernel: TensorKernel) -> float:
        cupy = self.cupy
        cubin = build_cubin(kernel.source, name=kernel.name, arch=kernel.arch).cubin
        function = self.function(cubin, kernel.name, kernel.shared_bytes)
        blocks = self._sms * kernel.blocks_per_sm
        flat = cupy.arange(2 << 20, dtype=np.int64)
        values = Normal(1).at(0, 0, flat, cupy).astype(np.float16)
        sink = cupy.zeros(blocks * kernel.threads, np.float32)
        pointers = (np.uint64(sink.data.ptr), np.uint64(values.data.ptr))
        arguments = (*pointers, np.int32(kernel.rounds))

        def run() -> None:
            shape = (blocks, 1, 1), (kernel.threads, 1, 1)
            function(*shape, arguments, shared_mem=kernel.shared_bytes)

        run()
        least = min(self.elapsed(run) for _ in range(7))
        return kernel.flop_per_round * kernel.rounds * blocks / least / 1e6
