"""Branches, exits and block barriers: instructions that end a basic block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.registry import Semantics, add, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

add(("bra",), Semantics(None, 0, ends_block="branch"))
add(("ret", "exit"), Semantics(None, 0, ends_block="exit"))
add(
    ("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync"),
    Semantics(None, 0, ends_block="barrier"),
)
add(("bar.warp.sync",), Semantics(None, 0, ends_block="warp-barrier"))


@semantics("membar", "fence", destinations=0, effects=(("shared", "write"), ("global", "write")))
def _fence(emitter: Emitter, ins: Instruction) -> None:
    """Memory takes effect at once here; a fence only keeps its place among the accesses."""
    if ins.opcode[:2] == ("fence", "proxy"):
        raise emitter.fail(ins, "proxies are not modelled yet")


@semantics("trap", destinations=0)
def _trap(emitter: Emitter, ins: Instruction) -> None:
    emitter.line(f"trap({emitter.site(ins)}, {emitter.mask})")
