"""A cupy of numpy arrays whose kernels run on the emulator: what tests `gpu.py` without a GPU.

It has what the harness uses of cupy and no more, so a call of anything else fails here first.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import (
    Checks,
    GlobalBuffer,
    Kernel,
    Launch,
    TensorMap,
    parse,
    run,
)
from deepgemm_codegen.harness import gpu, gpu_oracle
from deepgemm_codegen.harness.sums import ROUND
from deepgemm_codegen.plan import as_program

if TYPE_CHECKING:
    import pytest

    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.plan.tma import TensorMap as MapPlan

_NUMPY = [
    "abs",
    "arange",
    "argmax",
    "asarray",
    "broadcast",
    "broadcast_arrays",
    "clip",
    "concatenate",
    "copysign",
    "flatnonzero",
    "float16",
    "float32",
    "frexp",
    "full",
    "inf",
    "int8",
    "int32",
    "int64",
    "isfinite",
    "isinf",
    "isin",
    "isnan",
    "ldexp",
    "matmul",
    "maximum",
    "minimum",
    "mod",
    "nonzero",
    "ones_like",
    "rint",
    "signbit",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "where",
    "zeros",
    "zeros_like",
    "float64",
]


class DeviceArray(np.ndarray[Any, np.dtype[Any]]):
    """A numpy array with a device pointer."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)

    def get(self) -> Any:
        return np.asarray(self)


class FakeCupy:
    """Stands for the module.

    Attributes:
        arch: compute capability, such as ``80``.
        free: bytes of memory that are free.
        failure: what the next kernel launch raises.
        endless: whether kernels never end.
        attributes: calls of funcSetAttribute.
        launches: (grid, block, shared bytes) of each kernel launch.
        helpers: what the harness launches beside the kernels under test, by name.
    """

    def __init__(self, plan: Program | KernelPlan, ptx: str, arch: str = "80") -> None:
        self.arch, self.free, self.count = arch, 1 << 34, 1
        self.plans: dict[str, KernelPlan] = {}
        self.kernels: dict[str, Kernel] = {}
        self.add(plan, ptx)
        self.failure: Exception | None = None
        self.endless = False
        self.attributes: list[tuple[int, int, int]] = []
        self.launches: list[tuple[Any, Any, int]] = []
        self.stores: list[DeviceArray] = []
        self.helpers: dict[str, Any] = {gpu_oracle.NAME: _Oracle()}
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(
                getDeviceCount=lambda: self.count,
                memGetInfo=lambda: (self.free, self.free),
                getDeviceProperties=lambda _: {"name": b"Paper GPU"},
                streamQuery=lambda _: 600 if self.endless else 0,
            ),
            driver=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=lambda *call: self.attributes.append(call),
            ),
            function=SimpleNamespace(Module=lambda: _Module(self)),
            Device=lambda: SimpleNamespace(
                id=0,
                compute_capability=self.arch,
                attributes={"MaxSharedMemoryPerBlockOptin": 101376, "MultiProcessorCount": 108},
            ),
            get_current_stream=lambda: SimpleNamespace(ptr=0, synchronize=lambda: None),
        )

    def add(self, plan: Program | KernelPlan, ptx: str) -> None:
        """Kernels that can be loaded."""
        module = parse(ptx)
        for kernel in as_program(plan).kernels:
            self.plans[kernel.name] = kernel
            self.kernels[kernel.name] = Kernel(module, kernel.name, arithmetic=f"sm_{self.arch}")

    def __getattr__(self, name: str) -> Any:
        if name not in _NUMPY:
            raise AttributeError(f"the fake cupy has no {name}")
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any = np.float64) -> DeviceArray:
        store = np.empty(shape, dtype).view(DeviceArray)
        self.stores.append(store)
        return store

    def ascontiguousarray(self, values: Any, dtype: Any = None) -> DeviceArray:
        return np.ascontiguousarray(values, dtype).view(DeviceArray)

    def asnumpy(self, values: Any) -> Any:
        return np.asarray(values)

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 0)

    def has_maps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Takes the driver's part in kernels that load by TMA: nothing is encoded."""
        monkeypatch.setattr(gpu, "encode_tensor_map", lambda *call: call)

    def _mapped(self, description: MapPlan, pointer: int, sizes: dict[str, int]) -> TensorMap:
        store = next(s for s in self.stores if 0 <= pointer - s.data.ptr < s.nbytes)
        raw = np.asarray(store).view(np.uint8)[pointer - store.data.ptr :]
        size = description.dtype.bytes
        return TensorMap(
            buffer=GlobalBuffer(description.name, raw, writable=True, misalign=pointer % 4096),
            element_bytes=size,
            sizes=tuple(each.evaluate(sizes) for each in description.sizes),
            strides_bytes=tuple(each.evaluate(sizes) * size for each in description.strides),
            box=description.box,
            swizzle_bytes=description.swizzle_bytes,
        )

    def run(
        self, name: str, grid: Any, block: Any, arguments: tuple[Any, ...], shared_mem: int
    ) -> None:
        """One launch of a kernel under test."""
        if self.failure is not None:
            raise self.failure
        self.launches.append((grid, block, shared_mem))
        buffers: dict[int, GlobalBuffer] = {}
        params: list[Any] = []
        for parameter, value in zip(self.plans[name].kernel_parameters, arguments, strict=True):
            if parameter.role == "map":
                params.append(self._mapped(*value))
                continue
            if not parameter.pointer or int(value) == 0:
                params.append(value)
                continue
            store = next(s for s in self.stores if 0 <= int(value) - s.data.ptr < s.nbytes)
            start = store.data.ptr
            if start not in buffers:
                written = parameter.written or parameter.name == "c"
                raw = np.asarray(store)
                buffers[start] = GlobalBuffer(parameter.name, raw, written, misalign=start % 4096)
            params.append(buffers[start].at(int(value) - start))
        report = run(self.kernels[name], Launch(grid, block, shared_mem, params), None, Checks())
        assert report.findings == (), str(report)


