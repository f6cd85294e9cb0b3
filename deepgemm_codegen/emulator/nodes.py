"""The tree of a PTX module.

Every node is frozen and knows its line (1-based) in the PTX text. Lines take no part in
comparison, so that two texts that differ only in layout give equal trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "Address",
    "Block",
    "Data",
    "Directive",
    "Function",
    "Guard",
    "Immediate",
    "Instruction",
    "Item",
    "Label",
    "Location",
    "Module",
    "Name",
    "Negated",
    "Operand",
    "Pair",
    "Parameter",
    "Registers",
    "Section",
    "Statement",
    "Variable",
    "Vector",
]


@dataclass(frozen=True, slots=True)
class Name:
    """A register, a special register, a variable, a label or the sink ``_``."""

    text: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal; ``text`` as written, sign included (``-1``, ``0x1F``, ``0f3F800000``)."""

    text: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]`` with the offset in bytes; ``extra`` holds TMA-style coordinates."""

    base: Name | Immediate
    offset: int = 0
    extra: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``; with round brackets in a call."""

    items: tuple[Operand, ...]
    round: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: the two destinations of setp and shfl."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p`` as a source operand."""

    operand: Name


Operand: TypeAlias = Name | Immediate | Address | Vector | Pair | Negated


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p`` before an instruction."""

    predicate: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Location:
    """A ``.loc`` directive: where in the CUDA source the next instructions come from.

    Attributes:
        file, row, column: as written; the file is an index into the module's ``.file`` table.
        function: the ``function_name`` text, or empty.
        inlined_at: (file, row, column) of the call that was inlined, or None.
    """

    file: int
    row: int
    column: int
    function: str = ""
    inlined_at: tuple[int, int, int] | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        guard: predicate, or None.
        opcode: the dotted opcode, split: ``("ld", "global", "v4", "u32")``.
        operands: in the order written.
        line: PTX line.
        location: the ``.loc`` in force, or None.
    """

    guard: Guard | None
    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int = field(default=0, compare=False)
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Label:
    """``name:``."""

    name: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Registers:
    """``.reg .type name<count>;`` or, with count None, ``.reg .type name;``."""

    type: str
    name: str
    count: int | None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a state space.

    Attributes:
        linkage: words before the space (``.extern``, ``.visible``), joined by spaces.
        space: ``shared``, ``global``, ``const``, ``local`` or ``param``.
        align: in bytes, 0 where the text gives none.
        type: element type, ``b8``.
        name: the symbol.
        count: number of elements; None for a scalar; 0 for ``name[]``.
        initial: initialiser text, or empty.
    """

    linkage: str
    space: str
    align: int
    type: str
    name: str
    count: int | None
    initial: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Directive:
    """Any other directive, kept as text: ``.pragma "nounroll";`` or ``.maxntid 128, 1, 1``."""

    text: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Data:
    """A data line of a debug section: ``.b8 1,2`` (no semicolon)."""

    text: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Section:
    """``.section name { ... }``; the content is debug data and never executed."""

    name: str
    items: tuple[Label | Data, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """``{ ... }``: a scope of its own for register names, as inline asm makes it."""

    items: tuple[Statement, ...]
    line: int = field(default=0, compare=False)


Statement: TypeAlias = Instruction | Label | Registers | Variable | Directive | Location | Block


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter.

    Attributes:
        type: element type, ``u64`` or ``b8``.
        name: the symbol.
        align: in bytes, 0 for the type's own.
        count: number of elements of an array, None for a scalar.
        pointer: words of a ``.ptr`` attribute, or empty.
    """

    type: str
    name: str
    align: int = 0
    count: int | None = None
    pointer: str = ""
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """``.entry`` or ``.func``.

    Attributes:
        linkage: words before it, joined by spaces.
        kind: ``entry`` or ``func``.
        name: the symbol.
        results, parameters: in order.
        directives: performance directives between the parameters and the body.
        body: None for a declaration.
    """

    linkage: str
    kind: str
    name: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: tuple[Directive, ...]
    body: Block | None
    line: int = field(default=0, compare=False)


Item: TypeAlias = Function | Variable | Directive | Section


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX module.

    Attributes:
        version: ``9.0``.
        target: ``("sm_80",)``.
        address_size: in bits.
        items: functions, variables, ``.file`` directives and sections, in order.
    """

    version: str
    target: tuple[str, ...]
    address_size: int
    items: tuple[Item, ...]

    def entries(self) -> tuple[str, ...]:
        """Names of the kernels in the module."""
        return tuple(f.name for f in self.items if isinstance(f, Function) and f.kind == "entry")
