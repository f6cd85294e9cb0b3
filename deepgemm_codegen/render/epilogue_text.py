"""The words of a generated file's epilogue: what its steps read, and how D is packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.dtypes import INT32
from deepgemm_codegen.epilogue import column_vectors
from deepgemm_codegen.plan.wgmma import Wgmma

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.epilogue import Access, EpilogueStep, StepOperand
    from deepgemm_codegen.plan import KernelPlan

__all__ = [
    "FLOAT8_CVT",
    "Float8Text",
    "MatrixText",
    "StepText",
    "Steps",
    "VectorText",
    "float8_text",
    "matrices_of",
    "matrix_text",
    "narrowing",
    "output_primitives",
    "reads",
    "staged_vectors",
    "steps_of",
    "target_number",
    "types_of_matrices",
]


@dataclass(frozen=True, slots=True)
class StepText:
    """One epilogue step as its template sees it.

    Attributes:
        kind: stem of the template file.
        operands: C expression of each operand's element for element ``v`` of the vector, as a float
            or a whole number, in the order of the table.
        settings: the others by name: numbers as C literals, types by name, ``yes`` and ``no``.
        matrices: the operands of which a vector is read beforehand.
        paced: whether the element's polynomial waits for the one before, see `Wgmma`.
    """

    kind: str
    operands: dict[str, str]
    settings: dict[str, str]
    matrices: tuple[MatrixText, ...]
    paced: bool = False


@dataclass(frozen=True, slots=True)
class MatrixText:
    """A step's matrix: the argument, its type, where rows start, the array a vector is read to."""

    name: str
    dtype: str
    leading: str
    vector: str


@dataclass(frozen=True, slots=True)
class VectorText:
    """A vector that steps read by columns: the argument, its type, where its values are kept."""

    name: str
    dtype: str
    kept: str


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an epilogue as its templates see them.

    Attributes:
        steps: those that make D of one value; all of them where no step pairs two.
        pair: the step that makes one value of two, or None.
        pair_steps: the steps before it, each on the first value and on the second.
        kinds: a step of each kind whose functions are printed.
    """

    steps: tuple[StepText, ...]
    pair: StepText | None
    pair_steps: tuple[tuple[StepText, StepText], ...]
    kinds: tuple[StepText, ...]


def steps_of(plan: KernelPlan) -> Steps:
    """The steps of a plan."""
    texts = [step_text(plan, index, step) for index, step in enumerate(plan.epilogue)]
    kinds: dict[str, StepText] = {}
    for step, text in zip(plan.epilogue, texts, strict=True):
        if step.definition.uses:
            used = StepText(step.definition.uses, {}, {}, (), text.paced)
            kinds.setdefault(step.definition.uses, used)
        kinds.setdefault(text.kind, text)
    place = next((i for i, step in enumerate(plan.epilogue) if step.definition.pairs), -1)
    before = [
        (texts[i], step_text(plan, i, plan.epilogue[i], second=True)) for i in range(max(place, 0))
    ]
    pair = texts[place] if place >= 0 else None
    return Steps(tuple(texts[place + 1 :]), pair, tuple(before), tuple(kinds.values()))


def _as_float(dtype: DType, element: str) -> str:
    """C expression of an element that a step reads, as it computes with it."""
    if dtype == INT32:
        return f"__int2float_rn({element})"
    narrow = dtype.name != "fp32" and not dtype.integer
    return f"{dtype}_to_float({element})" if narrow else element


def step_text(
    plan: KernelPlan, index: int, step: EpilogueStep, *, second: bool = False
) -> StepText:
    """One step of a plan; on the second of two values where columns are paired."""
    operands, read = {}, []
    staged = () if second else staged_vectors(plan)
    column = f"[column + {plan.n.symbol} + v]" if second else "[column + v]"
    elements: dict[Access, str] = {"scalar": "", "row": "[row]", "column": column}
    for operand in step.operands:
        name = operand.argument(index)
        if operand.full:
            matrix = matrix_text(plan, name, operand)
            read.append(matrix)
            operands[operand.name] = f"{matrix.vector}[v]"
            continue
        if step.definition.normalizes:
            operands[operand.name] = f"{name}_part[v]"  # a row kernel reads it by vectors
            continue
        if any(vector.name == name for vector in staged):
            operands[operand.name] = f"{name}_near[v]"
            continue
        element = name + elements[operand.access]
        operands[operand.name] = _as_float(operand.dtype, element)
    settings = {}
    for name, value in step.values.items():
        text = dict(step.settings)[name]
        settings[name] = _float_literal(text) if isinstance(value, float) else text
    for option in step.definition.settings:  # numbers that are always there
        if option.kind == "number" and option.default:
            settings.setdefault(option.name, _float_literal(option.default))
    for kind in step.definition.operands:  # the same number for all of D
        if kind.name in settings:
            whole = kind.dtype == "result"
            operands[kind.name] = str(int(step.values[kind.name])) if whole else settings[kind.name]
    ordered = {o.name: operands[o.name] for o in step.definition.operands if o.name in operands}
    paced = isinstance(plan.body, Wgmma) and plan.body.paced and step.definition.paces
    return StepText(step.kind, ordered, settings, tuple(read), paced)


def staged_vectors(plan: KernelPlan) -> tuple[VectorText, ...]:
    """The vectors of whose values the consumers of wgmma keep a tile's."""
    if not isinstance(plan.body, Wgmma):
        return ()
    kept = column_vectors(plan.epilogue)[: plan.body.staged]
    dtypes = {
        operand.argument(index): operand.dtype.name
        for index, step in enumerate(plan.epilogue)
        for operand in step.operands
    }
    offsets = ("", "TILE_N + ", *(f"{i} * TILE_N + " for i in range(2, len(kept))))
    return tuple(VectorText(n, dtypes[n], offset) for n, offset in zip(kept, offsets, strict=False))


