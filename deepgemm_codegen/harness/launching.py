"""Launches through cupy, or, where kernels may overlap, through the driver."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.device import LaunchFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.plan import KernelPlan

__all__ = ["launch_kernel"]

_MAP_ALIGNMENT = 64
"""Bytes that a tensor map is aligned to (CUDA driver API); it does for every other argument."""


def launch_kernel(
    cupy: Any, function: Any, kernel: KernelPlan, blocks: int, arguments: Sequence[Any]
) -> None:
    """Launches a kernel on cupy's current stream.

    Args:
        cupy: the module.
        function: the kernel as cupy loaded it.
        kernel: its plan.
        blocks: of the grid.
        arguments: as `gpu.launch_arguments` gives them.

    Raises:
        EnvironmentLackError: an overlapping launch needs cuda-bindings, which is missing.
        LaunchFailedError: the driver refuses the launch.
    """
    if not kernel.dependent:
        function(
            (blocks, 1, 1), (kernel.threads, 1, 1), tuple(arguments), shared_mem=kernel.shared_bytes
        )
        return
    try:
        from cuda.bindings import driver  # noqa: PLC0415  cupy cannot ask for the attribute
    except ImportError as error:
        raise EnvironmentLackError(
            f"launch = dependent needs cuda-bindings ({error}):"
            " pip install 'deepgemm_codegen[compile]'"
        ) from error
    attribute, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
    name = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    value.programmaticStreamSerializationAllowed = 1
    attribute.id, attribute.value = name, value
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = kernel.threads, 1, 1
    config.sharedMemBytes = kernel.shared_bytes
    config.hStream = driver.CUstream(cupy.cuda.get_current_stream().ptr)
    config.attrs, config.numAttrs = [attribute], 1
    held, pointers = _packed(arguments)
    (status,) = driver.cuLaunchKernelEx(
        config, driver.CUfunction(function.ptr), ctypes.addressof(pointers), 0
    )
    del held  # the driver has copied them
    if int(status) != 0:
        raise LaunchFailedError(f"the launch failed: {status.name}")


def _packed(arguments: Sequence[Any]) -> tuple[list[Any], Any]:
    """Copies of numpy scalars, and the array of pointers to them that the driver takes."""
    held, addresses = [], []
    for argument in arguments:
        raw = argument.tobytes()
        buffer = ctypes.create_string_buffer(len(raw) + _MAP_ALIGNMENT)
        address = -(-ctypes.addressof(buffer) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        ctypes.memmove(address, raw, len(raw))
        held.append(buffer)
        addresses.append(address)
    return held, (ctypes.c_void_p * len(addresses))(*addresses)
