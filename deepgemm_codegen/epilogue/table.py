"""The table of epilogue steps.

What a column of the table means is told at `kinds.StepKind`; the templates of the same names print
the steps, `deepgemm_codegen.epilogue.meaning` says what they compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import meaning
from deepgemm_codegen.epilogue.kinds import DYNAMIC, FLOATS, OperandKind, Option, StepKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deepgemm_codegen.dtypes import DType

__all__ = ["STEPS"]

_GATE = Option("gate", "word", "which half of B is the gate", ("first", "second"))

_WEIGHT = OperandKind("weight", ("column",), values="factors", type="weight_dtype", switch="weight")
_BIAS = OperandKind("bias", ("column",), type="bias_dtype", switch="bias")


def _norm(name: str, summary: str, meaning_of: Callable[..., Any], bias: str) -> StepKind:
    """A step that norms rows; ``bias`` is whether it has one where the spec does not say."""
    return StepKind(
        name,
        summary,
        meaning_of,
        (_WEIGHT, _BIAS),
        settings=(
            Option("eps", "number", "what is added to the mean square", default="1e-05"),
            Option("weight", "switch", "multiply by one weight per column", default="yes"),
            Option("bias", "switch", "then add one bias per column", default=bias),
            Option(
                "align", "size", "alignment in bytes that both pointers are promised", default="16"
            ),
        ),
        normalizes=True,
        relative=2.0**-20,
        example="{eps: 1e-6, weight_dtype: fp32}",
        check=lambda settings: _normable({"weight": True, "bias": bias == "yes", **settings}),
    )


def _normable(settings: Mapping[str, Any]) -> str:
    """What is wrong with the settings of a norm."""
    if settings.get("eps", 1.0) <= 0:
        return f"eps = {settings['eps']:g}: give a number above 0; without it a row of zeros is NaN"
    for name in ("weight", "bias"):
        if not settings[name] and f"{name}_dtype" in settings:
            return (
                f"{name}_dtype = {settings[f'{name}_dtype']}: there is no {name}; leave it out, or"
                f" give {name}: yes"
            )
    if "align" in settings and not (settings["weight"] or settings["bias"]):
        return f"align = {settings['align']:g}: there is neither weight nor bias; leave it out"
    return ""


def _ordered(settings: Mapping[str, Any]) -> str:
    """What is wrong with the bounds of a clamp."""
    if not settings:
        return "no bound is given; give lo, hi or both"
    if len(settings) == 2 and settings["lo"] > settings["hi"]:
        return f"lo = {settings['lo']:g} is above hi = {settings['hi']:g}; exchange them"
    return ""


QUANTIZED = ("int8", "uint8", "e4m3", "e5m2")
"""Types that ``quantize`` makes."""


def _computable(settings: Mapping[str, Any], dtype: DType) -> str:
    """What is wrong with how a quantize step is set whose scales are computed."""
    if dtype.least == 0:
        return f"scale = {DYNAMIC}: {dtype} has no negative numbers; give to: int8, e4m3 or e5m2"
    for name, why in (
        ("zero_point", "the range lies evenly about zero"),
        ("divide", "it always divides"),
        ("saturate", "nothing lies beyond the range"),
    ):
        if name in settings:
            return f"scale = {DYNAMIC}: {why}; leave {name} out"
    if settings.get("scale_dtype", "fp32") != "fp32":
        return f"scale = {DYNAMIC}: computed scales are fp32; leave scale_dtype out"
    return ""


def _quantizable(settings: Mapping[str, Any]) -> str:
    """What is wrong with how a quantize step is set."""
    dtype = DTYPES[settings["to"]]
    zero_point = settings.get("zero_point")
    if settings.get("scale") == DYNAMIC:
        return _computable(settings, dtype)
    if not dtype.integer and zero_point is not None:
        return f"zero_point: {dtype} has none; leave it out, or give to: int8 or uint8"
    if dtype.integer and settings.get("saturate") is False:
        return f"saturate = no: {dtype} always saturates; leave it out"
    if isinstance(zero_point, float) and (
        zero_point % 1 or not dtype.least <= zero_point <= dtype.largest
    ):
        return (
            f"zero_point = {zero_point:g}: give a whole number from {dtype.least:g} to"
            f" {dtype.largest:g}"
        )
    if isinstance(settings.get("scale"), float) and settings["scale"] <= 0:
        return f"scale = {settings['scale']:g}: give a number above 0"
    return ""


STEPS: dict[str, StepKind] = {
    kind.name: kind
    for kind in (
        StepKind(
            "bias",
            "add a vector: one value per column, or per row",
            meaning.bias,
            (OperandKind("bias", ("column", "row"), types=(*FLOATS, "int32")),),
            example="{axis: row, dtype: fp32}",
        ),
        StepKind(
            "scale",
            "multiply by a number, or by one per row or per column",
            meaning.scale,
            (OperandKind("scale", ("scalar", "row", "column"), "fp32", "factors"),),
            example="{axis: row, dtype: fp32}",
        ),
        StepKind(
            "residual",
            "add a matrix as large as D, and stored like it",
            meaning.residual,
            (OperandKind("residual", ("full",)),),
            example="{dtype: fp32, ld: 4096}",
        ),
        StepKind(
            "store",
            "write the value so far to a matrix as large as D, and stored like it",
            meaning.store,
            (OperandKind("store", ("full",), written=True),),
            example="{dtype: fp32, ld: 4096}",
        ),
        StepKind("relu", "zero what is negative; NaN passes", meaning.relu),
        StepKind("relu6", "bring into the range 0 to 6; NaN passes", meaning.relu6),
        StepKind(
            "clamp",
            "bring into the range lo to hi; NaN passes",
            meaning.clamp,
            settings=(
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
            instructions=11,
            specials=1,
            paces=True,
        ),
        StepKind(
            "gelu_tanh",
            "the gelu of tanh(sqrt(2 / pi) * (x + 0.044715 x^3))",
            meaning.gelu_tanh,
            turns=(-0.7524614221,),
            relative=2.0**-17,
            absolute=2.0**-44,
            primitives=("exp2", "reciprocal", "at_least"),
            instructions=8,
            specials=2,
        ),
        StepKind(
            "silu",
            "x / (1 + exp(-x)), also called swish",
            meaning.silu,
            turns=(-1.2784645422,),
            relative=2.0**-17,
            absolute=2.0**-118,
            primitives=("exp2", "reciprocal", "at_least"),
            instructions=6,
            specials=2,
        ),
        _norm(
            "rms_norm",
            "divide by the root of the row's mean square, then multiply by one weight per column",
            meaning.rms_norm,
            bias="no",
        ),
        _norm(
            "layer_norm",
            "subtract the row's mean and divide by its deviation, then weigh and add a bias",
            meaning.layer_norm,
            bias="yes",
        ),
        StepKind(
            "swiglu",
            "silu(gate) * value, of two halves of B's columns side by side",
            meaning.swiglu,
            settings=(_GATE,),
            pairs=True,
            turns=(-1.2784645422,),
            relative=2.0**-17,
            absolute=2.0**-118,
            uses="silu",
            primitives=("exp2", "reciprocal", "at_least"),
            instructions=7,
            specials=2,
            example="{gate: second}",
        ),
        StepKind(
            "geglu",
            "gelu(gate) * value, of two halves of B's columns side by side",
            meaning.geglu,
            settings=(_GATE,),
            pairs=True,
            turns=(-0.7517915247,),
            relative=2.0**-17,
            absolute=2.0**-44,
            uses="gelu",
            primitives=("exp2", "at_least"),
            instructions=12,
            specials=1,
            paces=True,
            example="{gate: second}",
        ),
        StepKind(
            "quantize",
            "multiply by a scale, add a zero point, and round to an 8-bit type, which D then has",
            meaning.quantize,
            (
                OperandKind(
                    "scale",
                    ("scalar", "row", "column"),
                    "fp32",
                    "quanta",
                    axis="scale",
                    type="scale_dtype",
                    constant=True,
                    computed=True,
                ),
                OperandKind(
                    "zero_point",
                    ("scalar", "row", "column"),
                    "result",
                    "zeros",
                    axis="zero_point",
                    type="",
                    constant=True,
                    optional=True,
                ),
            ),
            settings=(
                Option("to", "type", "the type that D then has", QUANTIZED),
                Option("divide", "switch", "divide by the scale, as ONNX does", default="no"),
                Option(
                    "saturate",
                    "switch",
                    "no: an fp8 beyond the range is NaN or infinite",
                    default="yes",
                ),
            ),
            required=("to",),
            quantizes=True,
            example="{to: int8, scale: per_token}",
            check=_quantizable,
        ),
    )
}
