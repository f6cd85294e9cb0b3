"""Writes the Python source of a basic block.

Naming in generated source: ``u32_7`` is row 7 of the 32-bit bank seen as numpy uint32, ``f32_7``
the same bytes as float32; ``p_3`` a predicate; ``k5`` a constant, one element a lane; ``o2`` a
static object made at translation; ``s_tid_x`` a special register; ``t0_u32`` scratch.
Every name is an array with one element a lane, so that an instruction is one numpy call.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.lexer import whole_number
from deepgemm_codegen.emulator.printer import print_instruction

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.generations import Arithmetic, Sums
    from deepgemm_codegen.emulator.program import Program, Register

__all__ = ["SPECIAL", "Emitter", "code_of"]

_BITS = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "f16": 16, "u32": 32, "s32": 32, "f32": 32}
_BITS |= {"u64": 64, "s64": 64, "f64": 64}
_WHOLE = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
"""Types of whole numbers, as opcodes name them."""

SPECIAL = frozenset(
    {f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {f"%{name}.{axis}" for name in ("clusterid", "nclusterid") for axis in "xyz"}
    | {f"%{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid") for axis in "xyz"}
    | {"%cluster_ctarank", "%cluster_nctarank"}
    | {"%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%dynamic_smem_size"}
    | {f"%lanemask_{order}" for order in ("eq", "le", "lt", "ge", "gt")}
)


def code_of(kind: str) -> str:
    """The numpy view for a PTX type: ``b32`` and ``f16x2`` are seen as ``u32``."""
    if kind in _BITS:
        return kind
    if kind.startswith("b") and kind[1:].isdigit():
        return "u" + kind[1:]
    return {"f16x2": "u32", "bf16x2": "u32", "bf16": "u16"}.get(kind, kind)


def _flat(operands: tuple[nodes.Operand, ...]) -> list[nodes.Operand]:
    """Operands with pairs taken apart."""
    return [
        p for o in operands for p in ((o.first, o.second) if isinstance(o, nodes.Pair) else (o,))
    ]


class Emitter:
    """Collects the source of one basic block in one variant (all lanes, or under a mask)."""

    def __init__(self, program: Program, *, masked: bool, shared: SharedNames) -> None:
        self.program = program
        self.masked = masked
        self.shared = shared
        self.lines: list[str] = []
        self.mask = "m" if masked else "None"
        self.parameters = {slot.name: slot for slot in program.parameters}

    # -- one instruction --

    def begin(self, ins: nodes.Instruction) -> None:
        """Set the mask under which the instruction's results are written."""
        base = "m" if self.masked else ""
        if ins.guard is None:
            self.mask = base or "None"
            return
        predicate = self.register(ins.guard.predicate, ins)
        if predicate.bank != "p":
            raise self.fail(ins, "guard is not a predicate")
        name = self.use(f"p_{predicate.row}")
        if ins.guard.negated:
            name = f"~{name}"
        elif not base and nodes.Name(ins.guard.predicate) in _flat(ins.operands):
            name = f"{name}.copy()"  # the instruction may write its own guard
        self.lines.append(f"mk = {base} & {name}" if base else f"mk = {name}")
        self.mask = "mk"

    def fail(self, ins: nodes.Instruction, reason: str) -> UnsupportedError:
        """The error for something with no semantics; the caller raises it."""
        return UnsupportedError(ins.line, print_instruction(ins), reason)

    def modifiers(self, ins: nodes.Instruction, allowed: set[str], skip: int = 1) -> set[str]:
        """The words between the opcode's first ``skip`` and its last, checked.

        Raises:
            UnsupportedError: a word that is not allowed.
        """
        words = set(ins.opcode[skip:-1])
        if not words <= allowed:
            unknown = ", ".join(sorted(words - allowed))
            raise self.fail(ins, f"unsupported modifier {unknown}")
        return words

    # -- names --

    def use(self, name: str) -> str:
        """Note that the generated source uses a name."""
        self.shared.names.add(name)
        return name

    def register(self, name: str, ins: nodes.Instruction) -> Register:
        """The register of that name.

        Raises:
            UnsupportedError: undeclared.
        """
        found = self.program.registers.get(name)
        if found is None:
            raise self.fail(ins, f"unknown name '{name}'")
        return found

    def row(self, operand: nodes.Operand, bank: str, ins: nodes.Instruction) -> int:
        """Row of a register operand in a bank.

        Raises:
            UnsupportedError: not a register of that bank.
        """
        if isinstance(operand, nodes.Name):
            register = self.register(operand.text, ins)
            if register.bank == bank:
                return register.row
        raise self.fail(ins, "an operand of another kind was expected")

    def bits(self, operand: nodes.Operand, ins: nodes.Instruction) -> int:
        """Width of a register operand; 0 for an immediate, a symbol or a special register."""
        if isinstance(operand, nodes.Name) and operand.text in self.program.registers:
            return self.register(operand.text, ins).bits
        return 0

    def source(self, operand: nodes.Operand, code: str, ins: nodes.Instruction) -> str:
        """Name of an operand's value seen as a numpy type (``pred`` for predicates).

        Raises:
            UnsupportedError: a width that does not fit, an unknown name.
        """
        match operand:
            case nodes.Immediate():
                return self.constant(code, self.literal(operand, code, ins))
            case nodes.Negated() if code == "pred":
                return f"~{self.source(operand.operand, code, ins)}"
            case nodes.Name(text) if text in SPECIAL:
                if code not in ("u32", "s32"):
                    raise self.fail(ins, f"{text} is 32 bits wide")
                return self.use("s_" + text[1:].replace(".", "_"))
            case nodes.Name(text) if text in self.parameters:
                return self.constant(code, self.parameters[text].offset)
            case nodes.Name(text) if text in self.program.symbols:
                address = self.program.symbols[text].address
                if address >> _BITS.get(code, 0):
                    raise self.fail(ins, "a 64-bit register was expected")
                return self.constant(code, address)
            case nodes.Name(text):
                return self.view(self.register(text, ins), code, ins)
            case _:
                raise self.fail(ins, "an operand of another kind was expected")

    def target(self, operand: nodes.Operand, code: str, ins: nodes.Instruction) -> str:
        """Name of a destination register; the sink ``_`` gives scratch.

        Raises:
            UnsupportedError: not a register of that width.
        """
        if not isinstance(operand, nodes.Name):
            raise self.fail(ins, "the destination is not a register")
        if operand.text == "_":
            return self.scratch(code, 9)
        return self.view(self.register(operand.text, ins), code, ins)

    def view(self, register: Register, code: str, ins: nodes.Instruction) -> str:
        """Name of a register's row as a numpy type."""
        if code == "pred":
            if register.bank != "p":
                raise self.fail(ins, "a predicate was expected")
            return self.use(f"p_{register.row}")
        if code not in _BITS:
            raise self.fail(ins, f"unknown type {code}")
        if register.bits != _BITS[code]:
            raise self.fail(ins, f"a {_BITS[code]}-bit register was expected")
        return self.use(f"{code}_{register.row}")

    def scratch(self, code: str, number: int = 0) -> str:
        """Name of a scratch array; its content lasts for one instruction."""
        return self.use(f"t{number}_{code}")

    def literal(self, operand: nodes.Immediate, code: str, ins: nodes.Instruction) -> int | float:
        """Value of an immediate: an integer wrapped to the type, or a float.

        Raises:
            UnsupportedError: a literal of another kind than the type is, which ptxas refuses too.
        """
        text = operand.text
        negative = text.startswith("-")
        digits = text.lstrip("-")
        try:
            if code == "pred":
                return int(digits, 0)
            if digits[:2] in ("0f", "0F", "0d", "0D"):
                form = ">f" if digits[1] in "fF" else ">d"
                value = float(struct.unpack(form, bytes.fromhex(digits[2:]))[0])
            elif "." in digits or re.fullmatch(r"\d+[eE][+-]?\d+", digits):
                form, value = ">d", float(digits)
            else:
                return self._whole(whole_number(digits) * (-1 if negative else 1), text, code, ins)
        except ValueError:
            raise self.fail(ins, f"unreadable literal '{text}'") from None
        if code == "f16":
            raise self.fail(ins, f"'{text}': no literal is of type f16")
        value = -value if negative else value
        if code[0] == "f":
            return value
        # Untyped bits may be written as a number of their width, and so may what moves as bits.
        words = {*ins.opcode}
        if not words & {"b32" if form == ">f" else "b64", "f32", "f64"} or words & _WHOLE:
            raise self.fail(ins, f"'{text}' is no whole number")
        packed = struct.pack(form, value)
        if len(packed) * 8 != _BITS[code]:
            raise self.fail(ins, f"'{text}' is not {_BITS[code]} bits wide")
        return int.from_bytes(packed, "big")

    def _whole(self, number: int, text: str, code: str, ins: nodes.Instruction) -> int:
        """A whole number wrapped to an integer type."""
        if code[0] == "f":
            raise self.fail(ins, f"'{text}' is no floating-point number; write {text}.0")
        bits = _BITS[code]
        number &= (1 << bits) - 1
        if code[0] == "s" and number >> (bits - 1):
            number -= 1 << bits
        return number

    def constant(self, code: str, value: float) -> str:
        """Name of a constant array, one element a lane."""
        # The bit pattern is the key: 0.0 and -0.0 are equal, and NaN is not equal to itself.
        pattern = struct.pack("<d", value) if code in ("f32", "f64", "f16") else str(int(value))
        key = (code, pattern)
        name = self.shared.constants.get(key)
        if name is None:
            name = f"k{len(self.shared.constants)}"
            self.shared.constants[key] = name
            self.shared.values[name] = (code, value)
        return name

    def object(self, value: Any) -> str:
        """Name of a static object for the run-time functions."""
        name = f"o{len(self.shared.objects)}"
        self.shared.objects[name] = value
        return name

    def site(self, ins: nodes.Instruction) -> int:
        """Number of the instruction in the program, as findings carry it."""
        return self.shared.sites[id(ins)]

    def sums(self, kind: str, ins: nodes.Instruction, *, warpgroup: bool = False) -> Sums:
        """How the imitated tensor cores sum an operand type.

        Raises:
            UnsupportedError: they do not multiply it.
        """
        arithmetic = self.shared.arithmetic
        found = arithmetic.sums(kind, warpgroup=warpgroup)
        if found is None:
            raise self.fail(ins, f"{arithmetic.name} has no matrix products of {kind}")
        return found

    # -- statements --

    def line(self, text: str) -> None:
        """Append a statement."""
        self.lines.append(text)

    def ufunc(self, function: str, out: str, *sources: str, extra: str = "") -> None:
        """``function(sources, out)`` under the mask."""
        where = "" if self.mask == "None" else f", where={self.mask}"
        extra = f", {extra}" if extra else ""
        # numpy wants these two to name their output.
        name = "out=" if function in ("minimum", "maximum") else ""
        self.lines.append(f"{function}({', '.join(sources)}, {name}{out}{extra}{where})")

    def copy(self, out: str, source: str, *, unsafe: bool = False) -> None:
        """``out = source`` under the mask; ``unsafe`` lets integers wrap."""
        where = "" if self.mask == "None" else f", where={self.mask}"
        casting = ", casting='unsafe'" if unsafe else ""
        self.lines.append(f"copyto({out}, {source}{casting}{where})")


class SharedNames:
    """What all blocks of one kernel share: names used, constants, objects, instruction numbers.

    Attributes:
        arithmetic: whose tensor cores to imitate.
    """

    def __init__(self, program: Program, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.names: set[str] = set()
        self.constants: dict[tuple[str, object], str] = {}
        self.values: dict[str, tuple[str, float]] = {}
        self.objects: dict[str, Any] = {}
        self.sites = {id(ins): i for i, ins in enumerate(program.instructions)}
