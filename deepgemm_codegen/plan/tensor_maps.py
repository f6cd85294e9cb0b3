"""The tensor maps of a kernel that copies by TMA: a map an operand, and D's where it leaves so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.plan.expressions import Expression, Number, Variable, times
from deepgemm_codegen.plan.tma import PANEL_BYTES, TensorMap

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tiles import Extent, Output
    from deepgemm_codegen.plan.tma import TmaOperand
    from deepgemm_codegen.plan.wgmma import Wgmma
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["tensor_maps"]


def tensor_maps(
    spec: GemmSpec, body: Wgmma, output: Output, m: Extent, n: Extent
) -> tuple[TensorMap, ...]:
    """The tensor maps that the host builds, in the order of their pointers.

    Args:
        spec: what is computed.
        body: how a tile is computed.
        output: how D is written.
        m: D's rows, in the plan's roles.
        n: D's columns.
    """
    found = [_of_operand(spec, operand) for operand in body.operands]
    if body.store in ("tma", "rows"):
        found.append(_of_output(spec, body, output, m, n))
    return tuple(sorted(found, key=lambda tensor_map: tensor_map.pointer))


def _of_operand(spec: GemmSpec, operand: TmaOperand) -> TensorMap:
    outer, stride = operand.rows.expression, _stride(operand.source, operand.leading)
    return TensorMap(
        name=f"map_{operand.source}",
        pointer=operand.source,
        dtype=operand.dtype,
        inner=operand.inner,
        outer=outer,
        stride=stride,
        box_inner=operand.box_columns,
        box_outer=operand.box_rows,
        swizzle_bytes=PANEL_BYTES,
        batch=spec.matrices(operand.source[0]),  # a copy's pointer begins with its letter
        batch_stride=_batch_stride(spec, operand.source, times(outer, stride)),
    )


def _of_output(spec: GemmSpec, body: Wgmma, output: Output, m: Extent, n: Extent) -> TensorMap:
    stride = _stride(output.pointer, output.leading)
    rows = body.store == "rows"
    columns = PANEL_BYTES // output.dtype.bytes if rows else body.store_panels[0]
    return TensorMap(
        name="map_d",
        pointer=output.pointer,
        dtype=output.dtype,
        inner=n.expression,
        outer=m.expression,
        stride=stride,
        box_inner=columns,
        box_outer=body.store_rows,
        swizzle_bytes=columns * output.dtype.bytes,
        batch=spec.matrices("d"),
        batch_stride=_batch_stride(spec, output.pointer, times(m.expression, stride)),
        panels=body.row_panels[1] if rows else 0,
    )


def _stride(pointer: str, leading: int | None) -> Expression:
    """Elements from row to row."""
    return Number(leading) if leading else Variable(f"ld{pointer}")


def _batch_stride(spec: GemmSpec, pointer: str, dense: Expression) -> Expression:
    """Elements from one product's matrix to the next's."""
    stride = getattr(spec, f"stride_{pointer}", None)  # copies follow each other
    return Number(stride) if isinstance(stride, int) else dense
