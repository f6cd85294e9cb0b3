"""Branches and exits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.findings import StopEmulation
from deepgemm_codegen.emulator.printer import print_instruction
from deepgemm_codegen.emulator.registry import Semantics, add, runtime, semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.program import Program

Array = np.ndarray[Any, np.dtype[Any]]

_CALLS = "calls are not supported: functions have to be inlined (__forceinline__)"
_TABLES = "branches through a table are not supported: replace the switch"


def _plain(words: int, operands: int) -> Callable[[Program, Instruction], None]:
    """A check that an instruction has only ``.uni`` beside so many words, and so many operands."""

    def describe(_: Program, ins: Instruction) -> None:
        extra = ins.opcode[words:]
        if extra not in ((), ("uni",)) or len(ins.operands) != operands:
            reason = "unsupported modifier or number of operands"
            raise UnsupportedError(ins.line, print_instruction(ins), reason)

    return describe


add(("bra",), Semantics(None, 0, ends_block="branch", describe=_plain(1, 1)))
add(("ret", "exit"), Semantics(None, 0, ends_block="exit", describe=_plain(1, 0)))


@semantics("call", "brx", destinations=0)
def _refused(emitter: Emitter, ins: Instruction) -> None:
    raise emitter.fail(ins, _CALLS if ins.opcode[0] == "call" else _TABLES)


@semantics("trap", destinations=0, operands=0, exact=True)
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
