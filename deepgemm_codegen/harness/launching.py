"""Launches through cupy, or, where kernels may overlap, through the driver."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.device import LaunchFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.plan import KernelPlan

__all__ = ["launch_kernel", "wait_for_kernel"]

NOT_READY = 600
"""cudaErrorNotReady: what a stream at work answers."""

LONGEST = 120.0
"""Seconds that a launch may take. The largest problem that fits a GPU's memory takes a few; what
takes longer waits for something that never comes."""

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


_KEPT: list[object] = []
"""What launched kernels that never end: to unload their module, the driver would wait for them."""


def wait_for_kernel(cupy: Any, launched_by: object) -> None:
    """Waits until cupy's current stream is idle.

    Args:
        cupy: the module.
        launched_by: what holds the kernel's module; it is kept for ever if the kernel never ends.

    Raises:
        LaunchFailedError: the kernel never ends. It keeps its GPU until this process ends, and the
            process does without the driver's farewell, which would wait for the kernel.
        RuntimeError: cupy's, where the kernel failed.
    """
    stream, runtime = cupy.cuda.get_current_stream(), cupy.cuda.runtime
    end, pause = time.monotonic() + LONGEST, 1e-5
    while runtime.streamQuery(stream.ptr) == NOT_READY:
        if time.monotonic() > end:
            _KEPT.append(launched_by)
            atexit.register(_leave)
            raise LaunchFailedError(
                f"the kernel did not end in {LONGEST:g} s: its threads wait for each other; the "
                "emulator (verify --on emulator) tells who waits for what"
            )
        time.sleep(pause)
        pause = min(2 * pause, 1e-2)
    stream.synchronize()


def _leave() -> NoReturn:
    """Ends the process at once, for a failed verdict."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(LaunchFailedError.exit_code)
