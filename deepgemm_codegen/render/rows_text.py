"""The words of a row kernel beside the plan's numbers: what stands before its norm, and behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import E5M2
from deepgemm_codegen.plan import MmaSync, Rows, Wgmma
from deepgemm_codegen.plan.rows import SHARING
from deepgemm_codegen.plan.tiles import WARP
from deepgemm_codegen.render.epilogue_text import (
    FLOAT8_CVT,
    StepText,
    matrices_of,
    narrowing,
    output_primitives,
    step_text,
    target_number,
)

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

__all__ = ["RowsText", "VectorText", "row_primitives", "rows_text"]

QUAD = 4
"""Lanes that have a row of wgmma's sums between them (PTX ISA)."""


@dataclass(frozen=True, slots=True)
class VectorText:
    """A norm's weight or bias: the argument, its type, the array that a part is read to."""

    name: str
    dtype: str
    vector: str


@dataclass(frozen=True, slots=True)
class RowsText:
    """The words of a row kernel.

    Attributes:
        form: stem of its template ``parts/row_FORM.cu.j2``: ``mapped`` without a norm, ``held`` or
            ``streamed``.
        before: the steps before the norm; all of them without one.
        pure: those of them that write nothing.
        norm: the norm, or None.
        after: the steps behind it.
        vectors: the norm's weight and bias.
        eps: what it adds to the mean square, as C writes it.
        loaded, stored: types that are read, and written, by vectors; an 8-bit float has a way of
            its own.
        fits: C condition under which vectors fit; empty where that is known.
        blocks: blocks of one matrix of a batch, as C writes it.
        first_place, second_place: the argument by which the sums of warps find their memory.
        threads: that share a row, or a block's part of it, where they are of one warp.
        beyond: whether some threads may have a vector behind the end of the row.
        anew: whether each pass over a held row finds its columns, and which are left out, anew:
            kept, they would take a register an element.
        outside: C condition under which a vector is none of D's; empty where all are.
        load_c, store_d: the functions that read C and write D.
    """

    form: str
    before: tuple[StepText, ...]
    pure: tuple[StepText, ...]
    norm: StepText | None
    after: tuple[StepText, ...]
    vectors: tuple[VectorText, ...]
    eps: str
    loaded: tuple[str, ...]
    stored: tuple[str, ...]
    fits: str
    blocks: str
    first_place: str
    second_place: str
    threads: int
    beyond: bool
    anew: bool
    outside: str
    load_c: str
    store_d: str


def rows_text(plan: KernelPlan) -> RowsText | None:
    """The words of a plan; None where it holds no whole rows."""
    body = plan.body
    rows = body if isinstance(body, Rows) else None
    if rows is None and not (isinstance(body, MmaSync | Wgmma) and body.holds_rows):
        return None
    texts = tuple(step_text(plan, index, step) for index, step in enumerate(plan.epilogue))
    place = plan.spec.norm
    number = len(texts) if place is None else place
    norm = None if place is None else texts[place]
    before = texts[:number]
    pure = tuple(
        text
        for text, step in zip(before, plan.epilogue, strict=False)
        if not any(operand.written for operand in step.operands)
    )
    vectors = _vectors(plan)
    several = rows is not None and rows.warps_n > 1
    held = rows is None or rows.held
    c_dtype = plan.output.c_dtype
    return RowsText(
        form="mapped" if norm is None else "held" if held else "streamed",
        before=before,
        pure=pure,
        norm=norm,
        after=texts[number + 1 :],
        vectors=vectors,
        eps="" if norm is None else norm.settings["eps"],
        loaded=_loaded(plan, vectors),
        stored=_stored(plan),
        fits=_fits(plan),
        blocks=plan.m.symbol if several else f"(({plan.m.symbol} + TILE_M - 1) / TILE_M)",
        first_place=", of_warps" if several else "",
        second_place=", of_warps + WARPS_N" if several else "",
        threads=_threads(body),
        beyond=_beyond(plan),
        anew=norm is not None
        and rows is not None
        and rows.held > 0
        and _tests_elements(plan, rows),
        outside=_outside(plan),
        load_c="load_c" if rows is None or c_dtype is None else f"load_{c_dtype}",
        store_d="store_d" if rows is None else f"store_{plan.output.dtype}",
    )


def _threads(body: object) -> int:
    """Threads of one warp that share a row."""
    return SHARING if isinstance(body, MmaSync) else QUAD if isinstance(body, Wgmma) else WARP


