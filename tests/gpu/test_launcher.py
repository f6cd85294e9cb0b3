"""The generated file under nvcc: built into a library, its C launcher called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from shutil import which
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.decide import MmaSyncChoice, WgmmaChoice
from deepgemm_codegen.harness.gpu import find_gpu
from deepgemm_codegen.render import render_kernel
from tests.harness.support import SMALL, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from deepgemm_codegen.plan import KernelPlan

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(which("nvcc") is None, reason="nvcc is not installed"),
]

INVALID_VALUE = 1
"""cudaErrorInvalidValue."""


def library(plan: KernelPlan, folder: Path) -> Any:
    """The launcher, compiled for the plan's target and this GPU."""
    source = folder / f"{plan.name}.cu"
    source.write_text(render_kernel(plan), encoding="utf-8")
    target = plan.target.removeprefix("sm_")
    built = folder / f"{plan.name}.so"
    subprocess.run(
        [
            "nvcc",
            f"-gencode=arch=compute_{target},code=sm_{target}",
            "--shared",
            "--compiler-options=-fPIC",
            f"--output-file={built}",
            str(source),
        ],
        check=True,
        capture_output=True,
    )
    return getattr(ctypes.CDLL(str(built)), f"{plan.name}_launch")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("m=300 n=200 k=100 dtype_c=fp16 epilogue=bias,relu", SMALL),
        (
            "m=300 n=200 k=104 dtype_c=fp16 epilogue=bias,relu",
            WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8),
        ),
        (
            "m=300 n=200 k=104 dtype_c=fp16 epilogue=bias,relu",
            WgmmaChoice(128, 64, 2, 1, 4, 2, 1, 8),
        ),
    ],
    ids=["mma_sync", "wgmma", "wgmma cluster"],
)
def test_the_launcher(
    text: str, choice: MmaSyncChoice | WgmmaChoice, arch: str, tmp_path: Path
) -> None:
    if isinstance(choice, WgmmaChoice) and arch != "sm_90":
        pytest.skip("wgmma needs a Hopper GPU")
    cupy = find_gpu()
    suffix = "a" if isinstance(choice, WgmmaChoice) else ""
    plan = plan_of(f"{text} arch={arch}{suffix}", choice)
    m, n, k = plan.spec.m.size, plan.spec.n.size, plan.spec.k.size
    rng = np.random.default_rng(5)

    def whole(*shape: int) -> Any:
        return cupy.asarray(rng.integers(-3, 4, shape).astype(np.float16))

    a, b, c, bias = whole(m, k), whole(k, n), whole(m, n), whole(n)
    d = cupy.full((m, n), np.nan, dtype=np.float16)
    launch = library(plan, tmp_path)

    def call(first: int, alpha: float = 0.5) -> int:
        pointers = (first, b.data.ptr, c.data.ptr, d.data.ptr, bias.data.ptr)
        stream = cupy.cuda.get_current_stream().ptr
        return int(
            launch(
                *(ctypes.c_void_p(pointer) for pointer in pointers),
                ctypes.c_float(alpha),
                ctypes.c_float(2.0),
                ctypes.c_void_p(stream),
            )
        )

    assert call(a.data.ptr) == 0
    cupy.cuda.get_current_stream().synchronize()
    exact = 0.5 * (a.get().astype(np.float64) @ b.get()) + 2.0 * c.get() + bias.get()
    assert (d.get() == np.maximum(exact, 0).astype(np.float16)).all()
    assert call(0) == INVALID_VALUE, "a null A is refused"
    assert call(0, alpha=0.0) == 0, "which nobody reads where alpha is 0"
    cupy.cuda.get_current_stream().synchronize()
    assert (d.get() == np.maximum(2.0 * c.get() + bias.get(), 0).astype(np.float16)).all()
    assert call(a.data.ptr + 2) == INVALID_VALUE, "a misaligned A is refused"


BATCHES: dict[str, tuple[str, MmaSyncChoice | WgmmaChoice]] = {
    "wgmma": ("", WgmmaChoice(64, 64, 2, 2, 4, 1, 1, 8)),
    "wgmma, one B": ("stride_b=shared", WgmmaChoice(128, 64, 2, 1, 4, 2, 1, 8)),
    "abreast": ("", MmaSyncChoice(64, 64, 32, 2, 2, 2, 1, 8, abreast=3)),
    "pointers": (
        "stride_a=pointers stride_d=pointers",
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 1, 8),
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_the_launcher_of_a_batch(name: str, arch: str, tmp_path: Path) -> None:
    """Five products: maps of three dimensions, one B, tiles abreast, arrays of pointers."""
    fields, choice = BATCHES[name]
    if isinstance(choice, WgmmaChoice) and arch != "sm_90":
        pytest.skip("wgmma needs a Hopper GPU")
    cupy = find_gpu()
    suffix = "a" if isinstance(choice, WgmmaChoice) else ""
    batch, m, n, k = 5, 150, 72, 104
    plan = plan_of(f"m={m} n={n} k={k} batch={batch} {fields} arch={arch}{suffix}", choice)
    rng = np.random.default_rng(6)

    def whole(*shape: int) -> Any:
        return cupy.asarray(rng.integers(-3, 4, shape).astype(np.float16))

    a, b = whole(batch, m, k), whole(1 if "one B" in name else batch, k, n)
    d = cupy.full((batch, m, n), np.nan, dtype=np.float16)
    tables = [cupy.asarray([each.data.ptr for each in x], dtype=np.uint64) for x in (a, d)]
    first, last = tables if name == "pointers" else (a, d)
    stream = cupy.cuda.get_current_stream()
    status = library(plan, tmp_path)(
        *(ctypes.c_void_p(array.data.ptr) for array in (first, b, last)),
        ctypes.c_float(1.0),
        ctypes.c_void_p(stream.ptr),
    )
    stream.synchronize()
    assert status == 0
    assert (d.get() == (a.get().astype(np.float64) @ b.get()).astype(np.float16)).all()
