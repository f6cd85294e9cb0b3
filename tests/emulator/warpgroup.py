"""Hand-written PTX for Hopper's instructions: a module around a body, and a run of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepgemm_codegen.emulator import (
    Checks,
    GlobalBuffer,
    Kernel,
    Launch,
    Report,
    TensorMap,
    parse,
    run,
)
from tests.emulator.support import DECLARATIONS

Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["execute", "kinds", "module"]


def module(body: str, parameters: list[Any], *, cluster: int = 1) -> str:
    """A module with one kernel ``k``; shared memory is ``shared``, dynamic, aligned to 1024.

    Buffer i arrives in ``%d<i>``, as does the address of tensor map i; ``%r0`` is the thread,
    ``%r1`` the lane, ``%r2`` the warp.
    """
    declared, loads = [], []
    for i, value in enumerate(parameters):
        name = f"k_param_{i}"
        if isinstance(value, TensorMap):
            declared.append(f".param .align 64 .b8 {name}[128]")
            loads.append(f"mov.b64 %d{i}, {name};\ncvta.param.u64 %d{i}, %d{i};")
        else:
            declared.append(f".param .u64 {name}")
            loads.append(f"ld.param.u64 %d{i}, [{name}];")
    directives = ".explicitcluster\n.reqnctapercluster " + f"{cluster}, 1, 1" if cluster > 1 else ""
    start = "mov.u32 %r0, %tid.x;\nand.b32 %r1, %r0, 31;\nshr.u32 %r2, %r0, 5;\n"
    return (
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".extern .shared .align 1024 .b8 shared[];\n"
        f".visible .entry k({', '.join(declared)})\n{directives}\n"
        f"{{{DECLARATIONS}.reg .f32 %f<256>;\n{start}" + "\n".join(loads) + f"\n{body}\nret;\n}}\n"
    )


def execute(
    body: str,
    parameters: list[Any],
    *,
    threads: int = 32,
    blocks: int = 1,
    shared: int = 4096,
    cluster: int = 1,
    chosen: list[int] | None = None,
    checks: Checks | None = None,
) -> Report:
    """Run kernel ``k`` on some blocks in x."""
    kernel = Kernel(parse(module(body, parameters, cluster=cluster)), "k", "sm_90")
    launch = Launch((blocks, 1, 1), (threads, 1, 1), shared, parameters)
    which = None if chosen is None else [(b, 0, 0) for b in chosen]
    return run(kernel, launch, which, checks)


def kinds(report: Report) -> list[str]:
    """Kinds of the findings, in the order found."""
    return [f.kind for f in report.findings]


def output(count: int, dtype: Any = np.uint32) -> tuple[Array, GlobalBuffer]:
    """An array to be written, filled with ones, and its buffer."""
    array = np.full(count, -1).astype(dtype)
    return array, GlobalBuffer("out", array, writable=True)