def _beyond(plan: KernelPlan) -> bool:
    """Whether the threads of a row have more vectors than it."""
    vectors = SHARING * plan.output.vector
    shared = isinstance(plan.body, MmaSync) and plan.n.tile % vectors != 0
    return plan.n.tail or shared


def _tests_elements(plan: KernelPlan, rows: Rows) -> bool:
    """Whether some text tests each element by itself, and not each vector, for the row's end."""
    return plan.n.tail and (rows.checked or rows.vector == 1)


def _outside(plan: KernelPlan) -> str:
    """C condition under which (row, column) is no vector of D; where a warp has a row, it left."""
    tests = [f"row >= {plan.m.symbol}"] if isinstance(plan.body, MmaSync) and plan.m.tail else []
    tests += [f"column >= {plan.n.symbol}"] if _beyond(plan) else []
    return " || ".join(tests)


def _vectors(plan: KernelPlan) -> tuple[VectorText, ...]:
    place = plan.spec.norm
    if place is None:
        return ()
    named = [(o.argument(place), o.dtype.name) for o in plan.epilogue[place].operands]
    return tuple(VectorText(name, dtype, f"{name}_part") for name, dtype in named)


def _loaded(plan: KernelPlan, vectors: tuple[VectorText, ...]) -> tuple[str, ...]:
    body, spec = plan.body, plan.spec
    parts = isinstance(body, Rows) and body.parts
    found = [spec.dtype_acc.name if parts else spec.dtype_a.name]
    if _reads_float8(plan):
        found = []
    if plan.output.c_dtype is not None:
        found.append(plan.output.c_dtype.name)
    found += [operand.dtype.name for _, operand in matrices_of(plan) if not operand.written]
    found += [vector.dtype for vector in vectors]
    return tuple(dict.fromkeys(found))


def _reads_float8(plan: KernelPlan) -> bool:
    """Whether an A of 8-bit floats is read."""
    body, dtype = plan.body, plan.spec.dtype_a
    return isinstance(body, Rows) and not body.parts and dtype.bits == 8 and not dtype.integer


def _float8_primitives(plan: KernelPlan) -> list[str]:
    """How two neighbouring 8-bit floats of A become floats, and how vectors of them are read."""
    if not _reads_float8(plan):
        return []
    dtype = plan.spec.dtype_a
    if dtype == E5M2:
        return ["widen_e5m2x2", "load_vector_float8"]
    alone = target_number(plan) < FLOAT8_CVT
    return [f"widen_{dtype}x2{'_software' if alone else ''}", "load_vector_float8"]


def _stored(plan: KernelPlan) -> tuple[str, ...]:
    found = [operand.dtype.name for _, operand in matrices_of(plan) if operand.written]
    if plan.output.dtype.bits > 8:
        found.append(plan.output.dtype.name)
    return tuple(dict.fromkeys(found))


def _fits(plan: KernelPlan) -> str:
    body = plan.body
    if not isinstance(body, Rows) or not body.checked:
        return ""
    lengths = [plan.n.symbol] if plan.n.dynamic else []
    if not body.parts and body.leading is None:
        lengths.append("lda")
    strides = (p.name for p in plan.kernel_parameters if p.role == "stride" and p.name != "lda")
    lengths.extend(strides)
    return "\n        && ".join(f"{length} % WIDEST == 0" for length in lengths)


def row_primitives(plan: KernelPlan) -> list[tuple[str, int]]:
    """(template, width) of the wrappers that a row kernel uses, in reading order."""
    leaving = {"store_d", "store_d_bytes", "load_matrix", "store_matrix", "load_c", "slab"}
    names = [name for name in output_primitives(plan, "") if name not in leaving]
    text = rows_text(plan)
    if text is None:
        return []
    widened = [f"{dtype}_to_float" for dtype in text.loaded if dtype in ("fp16", "bf16")]
    widened += _float8_primitives(plan)
    narrowed = [narrowing(plan, dtype) for dtype in text.stored if dtype in ("fp16", "bf16")]
    moved = ["load_vector"] if text.loaded else []
    moved += ["store_vector"] if text.stored else []
    if plan.output.dtype.bits == 8:
        moved.append("store_vector_bytes")
    adding = ["wrapping_add"] if plan.sum_type == "int" and _several(plan) else []
    summed = ["row_sum"] if text.norm else []
    hidden = ["hide"] if text.anew else []
    names = [name for name in names if name not in summed]
    found = [*names, *widened, *narrowed, *adding, *moved, *summed, *hidden]
    return [(name, 0) for name in dict.fromkeys(found)]


def _several(plan: KernelPlan) -> bool:
    return isinstance(plan.body, Rows) and plan.body.parts > 1
