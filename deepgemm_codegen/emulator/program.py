"""A kernel linked for execution: flat instructions, numbered registers, laid-out memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.directives import LaunchBounds, launch_bounds
from deepgemm_codegen.emulator.faults import LaunchError, PtxSyntaxError, UnsupportedError
from deepgemm_codegen.emulator.findings import Place
from deepgemm_codegen.emulator.initial import initial_bytes
from deepgemm_codegen.emulator.printer import print_instruction
from deepgemm_codegen.emulator.windows import WINDOW_SIZE, buffer_address

__all__ = ["ModuleVariable", "ParameterSlot", "Program", "Register", "Symbol", "link", "type_bits"]

# A long list of registers: its first two and its last stand for it in findings.
_LONG = re.compile(r"(\{[^,{}]+, [^,{}]+,)(?: [^,{}]+,){8,}( ?[^,{}]+\})")
REGISTERS = 1 << 17
"""The most registers of one width in a kernel: each takes room for every thread that runs."""
PARAMETER_BYTES = 32764  # CUDA C++ Programming Guide, "Function parameters"
LOCAL_BYTES = 512 << 10  # of a thread: CUDA C++ Programming Guide, "Technical specifications"
VARIABLE_BYTES = 1 << 28  # of a variable of the module, as much as the emulator cares to hold
_BANKS = {"pred": "p", "16": "h", "32": "r", "64": "d"}


def type_bits(kind: str) -> int:
    """Bits of a PTX type: ``u32`` 32, ``pred`` 1, ``f16x2`` 32.

    Raises:
        ValueError: no number in the name.
    """
    if kind == "pred":
        return 1
    if kind.endswith("x2"):
        return 2 * type_bits(kind[:-2])
    return int(kind.lstrip("busfe"))


@dataclass(frozen=True, slots=True)
class Register:
    """A register: its bank (p, h, r or d for predicates, 16, 32 and 64 bits) and row in it."""

    bank: str
    row: int

    @property
    def bits(self) -> int:
        """Width."""
        return {"p": 1, "h": 16, "r": 32, "d": 64}[self.bank]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable: state space, byte offset in it, bytes. Dynamic shared memory has 0 bytes."""

    space: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    """A variable in global or constant memory: its bytes at the start of each run."""

    name: str
    data: bytes
    writable: bool


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """A parameter: byte offset in the parameter block, bytes, element type, whether an array."""

    name: str
    offset: int
    size: int
    type: str
    array: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A linked kernel.

    Attributes:
        name: of the entry.
        instructions: flat, register names made unique.
        labels: name to index in ``instructions``.
        registers: name to register.
        rows: bank to number of rows.
        symbols: name to symbol, for variables of all spaces.
        variables: those in global and constant memory, in the order of their addresses.
        parameters: in order.
        static_shared: bytes of static shared memory; dynamic memory starts at ``dynamic_base``.
        local_bytes: of one thread.
        files: ``.file`` table.
        bounds: what a launch must keep to.
    """

    name: str
    instructions: tuple[nodes.Instruction, ...]
    labels: dict[str, int]
    registers: dict[str, Register]
    rows: dict[str, int]
    symbols: dict[str, Symbol]
    variables: tuple[ModuleVariable, ...]
    parameters: tuple[ParameterSlot, ...]
    static_shared: int
    dynamic_base: int
    local_bytes: int
    files: dict[int, str]
    bounds: LaunchBounds

    def place(self, index: int) -> Place:
        """Where an instruction stands, for a finding."""
        ins = self.instructions[index]
        source = ""
        if ins.location is not None:
            at = ins.location
            source = f"{self.files.get(at.file, at.file)}:{at.row}"
            if at.inlined_at is not None:
                file, row, _ = at.inlined_at
                source += f", inlined at {self.files.get(file, file)}:{row}"
        return Place(ins.line, _LONG.sub(r"\1 ...\2", print_instruction(ins)), source)


def link(module: nodes.Module, entry: str) -> Program:
    """The kernel of that name, ready for translation.

    Raises:
        LaunchError: no such entry.
        PtxSyntaxError: a declaration in it stands twice, or makes no sense.
        UnsupportedError: a variable in a space the emulator does not hold.
    """
    for item in module.items:
        if isinstance(item, nodes.Function) and item.name == entry and item.body is not None:
            return _Linker(module, item).program()
    known = ", ".join(module.entries())
    raise LaunchError(f"no kernel '{entry}' in the module; it has: {known}")


class _Linker:
    def __init__(self, module: nodes.Module, function: nodes.Function) -> None:
        self.module = module
        self.function = function
        self.instructions: list[nodes.Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers: dict[str, Register] = {}
        self.rows = {"p": 0, "h": 0, "r": 0, "d": 0}
        self.symbols: dict[str, Symbol] = {}
        self.variables: list[ModuleVariable] = []
        self.sizes = {"shared": 0, "local": 0}
        self.dynamic: list[nodes.Variable] = []
        self.scopes = 0

    def program(self) -> Program:
        for item in self.module.items:
            if isinstance(item, nodes.Variable):
                self.variable(item)
        body = self.function.body
        if body is None:
            raise PtxSyntaxError(self.function.line, "a kernel without a body")
        self.block(body, {})
        align = max((v.align for v in self.dynamic), default=1) or 1
        base = -(-self.sizes["shared"] // align) * align
        for variable in self.dynamic:
            self.symbols[variable.name] = Symbol("shared", base, 0)
        files = {}
        for item in self.module.items:
            if isinstance(item, nodes.Directive) and item.text.startswith(".file"):
                _, number, name, *_ = item.text.split(maxsplit=2)
                if number.isdigit():
                    files[int(number)] = name.split('"')[1].rsplit("/", 1)[-1]
        return Program(
            self.function.name,
            tuple(self.instructions),
            self.labels,
            self.registers,
            self.rows,
            self.symbols,
            tuple(self.variables),
            self.parameters(),
            self.sizes["shared"],
            base,
            self.sizes["local"],
            files,
            launch_bounds(self.function),
        )

    def parameters(self) -> tuple[ParameterSlot, ...]:
        slots, offset = [], 0
        for p in self.function.parameters:
            element = _element(p.type, p.line)
            align = _alignment(p.align or element, p.line)
            size = element * (1 if p.count is None else p.count)
            offset = -(-offset // align) * align
            slots.append(ParameterSlot(p.name, offset, size, p.type, p.count is not None))
            offset += size
        _limit("parameters", offset, PARAMETER_BYTES, self.function.line)
        return tuple(slots)

    def variable(self, variable: nodes.Variable) -> None:
        line = variable.line
        element = _element(variable.type, line)
        align = _alignment(variable.align or element, line)
        size = element * (variable.count or 1)
        if variable.space in ("global", "const"):
            _limit(f"variable '{variable.name}'", size, VARIABLE_BYTES, line)
            if ".extern" not in variable.linkage.split():
                data = initial_bytes(variable, element)
                address = buffer_address(len(self.variables))
                self.symbols[variable.name] = Symbol(variable.space, address, len(data))
                writable = variable.space == "global"
                self.variables.append(ModuleVariable(variable.name, data, writable))
            return  # one that another module defines is reported where an instruction names it
        if variable.space not in self.sizes:
            raise UnsupportedError(variable.line, variable.name, f".{variable.space} variable")
        if variable.count == 0:
            self.dynamic.append(variable)
            return
        offset = -(-self.sizes[variable.space] // align) * align
        limit = LOCAL_BYTES if variable.space == "local" else WINDOW_SIZE
        _limit(f"{variable.space} memory", offset + size, limit, line)
        self.symbols[variable.name] = Symbol(variable.space, offset, size)
        self.sizes[variable.space] = offset + size

    def block(self, block: nodes.Block, scope: dict[str, str]) -> None:
        if scope or self.scopes:
            scope = dict(scope)
        self.label(block, scope)
        for item in block.items:
            match item:
                case nodes.Instruction():
                    self.instructions.append(_rename(item, scope) if self.scopes else item)
                case nodes.Label():
                    self.labels[scope.get(item.name, item.name)] = len(self.instructions)
                case nodes.Registers():
                    self.declare(item, scope)
                case nodes.Variable():
                    self.variable(item)
                case nodes.Block():
                    self.scopes += 1
                    self.block(item, scope)
                case _:
                    pass

    def label(self, block: nodes.Block, scope: dict[str, str]) -> None:
        """Name a block's labels: those of inline asm are its own, and used before they stand."""
        for item in block.items:
            if isinstance(item, nodes.Label):
                name = f"{item.name}#{self.scopes}" if self.scopes else item.name
                if name in self.labels:
                    raise PtxSyntaxError(item.line, f"label '{item.name}' stands twice")
                self.labels[name] = 0
                scope[item.name] = name

    def declare(self, item: nodes.Registers, scope: dict[str, str]) -> None:
        try:
            bank = _BANKS["pred" if item.type == "pred" else str(type_bits(item.type))]
        except (KeyError, ValueError):
            raise UnsupportedError(item.line, item.type, "register type") from None
        if item.count is not None and item.count < 0:
            raise PtxSyntaxError(item.line, f"{item.count} registers '{item.name}'")
        if (item.count or 1) + self.rows[bank] > REGISTERS:
            raise UnsupportedError(item.line, item.name, f"more than {REGISTERS} registers")
        names = [item.name]
        if item.count is not None:
            names = [f"{item.name}{i}" for i in range(item.count)]
        for name in names:
            unique = name
            if self.scopes:
                # Inside braces: inline asm declares the same names again and again.
                unique = f"{name}#{self.scopes}"
                scope[name] = unique
            if unique in self.registers:
                raise PtxSyntaxError(item.line, f"register '{name}' is declared twice")
            self.registers[unique] = Register(bank, self.rows[bank])
            self.rows[bank] += 1


