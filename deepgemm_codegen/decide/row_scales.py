"""Question: who computes the scales of rows?

The scale of a row wants its largest magnitude, and no block of a product sees a whole row as a
rule. So the product, whatever its family, leaves its values in the workspace as fp32, and one more
kernel makes scales and D of them. What precedes the quantising step stays where it would be without
that: in the product's epilogue, in that of a reduction, or in a kernel that normalises rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.operands import output_vector
from deepgemm_codegen.decide.split_k import LATE_US, REDUCE_US
from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.dtypes import FP32
from deepgemm_codegen.errors import InputError, InternalError
from deepgemm_codegen.numbers import DEFAULT_ALIGNMENT
from deepgemm_codegen.plan import Decision, Grid, KernelPlan, Program
from deepgemm_codegen.plan.expressions import Number, times
from deepgemm_codegen.plan.row_scales import MOST_COLUMNS, MOST_THREADS, VALUES, RowScales
from deepgemm_codegen.plan.tiles import WARP, Output
from deepgemm_codegen.plan.workspace import workspace_of
from deepgemm_codegen.spec.batching import DENSE
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["row_scales_answer", "row_scales_clocks", "values_spec", "with_row_scales"]

BLOCK_THREADS = 256
"""Threads of a block whose rows are short."""

L2_READ_RATE = 30
"""Bytes a clock and multiprocessor at which values come back from the L2. An estimate."""

KEPT = 16
"""Values that a thread keeps before more threads share the row."""

ROW_ELEMENTS = 4
"""Rows of values start on so many elements: 16 bytes."""


def values_spec(spec: GemmSpec) -> GemmSpec:
    """What the product computes: the spec without its last step, in fp32.

    Raises:
        InputError: a row that no block holds.
    """
    if spec.n.size > MOST_COLUMNS:
        raise InputError(
            f"n = {spec.n}: a block holds rows of {MOST_COLUMNS} elements at most, of which it"
            " computes scales; give scale: per_token and the scales"
        )
    leading = -(-spec.n.size // ROW_ELEMENTS) * ROW_ELEMENTS
    return replace(
        spec,
        epilogue=spec.epilogue[:-1],
        dtype_d=FP32,
        ldd=leading,
        stride_d=DENSE,
        align_d=DEFAULT_ALIGNMENT,
    )


def row_scales_body(spec: GemmSpec, vector: int) -> RowScales:
    """The second kernel: whole warps a row, several rows a block where they are short."""
    step = spec.quantizes
    if step is None or step.computed is None:
        raise InternalError("no scales to compute")
    vectors = -(-spec.n.size // vector)
    row_threads = WARP
    while row_threads < MOST_THREADS and row_threads * KEPT < vectors * vector:
        row_threads *= 2
    return RowScales(
        tile_m=max(BLOCK_THREADS // row_threads, 1),
        row_threads=row_threads,
        passes=-(-vectors // row_threads),
        vector=vector,
        scale=step.computed.argument(len(spec.epilogue) - 1),
        largest=f"{spec.dtype_d.largest:.1f}f",
    )


def row_scales_clocks(spec: GemmSpec, arch: Arch) -> float:
    """Clocks of the second kernel, as `split_k.reduce_clocks` has those of one that adds."""
    machine = machine_of(arch, spec.dtype_a.name)
    elements = spec.batch * spec.m.size * spec.n.size
    moved = 4 * elements / (machine.sms * L2_READ_RATE)
    return (REDUCE_US + LATE_US) * machine.clock_mhz + max(moved, elements / machine.dram_rate)


def row_scales_answer(spec: GemmSpec, arch: Arch) -> Decision:
    """The question with its answer and reason."""
    body = row_scales_body(spec, output_vector(spec))
    us = row_scales_clocks(spec, arch) / machine_of(arch, spec.dtype_a.name).clock_mhz
    return Decision(
        "D19",
        "row scales",
        f"a kernel behind, {counted(body.tile_m, 'row')} a block",
        f"a scale wants the whole row, left in fp32 by the kernel before; {us:.1f} us as predicted",
    )


def with_row_scales(program: Program, spec: GemmSpec, arch: Arch) -> Program:
    """The program of the values, and the kernel that makes D of them.

    Args:
        program: of `values_spec`.
        spec: what was asked for.
        arch: where.
    """
    name = kernel_name(spec)
    early = arch.dependent_launch
    *before, last = program.kernels
    values = _leading(last)
    first = [replace(kernel, name=f"{name}_{kernel.body.role}") for kernel in before]
    maker = replace(
        last,
        name=f"{name}_{last.body.role}",
        output=replace(last.output, pointer=VALUES),
        followed=early,
    )
    vector = output_vector(spec)
    body = row_scales_body(spec, vector)
    quantize = KernelPlan(
        name=f"{name}_scales",
        spec=spec,
        target=last.target,
        transposed=False,
        m=replace(last.m, tile=body.tile_m, cluster=1),
        n=replace(last.n, tile=body.tile_n, cluster=1, halves=1),
        k=replace(last.k, split=1),
        batch=spec.batch,
        output=Output(
            dtype=spec.dtype_d,
            leading=spec.ldd or None,
            c_dtype=None,
            c_leading=None,
            vector=vector,
            warp_n=body.tile_n,
        ),
        epilogue=(),
        body=body,
        schedule=Grid(raster_group=1),
        dependent=early,
        followed=spec.launch == "dependent",
    )
    elements = times(last.m.expression, Number(values * spec.batch))
    others = [(r.name, r.dtype, r.elements) for r in program.workspace.regions]
    regions = [(VALUES, FP32, elements), *others]
    return Program(name, (*first, maker, quantize), workspace_of(regions))


def _leading(kernel: KernelPlan) -> int:
    """Elements from row to row of the values that a kernel leaves."""
    if kernel.output.leading is None:
        raise InternalError(f"{kernel.name}: rows of values have a fixed length")
    return kernel.output.leading