def matrix_text(plan: KernelPlan, name: str, operand: StepOperand) -> MatrixText:
    """A matrix that a step reads, under the name of its argument, or of what stands for it."""
    place = plan.place_of(name)
    leading = f"ld{place}"
    if plan.spec.leading_of(operand):
        leading = leading.upper()
    return MatrixText(place, operand.dtype.name, leading, f"{name}_row")


def _float_literal(text: str) -> str:
    """A decimal number as C writes a float."""
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def matrices_of(plan: KernelPlan) -> list[tuple[str, StepOperand]]:
    """(argument, operand) of every matrix that the steps read or write."""
    return [
        (operand.argument(index), operand)
        for index, step in enumerate(plan.epilogue)
        for operand in step.operands
        if operand.full
    ]


def reads(plan: KernelPlan, where: Literal["row", "column"]) -> bool:
    """Whether C or a step's operand is read at a row of D, or at a column."""
    if plan.output.c_dtype is not None:
        return True
    kept = {vector.name for vector in staged_vectors(plan)}
    return any(
        operand.full or (operand.access == where and operand.argument(index) not in kept)
        for index, step in enumerate(plan.epilogue)
        for operand in step.operands
    )


def types_of_matrices(plan: KernelPlan, *, written: bool) -> tuple[str, ...]:
    """Names of the types of the matrices that the steps read, or of those that they write."""
    found = [o.dtype.name for _, o in matrices_of(plan) if o.written == written]
    norms = (step for step in plan.epilogue if step.definition.normalizes and not written)
    found += [operand.dtype.name for step in norms for operand in step.operands]
    return tuple(dict.fromkeys(found))


_BF16_CVT = 80
"""The first architecture with cvt to bf16 (PTX ISA)."""

FLOAT8_CVT = 89
"""The first architecture with cvt to the 8-bit floats, which saturates, and from them (PTX ISA)."""


def output_primitives(plan: KernelPlan, leaving: str) -> list[str]:
    """The wrappers of the epilogue: C and step operands in, D out.

    Args:
        plan: the kernel.
        leaving: how D leaves: ``tma``, the file that reads sums from shared memory, or empty
            straight from registers.
    """
    output = plan.output
    if output.partial:
        return []
    names = _step_primitives(plan)
    if any(step.definition.normalizes for step in plan.epilogue):
        names.append("row_sum")
    if output.dtype.bits == 8:
        names.extend(_byte_primitives(plan))
    arriving = [leaving] if leaving else []
    if leaving in ("slab", "cluster_sums"):
        arriving.insert(0, "slab_index")
    if leaving in ("tma", "rows"):
        return [*names, *_copied_out(plan)]
    if output.dtype.bits == 8:
        return [*arriving, *names, "store_d_bytes"]
    if output.dtype.name != "fp32" and not output.dtype.integer:
        names.append(narrowing(plan, output.dtype.name))
    return [*arriving, *names, "store_d"]


