"""The table of epilogue steps.

What a column of the table means is told at `StepKind`; the templates of the same names print the
steps, `deepgemm_codegen.epilogue.meaning` says what they compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deepgemm_codegen.dtypes import DTYPES
from deepgemm_codegen.epilogue import meaning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deepgemm_codegen.dtypes import DType

__all__ = [
    "AXIS_WORDS",
    "DYNAMIC",
    "FLOATS",
    "STEPS",
    "Access",
    "OperandKind",
    "Option",
    "StepKind",
]

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

PER_WORDS: dict[Access, str] = {"row": "per_token", "column": "per_channel", "scalar": "per_tensor"}
"""The words for an access where the option is not called ``axis`` itself."""

DYNAMIC = "dynamic"
"""The word for an operand that the kernel computes of each row of D, and writes."""

OptionKind = Literal["axis", "type", "size", "number", "switch", "word"]
"""How an option is written: an access, an element type, a whole number, a number, yes or no, or one
of a few words, of which the first is the default."""


@dataclass(frozen=True, slots=True)
class Option:
    """Something that a spec may say about a step.

    Attributes:
        name: the word.
        kind: how its value is written.
        summary: what it means, for the docs.
        words: what an axis, a type or a word may be.
        constant: whether an axis may be a number instead, which all of D then has.
        primitive: the instruction wrapper that the template uses where the option is given.
        default: what a switch, or a number that is always there, is where a spec does not say.
    """

    name: str
    kind: OptionKind
    summary: str
    words: tuple[str, ...] = ()
    constant: bool = False
    primitive: str = ""
    default: str = ""


FLOATS = ("fp16", "bf16", "fp32")
"""Types that what a step reads may have."""

_LEADING = Option("ld", "size", "elements from row to row of the operand")
_ALIGN = Option("align", "size", "alignment in bytes that the operand's pointer is promised")


@dataclass(frozen=True, slots=True)
class OperandKind:
    """What a step reads, or writes, beside the value.

    Attributes:
        name: what it is called, in arguments and in the step's meaning.
        accesses: how it may be indexed; the first is the default.
        dtype: its type where the spec does not say: FP32, or that of the unquantised or of the
            quantised D.
        values: what it holds, so that the harness can make some up: anything, factors about 1,
            factors that bring values into D's range, or zero points.
        axis: the option that says how it is indexed.
        type: the option that says its type; empty where it has none.
        constant: whether the axis may be a number instead.
        optional: whether the step does without it where the axis is not given.
        switch: the setting, yes or no, that says whether the step has it; empty where that is no
            question.
        written: whether the step writes it.
        computed: whether the axis may be `DYNAMIC`.
    """

    name: str
    accesses: tuple[Access, ...]
    dtype: Literal["fp32", "value", "result"] = "value"
    values: Literal["any", "factors", "quanta", "zeros"] = "any"
    axis: str = "axis"
    type: str = "dtype"
    constant: bool = False
    optional: bool = False
    switch: str = ""
    written: bool = False
    computed: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """How a spec says its access."""
        words = tuple(self.word(access) for access in self.accesses)
        return (*words, DYNAMIC) if self.computed else words

    def word(self, access: Access) -> str:
        """How a spec says an access."""
        return access if self.axis == "axis" else PER_WORDS[access]

    @property
    def options(self) -> tuple[Option, ...]:
        """What a spec may say about it."""
        found = []
        if len(self.accesses) > 1:
            about = "one value for all of D, one a row, or one a column"
            if self.computed:
                about += f"; {DYNAMIC}: computed of each row, and written"
            found.append(Option(self.axis, "axis", about, self.words, self.constant))
        if self.type:
            found.append(Option(self.type, "type", f"type of the {self.name}", FLOATS))
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
        meaning: what it computes, see `deepgemm_codegen.epilogue.meaning`; operands and settings
            come under their names.
        operands: what it reads and writes.
        settings: what else a spec may say.
        required: the settings that it must say.
        pairs: whether it makes one value of two, from the two halves of B's columns.
        normalizes: whether a value depends on all of its row of D; the meaning is then a function
            of whole rows, and `harness.norms` has its bound.
        quantizes: whether it makes D of its setting ``to``; then it is the last step.
        turns: where the meaning turns from falling to rising or back.
        relative: how far the kernel's result may be from its meaning beyond one rounding, as a
            part of the result.
        absolute: the same, whatever the result; of a step that pairs, times the other value where
            that is above 1.
        uses: another step, whose functions the template calls.
        primitives: the instruction wrappers that the template uses.
        instructions: of an element, as counted in sm_90a's machine code. Steps of one or two are
            not counted.
        specials: of them, those that the special function units have: ex2 and rcp.
        example: options as YAML writes them, for messages.
        check: says what is wrong with settings that do not go together.
    """

    name: str
    summary: str
    meaning: Callable[..., Any]
    operands: tuple[OperandKind, ...] = ()
    settings: tuple[Option, ...] = ()
    required: tuple[str, ...] = ()
    pairs: bool = False
    normalizes: bool = False
    quantizes: bool = False
    turns: tuple[float, ...] = ()
    relative: float = 0.0
    absolute: float = 0.0
    uses: str = ""
    primitives: tuple[str, ...] = ()
    instructions: int = 0
    specials: int = 0
    example: str = ""
    check: Callable[[Mapping[str, Any]], str] = lambda _: ""

    @property
    def issue(self) -> float:
        """Clocks of a multiprocessor in which an element's instructions are issued, 128 a clock."""
        return self.instructions / 128

    @property
    def special(self) -> float:
        """Those of the special function units, 16 a clock (CUDA programming guide)."""
        return self.specials / 16

    @property
    def exact(self) -> bool:
        """Whether each element is rounded once, so that whole numbers give equal bits."""
        return self.relative == 0.0

    @property
    def options(self) -> tuple[Option, ...]:
        """Everything that a spec may say about the step, the most needful first."""
        found = [option for operand in self.operands for option in operand.options]
        first = [option for option in self.settings if option.name in self.required]
        rest = [option for option in self.settings if option.name not in self.required]
        return (*first, *found, *rest)

    def operand(self, name: str) -> OperandKind:
        """The operand of a name."""
        return next(operand for operand in self.operands if operand.name == name)


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
            Option("weight", "switch", "multiply by a weight a column", default="yes"),
            Option("bias", "switch", "then add a bias a column", default=bias),
            Option(
                "align", "size", "alignment in bytes that both pointers are promised", default="16"
            ),
        ),
        normalizes=True,
        relative=2.0**-20,
        example="{eps: 1e-6, weight_dtype: fp32}",
        check=_positive,
    )


