"""mov, cvta, ld.param and packing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.windows import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


def unsigned(code: str) -> str:
    """The raw view of a type: bits move, numbers stay out of it."""
    return "pred" if code == "pred" else "u" + code[1:]


@semantics("mov", operands=2)
def _mov(emitter: Emitter, ins: Instruction) -> None:
    emitter.modifiers(ins, set())
    target, source = ins.operands
    code = code_of(ins.opcode[-1])
    if isinstance(target, nodes.Vector):
        _unpack(emitter, ins, target, source, code)
    elif isinstance(source, nodes.Vector):
        _pack(emitter, ins, target, source, code)
    else:
        if isinstance(source, nodes.Immediate) and code != "pred":
            value = emitter.source(source, code, ins)
            emitter.copy(emitter.target(target, code, ins), value)
            return
        raw = unsigned(code)
        emitter.copy(emitter.target(target, raw, ins), emitter.source(source, raw, ins))


def _part(emitter: Emitter, ins: Instruction, vector: nodes.Vector, code: str) -> int:
    """Bits of each of the parts that make a register."""
    bits, count = int(code[1:]), len(vector.items)
    if count not in (2, 4) or bits // count not in (16, 32):
        raise emitter.fail(
            ins, f"{count} parts of {bits} bits; two or four of 16 or 32 each are read"
        )
    return bits // count


def _unpack(
    emitter: Emitter, ins: Instruction, target: nodes.Vector, source: nodes.Operand, code: str
) -> None:
    part = _part(emitter, ins, target, code)
    whole = emitter.source(source, f"u{code[1:]}", ins)
    for i, item in enumerate(target.items):
        if isinstance(item, nodes.Name) and item.text == "_":
            continue
        out = emitter.target(item, f"u{part}", ins)
        emitter.copy(out, f"{whole}.view(d_u{part})[{i}::{len(target.items)}]")


def _pack(
    emitter: Emitter, ins: Instruction, target: nodes.Operand, source: nodes.Vector, code: str
) -> None:
    part = _part(emitter, ins, source, code)
    # Through scratch: the target's row may be seen by a source only when they are one register.
    whole = emitter.scratch(f"u{code[1:]}")
    for i, item in enumerate(source.items):
        value = emitter.source(item, f"u{part}", ins)
        emitter.line(f"{whole}.view(d_u{part})[{i}::{len(source.items)}] = {value}")
    emitter.copy(emitter.target(target, f"u{code[1:]}", ins), whole)


@semantics("cvta", operands=2)
def _cvta(emitter: Emitter, ins: Instruction) -> None:
    """Global addresses are their own generic address; all others get a window."""
    words = set(ins.opcode[1:-1])
    code = code_of(ins.opcode[-1])
    out = emitter.target(ins.operands[0], code, ins)
    value = emitter.source(ins.operands[1], code, ins)
    space = (words - {"to"}).pop() if len(words - {"to"}) == 1 else ""
    window = {"global": 0, "const": 0, "param": PARAM_WINDOW}.get(space)
    if space in ("shared", "shared::cta", "shared::cluster"):
        window = SHARED_WINDOW
    elif space == "local":
        window = LOCAL_WINDOW
    if window is None:
        raise emitter.fail(ins, "unknown address space")
    if window == 0:
        emitter.copy(out, value)
    else:
        function = "subtract" if "to" in words else "add"
        emitter.ufunc(function, out, value, emitter.constant(code, window))


@semantics("ld.param", "ldu.param")
def _ld_param(emitter: Emitter, ins: Instruction) -> None:
    kind = ins.opcode[-1]
    words = set(ins.opcode[2:-1])
    if not words <= {"v2", "v4", "entry"}:
        raise emitter.fail(ins, "unsupported modifier")
    address = ins.operands[1]
    if not isinstance(address, nodes.Address) or not isinstance(address.base, nodes.Name):
        raise emitter.fail(ins, "a parameter address was expected")
    slot = emitter.parameters.get(address.base.text)
    if slot is None:
        raise emitter.fail(ins, f"no parameter '{address.base.text}'")
    width = int(code_of(kind)[1:]) // 8
    offset = slot.offset + address.offset
    targets = ins.operands[0]
    items = targets.items if isinstance(targets, nodes.Vector) else (targets,)
    if not items:
        raise emitter.fail(ins, "a destination was expected")
    if address.offset < 0 or address.offset + width * len(items) > slot.size:
        raise emitter.fail(ins, "the access runs over the end of the parameter")
    if offset % (width * len(items)):
        raise emitter.fail(ins, f"an address that is no multiple of {width * len(items)} bytes")
    for i, item in enumerate(items):
        bits = emitter.bits(item, ins)
        sign = "s" if kind[0] == "s" else "u"
        out = emitter.target(item, f"{sign}{bits}", ins)
        load = f"{sign}{width * 8}"
        emitter.copy(out, f"parameter({offset + i * width}, d_{load})")


@runtime
def parameter(context: Context, offset: int, dtype: np.dtype[Any]) -> Any:
    """A scalar from the parameter block."""
    return np.frombuffer(context.parameters, dtype, 1, offset)[0]
