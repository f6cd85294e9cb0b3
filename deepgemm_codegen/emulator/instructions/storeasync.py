"""st.async: a thread writes a few bytes of a block's shared memory, which an mbarrier counts.

As with bulk copies, the bytes are written when the store is issued; the listeners know when they
count as there: with the mbarrier's phase. It is no access of the async proxy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.instructions.bulk import shared_address, targets
from deepgemm_codegen.emulator.instructions.mbarrier import (
    EFFECTS,
    active_lanes,
    check_phase,
    find,
    land_bytes,
)
from deepgemm_codegen.emulator.listeners import Region
from deepgemm_codegen.emulator.registry import runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_VECTORS = {"v2": 2, "v4": 4}
_TYPES = {"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}


@dataclass(frozen=True, slots=True)
class _Store:
    """What is fixed of one store.

    Attributes:
        number: of the instruction.
        target, barrier: constant offset of each address.
        width: bytes of an element.
        count: elements.
    """

    number: int
    target: int
    barrier: int
    width: int
    count: int

    @property
    def total(self) -> int:
        """Bytes that a thread writes."""
        return self.width * self.count


def _count(ins: Instruction) -> int:
    return next((_VECTORS[word] for word in ins.opcode if word in _VECTORS), 1)


def _width(ins: Instruction) -> int:
    return min(16, _count(ins) * int(code_of(ins.opcode[-1])[1:]) // 8)


@semantics("st.async", destinations=0, effects=EFFECTS, asynchronous=True, operands=3,
           shared_width=_width)  # fmt: skip
def _st_async(emitter: Emitter, ins: Instruction) -> None:
    words, kind = [w for w in ins.opcode[2:-1] if w not in _VECTORS], ins.opcode[-1]
    if words[:1] == ["weak"]:
        words = words[1:]
    if words != ["shared::cluster", "mbarrier::complete_tx::bytes"] or kind not in _TYPES:
        raise emitter.fail(ins, "unsupported modifier or type")
    target, target_offset = shared_address(emitter, ins, ins.operands[0])
    barrier, barrier_offset = shared_address(emitter, ins, ins.operands[2])
    operand = ins.operands[1]
    items = operand.items if isinstance(operand, nodes.Vector) else (operand,)
    if len(items) != _count(ins):
        raise emitter.fail(ins, f"{_count(ins)} sources were expected")
    sources = ", ".join(emitter.source(item, code_of(kind), ins) for item in items)
    width = int(code_of(kind)[1:]) // 8
    store = _Store(emitter.site(ins), target_offset, barrier_offset, width, len(items))
    emitter.line(
        f"store_async({emitter.object(store)}, {target}, ({sources},), {barrier}, {emitter.mask})"
    )


# -- at run time --


@runtime
def store_async(
    context: Context,
    store: _Store,
    target: Array,
    sources: tuple[Array, ...],
    barrier: Array,
    mask: Array | None,
) -> None:
    """Write shared memory, of whichever block, and count the bytes at its mbarrier."""
    raw = RAW[store.width]
    for lane in active_lanes(context, mask).tolist():
        places = (int(target[lane]) + store.target, int(barrier[lane]) + store.barrier)
        (((block, offset), signal),) = targets(context, store.number, lane, places, None)
        if _misplaced(context, store, lane, (block, offset), signal):
            continue
        counting = find(context, store.number, signal, lane)
        if counting is None:
            continue
        flat = offset + block * context.shared.stride + np.arange(store.count) * store.width
        region = Region(flat, np.array([lane]), store.number, store.width, proxied=False)
        check_phase(context, counting, region.lanes, store.number)
        for listener in context.shared.listeners:
            listener.use(counting, region.lanes, store.number, "a store to")
            listener.land(region, counting)
        words = np.array([source[lane] for source in sources]).view(raw)
        context.shared.views[store.width][flat // store.width] = words
        land_bytes(context, counting, store.total, store.number, lane)


def _misplaced(
    context: Context,
    store: _Store,
    lane: int,
    place: tuple[int, int],
    signal: tuple[int, int],
) -> bool:
    """Whether a store goes nowhere: a finding then says so."""
    (block, offset), size = place, context.shared.nbytes
    kind = said = ""
    if block < 0:
        kind, said = "bad-rank", "a store to a block that its cluster does not have"
    elif signal[0] != block:
        kind, said = "bad-rank", "a store to another block than its mbarrier's"
    elif offset % store.total:
        kind, said = "misaligned", f"a store of {store.total} bytes to {offset:#x}"
    elif not 0 <= offset <= size - store.total:
        kind = "out-of-bounds-write"
        said = f"a store of {store.total} bytes outside the block's {size} bytes"
    if kind:
        context.collector.add(kind, said, store.number, lane, address=offset)
    return bool(kind)
