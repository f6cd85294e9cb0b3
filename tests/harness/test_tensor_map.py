from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from deepgemm_codegen.dtypes import BF16
from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.tensor_map import encode_tensor_map
from deepgemm_codegen.plan.expressions import Number, Variable
from deepgemm_codegen.plan.tma import TensorMap

MAP = TensorMap("map_a", "a", BF16, Variable("k"), Number(100), Variable("lda"), 64, 128, 128)
SIZES = {"k": 0, "lda": 72}


class Names:
    """Any enumerator is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


def driver(monkeypatch: pytest.MonkeyPatch, status: int = 0) -> list[Any]:
    """A driver that records its calls and encodes bytes 0, 1, 2, ..."""
    calls: list[Any] = []
    store = np.arange(128, dtype=np.uint8)

    class Status(int):
        name = "CUDA_ERROR_INVALID_VALUE"

    def encode(*arguments: Any) -> Any:
        calls.append(arguments)
        return Status(status), SimpleNamespace(getPtr=lambda: store.ctypes.data)

    module = ModuleType("cuda.bindings.driver")
    for name in ("DataType", "Interleave", "Swizzle", "L2promotion", "FloatOOBfill"):
        setattr(module, f"CUtensorMap{name}", Names())
    module.cuTensorMapEncodeTiled = encode  # type: ignore[attr-defined]
    module.cuuint64_t = module.cuuint32_t = int  # type: ignore[attr-defined]
    package = ModuleType("cuda.bindings")
    package.driver = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", module)
    return calls


def test_the_driver_gets_what_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = driver(monkeypatch)
    encoded = encode_tensor_map(MAP, 4096, SIZES)
    assert bytes(encoded) == bytes(range(128))
    assert encoded.dtype.itemsize == 128
    kind, rank, pointer, sizes, strides, box, steps, *rest = calls[0]
    assert (kind, rank, pointer) == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 2, 4096)
    assert (sizes, strides, box, steps) == ([1, 100], [144], [64, 128], [1, 1])
    assert rest == [
        "CU_TENSOR_MAP_INTERLEAVE_NONE",
        "CU_TENSOR_MAP_SWIZZLE_128B",
        "CU_TENSOR_MAP_L2_PROMOTION_L2_256B",
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE",
    ]


def test_a_batch_is_a_third_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = driver(monkeypatch)
    batched = replace(MAP, batch=5, batch_stride=Variable("apart"))
    encode_tensor_map(batched, 4096, {"k": 70, "lda": 72, "apart": 7200})
    _, rank, _, sizes, strides, box, steps, *_ = calls[0]
    assert (rank, sizes, strides) == (3, [70, 100, 5], [144, 14400])
    assert (box, steps) == ([64, 128, 1], [1, 1, 1])
    encode_tensor_map(batched, 4096, {"k": 70, "lda": 72, "apart": 0})
    assert calls[1][4] == [144, 16], "of matrices without rows any distance serves"


def test_a_refused_map_is_a_failed_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch, status=1)
    with pytest.raises(LaunchFailedError) as raised:
        encode_tensor_map(MAP, 4096, SIZES)
    assert str(raised.value) == ("the driver refuses tensor map map_a: CUDA_ERROR_INVALID_VALUE")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(EnvironmentLackError, match=r"^kernels that load by TMA need cuda-bindings"):
        encode_tensor_map(MAP, 4096, SIZES)
