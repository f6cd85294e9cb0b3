"""Several loads or stores of one kind in one call.

Copies through registers and epilogues are long runs of narrow accesses; one numpy call for all of
them costs little more than one for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.buffers import RAW
from deepgemm_codegen.emulator.emitter import code_of
from deepgemm_codegen.emulator.listeners import SITE_SHIFT
from deepgemm_codegen.emulator.registry import runtime

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

__all__ = ["emit", "guard_masks"]

Array = np.ndarray[Any, np.dtype[Any]]
Guards = tuple[tuple[int, bool] | None, ...]

_BANK = {2: "h", 4: "r", 8: "d"}


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Arrays have one element an instruction; ``registers`` is (instructions, elements)."""

    space: str
    width: int  # bytes of an element
    sites: Array
    bank: str
    addresses: Array
    offsets: Array
    registers: Array
    guards: Guards


def emit(
    emitter: Emitter, batch: list[Instruction], space: str, count: int, *, store: bool
) -> bool:
    """Write one call for the batch; False where its operands are not plain registers."""
    width = int(code_of(batch[0].opcode[-1])[1:]) // 8
    if len(batch) < 2 or width not in _BANK or width * count > 16:
        return False
    bank = _BANK[width]
    addresses, registers, address_bank = [], [], ""
    for ins in batch:
        address, value = ins.operands if store else reversed(ins.operands)
        items = value.items if isinstance(value, nodes.Vector) else (value,)
        if not isinstance(address, nodes.Address) or address.extra or len(items) != count:
            return False
        banks = {emitter.bits(address.base, ins)}
        if any(emitter.bits(item, ins) != width * 8 for item in items) or not banks <= {32, 64}:
            return False
        own = "d" if banks == {64} else "r"
        if address_bank not in ("", own):
            return False
        address_bank = own
        addresses.append((emitter.row(address.base, own, ins), address.offset))
        registers.append([emitter.row(item, bank, ins) for item in items])
    accesses = _Accesses(
        space,
        width,
        np.array([emitter.site(ins) for ins in batch], np.int64),
        address_bank,
        np.array([a[0] for a in addresses]),
        np.array([a[1] for a in addresses], np.int64),
        np.array(registers),
        tuple(
            None
            if ins.guard is None
            else (emitter.register(ins.guard.predicate, ins).row, ins.guard.negated)
            for ins in batch
        ),
    )
    function = "store_several" if store else "load_several"
    emitter.line(f"{function}({emitter.object(accesses)}, {emitter.mask})")
    return True


def guard_masks(context: Context, guards: Guards, mask: Array | None) -> Array | None:
    """Which lanes execute each instruction, flat (instructions * lanes); None for all."""
    if mask is None and not any(guards):
        return None
    active = np.ones((len(guards), context.lanes), bool)
    for i, guard in enumerate(guards):
        if guard is not None:
            row = context.banks["p"][guard[0]]
            active[i] = ~row if guard[1] else row
    if mask is not None:
        active &= mask
    return active.reshape(-1)


def _prepare(
    context: Context, accesses: _Accesses, mask: Array | None
) -> tuple[Array, Array, Array | None, Array | None]:
    """Addresses (int64), identities and window bases of the active accesses; their indices."""
    address = context.banks[accesses.bank][accesses.addresses].astype(np.int64)
    address += accesses.offsets[:, None]
    address = address.reshape(-1)
    key = id(accesses)
    cached = context.cache.get(key)
    if cached is None:
        ids = (context.lane_ids + (accesses.sites[:, None] << SITE_SHIFT)).reshape(-1)
        base = context.shared.base
        cached = (ids, None if base is None else np.tile(base, accesses.sites.size))
        context.cache[key] = cached
    ids, base = cached
    active = guard_masks(context, accesses.guards, mask)
    if active is None:
        return address, ids, base, None
    where = np.flatnonzero(active)
    return address[where], ids[where], None if base is None else base[where], where


@runtime
def load_several(context: Context, accesses: _Accesses, mask: Array | None) -> None:
    """Loads that do not depend on each other."""
    address, ids, base, where = _prepare(context, accesses, mask)
    if not address.size:
        return
    count = accesses.registers.shape[1]
    total = accesses.width * count
    if accesses.space == "global":
        values = context.memory.load(address.view(np.uint64), total, ids)
    else:
        values = context.shared.load(address, total, base, ids)
    raw = RAW[accesses.width]
    bank = context.banks[_BANK[accesses.width]]
    shape = (accesses.sites.size, context.lanes, count)
    if where is None:
        bank[accesses.registers] = values.view(raw).reshape(shape).transpose(0, 2, 1)
        return
    new = np.ascontiguousarray(bank[accesses.registers].transpose(0, 2, 1))
    new.reshape(-1, count)[where] = values.view(raw).reshape(-1, count)
    bank[accesses.registers] = new.transpose(0, 2, 1)


@runtime
def store_several(context: Context, accesses: _Accesses, mask: Array | None) -> None:
    """Stores, in order: the later of two to one place wins."""
    address, ids, base, where = _prepare(context, accesses, mask)
    if not address.size:
        return
    total = accesses.width * accesses.registers.shape[1]
    words = context.banks[_BANK[accesses.width]][accesses.registers].transpose(0, 2, 1)
    values = np.ascontiguousarray(words).reshape(-1).view(RAW[total])
    if where is not None:
        values = values[where]
    if accesses.space == "global":
        context.memory.store(address.view(np.uint64), total, values, ids)
    else:
        context.shared.store(address, total, base, ids, values)