class _Module:
    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy = cupy

    def load(self, cubin: bytes) -> None:
        assert isinstance(cubin, bytes)

    def get_function(self, name: str) -> Any:
        if name in self.cupy.helpers:
            return self.cupy.helpers[name]
        assert name in self.cupy.plans
        return _Function(self.cupy, name)


class _Function:
    ptr = 7

    def __init__(self, cupy: FakeCupy, name: str) -> None:
        self.cupy, self.name = cupy, name

    def __call__(self, grid: Any, block: Any, args: tuple[Any, ...], shared_mem: int = 0) -> None:
        self.cupy.run(self.name, grid, block, args, shared_mem)


class _Oracle:
    """What the oracle's kernel computes, from the same arguments."""

    def __call__(self, grid: Any, block: Any, args: tuple[Any, ...]) -> None:
        rows, columns, k, length, apart = (int(value) for value in args[4:9])
        cut, unit, scaling = (float(value) for value in args[9:])
        shapes = ((rows, k), (k, columns), (rows, columns), (rows, columns))
        a, b, total, error = (
            np.ctypeslib.as_array((ctypes.c_double * (x * y)).from_address(int(pointer))).reshape(
                x, y
            )
            for pointer, (x, y) in zip(args[:4], shapes, strict=True)
        )
        total[...], error[...] = 0, 0
        part, loss = np.zeros_like(total), np.zeros_like(total)
        for start in range(0, k, length):
            largest = np.abs(part) + loss
            for i in range(start, min(start + length, k)):
                share = a[:, i, None] * b[None, i, :]
                largest = np.maximum(largest, np.abs(share))
                part += share
            loss += cut * largest
            loss += unit * (np.abs(part) + loss)
            if apart and ((start + length) % apart == 0 or start + length >= k):
                loss += scaling * (np.abs(part) + loss)
                total += part
                error += loss
                error += ROUND * (np.abs(total) + error)
                part[...], loss[...] = 0, 0
        total += part
        error += loss
