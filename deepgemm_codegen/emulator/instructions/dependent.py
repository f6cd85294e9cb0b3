"""griddepcontrol: how kernels of a stream overlap (programmatic dependent launch)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]


@semantics("griddepcontrol.launch_dependents", destinations=0, operands=0, exact=True)
def _launch_dependents(_emitter: Emitter, _ins: Instruction) -> None:
    """A hint to the scheduler: the kernel behind waits all the same."""


@semantics("griddepcontrol.wait", destinations=0, operands=0, exact=True)
def _wait(emitter: Emitter, _ins: Instruction) -> None:
    emitter.line(f"wait_for_grid({emitter.mask})")


@runtime
def wait_for_grid(context: Context, mask: Array | None) -> None:
    """The kernel before has ended, as far as these threads are concerned."""
    lanes = context.lane_ids if mask is None else np.flatnonzero(mask)
    for listener in context.shared.listeners:
        listener.depend(lanes)
