"""Running a program on a GPU through cupy, and the oracle there too.

cupy loads cubins and holds memory; it compiles nothing of ours. Every buffer lies between guard
bands of poison, its base aligned as promised and no better. Launches go to the caller's current
stream. The float64 oracle runs on the GPU as well, so that every element of D is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import EnvironmentLackError, KernelLackError
from deepgemm_codegen.harness.device import LaunchFailedError, Outcome, Written
from deepgemm_codegen.harness.gpu_oracle import GpuPrefixSums
from deepgemm_codegen.harness.launching import launch_kernel, wait_for_kernel
from deepgemm_codegen.harness.matrix import Matrix
from deepgemm_codegen.harness.memory import fill
from deepgemm_codegen.harness.numbers import bits_dtype, poison
from deepgemm_codegen.harness.tensor_map import encode_tensor_map
from deepgemm_codegen.plan import as_program
from deepgemm_codegen.plan.workspace import ALIGNMENT
from deepgemm_codegen.toolchain import explain_mismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.sums import PrefixSums
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["GpuDevice", "find_gpu", "launch_arguments", "pointer_tables", "region_matrices"]

GUARD_BYTES = 1 << 20
"""Poison on either side of a buffer."""

STATIC_LIMIT = 48 * 1024
"""Dynamic shared memory that a launch may ask for without saying so first (CUDA guide)."""

INSTALL = "pip install 'deepgemm_codegen[cuda13]' (or 'deepgemm_codegen[cuda12]')"


def find_gpu() -> Any:
    """The cupy module, once it has shown that it can use a GPU.

    Raises:
        EnvironmentLackError: no cupy, no driver, no GPU, or a cupy that lacks its libraries.
    """
    try:
        import cupy  # noqa: PLC0415  half a second that other commands need not pay
    except ImportError as error:
        raise EnvironmentLackError(f"cupy is missing ({error}): {INSTALL}") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except RuntimeError as error:
        raise EnvironmentLackError(
            f"no usable NVIDIA driver ({error}); verify --on emulator needs none"
        ) from error
    if count == 0:
        raise EnvironmentLackError("no NVIDIA GPU here; verify --on emulator needs none")
    try:
        working = int((cupy.arange(4) + 1).sum()) == 10
    except (RuntimeError, ImportError, OSError) as error:
        first = str(error).strip().partition("\n")[0]
        raise EnvironmentLackError(
            f"cupy cannot compile its own kernels ({first}); it needs the CUDA toolkit's headers "
            "and NVRTC: pip install 'cupy-cuda13x[ctk]'"
        ) from error
    if not working:
        raise EnvironmentLackError("cupy computes wrong sums on this GPU; check its installation")
    return cupy


class _Buffer:
    """A matrix between guard bands on the GPU."""

    def __init__(self, cupy: Any, matrix: Matrix) -> None:
        self._cupy = cupy
        self._matrix = matrix
        size = matrix.dtype.bytes
        room = 2 * GUARD_BYTES + matrix.elements * size + 4 * matrix.align
        store = cupy.empty(-(-room // size), bits_dtype(matrix.dtype))
        start = int(store.data.ptr)
        # An odd multiple of the promised alignment: aligned to that, and to nothing wider.
        period = 2 * matrix.align
        base = -(-(start + GUARD_BYTES) // period) * period + matrix.align
        first = (base - start) // size
        store[...] = poison(matrix.dtype)
        self.pointer = base
        self.bits = store[first : first + matrix.elements]
        self._before, self._behind = store[:first], store[first + matrix.elements :]

    def damage(self) -> str:
        """What happened to the guard bands; empty when nothing did."""
        nan = poison(self._matrix.dtype)
        for where, band in (("before", self._before), ("behind", self._behind)):
            changed = self._cupy.flatnonzero(band != nan)
            if changed.size:
                before = where == "before"
                near = band.size - int(changed[-1]) if before else int(changed[0]) + 1
                return (
                    f"the guard band {where} '{self._matrix.name}' was written: {changed.size} "
                    f"elements, the nearest {near} {where} its {'start' if before else 'end'}"
                )
        return ""


def _function(cupy: Any, module: Any, name: str, shared_bytes: int) -> Any:
    """A kernel of a module that may use its shared memory."""
    function = module.get_function(name)
    if shared_bytes > STATIC_LIMIT:
        driver = cupy.cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function.ptr, attribute, shared_bytes)
    return function


class GpuDevice:
    """One program on the current GPU.

    Args:
        plan: the program's plan, or that of a kernel that is one.
        cubin: its machine code.
        built_for: the architecture that the cubin was built for, such as ``sm_90``.

    Raises:
        EnvironmentLackError: no GPU, or one that cannot run the cubin or hold its shared memory.
    """

    def __init__(self, plan: Program | KernelPlan, cubin: bytes, built_for: str) -> None:
        program = as_program(plan)
        self._cupy = cupy = find_gpu()
        device = cupy.cuda.Device()
        self._arch = f"sm_{device.compute_capability}"
        mismatch = explain_mismatch(built_for, self._arch, ptx=False)
        if mismatch is not None:
            raise KernelLackError(f"{program.name}: {mismatch}")
        limit = device.attributes["MaxSharedMemoryPerBlockOptin"]
        for kernel in program.kernels:
            if kernel.shared_bytes > limit:
                raise KernelLackError(
                    f"{kernel.name} needs {kernel.shared_bytes} bytes of shared memory a"
                    f" block; this {self._arch} has {limit}"
                )
        module = cupy.cuda.function.Module()
        module.load(cubin)
        self._functions = {
            kernel.name: _function(cupy, module, kernel.name, kernel.shared_bytes)
            for kernel in program.kernels
        }
        properties = cupy.cuda.runtime.getDeviceProperties(device.id)
        self._sms = int(device.attributes["MultiProcessorCount"])
        self._name = properties["name"].decode()
        self._prefix_sums: PrefixSums = GpuPrefixSums(cupy, self._arch)

    @property
    def where(self) -> str:
        """See `Device`."""
        return f"gpu ({self._name}, {self._arch})"

    @property
    def arithmetic(self) -> str:
        """See `Device`."""
        return self._arch

    @property
    def xp(self) -> Any:
        """See `Device`."""
        return self._cupy

    @property
    def samples(self) -> bool:
        """See `Device`."""
        return False

    @property
    def prefix_sums(self) -> PrefixSums:
        """See `Device`."""
        return self._prefix_sums

    def launch(
        self,
        problem: Problem,
        inputs: Inputs,
        blocks: tuple[int, ...] | None,
        *,
        in_place: bool = False,
    ) -> Outcome:
        """See `Device`; always the whole grid."""
        if blocks is not None:
            raise LaunchFailedError("a GPU runs whole grids")
        self._check_memory(problem)
        # A tensor map cannot describe a null pointer: what it stands for is there, all poison.
        kernels = problem.program.kernels
        mapped = (tensor_map.pointer for kernel in kernels for tensor_map in kernel.tensor_maps)
        needed = {*problem.outputs, *inputs.values, *mapped}
        buffers = {
            matrix.name: _Buffer(self._cupy, matrix)
            for matrix in problem.matrices
            if matrix.name in needed
        }
        if in_place:
            buffers["d"] = buffers["c"]
        for name, buffer in buffers.items():
            source = "c" if in_place and name == "d" else name
            if source in inputs.values:
                fill(problem.matrix(source), inputs, buffer.bits, self._cupy)
        # Each region of the workspace lies alone, between guard bands, full of NaN.
        buffers |= {m.name: _Buffer(self._cupy, m) for m in region_matrices(problem)}
        if problem.grid:
            addresses = {name: buffer.pointer for name, buffer in buffers.items()}
            tables = pointer_tables(self._cupy, problem, addresses)
            addresses |= {name: int(table.data.ptr) for name, table in tables.items()}
            for kernel in kernels:
                self._start(problem, kernel, launch_arguments(problem, kernel, addresses))
        damage = tuple(text for text in (b.damage() for b in buffers.values()) if text)
        outputs = {
            name: Written(buffers[name].bits, poison(problem.matrix(name).dtype))
            for name in problem.outputs
        }
        return Outcome(outputs, damage)

    def _start(self, problem: Problem, kernel: KernelPlan, arguments: tuple[Any, ...]) -> None:
        grid = problem.blocks_of(kernel, self._sms)
        try:
            launch_kernel(self._cupy, self._functions[kernel.name], kernel, grid, arguments)
            wait_for_kernel(self._cupy, self)
        except RuntimeError as error:  # cupy's driver and runtime errors
            raise LaunchFailedError(f"the launch failed: {error}") from error

    def _check_memory(self, problem: Problem) -> None:
        matrices = (*problem.matrices, *region_matrices(problem))
        needed = sum(m.elements * m.dtype.bytes + 3 * GUARD_BYTES for m in matrices)
        pool = self._cupy.get_default_memory_pool()
        free = self._cupy.cuda.runtime.memGetInfo()[0] + pool.free_bytes()
        if needed > free:
            raise KernelLackError(
                f"{problem} needs {needed / 1e9:.1f} GB of GPU memory; {free / 1e9:.1f} GB are free"
            )


def region_matrices(problem: Problem) -> tuple[Matrix, ...]:
    """The regions of the workspace as vectors, by name."""
    return tuple(
        Matrix(
            name=region.name,
            dtype=region.dtype,
            batch=1,
            rows=1,
            columns=(count := problem.region_bytes(region.name) // region.dtype.bytes),
            leading=max(count, 1),
            align=ALIGNMENT,
        )
        for region in problem.program.workspace.regions
    )


def pointer_tables(cupy: Any, problem: Problem, addresses: Mapping[str, int]) -> dict[str, Any]:
    """Arrays of pointers on the device, one a product, by the argument's name in C.

    They have to live as long as kernels may read them.

    Args:
        cupy: the module.
        problem: the program with its sizes.
        addresses: device address of the first matrix, by name; others have no array.
    """
    found = {}
    for parameter in problem.program.parameters:
        if parameter.array and parameter.name in addresses:
            matrix = problem.matrix(parameter.name)
            first, size = addresses[parameter.name], matrix.dtype.bytes
            table = np.array([first + start * size for start in matrix.starts], np.uint64)
            found[parameter.symbol] = cupy.asarray(table)
    return found


def launch_arguments(
    problem: Problem, kernel: KernelPlan, addresses: Mapping[str, int]
) -> tuple[Any, ...]:
    """A kernel's arguments as numpy scalars, which cupy passes by their size.

    Args:
        problem: the program with its sizes.
        kernel: one of its kernels.
        addresses: device address of each matrix, region and array of pointers by name; one that
            is missing becomes null.
    """
    kinds = {"alpha": "f4", "beta": "f4", "scalar": "f4", "dim": "i4", "stride": "i8"}
    maps = {description.name: description for description in kernel.tensor_maps}
    strides = {f"ld{m.name}": m.leading for m in problem.matrices}
    found: list[Any] = []
    for parameter in kernel.kernel_parameters:
        if parameter.pointer:
            found.append(np.uint64(addresses.get(parameter.symbol, 0)))
        elif parameter.role == "map":
            description = maps[parameter.name]
            pointer = addresses[description.pointer]
            sizes = {**problem.sizes, **strides}
            found.append(encode_tensor_map(description, pointer, sizes))
        else:
            kind = "i4" if parameter.whole else kinds[parameter.role]
            found.append(np.dtype(kind).type(problem.scalar(parameter)))
    return tuple(found)
