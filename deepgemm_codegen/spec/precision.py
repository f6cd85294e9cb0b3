"""Which element types a product may combine: operands, sums, C and D.

One rule a function, in plain types, so that a spec is refused where it is written and the message
says what would do. What an architecture's tensor cores multiply is its own fact (`arch`); what a
kernel family serves is the tree's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import DTYPES, FP16, INT32
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.dtypes import DType

__all__ = [
    "ACCUMULATE",
    "check_operands",
    "check_output",
    "integer_sums",
    "operand_types",
    "result_of",
    "sums_of",
]

ACCUMULATE = ("promoted", "fast")
"""How fp8 sums are kept where tensor cores hold 13 fraction bits of them: promoted, added to fp32
registers at least every 128 of k, or fast, in the tensor core to the end."""

_FLOATS = ("fp16", "bf16", "fp32")

_OUTPUTS: dict[str, tuple[str, ...]] = {"fp32": _FLOATS, "int32": ("int32", "fp32", "fp16", "bf16")}
"""Types of D by the type of the sums."""


def operand_types() -> list[str]:
    """Names of the types that A and B may have."""
    return [dtype.name for dtype in DTYPES.values() if dtype.accumulator is not None]


def result_of(op: str, dtype: DType) -> str:
    """Name of the type of D where a spec does not name one.

    Without a product nothing is summed, so whole numbers become floats: fp16, as fp32 has them
    after the conversion and most networks pass them on.
    """
    return FP16.name if op == "epilogue" and dtype.integer else dtype.result


def integer_sums(dtype_d: DType) -> bool:
    """Whether D is the int32 sums themselves.

    Then alpha is 1 (or 0, which reads neither A nor B), beta is 0 or 1, C is int32 and is added as
    an integer, and nothing is rounded: sums beyond 32 bits wrap.
    """
    return dtype_d == INT32


def check_operands(dtype_a: DType, dtype_b: DType, dtype_acc: DType) -> None:
    """A's and B's types, and that of the sums.

    Raises:
        InputError: a type that nothing multiplies, two that do not go together, other sums.
    """
    for name, dtype in (("dtype_a", dtype_a), ("dtype_b", dtype_b)):
        if dtype.accumulator is None:
            raise InputError(
                f"{name} = {dtype}: no kernel family multiplies {dtype} operands;"
                f" give one of {', '.join(operand_types())}"
            )
    if not dtype_a.multiplies(dtype_b):
        raise InputError(
            f"dtype_a = {dtype_a}, dtype_b = {dtype_b}: the tensor cores multiply operands of one"
            " type, e4m3 with e5m2, or int8 with uint8; give both the same"
        )
    if dtype_acc.name != dtype_a.accumulator:
        raise InputError(
            f"dtype_acc = {dtype_acc}: {dtype_a} products are summed in"
            f" {dtype_a.accumulator}; give {dtype_a.accumulator} or leave it out"
        )


def sums_of(dtype_a: DType, accumulate: str) -> str:
    """How sums are kept, filled in; empty for types that leave no choice.

    Raises:
        InputError: an unknown word, or one where there is nothing to choose.
    """
    if dtype_a.mixes != "fp8":
        if accumulate:
            raise InputError(
                f"accumulate = {accumulate}: {dtype_a} sums are {dtype_a.accumulator} throughout;"
                " it is for e4m3 and e5m2, leave it out"
            )
        return ""
    if accumulate and accumulate not in ACCUMULATE:
        raise InputError(f"accumulate = {accumulate}: unknown; give {' or '.join(ACCUMULATE)}")
    return accumulate or ACCUMULATE[0]


def check_output(
    dtype_acc: DType, dtype_c: DType | None, dtype_d: DType, steps: Sequence[str], values: str
) -> None:
    """D's and C's types over the sums', and whether epilogue steps may stand between.

    ``values`` is what messages call what D is made of: sums, where there is a product.

    Raises:
        InputError: a type that the sums do not become, a C of another kind, steps on integers.
    """
    allowed = _OUTPUTS[dtype_acc.name]
    if dtype_d.name not in allowed:
        quantize = ", or let the epilogue step quantize make it" if dtype_d.bits == 8 else ""
        raise InputError(
            f"dtype_d = {dtype_d}: {dtype_acc} {values} become no {dtype_d};"
            f" give one of {', '.join(allowed)}{quantize}"
        )
    if integer_sums(dtype_d):
        if dtype_c not in (None, INT32):
            raise InputError(
                f"dtype_c = {dtype_c}: a D of int32 adds an int32 C; give dtype_c int32, or"
                " dtype_d fp32"
            )
        if steps:
            raise InputError(
                f"epilogue = {','.join(steps)}: a D of int32, the default, is the sums as they are;"
                " give dtype_d fp32, fp16 or bf16, or leave epilogue out"
            )
    elif dtype_c is not None and dtype_c.name not in _FLOATS:
        raise InputError(
            f"dtype_c = {dtype_c}: C is added in fp32; give one of {', '.join(_FLOATS)}"
        )
