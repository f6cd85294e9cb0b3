"""The words of a wgmma kernel beside the plan's numbers: tensor maps, instructions, barriers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.plan.expressions import Number
from deepgemm_codegen.plan.wgmma import Wgmma
from deepgemm_codegen.render.stride_text import stride_of

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.plan.expressions import Expression

__all__ = [
    "MapText",
    "SumText",
    "accumulator_names",
    "accumulator_operands",
    "cluster_load",
    "early_slices",
    "instruction_flags",
    "map_texts",
    "own_slices",
    "readers_of",
    "release_of",
    "store_chunk",
    "sums_of",
]

_MAP_TYPES = {"fp16": "FLOAT16", "bf16": "BFLOAT16", "fp32": "FLOAT32", "int32": "INT32"}
"""Ends of the driver's names ``CU_TENSOR_MAP_DATA_TYPE_...``; of 8 bits there is only UINT8."""

_RELEASE = "if (thread == 0) mbarrier_arrive(empty + previous * 8);"
_RELEASE_CLUSTER = "if (thread < CLUSTER) mbarrier_arrive_at(empty + previous * 8, thread);"
"""A consumer gives a slot back: to its own producer, or to every block that copies into it."""


@dataclass(frozen=True, slots=True)
class MapText:
    """One tensor map as the launcher builds it; extents and strides are C expressions.

    ``deep`` is the third dimension: a batch's matrices, or the rows of a matrix in panels. A box of
    none of it makes a map of two.
    """

    name: str
    pointer: str
    type: str
    inner: str
    outer: str
    stride: str
    element_bytes: int
    box_inner: int
    box_outer: int
    swizzle_bytes: int
    deep: str
    deep_stride: str
    box_deep: int


@dataclass(frozen=True, slots=True)
class SumText:
    """How PTX names the sums' type, and how an asm statement constrains them."""

    ptx: str
    constraint: str


def sums_of(plan: KernelPlan) -> SumText:
    """The type of a kernel's sums."""
    return SumText("s32", "r") if plan.sum_type == "int" else SumText("f32", "f")


def accumulator_names(plan: KernelPlan) -> tuple[str, ...]:
    """The instruction's list of accumulators, eight a line: ``{ %0, ... %7,`` to ``... },``."""
    if not isinstance(plan.body, Wgmma):
        return ()
    count = plan.body.tile_n // 2
    lines = [
        ", ".join(f"%{index}" for index in range(first, min(first + 8, count))) + ","
        for first in range(0, count, 8)
    ]
    lines[0] = "{ " + lines[0]
    lines[-1] = lines[-1][:-1] + " },"
    return tuple(lines)


def instruction_flags(plan: KernelPlan) -> str:
    """What follows the instruction's scale: signs of float operands, turns of 16-bit ones."""
    if not isinstance(plan.body, Wgmma) or plan.sum_type == "int":
        return ""
    a, b = plan.body.operands
    return ", 1, 1" + (f", {a.transposed}, {b.transposed}" if a.dtype.bytes == 2 else "")


def accumulator_operands(plan: KernelPlan, mode: str = "+") -> tuple[str, ...]:
    """The asm statement's accumulator operands, one fragment column a line.

    Args:
        plan: the kernel.
        mode: ``+`` where they are read and written, ``=`` where only written.
    """
    if not isinstance(plan.body, Wgmma):
        return ()
    columns = plan.body.tile_n // 8
    kind = mode + sums_of(plan).constraint
    lines = [", ".join(f'"{kind}"(d[{j}][{e}])' for e in range(4)) for j in range(columns)]
    return tuple(
        f"{':' if j == 0 else ' '} {line}{'' if j == columns - 1 else ','}"
        for j, line in enumerate(lines)
    )


