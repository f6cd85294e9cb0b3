"""Steps as a spec asks for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import DTYPES, FP32
from deepgemm_codegen.epilogue.kinds import DYNAMIC, Access, OperandKind, StepKind
from deepgemm_codegen.epilogue.table import STEPS
from deepgemm_codegen.numbers import DEFAULT_ALIGNMENT, as_fp32

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.dtypes import DType

__all__ = ["EpilogueStep", "StepOperand", "column_vectors", "setting_value"]

_SWAPPED: dict[Access, Access] = {"row": "column", "column": "row"}


@dataclass(frozen=True, slots=True)
class StepOperand:
    """What a step reads, or writes, beside the value.

    Attributes:
        name: what it is called; the kernel's argument is this and the step's number.
        access: how it is indexed.
        dtype: element type; a scalar is an argument of type fp32, or of C's int.
        leading: of a matrix: elements from row to row; 0 for rows without a gap.
        align: of a matrix: alignment in bytes that its base pointer is promised to have.
        written: whether the step writes it.
        per_product: of a vector that is read: whether each product of a batch has its own.
    """

    name: str
    access: Access
    dtype: DType
    leading: int = 0
    align: int = DEFAULT_ALIGNMENT
    written: bool = False
    per_product: bool = False

    @property
    def scalar(self) -> bool:
        """Whether it is passed by value."""
        return self.access == "scalar"

    @property
    def full(self) -> bool:
        """Whether it is a matrix as large as D."""
        return self.access == "full"

    def argument(self, index: int) -> str:
        """The kernel's argument, for the step of that number."""
        return f"{self.name}{index}"


@dataclass(frozen=True, slots=True)
class EpilogueStep:
    """One step as a spec asks for it.

    Attributes:
        kind: name of the `StepKind`.
        operands: what it reads and writes, in the order of the table.
        settings: what else the spec says, by the option's name, each value as a flag writes it.
    """

    kind: str
    operands: tuple[StepOperand, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def definition(self) -> StepKind:
        """The row of `STEPS`."""
        return STEPS[self.kind]

    @property
    def values(self) -> dict[str, Any]:
        """The settings as the step's meaning takes them: numbers, yes or no, words.

        What they say about operands is told by the operands.
        """
        told = {"align", *(operand.switch for operand in self.definition.operands)}
        return {
            name: setting_value(self.definition, name, text)
            for name, text in self.settings
            if name not in told
        }

    @property
    def result(self) -> DType | None:
        """The type that D gets of a step that quantises; None for the others."""
        return DTYPES[self.values["to"]] if self.definition.quantizes else None

    def __str__(self) -> str:
        """The step as a flag writes it; `parse_epilogue` reads it back."""
        kind = self.definition
        first = [text for name, text in self.settings if name in kind.required]
        rest = [f"{name}={text}" for name, text in self.settings if name not in kind.required]
        read = [word for o in self.operands for word in _words(kind.operand(o.name), o)]
        own = ["per_product"] if any(o.per_product for o in self.operands) else []
        return ":".join([self.kind, *first, *read, *own, *rest])

    @property
    def computed(self) -> StepOperand | None:
        """The scales that it computes of whole rows, and writes; None where it reads them."""
        found = (o for o in self.operands if o.written and self.definition.quantizes)
        return next(found, None)

    @property
    def primitives(self) -> tuple[str, ...]:
        """The instruction wrappers that its template uses."""
        given = {name for name, _ in self.settings}
        found = [o.primitive for o in self.definition.settings if o.primitive and o.name in given]
        return (*self.definition.primitives, *found)

    def changed(self, change: Callable[[StepOperand], StepOperand]) -> EpilogueStep:
        """The step with each operand changed."""
        return replace(self, operands=tuple(map(change, self.operands)))

    def transposed(self) -> EpilogueStep:
        """The same step on a transposed D: what a row had, a column has."""
        return self.changed(lambda o: replace(o, access=_SWAPPED.get(o.access, o.access)))


def column_vectors(epilogue: tuple[EpilogueStep, ...]) -> list[str]:
    """Arguments of the floats that steps read one a column, in their order.

    None where columns are paired: what is read then depends on which half of B a column is of.
    """
    if any(step.definition.pairs for step in epilogue):
        return []
    return [
        operand.argument(index)
        for index, step in enumerate(epilogue)
        for operand in step.operands
        if operand.access == "column" and not (operand.written or operand.dtype.integer)
    ]


def setting_value(kind: StepKind, name: str, text: str) -> float | bool | str:
    """The value of a setting as the step's meaning takes it.

    A number is the one that the kernel's literal gives: what fp32 makes of its text.
    """
    option = next(option for option in kind.options if option.name == name)
    if option.kind == "switch":
        return text == "yes"
    return text if option.kind in ("type", "word") else as_fp32(text)


def _words(kind: OperandKind, operand: StepOperand) -> list[str]:
    """An operand's part of a step's text; axis and type by themselves where they are called so."""
    words = []
    if operand.written and not kind.written:
        return [f"{kind.axis}={DYNAMIC}"]
    if operand.access != kind.accesses[0] or kind.optional:
        word = kind.word(operand.access)
        words.append(word if kind.axis == "axis" else f"{kind.axis}={word}")
    if kind.type and not operand.scalar and (kind.dtype != "fp32" or operand.dtype != FP32):
        dtype = str(operand.dtype)
        words.append(dtype if kind.type == "dtype" else f"{kind.type}={dtype}")
    if operand.leading:
        words.append(f"ld={operand.leading}")
    if operand.full and operand.align != DEFAULT_ALIGNMENT:
        words.append(f"align={operand.align}")
    return words
