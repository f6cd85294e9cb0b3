"""The benchmark's GPU, through cupy: operand sets, graphs, events. Thin; decides nothing.

All work goes to one stream. A side is captured in a CUDA graph whose launches walk the operand
sets, so that no launch finds its operands in the L2; the graphs of all sides are replayed in turn.
"""

from __future__ import annotations

import contextlib
import gc
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import CodegenError, EnvironmentLackError
from deepgemm_codegen.harness import bench_ceilings
from deepgemm_codegen.harness.bench_check import Sample, check_rows, pick_sample, stray
from deepgemm_codegen.harness.bench_cublas import WORKSPACE_BYTES, Cublas, CublasLt, call_of
from deepgemm_codegen.harness.bench_data import CUBLAS, CUBLASLT, Machine, Rival
from deepgemm_codegen.harness.bench_stats import REPLAYS, WARM_SECONDS, Ceilings
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.gpu import STATIC_LIMIT, _arguments, find_gpu
from deepgemm_codegen.harness.gpu_oracle import GpuPrefixSums
from deepgemm_codegen.harness.inputs import Normal
from deepgemm_codegen.harness.numbers import bits_dtype, encode, poison
from deepgemm_codegen.toolchain import build_cubin, explain_mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deepgemm_codegen.harness.bench_ceilings import TensorKernel
    from deepgemm_codegen.harness.bench_data import Entry, Side
    from deepgemm_codegen.harness.problem import Matrix, Problem

__all__ = ["CupyBench", "find_bench_gpu"]

ALIGN = 256
"""Bytes that every set of an operand starts at: what cudaMalloc gives."""

_CHUNK = 1 << 24
"""Elements of random data made at a time."""

LT_REPLAYS = 3
"""Short replays that choose among cublasLt's algorithms, before the best is timed like any side."""


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