def map_texts(plan: KernelPlan) -> tuple[MapText, ...]:
    """The tensor maps that the launcher builds, in the order of their pointers."""

    def constant(expression: Expression, name: str) -> str:
        return name if isinstance(expression, Number) else str(expression)

    if not isinstance(plan.body, Wgmma):
        return ()
    sizes = {plan.output.pointer: (plan.n.symbol, plan.m.symbol)}
    sizes |= {o.source: (o.inner_symbol, o.rows.symbol) for o in plan.body.operands}
    found = []
    for each in plan.tensor_maps:
        inner, outer = sizes[each.pointer]
        stride = constant(each.stride, f"LD{each.pointer.upper()}")
        text = MapText(
            name=each.name,
            pointer=each.pointer,
            type=_MAP_TYPES.get(each.dtype.name, "UINT8"),
            inner=inner,
            outer=outer,
            stride=stride,
            element_bytes=each.dtype.bytes,
            box_inner=each.box_inner,
            box_outer=each.box_outer,
            swizzle_bytes=each.swizzle_bytes,
            deep=str(each.batch),
            deep_stride=stride_of(plan, each.pointer, f"{outer} * {stride}") or "0",
            box_deep=int(each.batch > 1),
        )
        if each.panels:
            columns = str(each.box_inner)
            text = replace(
                text,
                inner=columns,
                outer=f"{inner} / {columns}",
                stride=columns,
                box_outer=each.panels,
                deep=outer,
                deep_stride=stride,
                box_deep=each.box_outer,
            )
        found.append(text)
    return tuple(found)


def early_slices(plan: KernelPlan) -> str:
    """How many slices every block starts before its threads meet, one at least.

    As many as there are slots, or all that the shortest part of k has, where those are fewer; empty
    where the launch tells, or a part has none.
    """
    if not isinstance(plan.body, Wgmma) or not plan.starts_early:
        return ""
    if plan.k.part_tiles is None or plan.k.part_tiles[0] == 0:
        return ""
    if plan.k.part_tiles[0] >= plan.body.stages:
        return "STAGES"
    return "SLICES / SPLIT_K" if plan.k.split > 1 else "SLICES"


def own_slices(plan: KernelPlan) -> str:
    """How many slices a block sums for a tile unless alpha is 0: a constant where one tells."""
    if plan.k.split == 1:
        return plan.k.count_symbol
    if plan.k.part_tiles is None or len({*plan.k.part_tiles}) > 1:
        return "slices_to_sum"
    return f"SLICES / {'SPLIT_K' if plan.output.partial else 'CLUSTER_K'}"


def readers_of(plan: KernelPlan) -> str:
    """How many arrivals tell a ring slot's producer that it has been read."""
    if not isinstance(plan.body, Wgmma):
        return ""
    readers = "CONSUMERS" if plan.body.tiles_at_once == 1 else "1"
    if plan.body.sharers == 1:
        return readers
    return "CLUSTER" if readers == "1" else f"{readers} * CLUSTER"


def store_chunk(plan: KernelPlan) -> str:
    """The swizzled 16-byte chunk of a row of D's panel; see `layout.swizzle`."""
    if not isinstance(plan.body, Wgmma) or plan.body.store != "tma":
        return ""
    width = plan.body.store_panels[0] * plan.output.dtype.bytes
    phase = {128: "row % 8", 64: "row / 2 % 4", 32: "row / 4 % 2"}[width]
    return f"(chunk ^ {phase})"


def cluster_load(plan: KernelPlan) -> dict[str, str]:
    """The instruction that reads a vector of a block's sums: its type, results and operands."""
    vector, sums = plan.output.vector, sums_of(plan)
    results = ", ".join(f"%{v}" for v in range(vector))
    return {
        "cluster_load": f"v{vector}.{sums.ptx}" if vector > 1 else sums.ptx,
        "cluster_results": f"{{ {results} }}" if vector > 1 else results,
        "cluster_operands": ", ".join(f'"={sums.constraint}"(sum[{v}])' for v in range(vector)),
    }


def release_of(plan: KernelPlan) -> str:
    """How a consumer gives a slot back."""
    shared = isinstance(plan.body, Wgmma) and plan.body.sharers > 1
    return _RELEASE_CLUSTER if shared else _RELEASE
