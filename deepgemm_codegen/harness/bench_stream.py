"""The GPU that the benchmark measures on, through cupy: one stream, its clock, and the libraries.

All work goes to one stream. A side is captured in a CUDA graph whose launches walk the operand
sets, so that no launch finds its operands in the L2; the graphs of all sides are replayed in turn.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import bench_ceilings
from deepgemm_codegen.harness.bench_cublas import WORKSPACE_BYTES, Cublas, CublasLt
from deepgemm_codegen.harness.bench_data import CUBLAS, CUBLASLT, Machine
from deepgemm_codegen.harness.bench_stats import REPLAYS, WARM_SECONDS
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.gpu import STATIC_LIMIT
from deepgemm_codegen.harness.gpu_oracle import GpuPrefixSums
from deepgemm_codegen.toolchain import build_cubin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from deepgemm_codegen.harness.bench_data import Side

__all__ = ["ANYTHING", "GpuStream"]

ANYTHING = np.uint32(0x9E3779B9)
"""What is written where only the writing counts."""


class GpuStream:
    """One GPU, with all that a loaded kernel and its rivals need of it.

    Args:
        cupy: the module.
        seed: of the operands.
    """

    def __init__(self, cupy: Any, seed: int = 0) -> None:
        self.cupy = cupy
        self.seed = seed
        device = cupy.cuda.Device()
        properties = cupy.cuda.runtime.getDeviceProperties(device.id)
        arch = f"sm_{device.compute_capability}"
        self._sms = int(device.attributes["MultiProcessorCount"])
        self._shared_limit = int(device.attributes["MaxSharedMemoryPerBlockOptin"])
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._workspace = cupy.empty(WORKSPACE_BYTES, np.uint8)
        runtime = cupy.cuda.runtime
        major = runtime.runtimeGetVersion() // 1000
        self.cublas, cublas_text = self._library(Cublas, major)
        self.cublaslt, lt_text = self._library(CublasLt, major)
        self.prefix_sums = GpuPrefixSums(cupy, arch)
        self._machine = Machine(
            gpu=properties["name"].decode(),
            arch=arch,
            sms=self._sms,
            memory_mib=int(properties["totalGlobalMem"]) >> 20,
            software=(
                ("driver (CUDA version)", _version(runtime.driverGetVersion())),
                ("CUDA runtime", _version(runtime.runtimeGetVersion())),
                ("cupy", str(cupy.__version__)),
                (CUBLAS, cublas_text),
                (CUBLASLT, lt_text),
            ),
        )

    def _library(self, kind: type[Any], major: int) -> tuple[Any, str]:
        """A library's binding, or None and why not."""
        with contextlib.suppress(RuntimeError, ImportError, OSError, AttributeError):
            # cupy loads its own cuBLAS here, which is then the one that is found.
            self.cupy.cuda.device.get_cublas_handle()
        try:
            found = kind(major, self.stream.ptr, int(self._workspace.data.ptr))
        except (EnvironmentLackError, AttributeError) as error:
            return None, str(error)
        version = getattr(found, "version", 0)
        return found, str(version) if version else "loaded"

    @property
    def machine(self) -> Machine:
        """See `BenchDevice`."""
        return self._machine

    @staticmethod
    @contextlib.contextmanager
    def errors() -> Iterator[None]:
        """Turns cupy's errors into ours.

        Raises:
            LaunchFailedError: the driver refuses, mostly because a kernel went wrong before.
            EnvironmentLackError: out of memory.
        """
        try:
            yield
        except MemoryError as error:
            raise EnvironmentLackError(f"the GPU's memory does not suffice ({error})") from error
        except RuntimeError as error:
            raise LaunchFailedError(f"the launch failed: {error}") from error

    def function(self, cubin: bytes, name: str, shared_bytes: int) -> Any:
        """A kernel that may use its shared memory."""
        if shared_bytes > self._shared_limit:
            raise EnvironmentLackError(
                f"it needs {shared_bytes} bytes of shared memory a block; this"
                f" {self._machine.arch} has {self._shared_limit}"
            )
        module = self.cupy.cuda.function.Module()
        module.load(cubin)
        function = module.get_function(name)
        if shared_bytes > STATIC_LIMIT:
            driver = self.cupy.cuda.driver
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
        return function

    def time(
        self,
        sides: Sequence[Side],
        sets: int,
        launches: int,
        *,
        replays: int = REPLAYS,
        warm_seconds: float = WARM_SECONDS,
    ) -> list[list[float]]:
        """Microseconds a launch: graphs captured, all warmed, then replayed in turn."""
        stream = self.stream
        with self.errors(), stream:
            graphs = [self._captured(side, sets, launches) for side in sides]
            for graph in graphs:
                end = time.perf_counter() + warm_seconds
                graph.launch(stream)
                stream.synchronize()
                while time.perf_counter() < end:
                    graph.launch(stream)
                    stream.synchronize()
            samples: list[list[float]] = [[] for _ in sides]
            for replay in range(replays):
                # Each side goes first in turn: what a neighbour leaves behind is shared out.
                for step in range(len(graphs)):
                    index = (replay + step) % len(graphs)
                    elapsed = self.elapsed(partial(graphs[index].launch, stream))
                    samples[index].append(elapsed / launches)
        return samples

    def _captured(self, side: Side, sets: int, launches: int) -> Any:
        side(0)  # libraries and lazy loading do now what they may not while a stream is captured
        self.stream.synchronize()
        self.stream.begin_capture()
        try:
            for index in range(launches):
                side(index % sets)
        finally:
            graph = self.stream.end_capture()
        graph.upload(self.stream)
        return graph

    def elapsed(self, work: Callable[[], None]) -> float:
        """Microseconds between events around some work."""
        cuda = self.cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record(self.stream)
        work()
        end.record(self.stream)
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) * 1000.0

    def writers(self) -> list[Callable[[int, int], None]]:
        """Those that the ceiling is the best of: each writes bytes from an address on."""

        def writer(
            move: Callable[[np.uint64, np.generic, int], None],
        ) -> Callable[[int, int], None]:
            return lambda at, size: move(np.uint64(at), ANYTHING, size // 16)

        return [writer(move) for move in self.movers("write", bench_ceilings.WRITE)]

    def movers(
        self, name: str, source: str
    ) -> Iterator[Callable[[np.uint64, np.generic, int], None]]:
        """Each of a source's kernels by each number of threads, as (pointer, argument, vectors)."""
        cubin = build_cubin(source, name=name, arch=self._machine.arch).cubin
        for vectors in bench_ceilings.READ_VECTORS:
            function = self.function(cubin, f"{name}_{vectors}", 0)
            for threads in bench_ceilings.READ_THREADS:

                def move(
                    at: np.uint64,
                    second: np.generic,
                    count: int,
                    *,
                    f: Any = function,
                    t: int = threads,
                    block: int = threads * vectors,
                ) -> None:
                    f((-(-count // block), 1, 1), (t, 1, 1), (at, second, np.int64(count)))

                yield move


def _version(number: int) -> str:
    """``13.0`` for 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"
