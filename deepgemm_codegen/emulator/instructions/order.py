"""Memory order: which words of an opcode mean it, and the fences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.listeners import LANE_MASK, Order, Strong
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["MEMORY", "SCOPES", "STRONG", "order_of", "orders_blocks", "synchronise"]

Array = np.ndarray[Any, np.dtype[Any]]

MEMORY = (("shared", "write"), ("global", "write"))
"""Effects of what keeps its place among all accesses."""
SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
STRONG = frozenset({"relaxed", "acquire", "release", "acq_rel", "volatile"})


def order_of(
    emitter: Emitter, ins: Instruction, words: set[str], default: str = ""
) -> Order | None:
    """The order that an opcode's words ask for; None for an ordinary (weak) access.

    Args:
        emitter: for the error.
        ins: the instruction.
        words: all its words, or those of the opcode that remain to be looked at.
        default: the order where none is named: ``relaxed`` for atomic operations.

    Raises:
        UnsupportedError: two orders or scopes, or one without the other.
    """
    orders, scopes = words & (STRONG | {"weak"}), words & SCOPES
    if len(orders) > 1 or len(scopes) > 1:
        raise emitter.fail(ins, "two memory orders or scopes")
    order = next(iter(orders), default)
    if order in ("", "weak", "volatile"):
        if scopes:
            raise emitter.fail(ins, "a scope without a memory order")
        return Order() if order == "volatile" else None
    if not scopes and not default:
        raise emitter.fail(ins, "a memory order without a scope")
    return Order(order.startswith("acq"), order in ("release", "acq_rel"), wide=scopes != {"cta"})


def orders_blocks(ins: Instruction) -> bool:
    """Whether an access or a fence may order threads of different blocks, or reaches into one."""
    words = set(ins.opcode)
    if "shared::cluster" in words:
        return True
    if words & {"acquire", "release", "acq_rel", "sc"} or ins.opcode[0] in ("fence", "membar"):
        return "cta" not in words
    return False


def synchronise(
    context: Context, places: Array, ids: Array, order: Order, *, reads: bool, writes: bool
) -> None:
    """Tell the checks of strong accesses to global memory (addresses, identities)."""
    if not places.size:
        return
    what = Strong("global", places, ids & LANE_MASK, order, reads, writes)
    for listener in context.shared.listeners:
        listener.synchronise(what)


@semantics("membar", destinations=0, effects=MEMORY, operands=0, asynchronous=orders_blocks)
def _membar(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[1:] not in (("cta",), ("gl",), ("sys",)):
        raise emitter.fail(ins, "cta, gl or sys was expected")
    order = emitter.object(Order(acquire=True, release=True, wide=ins.opcode[1] != "cta"))
    emitter.line(f"fence_memory({order}, {emitter.mask})")


@semantics("fence", destinations=0, effects=MEMORY, operands=0, asynchronous=orders_blocks)
def _fence(emitter: Emitter, ins: Instruction) -> None:
    """``sc`` and ``acq_rel`` are one thing here: strong accesses take effect one by one."""
    words = ins.opcode[1:]
    kinds = ("sc", "acq_rel", "acquire", "release")
    if len(words) == 1 and words[0] in SCOPES:
        words = ("acq_rel", *words)
    if len(words) != 2 or words[0] not in kinds or words[1] not in SCOPES:
        raise emitter.fail(ins, "a memory order and a scope were expected")
    order = Order(words[0] != "release", words[0] != "acquire", wide=words[1] != "cta")
    emitter.line(f"fence_memory({emitter.object(order)}, {emitter.mask})")


@runtime
def fence_memory(context: Context, order: Order, mask: Array | None) -> None:
    """Memory takes effect at once here; a fence orders accesses for the checks."""
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if lanes.size:
        for listener in context.shared.listeners:
            listener.fence_memory(lanes, order)
