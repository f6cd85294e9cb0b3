"""cvt to and from the 8-bit floating types, two at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.float8 import round_to_float8, to_f16
from deepgemm_codegen.emulator.registry import runtime

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["FLOAT8_TYPES", "convert8"]

Array = np.ndarray[Any, np.dtype[Any]]

FLOAT8_TYPES = frozenset({"e4m3x2", "e5m2x2"})


def convert8(emitter: Emitter, ins: Instruction, to: str, source: str, extra: set[str]) -> None:
    """Write one conversion.

    Raises:
        UnsupportedError: types or modifiers that no GPU has.
    """
    if to in FLOAT8_TYPES and source in ("f32", "f16x2"):
        # .satfinite is mandatory: there is no conversion that overflows.
        if extra - {"relu"} != {"rn", "satfinite"}:
            raise emitter.fail(ins, "rn and satfinite were expected")
        if source == "f32":
            high, low = (emitter.source(o, "f32", ins) for o in ins.operands[1:])
        else:
            pair = emitter.source(ins.operands[1], "u32", ins)
            high, low = (f"widen({pair}.view(d_f16)[{i}::2], 'f16')" for i in (1, 0))
        if "relu" in extra:
            high, low = f"rectify({high})", f"rectify({low})"
        out = emitter.target(ins.operands[0], "u16", ins)
        emitter.copy(out, f"narrow_to_float8({high}, {low}, '{to[:-2]}')")
    elif to == "f16x2" and source in FLOAT8_TYPES:
        if extra - {"relu"} != {"rn"}:
            raise emitter.fail(ins, "rn was expected")
        pair = emitter.source(ins.operands[1], "u16", ins)
        out = emitter.target(ins.operands[0], "u32", ins)
        emitter.copy(out, f"widen_float8({pair}, '{source[:-2]}', {'relu' in extra})")
    else:
        raise emitter.fail(ins, "unsupported types")


@runtime
def narrow_to_float8(_: Context, high: Array, low: Array, kind: str) -> Array:
    """Two fp32 to a pair of patterns; what is too large becomes the largest."""
    pair = np.stack([round_to_float8(low, kind), round_to_float8(high, kind)], axis=1)
    return pair.view(np.uint16)[:, 0]


@runtime
def widen_float8(_: Context, pair: Array, kind: str, rectify: bool) -> Array:
    """A pair of patterns to a pair of fp16; exact."""
    halves = to_f16(np.ascontiguousarray(pair).view(np.uint8), kind)
    if rectify:
        negative = (halves > 0x8000) & (halves <= 0xFC00)
        halves = np.where(negative | (halves == 0x8000), np.uint16(0), halves)
    return halves.view(np.uint32)
