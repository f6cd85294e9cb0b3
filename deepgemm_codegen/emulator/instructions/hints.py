"""Instructions that only hint: they change speed, never values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.registry import semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction


@semantics("createpolicy")
def _createpolicy(emitter: Emitter, ins: Instruction) -> None:
    """An opaque cache policy; nothing here looks into it."""
    out = emitter.target(ins.operands[0], "u64", ins)
    emitter.copy(out, emitter.constant("u64", 0))


@semantics("prefetch", "prefetchu", "discard", "nanosleep", destinations=0)
def _nothing(_emitter: Emitter, _ins: Instruction) -> None:
    pass
