"""The table of epilogue steps.

What a column of the table means is told at `StepKind`; the templates of the same names print the
steps, `deepgemm_codegen.epilogue.meaning` says what they compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.dtypes import FP32, DType
from deepgemm_codegen.epilogue import meaning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AXIS_WORDS", "STEPS", "Access", "OperandKind", "Option", "StepKind"]

Access = Literal["scalar", "row", "column", "full"]
"""How an operand is indexed: one value for all of D, one a row, one a column, one an element."""

AXIS_WORDS: dict[str, Access] = {
    "row": "row",
    "column": "column",
    "scalar": "scalar",
    "per_token": "row",
    "per_channel": "column",
    "per_tensor": "scalar",
}
"""How specs write an access: a token is a row of D, a channel a column."""

OptionKind = Literal["axis", "type", "size", "number"]
"""How an option is written: an access, an element type, a whole number, a number."""


@dataclass(frozen=True, slots=True)
class Option:
    """Something that a spec may say about a step.

    Attributes:
        name: the word.
        kind: how its value is written.
        summary: what it means, for the docs.
        accesses: of an axis: those the step allows.
        primitive: the instruction wrapper that the template uses where the option is given.
    """

    name: str
    kind: OptionKind
    summary: str
    accesses: tuple[Access, ...] = ()
    primitive: str = ""


_TYPE = Option("dtype", "type", "type of the operand")
_LEADING = Option("ld", "size", "elements from row to row of the operand")
_ALIGN = Option("align", "size", "alignment in bytes that the operand's pointer is promised")


@dataclass(frozen=True, slots=True)
class OperandKind:
    """What a step reads beside the value.

    Attributes:
        name: what it is called, in arguments and in the step's meaning.
        accesses: how it may be indexed; the first is the default.
        dtype: its type where the spec does not say; None for the type of D.
        factor: whether it multiplies, so that the harness tries values about 1, not whole numbers.
    """

    name: str
    accesses: tuple[Access, ...]
    dtype: DType | None = None
    factor: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        """What a spec may say about it."""
        found = []
        if len(self.accesses) > 1:
            found.append(Option("axis", "axis", "one value for each of them", self.accesses))
        found.append(_TYPE)
        if "full" in self.accesses:
            found += [_LEADING, _ALIGN]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class StepKind:
    """The definition of one step.

    The meaning is taken to rise or to fall all the way between neighbouring `turns`, in the value
    and in each operand; an interval's image then follows from its ends and the turns inside.

    Attributes:
        name: the word in flags and YAML, and the stem of the template file.
        summary: one line for the docs.
        meaning: what it computes, see `deepgemm_codegen.epilogue.meaning`; operands and constants
            come under their names.
        operands: what it reads.
        constants: numbers that a spec gives.
        turns: where the meaning turns from falling to rising or back.
        relative: how far the kernel's result may be from its meaning beyond one rounding, as a
            part of the result.
        absolute: the same, whatever the result.
        primitives: the instruction wrappers that the template uses.
        example: options as YAML writes them, for messages.
        check: raises InputError for constants that do not go together.
    """

    name: str
    summary: str
    meaning: Callable[..., Any]
    operands: tuple[OperandKind, ...] = ()
    constants: tuple[Option, ...] = ()
    turns: tuple[float, ...] = ()
    relative: float = 0.0
    absolute: float = 0.0
    primitives: tuple[str, ...] = ()
    example: str = ""
    check: Callable[[dict[str, float]], str] = lambda _: ""

    @property
    def exact(self) -> bool:
        """Whether each element is rounded once, so that whole numbers give equal bits."""
        return self.relative == 0.0

    @property
    def options(self) -> tuple[Option, ...]:
        """Everything that a spec may say about the step."""
        found = [option for operand in self.operands for option in operand.options]
        return (*found, *self.constants)


def _ordered(constants: dict[str, float]) -> str:
    """What is wrong with the bounds of a clamp."""
    if not constants:
        return "no bound is given; give lo, hi or both"
    if len(constants) == 2 and constants["lo"] > constants["hi"]:
        return f"lo = {constants['lo']:g} is above hi = {constants['hi']:g}"
    return ""


STEPS: dict[str, StepKind] = {
    kind.name: kind
    for kind in (
        StepKind(
            "bias",
            "add a vector: one value a column, or a row",
            meaning.bias,
            (OperandKind("bias", ("column", "row")),),
            example="{axis: row, dtype: fp32}",
        ),
        StepKind(
            "scale",
            "multiply by a number, or by one a row or a column",
            meaning.scale,
            (OperandKind("scale", ("scalar", "row", "column"), FP32, factor=True),),
            example="{axis: row, dtype: fp32}",
        ),
        StepKind(
            "residual",
            "add a matrix as large as D, and stored like it",
            meaning.residual,
            (OperandKind("residual", ("full",)),),
            example="{dtype: fp32, ld: 4096}",
        ),
        StepKind("relu", "zero what is negative; NaN passes", meaning.relu),
        StepKind("relu6", "bring into the range 0 to 6; NaN passes", meaning.relu6),
        StepKind(
            "clamp",
            "bring into the range lo to hi; NaN passes",
            meaning.clamp,
            constants=(
                Option("lo", "number", "the least result", primitive="at_least"),
                Option("hi", "number", "the largest result", primitive="at_most"),
            ),
            example="{lo: 0, hi: 6}",
            check=_ordered,
        ),
        StepKind(
            "gelu",
            "x * Phi(x), the exact gelu, by a polynomial",
            meaning.gelu,
            turns=(-0.7517915247,),
            relative=2.0**-17,
            absolute=2.0**-44,
            primitives=("exp2", "at_least"),
        ),
        StepKind(
            "gelu_tanh",
            "the gelu of tanh(sqrt(2 / pi) * (x + 0.044715 x^3))",
            meaning.gelu_tanh,
            turns=(-0.7524614221,),
            relative=2.0**-17,
            absolute=2.0**-44,
            primitives=("exp2", "reciprocal", "at_least"),
        ),
        StepKind(
            "silu",
            "x / (1 + exp(-x)), also called swish",
            meaning.silu,
            turns=(-1.2784645422,),
            relative=2.0**-17,
            absolute=2.0**-118,
            primitives=("exp2", "reciprocal", "at_least"),
        ),
    )
}
