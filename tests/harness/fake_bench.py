"""A cupy with streams, graphs and events, whose kernels run on the emulator; and a fake cuBLAS.

Time is counted, not taken: a launch of a kernel takes `KERNEL_US`, where the test names no other
time, one of cuBLAS `LIBRARY_US`.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from deepgemm_codegen.harness.numbers import bits_dtype, decode, encode
from tests.harness.fake_cupy import FakeCupy

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.harness.bench_call import Call, Layout
    from deepgemm_codegen.plan import KernelPlan, Program

KERNEL_US, LIBRARY_US = 10.0, 8.0
WRITER_US = {("write_4", 512): 6.0}
"""Microseconds that a kernel of the ceiling of writing takes, by its threads; 9 otherwise."""


class Stream:
    """Records what is launched while it is captured."""

    ptr = 99

    def __init__(self, cupy: FakeBenchCupy) -> None:
        self.cupy = cupy
        self.recording: list[Callable[[], None]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        assert self.recording is None, "a stream that is captured cannot be waited for"

    def begin_capture(self) -> None:
        self.recording = []

    def end_capture(self) -> Any:
        work, self.recording = self.recording or [], None

        def launch(stream: Stream) -> None:
            assert stream is self
            for each in work:
                each()

        self.cupy.graphs.append(len(work))
        return SimpleNamespace(launch=launch, upload=lambda _: None)

    def do(self, work: Callable[[], None]) -> None:
        """Runs, or records."""
        if self.recording is None:
            work()
        else:
            self.recording.append(work)


class FakeBenchCupy(FakeCupy):
    """Adds what the benchmark uses.

    Attributes:
        graphs: launches of each captured graph.
        written: (address, bytes) of what kernels that only write were launched for.
        clock: microseconds so far.
        us: those that a launch of a kernel takes, by its name, where it is not `KERNEL_US`.
    """

    __version__ = "14.0"

    def __init__(self, plan: Program | KernelPlan, ptx: str, arch: str = "80") -> None:
        super().__init__(plan, ptx, arch)
        self.graphs: list[int] = []
        self.clock = 0.0
        self.us: dict[str, float] = {}
        self.stream = Stream(self)
        runtime = self.cuda.runtime
        runtime.runtimeGetVersion = lambda: 13000
        runtime.driverGetVersion = lambda: 13000
        runtime.getDeviceProperties = lambda _: {
            "name": b"Paper GPU",
            "totalGlobalMem": self.free,
        }
        self.cuda.Stream = lambda **_: self.stream
        self.cuda.Event = lambda: _Event(self)
        self.cuda.get_elapsed_time = lambda begin, end: (end.at - begin.at) / 1000
        self.cuda.device = SimpleNamespace(get_cublas_handle=lambda: 1)
        self.written: list[tuple[int, int]] = []
        self.helpers |= {name: partial(self._write, name) for name in ("write_4", "write_8")}

    def _write(self, name: str, grid: Any, block: Any, arguments: tuple[Any, ...]) -> None:
        at, _, count = arguments
        vectors = block[0] * int(name[-1])
        assert (grid[0] - 1) * vectors < count <= grid[0] * vectors
        self.written.append((int(at), int(count) * 16))

        def work() -> None:
            self.clock += WRITER_US.get((name, block[0]), 9.0)

        self.stream.do(work)

    def __getattr__(self, name: str) -> Any:
        return np.sqrt if name == "sqrt" else super().__getattr__(name)

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)

    def run(
        self, name: str, grid: Any, block: Any, arguments: tuple[Any, ...], shared_mem: int
    ) -> None:
        recorded = self.stream.recording is not None

        def work() -> None:
            self.clock += self.us.get(name, KERNEL_US)
            if not recorded:  # what a graph computes was computed once before
                FakeCupy.run(self, name, grid, block, arguments, shared_mem)

        self.stream.do(work)


class _Event:
    def __init__(self, cupy: FakeBenchCupy) -> None:
        self.cupy = cupy
        self.at = 0.0

    def record(self, stream: Stream) -> None:
        assert stream is self.cupy.stream
        self.at = self.cupy.clock

    def synchronize(self) -> None:
        pass


def gemm(
    call: Call, types: tuple[DType, DType, DType], first: int, second: int, d: int, *others: int
) -> None:
    """What cuBLAS does with a call's arguments, on addresses of this process."""
    for batch in range(call.batch):
        one = _matrix(call.first, types[0], first, batch)
        two = _matrix(call.second, types[1], second, batch)
        out = _matrix(call.d, types[2], d, batch)
        left = decode(np.ascontiguousarray(one), types[0], np)
        right = decode(np.ascontiguousarray(two), types[1], np)
        left = left.T if call.turn_first else left
        right = right.T if call.turn_second else right
        assert left.shape == (call.m, call.k)
        assert right.shape == (call.k, call.n)
        assert out.shape == (call.m, call.n)
        if call.scales:
            of_first, of_second = others[-2:]
            left = left * _scales(call.scales[0][1], of_first, *left.shape)
            right = right * _scales(call.scales[1][1], of_second, *right.T.shape).T
        total = left @ right
        if call.beta:
            total += call.beta * decode(np.ascontiguousarray(out), types[2], np)
        if call.epilogue & 4:
            vector = replace(call.d, columns=1, leading=call.d.rows)
            total += decode(
                np.ascontiguousarray(_matrix(vector, types[2], others[0], 0)), types[2], np
            )
        if call.epilogue & 2:
            total = np.maximum(total, 0)
        if call.epilogue & 32:
            inner = np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)
            total = total / 2 * (1 + np.tanh(inner))
        if call.integer:
            out[...] = total.astype(np.int32).view(np.uint32)
            continue
        out[...] = encode(total.astype(np.float32), types[2], np)


def _scales(mode: int, pointer: int, across: int, k: int) -> Any:
    """Scales by block as cublasLt has them, spread over the (across, k) elements that they are of.

    VEC128 (4): one for each of `across` and 128 of k, `across` contiguous. BLK128x128 (5): one for
    128 of each, k contiguous. Lines begin on 16 bytes.
    """
    along = -(-k // 128)
    rows, columns = (along, across) if mode == 4 else (-(-across // 128), along)
    line = -(-columns // 4) * 4
    raw = (ctypes.c_float * ((rows - 1) * line + columns)).from_address(pointer)
    flat = np.ctypeslib.as_array(raw)
    found = np.lib.stride_tricks.as_strided(flat, (rows, columns), (4 * line, 4)).astype(float)
    spread = found.T if mode == 4 else np.repeat(found, 128, axis=0)[:across]
    return np.repeat(spread, 128, axis=1)[:, :k]


def _matrix(layout: Layout, dtype: DType, pointer: int, batch: int) -> Any:
    """A column-major view of (rows, columns)."""
    start = pointer + batch * layout.stride * dtype.bytes
    count = (layout.columns - 1) * layout.leading + layout.rows
    raw = (ctypes.c_ubyte * (count * dtype.bytes)).from_address(start)
    flat = np.ctypeslib.as_array(raw).view(bits_dtype(dtype))
    size = dtype.bytes
    return np.lib.stride_tricks.as_strided(
        flat, (layout.rows, layout.columns), (size, layout.leading * size)
    )
