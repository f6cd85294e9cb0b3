"""From a family's winning numbers to a program: what all families share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.problem import canonical_steps, problem_of, why_turned
from deepgemm_codegen.decide.rows.choice import rows_kernel
from deepgemm_codegen.decide.rows.search import best_rows
from deepgemm_codegen.decide.rows.task import row_task
from deepgemm_codegen.decide.split_k import PARTIAL_VECTOR, partial_leading, partials, reduce_body
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan import (
    Bandwidth,
    Decision,
    Grid,
    KernelPlan,
    MmaSync,
    Persistent,
    Program,
    Repack,
    Simt,
    Wgmma,
)
from deepgemm_codegen.plan.repack import PACKED, Packed
from deepgemm_codegen.plan.tiles import Extent, Output
from deepgemm_codegen.plan.tma import TmaOperand
from deepgemm_codegen.plan.workspace import workspace_of
from deepgemm_codegen.spec.batching import DENSE
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from collections.abc import Container

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan.tiles import MatrixOperand
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "columns_of_b",
    "extents_of",
    "program_of",
    "sources",
    "with_copies",
]

COPYING_BLOCKS, CROWDED_FROM = 4, 100
"""Blocks of a copying kernel that are to fit on a multiprocessor, from an architecture on: there
ptxas (13.0) makes room for five and spills what they lack, where four need no spill."""

STRIDED_BLOCKS, STRIDED_FROM = 3, 120
"""The same where a leading dimension is an argument: there four spilled 16 bytes."""


def extents_of(
    spec: GemmSpec,
    tile_m: int,
    tile_n: int,
    tile_k: int,
    *,
    cluster_m: int = 1,
    cluster_n: int = 1,
    split_k: int = 1,
) -> tuple[Extent, Extent, Extent]:
    """m, n and k in the plan's roles."""
    rows, columns = ("M", spec.m), ("N", spec.n)
    if spec.layout_d == "t":
        rows, columns = columns, rows
    return (
        Extent("m", rows[0], rows[1].size, rows[1].dynamic, tile_m, cluster_m),
        Extent(
            "n",
            columns[0],
            columns[1].size,
            columns[1].dynamic,
            tile_n // spec.halves,
            cluster_n,
            halves=spec.halves,
        ),
        Extent("k", "K", spec.k.size, spec.k.dynamic, tile_k, split=split_k),
    )


def columns_of_b(spec: GemmSpec, n: Extent) -> Extent:
    """The extent of B's columns, which are twice D's where a step pairs them."""
    if spec.halves == 1:
        return n
    return replace(n, size=n.size * n.halves, tile=n.tile * n.halves, both=True)


def sources(spec: GemmSpec) -> tuple[Literal["a", "b"], Literal["a", "b"]]:
    """The caller's operands that play the plan's a and b."""
    return ("b", "a") if spec.layout_d == "t" else ("a", "b")


def program_of(
    spec: GemmSpec,
    arch: Arch,
    target: str,
    extents: tuple[Extent, Extent, Extent],
    body: MmaSync | Wgmma | Bandwidth | Simt,
    schedule: Grid | Persistent,
    vector: int,
    slab_n: int,
    decisions: tuple[Decision, ...],
    *,
    abreast: int = 1,
) -> Program:
    """The program of a body: one kernel, or, where parts of k meet in memory, two.

    Args:
        spec: what was asked for.
        arch: where.
        target: architecture that the code is compiled for.
        extents: m, n and k in the plan's roles.
        body: how a tile is computed.
        schedule: which block computes which tile.
        vector: elements of D that a lane stores at a time.
        slab_n: columns of an epilogue slab.
        decisions: every question with its answer.
        abreast: tiles that a block computes side by side.
    """
    if why := why_turned(spec):
        raise InternalError(f"{spec}: {why}, and no family turns D")
    m, n, k = extents
    output = Output(
        dtype=spec.dtype_d,
        leading=spec.ldd or None,
        c_dtype=spec.dtype_c,
        c_leading=spec.ldc or None,
        vector=vector,
        warp_n=slab_n,
        saturates=spec.saturates,
        halves=spec.halves,
    )
    name = kernel_name(spec)
    kernel = KernelPlan(
        name=name,
        spec=spec,
        target=target,
        transposed=spec.layout_d == "t",
        m=m,
        n=n,
        k=k,
        batch=spec.batch,
        output=output,
        epilogue=canonical_steps(spec),
        body=body,
        schedule=schedule,
        decisions=decisions,
        dependent=spec.launch == "dependent",
        followed=spec.launch == "dependent",
        abreast=abreast,
    )
    holds_rows = isinstance(body, MmaSync | Wgmma) and body.holds_rows
    if spec.norm is not None and not holds_rows:
        return _with_rows(kernel, arch)
    whole = k.split == 1 or (isinstance(body, Wgmma) and body.cluster_k > 1)
    return Program(name, (kernel,)) if whole else _with_reduction(kernel, arch)


def _product_of(whole: KernelPlan, *, early: bool) -> KernelPlan:
    """A product that stops at partial sums, and lets the kernel behind it in early, or not."""
    return replace(
        whole,
        name=f"{whole.name}_product",
        output=Output(
            dtype=whole.spec.dtype_acc,
            leading=partial_leading(whole.n),
            c_dtype=None,
            c_leading=None,
            vector=PARTIAL_VECTOR,
            warp_n=whole.output.warp_n,
            partial=True,
            halves=whole.output.halves,
        ),
        epilogue=(),
        followed=early,
    )


