"""Epilogue steps: what may follow the product, and what each step means.

One row of `STEPS` is the whole definition of a step: the options it takes, the operand it reads
(and how it is indexed), the template that prints it, and its meaning in numpy, from which the
oracle follows. Adding a step is one row here and one file in ``templates/epilogue/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.dtypes import DType, parse_dtype
from deepgemm_codegen.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

__all__ = ["STEPS", "Access", "EpilogueStep", "StepKind", "parse_epilogue"]

Access = Literal["none", "row", "column"]
"""How a step's operand is indexed: not at all, one value a row of D, one value a column."""


@dataclass(frozen=True, slots=True)
class StepKind:
    """The definition of one step.

    Attributes:
        name: the word in flags and YAML, and the stem of the template file.
        accesses: the operand accesses the step allows; the first is the default.
        summary: one line for ``--help`` and the docs.
        meaning: ``meaning(x, operand)`` on float64 arrays of shape (rows, columns); ``operand``
            is None or broadcasts against ``x``.
        exact: whether small-integer inputs give bit-equal results (false for steps built on
            approximate instructions).
    """

    name: str
    accesses: tuple[Access, ...]
    summary: str
    meaning: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any] | None], np.ndarray[Any, Any]]
    exact: bool = True

    @property
    def has_operand(self) -> bool:
        """Whether the kernel takes a pointer for this step."""
        return self.accesses != ("none",)


def _bias(x: np.ndarray[Any, Any], operand: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = x + operand
    return result


def _relu(x: np.ndarray[Any, Any], _: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    import numpy as np  # noqa: PLC0415  only the oracle runs this

    return np.where(x < 0, np.zeros_like(x), x)  # written so that NaN passes


def _relu6(x: np.ndarray[Any, Any], _: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    import numpy as np  # noqa: PLC0415  only the oracle runs this

    return np.where(x < 0, np.zeros_like(x), np.where(x > 6, np.full_like(x, 6), x))


STEPS: dict[str, StepKind] = {
    kind.name: kind
    for kind in (
        StepKind("bias", ("column", "row"), "add a vector: one value a column, or a row", _bias),
        StepKind("relu", ("none",), "zero what is negative; NaN passes", _relu),
        StepKind("relu6", ("none",), "bring into the range 0 to 6; NaN passes", _relu6),
    )
}


@dataclass(frozen=True, slots=True)
class EpilogueStep:
    """One step as a spec asks for it.

    Attributes:
        kind: name of the `StepKind`.
        access: how the operand is indexed.
        dtype: element type of the operand; None for a step without one.
    """

    kind: str
    access: Access = "none"
    dtype: DType | None = None

    @property
    def definition(self) -> StepKind:
        """The row of `STEPS`."""
        return STEPS[self.kind]

    def __str__(self) -> str:
        """The step as a flag writes it; `parse_epilogue` reads it back."""
        words = [self.kind]
        if self.access != self.definition.accesses[0]:
            words.append(self.access)
        if self.dtype is not None:
            words.append(str(self.dtype))
        return ":".join(words)


def _parse_step(text: str, default_dtype: DType) -> EpilogueStep:
    name, *options = text.strip().split(":")
    kind = STEPS.get(name)
    if kind is None:
        known = ", ".join(STEPS)
        raise InputError(
            f"unknown epilogue step '{name}'; known: {known}{nearest(name, list(STEPS))}"
        )
    access = kind.accesses[0]
    dtype = default_dtype if kind.has_operand else None
    for option in options:
        if option in kind.accesses:
            access = option
        elif kind.has_operand and option not in ("none", "row", "column"):
            dtype = parse_dtype(option)
        else:
            allowed = ", ".join(a for a in kind.accesses if a != "none") or "none"
            raise InputError(
                f"epilogue step '{name}' does not take '{option}'; options it takes: {allowed}"
            )
    return EpilogueStep(name, access, dtype)


def parse_epilogue(text: str, default_dtype: DType) -> tuple[EpilogueStep, ...]:
    """Steps from their flag form, in the order they run: ``bias,relu`` or ``bias:row:fp32,relu``.

    Args:
        text: comma-separated steps; empty means none.
        default_dtype: operand type where a step does not name its own (the type of D).

    Raises:
        InputError: unknown step, option or type.
    """
    return tuple(_parse_step(part, default_dtype) for part in text.split(",") if part.strip())