def _positive(settings: Mapping[str, Any]) -> str:
    """What is wrong with the settings of a norm."""
    if settings.get("eps", 1.0) <= 0:
        return f"eps = {settings['eps']:g}: give a number above 0; without it a row of zeros is NaN"
    for name in ("weight", "bias"):
        if settings.get(name) is False and f"{name}_dtype" in settings:
            return f"{name}_dtype = {settings[f'{name}_dtype']}: there is no {name}; leave it out"
    return ""


def _ordered(settings: Mapping[str, Any]) -> str:
    """What is wrong with the bounds of a clamp."""
    if not settings:
        return "no bound is given; give lo, hi or both"
    if len(settings) == 2 and settings["lo"] > settings["hi"]:
        return f"lo = {settings['lo']:g} is above hi = {settings['hi']:g}"
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
            "add a vector: one value a column, or a row",
            meaning.bias,
            (OperandKind("bias", ("column", "row")),),
            example="{axis: row, dtype: fp32}",
        ),
        StepKind(
            "scale",
            "multiply by a number, or by one a row or a column",
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
            "write the value as it is so far to a matrix as large as D, and stored like it",
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
            "divide by the root of the row's mean square, then multiply by a weight a column",
            meaning.rms_norm,
            bias="no",
        ),
        _norm(
            "layer_norm",
            "take the row's mean away and divide by its deviation, then weigh and add a bias",
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
            example="{gate: second}",
        ),
        StepKind(
            "quantize",
            "multiply by a scale, add a zero point, and make D of it, in a type of 8 bits",
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
