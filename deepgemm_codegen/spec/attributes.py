"""A spec's attributes one by one: each of its type and within its range.

Text comes here read, and right; an attribute that Python code gives may be anything.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import DType
from deepgemm_codegen.epilogue import EpilogueStep, StepOperand
from deepgemm_codegen.epilogue.parsing import check_step
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import MAX_DIMENSION, check_range
from deepgemm_codegen.spec.dimension import Dim
from deepgemm_codegen.spec.overrides import Overrides
from deepgemm_codegen.spec.text import OPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.spec.gemm import GemmSpec

__all__ = ["check_attributes"]

_TYPES: dict[str, tuple[type, ...]] = {
    "Dim": (Dim,),
    "DType": (DType,),
    "DType | None": (DType, type(None)),
    "int": (int,),
    "Stride": (int, str),
    "tuple[EpilogueStep, ...]": (tuple,),
    "Overrides": (Overrides,),
}
"""By annotation; what is not among them is text."""


@cache
def _types(kind: Any) -> dict[str, tuple[type, ...]]:
    return {f.name: _TYPES.get(str(f.type), (str,)) for f in fields(kind) if f.init}


@cache
def _values(kind: Any) -> Callable[[GemmSpec], tuple[object, ...]]:
    return attrgetter(*_types(kind))


def check_attributes(spec: GemmSpec) -> None:
    """Their types, and the ranges of those that stand for themselves.

    Raises:
        InputError: the attribute, what it is, and what it may be.
    """
    kind: Any = type(spec)
    for (name, types), value in zip(_types(kind).items(), _values(kind)(spec), strict=True):
        if type(value) not in types:
            raise _other_type(name, value, types)
    for number, step in enumerate(spec.epilogue):
        if type(step) is not EpilogueStep or not _is_plain(step):
            raise _other_type(f"epilogue[{number}]", step, (EpilogueStep,))
        check_step(step)
    if spec.op not in OPS:
        remedy = f"give {' or '.join(OPS)}{nearest(spec.op, list(OPS))}"
        raise InputError(f"op = {spec.op}: unknown; {remedy}")
    for name in ("m", "n", "k"):
        dim: Dim = getattr(spec, name)
        if type(dim.size) is not int:
            raise _other_type(f"{name}.size", dim.size, (int,))
        if dim.size == 0 and name != "k":
            raise InputError(f"{name} = 0: nothing to compute; the smallest is 1")
        check_range(dim.size, name, int(dim.dynamic or name != "k"), MAX_DIMENSION)
    check_range(spec.batch, "batch", 1, MAX_DIMENSION)
    check_range(spec.sms, "sms", 0, MAX_DIMENSION)


def _is_plain(step: EpilogueStep) -> bool:
    """Whether a step's own attributes are of their types; lists, above all, cannot be hashed."""
    pairs = type(step.settings) is tuple and all(
        type(pair) is tuple and len(pair) == 2 and type(pair[0]) is type(pair[1]) is str
        for pair in step.settings
    )
    return (
        pairs
        and type(step.kind) is str
        and type(step.operands) is tuple
        and all(type(operand) is StepOperand for operand in step.operands)
    )


def _other_type(name: str, value: object, types: tuple[type, ...]) -> InputError:
    wanted = " or ".join("None" if each is type(None) else each.__name__ for each in types)
    return InputError(
        f"{name} = {value!r}: {type(value).__name__}, where GemmSpec has {wanted}; give that, or"
        " leave it to GemmSpec.from_fields to read text and numbers"
    )
