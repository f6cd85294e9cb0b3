"""Tensor maps for kernels that load by TMA: 128 opaque bytes that the driver encodes."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.device import LaunchFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.plan.tma import TensorMap

__all__ = ["encode_tensor_map"]

BYTES = 128
"""Size of an encoded map (CUDA driver API, CUtensorMap)."""

_TYPES = {"fp16": "FLOAT16", "bf16": "BFLOAT16", "fp32": "FLOAT32", "int32": "INT32"}
"""Ends of the driver's names; of 8 bits there is only UINT8."""


def encode_tensor_map(description: TensorMap, pointer: int, sizes: Mapping[str, int]) -> Any:
    """The map as a numpy scalar of 128 bytes, which cupy passes by value.

    Args:
        description: the plan's.
        pointer: the device address of the matrix.
        sizes: run-time dimensions and strides by name.

    Raises:
        EnvironmentLackError: cuda-bindings is missing.
        LaunchFailedError: the driver refuses the map.
    """
    try:
        from cuda.bindings import driver  # noqa: PLC0415  needs the driver's library
    except ImportError as error:
        raise EnvironmentLackError(
            f"kernels that load by TMA need cuda-bindings ({error}): "
            "pip install 'deepgemm_codegen[compile]'"
        ) from error
    size = description.dtype.bytes
    # A dimension of zero is no map; such a kernel copies nothing, so one serves.
    extents = [max(extent.evaluate(sizes), 1) for extent in description.sizes]
    types = driver.CUtensorMapDataType
    status, encoded = driver.cuTensorMapEncodeTiled(
        getattr(types, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES.get(description.dtype.name, 'UINT8')}"),
        len(extents),
        pointer,
        [driver.cuuint64_t(extent) for extent in extents],
        [driver.cuuint64_t(stride.evaluate(sizes) * size or 16) for stride in description.strides],
        [driver.cuuint32_t(box) for box in description.box],
        [driver.cuuint32_t(1) for _ in extents],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{description.swizzle_bytes}B"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(status) != 0:
        raise LaunchFailedError(f"the driver refuses tensor map {description.name}: {status.name}")
    raw = ctypes.string_at(int(encoded.getPtr()), BYTES)
    return np.frombuffer(raw, np.dtype((np.void, BYTES)))[0]
