"""What a step is: the columns of the table of epilogue steps, and how a spec writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "AXIS_WORDS",
    "DYNAMIC",
    "FLOATS",
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
"""Types that what a step reads may have, where nothing else is said."""

_LEADING = Option("ld", "size", "elements from row to row of the operand")
_OWN = Option(
    "per_product",
    "switch",
    "of a batch: a vector of each product's own, one behind the other",
    default="no",
)
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
        types: element types that it may have.
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
    types: tuple[str, ...] = FLOATS

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
            about = "one value for all of D, one per row, or one per column"
            if self.computed:
                about += f"; {DYNAMIC}: computed of each row, and written"
            found.append(Option(self.axis, "axis", about, self.words, self.constant))
        if self.type:
            found.append(Option(self.type, "type", f"type of the {self.name}", self.types))
        if len(self.accesses) > 1:
            found.append(_OWN)
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
        turns: where the meaning turns from falling to rising or back, under any settings; one where
            it does not turn does no harm.
        relative: how far the kernel's result may be from its meaning beyond one rounding, as a
            part of the result.
        absolute: the same, whatever the result; of a step that pairs, times the other value where
            that is above 1.
        uses: another step, whose functions the template calls.
        primitives: the instruction wrappers that the template uses.
        instructions: of an element, as counted in sm_90a's machine code. Steps of one or two are
            not counted.
        specials: of them, those that the special function units have: ex2 and rcp.
        paces: whether its template can have an element's polynomial wait for the one before.
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
    paces: bool = False
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
        found = dict.fromkeys(option for operand in self.operands for option in operand.options)
        first = [option for option in self.settings if option.name in self.required]
        rest = [option for option in self.settings if option.name not in self.required]
        return (*first, *found, *rest)

    def operand(self, name: str) -> OperandKind:
        """The operand of a name."""
        return next(operand for operand in self.operands if operand.name == name)
