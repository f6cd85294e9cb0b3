"""Branches, exits and block barriers: instructions that end a basic block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.findings import StopEmulation
from deepgemm_codegen.emulator.registry import Semantics, add, runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

add(("bra",), Semantics(None, 0, ends_block="branch"))
add(("ret", "exit"), Semantics(None, 0, ends_block="exit"))
add(
    ("bar.sync", "bar.cta.sync", "barrier.sync", "barrier.cta.sync"),
    Semantics(None, 0, ends_block="barrier"),
)
add(("bar.warp.sync",), Semantics(None, 0, ends_block="warp-barrier"))


@semantics("trap", destinations=0)
def _trap(emitter: Emitter, ins: Instruction) -> None:
    emitter.line(f"trap({emitter.site(ins)}, {emitter.mask})")


@runtime
def trap(context: Context, site: int, mask: Array | None) -> None:
    """The kernel gives up: a finding, and the end of the run.

    Raises:
        StopEmulation: some lane executes it.
    """
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if lanes.size:
        message = "the kernel executed a trap"
        context.collector.add("trap", message, site, int(lanes[0]), count=int(lanes.size))
        raise StopEmulation
