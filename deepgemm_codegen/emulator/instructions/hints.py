"""Instructions that only hint: they change speed, never values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.registry import semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction


_SPACES = {"global", "local", "param", "const", "L1", "L2"}
_LEVELS = {f"L2::evict_{how}" for how in ("first", "last", "normal", "unchanged")}
# The words that may follow each opcode.
_WORDS: dict[str, set[str]] = {
    "prefetch": _SPACES | _LEVELS | {"tensormap"},
    "prefetchu": {"L1"},
    "discard": {"global", "L2"},
    "applypriority": {"global"} | _LEVELS,
    "nanosleep": {"u32"},
    "pmevent": {"mask"},
    "createpolicy": {"fractional", "range", "cvt", "L2", "global", "b64"} | _LEVELS,
}


def _check(emitter: Emitter, ins: Instruction) -> None:
    unknown = set(ins.opcode[1:]) - _WORDS[ins.opcode[0]]
    if unknown:
        raise emitter.fail(ins, f"unsupported modifier {', '.join(sorted(unknown))}")


@semantics("createpolicy")
def _createpolicy(emitter: Emitter, ins: Instruction) -> None:
    """An opaque cache policy; nothing here looks into it."""
    _check(emitter, ins)
    out = emitter.target(ins.operands[0], "u64", ins)
    emitter.copy(out, emitter.constant("u64", 0))


@semantics(
    "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "pmevent", destinations=0
)
def _nothing(emitter: Emitter, ins: Instruction) -> None:
    _check(emitter, ins)