def _copied_out(plan: KernelPlan) -> list[str]:
    """How D gets to shared memory, and from there out by TMA."""
    kept = ["load_kept"] if staged_vectors(plan) else []
    to_shared = {32: ["store_two"], 8: ["store_pair"]}
    packed = [] if plan.output.dtype.bits in to_shared else [f"pack_{plan.output.dtype}x2"]
    last = to_shared.get(plan.output.dtype.bits, ["stmatrix"])
    return [*kept, *packed, "fence_proxy_async", "tma_store", *last]


def narrowing(plan: KernelPlan, dtype: str) -> str:
    """The wrapper ``float_to_..`` of a type of 16 bits, as the target can do it."""
    alone = dtype == "bf16" and target_number(plan) < _BF16_CVT
    return f"float_to_{dtype}{'_software' if alone else ''}"


def target_number(plan: KernelPlan) -> int:
    """The target's number, such as 90 of ``sm_90a``."""
    return int("".join(c for c in plan.target if c.isdigit()))


def _step_primitives(plan: KernelPlan) -> list[str]:
    """What C and the epilogue's steps use."""
    output, steps = plan.output, plan.epilogue
    readers = [o.dtype for step in steps for o in step.operands if not o.written]
    if output.c_dtype is not None:
        readers.append(output.c_dtype)
    narrow = [dtype for dtype in readers if dtype.name != "fp32" and not dtype.integer]
    names = [f"{dtype}_to_float" for dtype in narrow]
    if output.c_dtype is not None:
        names += ["load_c", *(["wrapping_add"] if plan.value_type == "int" else [])]
    if types_of_matrices(plan, written=False):
        names.append("load_matrix")
    stored = types_of_matrices(plan, written=True)
    names.extend(narrowing(plan, name) for name in stored if name != "fp32")
    if stored:
        names.append("store_matrix")
    names.extend(primitive for step in steps for primitive in step.primitives)
    return names


def _byte_primitives(plan: KernelPlan) -> list[str]:
    """How two floats become two bytes of D."""
    output = plan.output
    if output.dtype.integer:
        return ["pack_integer8x2"]
    if output.saturates and target_number(plan) >= FLOAT8_CVT:
        return ["pack_float8x2"]
    return ["float_to_float8", "pack_float8x2_software"]


@dataclass(frozen=True, slots=True)
class Float8Text:
    """An 8-bit float as code that converts to it step by step; all C literals and numbers.

    Attributes:
        shift: fraction bits of fp32 that are rounded away.
        half: half a unit of what is kept, less one, in fp32's bits.
        bias: what the exponent field loses, in the result's bits.
        least: the smallest normal number.
        unit: the power of two whose last place is that of the result's subnormals.
        largest: the largest finite number.
        beyond: what rounds to the largest number, and nothing larger does.
    """

    shift: int
    half: str
    bias: int
    least: str
    unit: str
    largest: str
    beyond: str


def float8_text(dtype: DType) -> Float8Text | None:
    """The numbers of an 8-bit float; None for other types."""
    if dtype.bits != 8 or dtype.integer:
        return None
    least, most = dtype.exponents
    shift = 23 - dtype.mantissa_bits
    step = 2.0 ** (most - dtype.mantissa_bits)
    return Float8Text(
        shift=shift,
        half=hex((1 << (shift - 1)) - 1),
        bias=(126 + least) << dtype.mantissa_bits,
        least=f"{2.0**least!r}f",
        unit=f"{2.0 ** (least - dtype.mantissa_bits + 23)!r}f",
        largest=f"{dtype.largest!r}f",
        beyond=f"{dtype.largest + step / 2!r}f",
    )