def _element(kind: str, line: int) -> int:
    """Bytes of an element of a type."""
    try:
        bits = type_bits(kind)
    except ValueError:
        bits = 0
    if bits not in (8, 16, 32, 64, 128):
        raise PtxSyntaxError(line, f"unknown type '.{kind}'")
    return bits // 8


def _alignment(align: int, line: int) -> int:
    if align <= 0 or align & (align - 1) or align > 1 << 20:
        raise PtxSyntaxError(line, f"an alignment of {align} bytes")
    return align


def _limit(what: str, size: int, limit: int, line: int) -> None:
    if size < 0 or size > limit:
        raise UnsupportedError(line, what, f"{size} bytes; the limit is {limit}")


def _rename(ins: nodes.Instruction, scope: dict[str, str]) -> nodes.Instruction:
    guard = ins.guard
    if guard is not None and guard.predicate in scope:
        guard = nodes.Guard(scope[guard.predicate], guard.negated)
    return replace(ins, guard=guard, operands=tuple(_renamed(o, scope) for o in ins.operands))


def _renamed(operand: nodes.Operand, scope: dict[str, str]) -> nodes.Operand:
    match operand:
        case nodes.Name():
            return nodes.Name(scope.get(operand.text, operand.text))
        case nodes.Negated():
            return nodes.Negated(nodes.Name(scope.get(operand.operand.text, operand.operand.text)))
        case nodes.Vector():
            return replace(operand, items=tuple(_renamed(o, scope) for o in operand.items))
        case nodes.Pair():
            return nodes.Pair(_renamed(operand.first, scope), _renamed(operand.second, scope))
        case nodes.Address():
            base = operand.base
            if isinstance(base, nodes.Name):
                base = nodes.Name(scope.get(base.text, base.text))
            return nodes.Address(
                base, operand.offset, tuple(_renamed(o, scope) for o in operand.extra)
            )
        case _:
            return operand
