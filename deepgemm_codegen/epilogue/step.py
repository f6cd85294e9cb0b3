"""Steps as a spec asks for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.epilogue.table import STEPS, Access, StepKind
from deepgemm_codegen.numbers import DEFAULT_ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.dtypes import DType

__all__ = ["EpilogueStep", "StepOperand"]

_SWAPPED: dict[Access, Access] = {"row": "column", "column": "row"}


@dataclass(frozen=True, slots=True)
class StepOperand:
    """What a step reads beside the value.

    Attributes:
        name: what it is called; the kernel's argument is this and the step's number.
        access: how it is indexed.
        dtype: element type; a scalar is a fp32 argument.
        leading: of a matrix: elements from row to row; 0 for rows without a gap.
        align: of a matrix: alignment in bytes that its base pointer is promised to have.
    """

    name: str
    access: Access
    dtype: DType
    leading: int = 0
    align: int = DEFAULT_ALIGNMENT

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

    def words(self) -> list[str]:
        """Its part of a step's text, beyond the axis."""
        words = [] if self.scalar else [str(self.dtype)]
        if self.leading:
            words.append(f"ld={self.leading}")
        if self.full and self.align != DEFAULT_ALIGNMENT:
            words.append(f"align={self.align}")
        return words


@dataclass(frozen=True, slots=True)
class EpilogueStep:
    """One step as a spec asks for it.

    Attributes:
        kind: name of the `StepKind`.
        operands: what it reads, in the order of the table.
        constants: numbers that the spec gives, by the option's name, as fp32 in decimal.
    """

    kind: str
    operands: tuple[StepOperand, ...] = ()
    constants: tuple[tuple[str, str], ...] = ()

    @property
    def definition(self) -> StepKind:
        """The row of `STEPS`."""
        return STEPS[self.kind]

    def __str__(self) -> str:
        """The step as a flag writes it; `parse_epilogue` reads it back."""
        words = [self.kind]
        for kind, operand in zip(self.definition.operands, self.operands, strict=True):
            if operand.access != kind.accesses[0]:
                words.append(operand.access)
            words.extend(operand.words())
        words.extend(f"{name}={text}" for name, text in self.constants)
        return ":".join(words)

    @property
    def primitives(self) -> tuple[str, ...]:
        """The instruction wrappers that its template uses."""
        given = {name for name, _ in self.constants}
        found = [o.primitive for o in self.definition.constants if o.primitive and o.name in given]
        return (*self.definition.primitives, *found)

    def changed(self, change: Callable[[StepOperand], StepOperand]) -> EpilogueStep:
        """The step with each operand changed."""
        return replace(self, operands=tuple(map(change, self.operands)))

    def transposed(self) -> EpilogueStep:
        """The same step on a transposed D: what a row had, a column has."""
        return self.changed(lambda o: replace(o, access=_SWAPPED.get(o.access, o.access)))