class CupyBench:
    """See `BenchDevice`."""

    def __init__(self, cupy: Any, seed: int = 0) -> None:
        self._cupy = cupy
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
        self._prefix_sums = GpuPrefixSums(cupy, arch)
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
        self._loaded: _Loaded | None = None

    def _library(self, kind: type[Any], major: int) -> tuple[Any, str]:
        """A library's binding, or None and why not."""
        with contextlib.suppress(RuntimeError, ImportError, OSError, AttributeError):
            # cupy loads its own cuBLAS here, which is then the one that is found.
            self._cupy.cuda.device.get_cublas_handle()
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

    @property
    def free_bytes(self) -> int:
        """See `BenchDevice`; three quarters, as the check needs room beside the operands."""
        self._release()
        free: int = self._cupy.cuda.runtime.memGetInfo()[0]
        return free * 3 // 4

    def _release(self) -> None:
        """Frees the kernel before."""
        if self._loaded is not None:
            self._loaded = None
            gc.collect()
        self._cupy.get_default_memory_pool().free_all_blocks()

    def load(self, entry: Entry, problem: Problem, sets: int, against: str) -> _Loaded:
        """See `BenchDevice`."""
        self._release()
        mismatch = explain_mismatch(entry.built_for, self._machine.arch, ptx=False)
        if mismatch is not None:
            raise LaunchFailedError(f"{entry.plan.name}: {mismatch}")
        with self.stream:
            self._loaded = _Loaded(self, entry, problem, sets, against)
            self.stream.synchronize()
        return self._loaded

    def function(self, cubin: bytes, name: str, shared_bytes: int) -> Any:
        """A kernel that may use its shared memory."""
        if shared_bytes > self._shared_limit:
            raise LaunchFailedError(
                f"{name} needs {shared_bytes} bytes of shared memory a block; this"
                f" {self._machine.arch} has {self._shared_limit}"
            )
        module = self._cupy.cuda.function.Module()
        module.load(cubin)
        function = module.get_function(name)
        if shared_bytes > STATIC_LIMIT:
            driver = self._cupy.cuda.driver
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
        with stream:
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
                    elapsed = self._elapsed(partial(graphs[index].launch, stream))
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

    def _elapsed(self, work: Callable[[], None]) -> float:
        """Microseconds between events around some work."""
        cuda = self._cupy.cuda
        begin, end = cuda.Event(), cuda.Event()
        begin.record(self.stream)
        work()
        end.record(self.stream)
        end.synchronize()
        return float(cuda.get_elapsed_time(begin, end)) * 1000.0

    def ceilings(self) -> Ceilings:
        """See `BenchDevice`."""
        self._release()
        machine = self._machine
        found = bench_ceilings.datasheet(machine.arch, machine.gpu, machine.sms)
        rates, measured = dict(found.tflops), []
        gbs = found.gbs
        with self.stream:
            if bandwidth := self._quietly(self._bandwidth):
                gbs = bandwidth
                measured.append("memory")
            for kernel in bench_ceilings.tensor_kernels(machine.arch):
                if rate := self._quietly(partial(self._tensor, kernel)):
                    rates[kernel.unit] = rate
                    measured.append(kernel.unit)
        self._release()
        return Ceilings(gbs, rates, tuple(measured))

    @staticmethod
    def _quietly(measure: Callable[[], float]) -> float:
        """A figure, or 0 where it cannot be taken; the data sheet stands in, and is named."""
        try:
            return measure()
        except (CodegenError, MemoryError):
            return 0.0

    def _bandwidth(self) -> float:
        cupy = self._cupy
        total = min(bench_ceilings.READ_BYTES, cupy.cuda.runtime.memGetInfo()[0] // 2)
        data = cupy.zeros(total // 8, np.uint64)
        data[...] = cupy.arange(data.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        sink = cupy.zeros(4, np.uint32)
        cubin = build_cubin(bench_ceilings.READ, name="read", arch=self._machine.arch).cubin
        count = total // 16
        least = float("inf")
        for vectors in bench_ceilings.READ_VECTORS:
            function = self.function(cubin, f"read_{vectors}", 0)
            for threads in bench_ceilings.READ_THREADS:
                grid = -(-count // (threads * vectors))
                arguments = (np.uint64(data.data.ptr), np.uint64(sink.data.ptr), np.int64(count))

                def run(
                    f: Any = function, g: int = grid, t: int = threads, a: Any = arguments
                ) -> None:
                    f((g, 1, 1), (t, 1, 1), a)

                run()
                least = min(least, *(self._elapsed(run) for _ in range(5)))
        return float(total / least / 1e3)

    def _tensor(self, kernel: TensorKernel) -> float:
        cupy = self._cupy
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
        least = min(self._elapsed(run) for _ in range(7))
        return kernel.flop_per_round * kernel.rounds * blocks / least / 1e6


def _version(number: int) -> str:
    """``13.0`` for 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


@dataclass(frozen=True, slots=True)
class _Sets:
    """One operand's sets, one after the other.

    Attributes:
        matrix: the operand.
        bits: all sets, from an aligned base on.
        step: elements from set to set.
    """

    matrix: Matrix
    bits: Any
    step: int

    @classmethod
    def empty(cls, cupy: Any, matrix: Matrix, count: int) -> _Sets:
        """Room for some sets, each aligned as cudaMalloc does, or better where that is promised."""
        size, align = matrix.dtype.bytes, max(ALIGN, matrix.align)
        step = -(-max(matrix.elements, 1) * size // align) * align // size
        store = cupy.empty(step * count + align // size, bits_dtype(matrix.dtype))
        first = -int(store.data.ptr) % align // size
        return cls(matrix, store[first : first + step * count], step)

    def at(self, index: int) -> _Pointer:
        """The device address of a set."""
        return _Pointer(int(self.bits.data.ptr) + index * self.step * self.matrix.dtype.bytes)

    def first(self) -> Any:
        """The first set as flat bits."""
        return self.bits[: self.matrix.elements]


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What `_arguments` asks of a buffer."""

    pointer: int


class _Loaded:
    """See `Loaded`."""

    def __init__(
        self, bench: CupyBench, entry: Entry, problem: Problem, sets: int, against: str
    ) -> None:
        self._bench, self._problem, self._sets, self._against = bench, problem, sets, against
        self._cupy = bench._cupy  # noqa: SLF001  one module, two classes
        self._body = entry.plan.body
        self._function = bench.function(entry.cubin, entry.plan.name, self._body.shared_bytes)
        self._grid = entry.plan.blocks.evaluate({**problem.sizes, "sms": bench.machine.sms})
        self._operands = {
            matrix.name: self._random(matrix, bench.seed + number)
            for number, matrix in enumerate(problem.matrices)
        }
        self._arguments = [
            _arguments(problem, {name: sets.at(i) for name, sets in self._operands.items()})  # type: ignore[misc]
            for i in range(sets)
        ]
        self._sample = pick_sample(problem, bench.seed)

    def _random(self, matrix: Matrix, seed: int) -> _Sets:
        """Random sets of an operand; D holds poison until a kernel writes it."""
        sets = _Sets.empty(self._cupy, matrix, self._sets)
        if matrix.name == "d":
            sets.bits[...] = poison(matrix.dtype)
            return sets
        values = Normal(seed)
        for start in range(0, sets.bits.size, _CHUNK):
            flat = self._cupy.arange(start, min(start + _CHUNK, sets.bits.size), dtype=np.int64)
            made = values.at(0, 0, flat, self._cupy)
            sets.bits[start : start + flat.size] = encode(made, matrix.dtype, self._cupy)
        return sets

    def kernel(self, index: int) -> None:
        """See `Loaded`."""
        self._function(
            (self._grid, 1, 1),
            (self._body.threads, 1, 1),
            self._arguments[index],
            shared_mem=self._body.shared_bytes,
        )

    def check(self) -> str:
        """See `Loaded`."""
        return self._checked(self.kernel, plain=False)

    def _checked(self, side: Side, *, plain: bool) -> str:
        """What is wrong with D's first set after one launch; empty when nothing is."""
        d = self._operands["d"]
        in_place = plain and self._problem.beta != 0.0 and "c" in self._operands
        with self._bench.stream:
            if in_place:  # D is summed into: it must hold numbers
                d.bits[...] = 0
            else:
                d.first()[...] = poison(d.matrix.dtype)
            try:
                side(0)
                self._bench.stream.synchronize()
            except RuntimeError as error:  # cupy's driver and runtime errors
                raise LaunchFailedError(f"the launch failed: {error}") from error
            bits = {name: sets.first() for name, sets in self._operands.items()}
            sample = Sample(self._problem, bits, self._sample, self._cupy)
            arch = self._bench.machine.arch
            sums = self._bench._prefix_sums  # noqa: SLF001  one module, two classes
            if plain:
                return stray(sample, sums)
            return check_rows(sample, arch, sums)

    def rivals(self) -> tuple[Rival, ...]:
        """See `Loaded`."""
        if self._against == "none":
            return ()
        return (self._cublas(), self._cublaslt())

    def _cublas(self) -> Rival:
        library = self._bench.cublas
        if library is None:
            return Rival(CUBLAS, None, dict(self._bench.machine.software)[CUBLAS])
        call = call_of(self._problem)
        pointers = self._pointers(call.first.name, call.second.name)

        def side(index: int) -> None:
            library.launch(call, *pointers[index])

        return self._judged(Rival(CUBLAS, side, call.note))

    def _pointers(self, first: str, second: str) -> list[tuple[int, int, int]]:
        names = (first, second, "d")
        return [
            tuple(self._operands[name].at(i).pointer for name in names)  # type: ignore[misc]
            for i in range(self._sets)
        ]

    def _judged(self, rival: Rival) -> Rival:
        """The rival, unless it does not run or computes something else."""
        try:
            fault = self._checked(rival.side, plain=True)
        except EnvironmentLackError as error:
            return Rival(rival.name, None, str(error))
        return Rival(rival.name, None, f"not timed: {fault}") if fault else rival

    def _cublaslt(self) -> Rival:
        library = self._bench.cublaslt
        if library is None:
            return Rival(CUBLASLT, None, dict(self._bench.machine.software)[CUBLASLT])
        call = call_of(self._problem)
        try:
            prepared = library.prepare(call)
        except EnvironmentLackError as error:
            return Rival(CUBLASLT, None, str(error))
        pointers = self._pointers(call.first.name, call.second.name)

        def side_of(algorithm: int) -> Side:
            def side(index: int) -> None:
                prepared.launch(algorithm, *pointers[index])

            return side

        judged = [
            (number, self._judged(Rival(CUBLASLT, side_of(number))))
            for number in range(prepared.count)
        ]
        running = [(number, rival.side) for number, rival in judged if rival.side is not None]
        if not running:
            return Rival(CUBLASLT, None, judged[0][1].note if judged else "no algorithm")
        launches = max(self._sets, LT_REPLAYS)
        sides = [side for _, side in running]
        taken = self._bench.time(
            sides, self._sets, launches, replays=LT_REPLAYS, warm_seconds=0.005
        )
        best = min(range(len(sides)), key=lambda i: sorted(taken[i])[LT_REPLAYS // 2])
        note = f"heuristic {running[best][0] + 1} of {prepared.count}"
        return Rival(CUBLASLT, sides[best], "; ".join(filter(None, (note, call.note))))

    def time(self, sides: Sequence[Side], launches: int) -> list[list[float]]:
        """See `Loaded`."""
        return self._bench.time(sides, self._sets, launches)