def _with_rows(whole: KernelPlan, arch: Arch) -> Program:
    """A product that stops at its sums, and the kernel that makes D of whole rows of them.

    Args:
        whole: the product as it would be without the second kernel.
        arch: where.
    """
    spec, parts = whole.spec, whole.k.split
    early = arch.dependent_launch
    task = row_task(spec, machine_of(arch, spec.dtype_a.name), parts)
    rows = replace(
        rows_kernel(spec, arch, task, best_rows(task)),
        name=f"{whole.name}_rows",
        target=whole.target,
        k=whole.k,
        dependent=early,
    )
    workspace = partials(spec, whole.m, whole.n, parts)
    return Program(whole.name, (_product_of(whole, early=early), rows), workspace)


def _with_reduction(whole: KernelPlan, arch: Arch) -> Program:
    """A product that stops at partial sums, and the kernel that makes D of them.

    Args:
        whole: the product as it would be without the second kernel.
        arch: where.
    """
    parts, leading = whole.k.split, partial_leading(whole.n)
    early = arch.dependent_launch
    problem = problem_of(whole.spec, arch)
    body = reduce_body(problem, machine_of(arch, whole.spec.dtype_a.name), parts, leading)
    reduction = replace(
        whole,
        name=f"{whole.name}_reduce",
        m=replace(whole.m, tile=body.tile_m, cluster=1),
        n=replace(whole.n, tile=body.tile_n, cluster=1, halves=1),
        output=replace(whole.output, vector=problem.vector, warp_n=body.tile_n),
        body=body,
        schedule=Grid(raster_group=1),
        decisions=(),
        dependent=early,
    )
    workspace = partials(whole.spec, whole.m, whole.n, parts)
    return Program(whole.name, (_product_of(whole, early=early), reduction), workspace)


def _filled(copy: MatrixOperand) -> bool:
    """Whether the rows of an operand's copy are to be read up to the next one.

    A box of TMA that a matrix ends in takes longer: along k that of the last slice, along m or n
    those of every slice of the tiles at the edge. What is read there is of no row or column of D.
    """
    along_mn = isinstance(copy, TmaOperand) and not copy.k_major and copy.dtype.bytes > 1
    return along_mn and not copy.columns.dynamic


def _packed(copy: MatrixOperand, spec: GemmSpec, *, turned: bool) -> Packed:
    """One of the caller's matrices, from what the product reads of its copy."""
    return Packed(
        source="a" if copy.source == "a" else "b",
        dtype=copy.dtype,
        rows=copy.columns if turned else copy.rows,
        columns=copy.rows if turned else copy.columns,
        batch=spec.matrices(copy.source),
        leading=getattr(spec, f"ld{copy.source}") or None,
        pitch=copy.leading or 0,
        align=getattr(spec, f"align_{copy.source}"),
        turned=turned,
        stride=DENSE if spec.shared(copy.source) else getattr(spec, f"stride_{copy.source}"),
        filled=_filled(copy),
    )


def _copying(
    product: KernelPlan, spec: GemmSpec, arch: Arch, matrices: list[Packed], row_threads: int
) -> KernelPlan:
    """The kernel before a product that copies its operands; `row_threads` see `Repack`."""
    blocks = COPYING_BLOCKS if arch.number >= CROWDED_FROM else 0
    if arch.number >= STRIDED_FROM and any(matrix.leading is None for matrix in matrices):
        blocks = STRIDED_BLOCKS
    return replace(
        product,
        name=f"{kernel_name(spec)}_repack",
        spec=spec,
        epilogue=(),
        body=Repack(tuple(matrices), row_threads, blocks),
        abreast=1,
        schedule=Grid(raster_group=1),
        decisions=(),
        dependent=spec.launch == "dependent",
        followed=arch.dependent_launch,
    )


def with_copies(
    program: Program,
    spec: GemmSpec,
    arch: Arch,
    copied: Container[str],
    turned: Container[str],
    row_threads: int,
) -> Program:
    """A program that first copies operands into the workspace, and goes on with the copies.

    Args:
        program: what was planned for operands that lie as their copies will.
        spec: what was asked for.
        arch: where.
        copied: the caller's operands that are copied.
        turned: those of them whose copy is stored transposed.
        row_threads: see `Repack`.
    """
    early = arch.dependent_launch
    name = kernel_name(spec)
    product = program.product
    body = product.body
    if not isinstance(body, (MmaSync, Wgmma)):
        raise InternalError(f"{type(body).__name__} reads no copies")
    sides = {"a": body.a, "b": body.b}
    copies = {side: each for side, each in sides.items() if each.source in copied}
    matrices = [
        _packed(operand, spec, turned=operand.source in turned)
        for operand in sorted(copies.values(), key=lambda operand: operand.source)
    ]
    renamed: dict[str, Any] = {
        side: replace(operand, source=PACKED[operand.source]) for side, operand in copies.items()
    }
    for side, operand in renamed.items():
        if _filled(operand):
            renamed[side] = replace(operand, filled=True)
    first = _copying(product, spec, arch, matrices, row_threads)
    others = [
        replace(
            kernel,
            name=f"{name}_{kernel.body.role}",
            spec=spec,
            body=replace(body, **renamed) if kernel is product else kernel.body,
            dependent=early,
        )
        for kernel in program.kernels
    ]
    regions = [(matrix.name, matrix.dtype, matrix.elements) for matrix in matrices]
    regions += [(r.name, r.dtype, r.elements) for r in program.workspace.regions]
    return Program(name, (first, *others), workspace_of(regions))
