"""Question: who sums the operands that zero points are taken from?

The sums of A's rows and B's columns are not the product's to make: every tile of a row would make
them again. A kernel before it makes them once, and the product takes them from its sums between its
main loop and its epilogue, neither of which changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.assemble import columns_of_b
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.schedule import MAX_GRID
from deepgemm_codegen.decide.split_k import REDUCE_US
from deepgemm_codegen.dtypes import INT32
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.plan import Decision, Grid, Program
from deepgemm_codegen.plan.workspace import workspace_of
from deepgemm_codegen.plan.zero_points import SUMMED_ROWS, OperandZeros, ZeroPoints
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["with_zero_points", "zero_points_answer", "zero_points_clocks"]

SUM_RATE = 16
"""Bytes a clock and multiprocessor that the sums read: a warp asks for 32 bytes at a time. An
estimate."""


def zero_points_clocks(spec: GemmSpec, arch: Arch) -> float:
    """Clocks of the kernel before the product."""
    machine = machine_of(arch, spec.dtype_a.name)
    rows = spec.matrices("a") * spec.m.size if spec.zero_point_b else 0
    rows += spec.matrices("b") * spec.b_columns.size if spec.zero_point_a else 0
    bytes_read = rows * spec.k.size
    moved = max(bytes_read / (machine.sms * SUM_RATE), bytes_read / machine.dram_rate)
    return REDUCE_US * machine.clock_mhz + moved


def zero_points_answer(spec: GemmSpec, arch: Arch) -> Decision:
    """The question with its answer and reason."""
    us = zero_points_clocks(spec, arch) / machine_of(arch, spec.dtype_a.name).clock_mhz
    summed = [
        what
        for what, other in (("A's rows", spec.zero_point_b), ("B's columns", spec.zero_point_a))
        if other
    ]
    return Decision(
        "D18",
        "zero points",
        "a kernel before the product",
        f"sums {' and '.join(summed)} once, in {us:.1f} us as predicted; folded in exactly",
    )


def _operand(kernel: KernelPlan, source: str) -> OperandZeros:
    """One of the caller's operands."""
    spec = kernel.spec
    is_a = source == "a"
    mine, other = spec.zero_point_a, spec.zero_point_b
    if not is_a:
        mine, other = other, mine
    across = kernel.m if is_a != kernel.transposed else kernel.n
    if not is_a:
        across = columns_of_b(spec, across)
    batch = spec.matrices(source)
    zero = mine or "0"
    if mine in ("per_token", "per_channel"):
        own = f"batch * {across.symbol} + " if batch > 1 else ""
        zero = f"zero_point_{source}[{own}row]"
    elif mine == "per_tensor":
        zero = f"zero_point_{source}"
    return OperandZeros(
        source="a" if is_a else "b",
        dtype=spec.dtype_a if is_a else spec.dtype_b,
        across=across,
        k=kernel.k,
        k_major=spec.k_major(source),
        batch=batch,
        stride=spec.stride_a if is_a else spec.stride_b,
        leading=(spec.lda if is_a else spec.ldb) or None,
        zero=zero,
        summed=bool(other),
        less=is_a and bool(mine) and bool(other),
    )


def _check_grid(spec: GemmSpec, body: ZeroPoints) -> None:
    """Refuses more blocks than a grid has, which tiny products of a huge batch could ask for."""
    blocks = body.blocks.evaluate({name: getattr(spec, name).size for name in "mnk"})
    if blocks > MAX_GRID:
        raise InputError(
            f"batch = {spec.batch}: zero points take {blocks} blocks that sum {SUMMED_ROWS} rows or"
            f" columns each, more than the {MAX_GRID} that a grid has; give a smaller batch"
        )


def with_zero_points(program: Program, spec: GemmSpec, arch: Arch) -> Program:
    """A program of operands with zero points, with the kernel before it that sums them.

    Args:
        program: the product, which takes what zero points come to from its sums.
        spec: what was asked for.
        arch: where.
    """
    product = program.product
    name = kernel_name(spec)
    early = arch.dependent_launch
    body = ZeroPoints((_operand(product, "a"), _operand(product, "b")))
    _check_grid(spec, body)
    first = replace(
        product,
        name=f"{name}_zeros",
        epilogue=(),
        body=body,
        abreast=1,
        schedule=Grid(raster_group=1),
        decisions=(),
        dependent=spec.launch == "dependent",
        followed=early,
    )
    others = [
        replace(kernel, name=f"{name}_{kernel.body.role}", dependent=early)
        for kernel in program.kernels
    ]
    regions = [(operand.name, INT32, operand.elements) for operand in body.operands]
    regions += [(r.name, r.dtype, r.elements) for r in program.workspace.regions]
    return Program(name, (first, *others), workspace_of(regions))
