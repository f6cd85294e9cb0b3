"""Question: is a batch one larger product?

Where all products share B, and the rows of A and D run on from one product to the next, the batch
is one product with as many times the rows: B is read once a tile of more rows, and no tile ends
where a product does. Every element of D is the same sum, so this is always done where it is exact.
The same holds for a shared A and columns that run on, and for rows of A alone, without a product.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.plan import Decision, Program
from deepgemm_codegen.spec.batching import DENSE
from deepgemm_codegen.spec.block_scales import BLOCK
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from deepgemm_codegen.epilogue import StepOperand
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["answers_fold", "fold", "with_asked"]


def fold(spec: GemmSpec) -> GemmSpec:
    """The spec as one product where that computes the same, else the spec itself."""
    for along, shared, own in (("m", "b", "a"), ("n", "a", "b")):
        if _runs_on(spec, along, shared, own):
            dim = getattr(spec, along)
            larger = replace(dim, size=spec.batch * dim.size)
            steps = tuple(step.changed(_run_on) for step in spec.epilogue)
            if along == "m":
                return replace(spec, batch=1, m=larger, epilogue=steps)
            return replace(spec, batch=1, n=larger, epilogue=steps)
    return spec


def _run_on(operand: StepOperand) -> StepOperand:
    """A step's operand of one larger product: vectors of its own are one longer vector."""
    return replace(operand, per_product=False)


def _runs_on(spec: GemmSpec, along: str, shared: str, own: str) -> bool:
    """Whether the products of a batch follow each other along m or n of one larger product."""
    size = getattr(spec, along)
    of_rows = spec.pairs is not None or spec.norm is not None or spec.computes_scales
    if along == "n" and (of_rows or not spec.multiplies):
        return False  # B's halves of one product lie apart; a norm and a scale are of D's rows
    one = spec.shared(shared) or not spec.multiplies
    if not one or size.dynamic or spec.batch * size.size > MAX_DIMENSION:
        return False
    # A value a row (a column) that all products read would be one of more rows; those of each
    # product's own lie behind each other, as rows do, and so do scales that are written.
    access: Literal["row", "column"] = "row" if along == "m" else "column"
    operands = [operand for step in spec.epilogue for operand in step.operands]
    vectors = [operand for operand in operands if not (operand.full or operand.scalar)]
    if any((o.access == access) != (o.per_product or o.written) for o in vectors):
        return False
    # The larger A's scales by block would lie otherwise; B's blocks have to end with a product.
    if spec.block_scaled and (along == "m" or size.size % BLOCK):
        return False
    whole = ["d", *(["c"] if spec.dtype_c is not None else [])]
    # What steps read like D is dense, so it runs on with D's rows only.
    if any(operand.full for operand in operands) and _contiguous(spec, "d", along):
        return False
    return all(_follows(spec, letter, along, size.size) for letter in (own, *whole))


def _contiguous(spec: GemmSpec, letter: str, along: str) -> bool:
    """Whether a dimension is the contiguous one of an operand."""
    letters = {"a": spec.layout[0], "b": spec.layout[1]}
    columns = {"a": "k", "b": "n"}.get(letter, "n")
    rows = {"a": "m", "b": "k"}.get(letter, "m")
    return along == (rows if letters.get(letter, spec.layout_d) == "t" else columns)


def _follows(spec: GemmSpec, letter: str, along: str, size: int) -> bool:
    """Whether one product's matrix begins where the one before it ends, along a dimension."""
    stride, leading = getattr(spec, f"stride_{letter}"), getattr(spec, f"ld{letter}")
    if _contiguous(spec, letter, along):
        return bool(stride == size and spec.batch * size <= leading)
    return bool(stride == DENSE)


def answers_fold(asked: GemmSpec, solved: GemmSpec) -> tuple[Decision, ...]:
    """The question with its answer and reason; nothing where the batch is not folded."""
    if asked == solved:
        return ()
    along = "m" if solved.m != asked.m else "n"
    shared, own = ("B", "A") if along == "m" else ("A", "B")
    lines = "rows" if along == "m" else "columns"
    reason = f"all {asked.batch} products share {shared}, and {lines} of {own} and D run on"
    if not asked.multiplies:
        reason = f"rows of A and D run on through all {asked.batch} matrices"
    answer = f"folded into {along}: {getattr(solved, along)} {lines}"
    return (Decision("D15", "batch", answer, reason),)


def with_asked(program: Program, asked: GemmSpec) -> Program:
    """The program under the name of the spec that was asked for, which it remembers."""
    if program.spec == asked:
        return program
    stem, name = program.name, kernel_name(asked)
    kernels = (
        replace(kernel, name=name + kernel.name.removeprefix(stem)) for kernel in program.kernels
    )
    return replace(program, name=name, kernels=tuple(kernels), asked=asked)
