"""From a family's winning numbers to a program: what all families share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.naming import kernel_name
from deepgemm_codegen.plan import (
    Bandwidth,
    Decision,
    Grid,
    KernelPlan,
    MmaSync,
    Persistent,
    Program,
    Wgmma,
)
from deepgemm_codegen.tiles import Extent, Output

if TYPE_CHECKING:
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["extents_of", "program_of", "sources"]


def extents_of(
    spec: GemmSpec, tile_m: int, tile_n: int, tile_k: int, cluster_m: int = 1, cluster_n: int = 1
) -> tuple[Extent, Extent, Extent]:
    """m, n and k in the plan's roles."""
    rows, columns = ("M", spec.m), ("N", spec.n)
    if spec.layout_d == "t":
        rows, columns = columns, rows
    return (
        Extent("m", rows[0], rows[1].size, rows[1].dynamic, tile_m, cluster_m),
        Extent("n", columns[0], columns[1].size, columns[1].dynamic, tile_n, cluster_n),
        Extent("k", "K", spec.k.size, spec.k.dynamic, tile_k),
    )


def sources(spec: GemmSpec) -> tuple[Literal["a", "b"], Literal["a", "b"]]:
    """The caller's operands that play the plan's a and b."""
    return ("b", "a") if spec.layout_d == "t" else ("a", "b")


def program_of(
    spec: GemmSpec,
    target: str,
    extents: tuple[Extent, Extent, Extent],
    body: MmaSync | Wgmma | Bandwidth,
    schedule: Grid | Persistent,
    vector: int,
    slab_n: int,
    decisions: tuple[Decision, ...],
) -> Program:
    """The one-kernel program of a body.

    Args:
        spec: what was asked for.
        target: architecture that the code is compiled for.
        extents: m, n and k in the plan's roles.
        body: how a tile is computed.
        schedule: which block computes which tile.
        vector: elements of D that a lane stores at a time.
        slab_n: columns of an epilogue slab.
        decisions: every question with its answer.
    """
    transposed = spec.layout_d == "t"
    epilogue = spec.epilogue
    if transposed:
        epilogue = tuple(step.transposed() for step in epilogue)
    m, n, k = extents
    output = Output(
        dtype=spec.dtype_d,
        leading=spec.ldd or None,
        c_dtype=spec.dtype_c,
        c_leading=spec.ldc or None,
        vector=vector,
        warp_n=slab_n,
    )
    kernel = KernelPlan(
        name=kernel_name(spec),
        spec=spec,
        target=target,
        transposed=transposed,
        m=m,
        n=n,
        k=k,
        batch=spec.batch,
        output=output,
        epilogue=epilogue,
        body=body,
        schedule=schedule,
        decisions=decisions,
    )
    return Program((kernel,))
