"""Which launches judge a kernel: sizes, scalars and input sets, and how many blocks of each.

A `Case` is one launch with its way of comparing. The list is short for a fixed shape; a dynamic
dimension adds sizes: tails, one, zero, fewer slices than stages, odd and even numbers of slices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.harness.inputs import (
    Alike,
    Anything,
    Constant,
    Factors,
    Inputs,
    Integers,
    Nans,
    Normal,
    Powers,
    Shifted,
    SmallIntegers,
    Values,
    exact_limit,
)
from deepgemm_codegen.harness.problem import Problem, bind
from deepgemm_codegen.plan import ASIDE, as_program
from deepgemm_codegen.spec.block_scales import SCALES
from deepgemm_codegen.spec.precision import integer_sums

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Case", "cases_of", "inputs_for"]

NAN = float("nan")

WIDE = 1 << 20
"""Largest whole number of an operand whose type holds more: fp32 inputs tell these apart."""

NAN_WORK = 1 << 26
"""Multiply-adds of a tile up to which a NaN is sent through it; its way does not depend on k."""


FAR = {"bf16": 96.0, "fp16": 500.0, "fp32": 4000.0, "e4m3": 6.0, "e5m2": 3.0}
"""A mean as far from zero, in deviations, as each type of A still tells values apart there."""

FAR_WHOLE = {"int8": 110, "uint8": 240, "int32": WIDE}
"""The same of whole numbers that differ by a few."""

FINITE = 1 << 13
"""Largest whole number of an A of which steps make an fp16 D, so that most of it is finite."""


@dataclass(frozen=True, slots=True)
class Case:
    """One launch and how it is judged.

    Attributes:
        check: ``exact``, ``random`` or ``hostile``.
        problem: sizes and scalars.
        inputs: operand values; a missing one is passed as a null pointer.
        exact: whether every sum is exact, so that D must be equal to the oracle in every bit but
            for steps that are approximate.
        share: part of the block budget that the case gets on a device that samples.
        in_place: whether D is C's buffer.
        repeat: whether a device that runs whole grids runs it twice for equal bits.
    """

    check: str
    problem: Problem
    inputs: Inputs
    exact: bool
    share: float
    in_place: bool = False
    repeat: bool = False


def inputs_for(problem: Problem, name: str, kind: str, seed: int) -> Inputs:
    """An input set of one kind for every operand of a problem.

    Args:
        problem: gives the operands and k.
        name: the set's name.
        kind: ``integers`` (every partial sum exact) or ``normal``. Operands of an integer type are
            whole numbers in both, drawn from all of it where that leaves the result exact.
        seed: the same seed gives the same values.
    """
    values: dict[str, Values] = {}
    spec = problem.spec
    limit = exact_limit(problem.k, problem.spec.accumulate)
    wide = FINITE if not spec.multiplies and spec.dtype_d.name == "fp16" else WIDE
    read = {
        operand.argument(index): (step, operand)
        for index, step in enumerate(spec.epilogue)
        for operand in step.operands
    }
    # int32 sums are exact whatever the operands; only becoming fp32 rounds large ones.
    small = kind != "normal" and not integer_sums(problem.spec.dtype_d)
    for index, matrix in enumerate(problem.matrices):
        if matrix.name in problem.outputs:
            continue
        own = seed * 64 + index
        what = "any"
        if matrix.name in read:
            step, operand = read[matrix.name]
            what = step.definition.operand(operand.name).values
        if matrix.name in SCALES:
            values[matrix.name] = Factors(own) if kind == "normal" else Powers(own)
            continue
        most = limit if matrix.name in "ab" else 8
        if what == "factors":
            values[matrix.name] = Factors(own)
        elif what == "quanta":
            quantum = _quantum(spec, kind, problem.k, problem.alpha)
            values[matrix.name] = Factors(own, quantum)
        elif what == "zeros":
            middle = _middle(spec.dtype_d)
            values[matrix.name] = Integers(own, middle - 9, middle + 20)
        elif matrix.dtype.integer:
            values[matrix.name] = _integers(matrix.dtype, own, most if small else wide)
        elif kind == "normal":
            values[matrix.name] = Normal(own)
        else:
            values[matrix.name] = SmallIntegers(own, most)
    return Inputs(name, values)


def _quantum(spec: GemmSpec, kind: str, k: int, alpha: float) -> float:
    """A scale that brings most sums into the range of a quantised D, and a few beyond it.

    The deviation of a sum is that of its products times sqrt(k); see `inputs.exact_limit`.
    """
    limit = exact_limit(k, spec.accumulate)
    deviation = abs(alpha) * k**0.5 * (1.0 if kind == "normal" else limit * (limit + 1) / 3)
    if spec.norm is not None:
        deviation = 1.0
    elif not spec.multiplies:
        deviation = 1.0 if kind == "normal" else 8 / 3**0.5
        if kind == "normal" and spec.dtype_a.integer:
            deviation = min(spec.dtype_a.largest, WIDE) / 3**0.5
    half = spec.dtype_d.largest / (2 if spec.dtype_d.least == 0 else 1)
    scale: float = half / (2.5 * max(deviation, 1.0))
    divides = spec.quantizes is not None and "divide" in spec.quantizes.values
    return 1 / scale if divides else scale


def _middle(dtype: DType) -> int:
    """The whole number in the middle of an integer type."""
    return int(dtype.largest + dtype.least + 1) // 2


def _integers(dtype: DType, seed: int, most: int) -> Values:
    """Whole numbers of a type, as large as it holds but no larger than `most`."""
    return Integers(seed, max(-most, int(dtype.least)), min(most, int(dtype.largest)))


def _with(inputs: Inputs, **changed: Values | None) -> Inputs:
    """An input set with other values for some operands; None passes a null pointer."""
    values = dict(inputs.values)
    for name, value in changed.items():
        if value is None:
            values.pop(name, None)
        elif name in values:
            values[name] = value
    return replace(inputs, values=values)


def _empty(problem: Problem) -> list[str]:
    """A, B and their scales where they have no elements, as pointers of their own may be null."""
    if problem.k or not problem.spec.multiplies:
        return []
    return [name for name in ("a", "b", *SCALES) if not problem.spec.scattered(name)]


def _legal(spec: GemmSpec, alpha: float, beta: float) -> tuple[float, float]:
    """The nearest alpha and beta that the kernel has: 0 or 1 where D is the sums or no product."""
    if not spec.multiplies:
        return 1.0, 0.0
    if integer_sums(spec.dtype_d):
        return float(alpha != 0.0), float(beta != 0.0)
    return alpha, beta


@dataclass(frozen=True, slots=True)
class _Sizes:
    m: int | None = None
    n: int | None = None
    k: int | None = None
    padding: int = 0

    def bind(self, program: Program, alpha: float, beta: float, kind: str = "integers") -> Problem:
        alpha, beta = _legal(program.solved, alpha, beta)
        return bind(
            program,
            m=self.m,
            n=self.n,
            k=self.k,
            alpha=alpha,
            beta=beta,
            padding=self.padding,
            scalars=_scalars(program.solved, kind, self.k, alpha),
        )


def _scalars(spec: GemmSpec, kind: str, k: int | None, alpha: float) -> dict[str, float]:
    """Numbers for the steps that take some: each another, none a power of two."""
    found = {o.name: 5.0 if o.name.endswith("a") else 3.0 for o in spec.zero_operands if o.scalar}
    for index, step in enumerate(spec.epilogue):
        for operand in step.operands:
            if not operand.scalar:
                continue
            value = 0.7 + 0.4 * index
            values = step.definition.operand(operand.name).values
            if values == "quanta":
                value *= _quantum(spec, kind, spec.k.size if k is None else k, alpha)
            elif values == "zeros":
                value = _middle(spec.dtype_d) + 3
            found[operand.argument(index)] = value
    return found


def cases_of(plan: Program | KernelPlan, seed: int) -> tuple[Case, ...]:
    """Every launch that judges a program, or a kernel that is one, the most telling first."""
    program = as_program(plan)
    spec = program.solved
    found = _full_size(program, seed)
    if spec.m.dynamic or spec.n.dynamic or spec.k.dynamic:
        found += _other_sizes(program, seed)
    return tuple(found)


def _full_size(program: Program, seed: int) -> list[Case]:
    spec, plan = program.solved, program.product
    has_c = spec.dtype_c is not None
    sizes = _Sizes()

    # Whole numbers, alpha 1, beta 0 and C full of NaN: bit-equal, and C is not read.
    plain = sizes.bind(program, 1.0, 0.0)
    integers = inputs_for(plain, "exact", "integers", seed)
    first = _with(integers, c=Constant(NAN), **dict.fromkeys(_empty(plain)))
    found = [Case("exact", plain, first, exact=True, share=1.0)]

    # Normal values and scalars that are no powers of two; small sums where an activation bends.
    bends = any(step.definition.turns for step in spec.epilogue)
    alpha = 1.7 * max(plain.k, 1) ** -0.5 if bends else 0.7
    scaled = sizes.bind(program, alpha, -1.3, "normal")
    normal = replace(inputs_for(scaled, "random", "normal", seed + 1), shift=1)
    found.append(Case("random", scaled, normal, exact=False, share=0.5, repeat=True))

    if not spec.multiplies:
        return found + _row_cases(program, plain, integers, seed)
    if has_c:
        both = sizes.bind(program, -2.0, 0.5)
        same = both.matrix("c").lies_like(both.matrix("d"))
        found.append(Case("exact", both, integers, exact=True, share=0.25, in_place=same))
    # alpha 0 reads neither A nor B, beta 0 not C: null pointers where they are not read.
    read = ("a", "b", *SCALES)
    nothing = _with(integers, **dict.fromkeys(read, Constant(NAN)))
    if has_c:
        found.append(
            Case("hostile", sizes.bind(program, 0.0, 0.5), nothing, exact=True, share=0.25)
        )
    unread = _with(integers, **dict.fromkeys((*read, "c")))
    found.append(Case("hostile", sizes.bind(program, 0.0, 0.0), unread, exact=True, share=0.25))
    if 0 < plain.k * plan.m.tile * plan.n.tile <= NAN_WORK and (nans := _nans(plain, integers)):
        poisoned = replace(_with(integers, **nans, c=Constant(NAN)), shift=2)
        found.append(Case("hostile", plain, poisoned, exact=True, share=0.0))
    return found


def _nans(problem: Problem, inputs: Inputs) -> dict[str, Values]:
    """NaN at the start of every other row of A and column of B, the last of them among those.

    A copy that goes on behind the end of a row, or of a column that is stored as one, fetches the
    start of the next: where it should have cleared its tail, zeros of the other operand hide a
    number, and do not hide a NaN. Rows and columns between them must stay clean. Where rows have
    scales of their own, a column of NaN would leave no row clean.
    """
    found: dict[str, Values] = {}
    rows, columns = (problem.m - 1, 2), (problem.n - 1, 2)
    spec = problem.spec
    if not spec.dtype_a.integer and (problem.m > 1 or problem.n == 1):
        found["a"] = Nans(inputs.values["a"], rows=rows)
    if not (spec.dtype_b.integer or problem.by_rows) and problem.n > 1:
        found["b"] = Nans(inputs.values["b"], columns=columns)
    return found


def _row_cases(program: Program, plain: Problem, integers: Inputs, seed: int) -> list[Case]:
    """What is hard on rows: a NaN, an infinity, values all alike, and a mean far from zero.

    Of types that no product's D has, all of their numbers, too.
    """
    spread, dtype = program.spec.epilogue, program.spec.dtype_a
    far: Values
    if dtype.integer:
        middle = FAR_WHOLE[dtype.name]
        far = Integers(seed + 5, middle - 9, middle + 9)
    else:
        far = Shifted(Normal(seed + 5), FAR[dtype.name])
    kinds: list[tuple[str, Values]] = [("random", far)]
    if dtype.integer or dtype.bits == 8:
        kinds.append(("exact", Anything(seed + 7, dtype)))
    if any(step.definition.normalizes for step in spread):
        kinds.append(("hostile", Alike(Integers(seed + 6, -3, 3))))
    found = [
        Case(check, plain, _with(integers, a=values), exact=check == "exact", share=0.25)
        for check, values in kinds
    ]
    for odd in () if dtype.integer else (NAN, float("inf")):
        row = Nans(integers.values["a"], rows=(plain.m - 1, 0), odd=odd)
        found.append(Case("hostile", plain, _with(integers, a=row), exact=True, share=0.25))
    return found


def _other_sizes(program: Program, seed: int) -> list[Case]:
    """Launches below the planned size; a fixed dimension stays what it is."""
    plan, spec = program.product, program.solved
    tile_m, tile_n = plan.m.tile, plan.n.tile
    if plan.transposed:
        tile_m, tile_n = tile_n, tile_m
    tile_k = plan.k.tile
    each = tile_k * plan.k.split  # a slice for every part
    stages = 2
    if not isinstance(plan.body, ASIDE):
        stages = plan.body.stages

    def sizes(m: int, n: int, k: int, padding: int = 0) -> _Sizes:
        return _Sizes(
            min(m, spec.m.size) if spec.m.dynamic else None,
            min(n, spec.n.size) if spec.n.dynamic else None,
            min(k, spec.k.size) if spec.k.dynamic else None,
            padding,
        )

    wanted = [
        sizes(1, 1, 1),
        sizes(tile_m + 1, 2 * tile_n - 1, each * stages + 3, padding=3),
        sizes(tile_m - 1, tile_n + 3, each * (stages + 1) - 1, padding=1),
        sizes(tile_m, tile_n, tile_k),
        sizes(3, 5, max(each * (stages - 1) - 7, 1)),
        sizes(2, 3, 0),
        sizes(0, tile_n, tile_k),
        sizes(tile_m, 0, tile_k),
    ]
    if not spec.multiplies:  # rows of whole vectors, of elements one by one, and of both lengths
        half = spec.n.size // 2
        wanted[1:1] = [sizes(tile_m + 1, half // 16 * 16 or 1, 0), sizes(2, half | 1, 0, padding=1)]
    elif spec.n.dynamic and wanted[0].bind(program, 1.0, 0.0).by_rows:
        # As rows of vectors are judged alone: more of them than a tile, and of whole vectors.
        wanted.append(sizes(tile_m + 1, spec.n.size // 32 * 16 or 1, tile_k))
    found = []
    has_c = spec.dtype_c is not None
    for number, one in enumerate(dict.fromkeys(wanted)):
        beta = 0.5 if has_c and number % 2 else 0.0
        problem = one.bind(program, 1.0 if number % 3 else -0.5, beta)
        inputs = inputs_for(problem, "exact", "integers", seed + 2 + number)
        inputs = _with(replace(inputs, shift=2 + number), **dict.fromkeys(_empty(problem)))
        if beta == 0.0:
            inputs = _with(inputs, c=Constant(NAN))
        found.append(Case("exact", problem, inputs, exact=True, share=0.25))
    problem = wanted[1].bind(program, 0.7, -1.3, "normal")
    normal = replace(inputs_for(problem, "random", "normal", seed + 1), shift=1)
    found.append(Case("random", problem, normal, exact=False, share=0.25, repeat=True))
    return found
