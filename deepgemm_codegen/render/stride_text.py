"""The words by which a kernel's pointers move on from product to product of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.plan import Rows
from deepgemm_codegen.plan.reduce import Reduce
from deepgemm_codegen.plan.repack import Repack
from deepgemm_codegen.plan.row_scales import VALUES, RowScales
from deepgemm_codegen.plan.turn import Turn
from deepgemm_codegen.plan.wgmma import Wgmma
from deepgemm_codegen.plan.zero_points import ZEROS, ZeroPoints
from deepgemm_codegen.render.epilogue_text import matrices_of, matrix_text
from deepgemm_codegen.spec.block_scales import BLOCK

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.plan.signature import Parameter
    from deepgemm_codegen.plan.tiles import Extent

__all__ = [
    "PointerText",
    "batch_pointers",
    "batch_strides",
    "blocks_along_k",
    "scales_line",
    "stride_of",
]


@dataclass(frozen=True, slots=True)
class PointerText:
    """A product's own pointer: its declaration, the array, and when the array may be followed."""

    declaration: str
    array: str
    asked: str


def _vectors(plan: KernelPlan) -> list[tuple[str, str]]:
    """(pointer, elements in C) of the steps' vectors of which each product has its own."""
    found = []
    for index, step in enumerate(plan.epilogue):
        for operand in (o for o in step.operands if o.per_product):
            name = operand.argument(index)
            length = f"i64{{ {(plan.m if operand.access == 'row' else plan.n).symbol} }}"
            both = " * 2" if plan.spec.pairs_behind(name) and operand.access == "column" else ""
            found.append((name, length + both))
    return found


def _scales(plan: KernelPlan) -> list[tuple[str, str]]:
    """(pointer, elements in C) of scales by block, of operands with a matrix a product."""
    if not plan.scaled:
        return []
    columns = f"{plan.n.halves} * {plan.n.symbol}" if plan.n.halves > 1 else plan.n.symbol
    lines = {"a": blocks_along_k(plan), "b": f"({columns} + {BLOCK - 1}) / {BLOCK}"}
    extents = {"a": plan.m, "b": plan.k}
    return [
        (f"scale_{letter}", f"{lines[letter]} * {scales_line(letter, extents[letter])}")
        for letter in lines
        if not plan.spec.shared(letter)
    ]


def _zeros(plan: KernelPlan) -> list[tuple[str, str]]:
    """The same of what zero points of A's rows and B's columns were made to."""
    if not plan.zeroed:
        return []
    rows, columns = (plan.n, plan.m) if plan.transposed else (plan.m, plan.n)
    extents = {"a": rows, "b": columns}
    return [
        (region, f"i64{{ {extents[letter].symbol} }} * {2 * extents[letter].halves}")
        for letter, region in ZEROS.items()
        if not plan.spec.shared(letter)
    ]


def scales_line(letter: str, extent: Extent) -> str:
    """What holds the elements from line to line of scales by block: ``LDSCALE_A`` or smaller."""
    return f"ldscale_{letter}" if extent.dynamic else f"LDSCALE_{letter.upper()}"


def blocks_along_k(plan: KernelPlan) -> str:
    """What holds the blocks of k that share scales: the slices, where those are blocks."""
    if plan.k.tile == BLOCK:
        return plan.k.count_symbol
    return f"(({plan.k.symbol} + {BLOCK - 1}) / {BLOCK})"


def stride_of(plan: KernelPlan, pointer: str, dense: str) -> str:
    """Elements from one product's matrix to the next's in C; empty where all share one."""
    letter = pointer.removesuffix("_packed")
    if letter not in ("a", "b", "c", "d"):
        return dense
    if plan.spec.shared(letter):
        return ""
    if pointer != letter:  # copies follow each other
        return dense
    if plan.spec.scattered(letter):
        return ""
    given = isinstance(getattr(plan.spec, f"stride_{letter}"), int)
    return f"STRIDE_{letter.upper()}" if given else dense


def batch_strides(plan: KernelPlan) -> tuple[tuple[str, str], ...]:
    """(pointer, elements in C) of what moves on from product to product."""
    output = plan.output
    if isinstance(plan.body, (Repack, ZeroPoints)):
        return ()
    found: list[tuple[str, str]] = []
    if isinstance(plan.body, Turn):
        return _turned_strides(plan, plan.body)
    if isinstance(plan.body, RowScales):
        scale = plan.body.scale, f"i64{{ {plan.m.symbol} }}"
        found = [(VALUES, f"{plan.m.symbol} * LD{VALUES.upper()}"), scale]
    elif not isinstance(plan.body, (Wgmma, Reduce, Rows)):
        found = [
            (str(o.source), f"{o.rows.symbol} * {o.leading_symbol}") for o in plan.body.operands
        ]
    if output.partial and plan.k.split == 1 and not isinstance(plan.body, Wgmma):
        found.append(("partials", f"{plan.m.symbol} * {output.leading_symbol}"))
    if isinstance(plan.body, Rows):
        parts = f"{plan.body.parts} * " if plan.body.parts > 1 else ""
        rows = f"{parts}{plan.m.symbol} * {plan.body.leading_symbol}"
        found.append((plan.body.source, rows))
    if output.c_dtype is not None:
        found.append((output.c_pointer, f"{plan.m.symbol} * {output.c_leading_symbol}"))
    if not output.partial and output.pointer not in {each.pointer for each in plan.tensor_maps}:
        found.append((output.pointer, f"{plan.m.symbol} * {output.leading_symbol}"))
    strides = [(pointer, stride_of(plan, pointer, dense)) for pointer, dense in found]
    strides = [(pointer, stride) for pointer, stride in strides if stride]
    for name, operand in matrices_of(plan):
        matrix = matrix_text(plan, name, operand)
        strides.append((matrix.name, f"{plan.m.symbol} * {matrix.leading}"))
    strides += _vectors(plan) + _scales(plan) + _zeros(plan)
    return tuple(sorted((name, f"({s})" if " " in s else s) for name, s in strides))


def _turned_strides(plan: KernelPlan, body: Turn) -> tuple[tuple[str, str], ...]:
    """Those of a kernel that turns matrices: the caller's by columns, the others by rows."""
    found = []
    for matrix in body.matrices:
        dense = f"{plan.n.symbol} * {matrix.leading_symbol}"
        if stride := stride_of(plan, matrix.name, dense):
            found.append((matrix.name, stride))
        found.append((matrix.region, f"{plan.m.symbol} * {matrix.pitch_symbol}"))
    return tuple(sorted((name, f"({s})" if " " in s else s) for name, s in found))


def batch_pointers(plan: KernelPlan, arguments: tuple[Parameter, ...]) -> tuple[PointerText, ...]:
    """What each product has a pointer of its own to.

    Args:
        plan: the kernel.
        arguments: its own.
    """
    if not any(argument.array for argument in arguments):
        return ()
    asked = {"c": "beta != 0.0f"}
    if plan.spec.multiplies:
        asked |= dict.fromkeys("ab", "alpha != 0.0f")
    return tuple(
        PointerText(f"{p.target}* const {p.name}", p.symbol, asked.get(p.role, ""))
        for p in arguments
        if p.array
    )
