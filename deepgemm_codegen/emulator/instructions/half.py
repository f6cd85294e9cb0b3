"""fp16 and bf16 arithmetic, single and packed: each operation rounds once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import numeric
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = ("f16", "bf16", "f16x2", "bf16x2")


@semantics("add", "sub", "mul", "fma", "min", "max", types=_TYPES)
def _arithmetic(emitter: Emitter, ins: Instruction) -> None:
    name, kind = ins.opcode[0], ins.opcode[-1]
    extreme = name in ("min", "max")
    words = emitter.modifiers(ins, {"NaN"} if extreme else {"rn"})
    if len(ins.operands) != 3 + (name == "fma"):
        raise emitter.fail(ins, f"{3 + (name == 'fma')} operands were expected")
    code = "u32" if kind.endswith("x2") else "u16"
    sources = [emitter.source(o, code, ins) for o in ins.operands[1:]]
    out = emitter.target(ins.operands[0], code, ins)
    operation = name + (".NaN" if "NaN" in words else "")
    emitter.copy(
        out,
        f"half('{operation}', '{kind[:-2] if code == 'u32' else kind}', ({', '.join(sources)},))",
    )


@semantics("neg", "abs", types=_TYPES, operands=2)
def _sign(emitter: Emitter, ins: Instruction) -> None:
    """The sign bit alone, but of a NaN, which becomes the canonical one."""
    emitter.modifiers(ins, set())
    kind = ins.opcode[-1]
    code = "u32" if kind.endswith("x2") else "u16"
    source = emitter.source(ins.operands[1], code, ins)
    out = emitter.target(ins.operands[0], code, ins)
    negate = ins.opcode[0] == "neg"
    emitter.copy(out, f"half_sign({source}, '{kind.removesuffix('x2')}', {negate})")


@runtime
def half_sign(_: Context, source: Array, kind: str, negate: bool) -> Array:
    """Halves with their sign turned, or without it; packed ones are seen as twice as many."""
    halves = np.ascontiguousarray(source).view(np.uint16)
    turned = halves ^ np.uint16(0x8000) if negate else halves & np.uint16(0x7FFF)
    largest = np.uint16(0x7C00 if kind == "f16" else 0x7F80)  # the infinity
    nan = (halves & np.uint16(0x7FFF)) > largest
    return np.where(nan, numeric.NAN16, turned).view(source.dtype)


@runtime
def half(_: Context, operation: str, kind: str, sources: tuple[Array, ...]) -> Array:
    """One operation on raw halves; packed operands are seen as twice as many."""
    dtype = sources[0].dtype
    halves = [np.ascontiguousarray(s).view(np.uint16) for s in sources]
    if kind == "f16":
        single = [h.view(np.float16).astype(np.float32) for h in halves]
    else:
        single = [numeric.widen_bf16(h) for h in halves]
    wide = [s.astype(np.float64) for s in single]
    if operation in ("min", "max", "min.NaN", "max.NaN"):
        function = numeric.minimum32 if operation.startswith("min") else numeric.maximum32
        result = function(single[0], single[1], propagate=operation.endswith("NaN"))
        bits = numeric.round_to_f16(result) if kind == "f16" else numeric.round_to_bf16(result)
        return bits.view(dtype)
    if operation == "add":
        total = numeric.odd_sum(wide[0], wide[1])
    elif operation == "sub":
        total = numeric.odd_sum(wide[0], -wide[1])
    elif operation == "mul":
        total = wide[0] * wide[1]
    else:
        total = numeric.odd_sum(wide[0] * wide[1], wide[2])
    bits = numeric.round_to_f16(total) if kind == "f16" else numeric.narrow_to_bf16(total)
    return bits.view(dtype)
