"""Ordinary instructions beside registers that wgmma in flight still reads or writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.schedule import registers_of

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context

__all__ = ["check_untouched", "note_written"]

Array = np.ndarray[Any, np.dtype[Any]]


def note_written(context: Context, pc: int, mask: Array) -> None:
    """Remember that a basic block wrote accumulator registers after its last fence."""
    written = context.translation.blocks[pc].written
    for group in context.state.warpgroups.values():
        if mask[group.part].any():
            group.dirty |= written


def check_untouched(context: Context, pc: int, mask: Array) -> None:
    """Find ordinary instructions of a basic block that touch accumulators in flight."""
    block = context.translation.blocks[pc]
    if not block.touched and not block.overwritten:
        return
    for number, group in context.state.hot.items():
        key = (pc, number, *group.flight, *group.held)
        if key in context.state.checked or not mask[group.part].any():
            continue
        context.state.checked.add(key)
        for sums in group.flight.values():
            rows = block.touched.intersection(sums.rows.tolist())
            if rows:
                context.collector.add(
                    "accumulator-in-flight",
                    "an instruction touches registers that wgmma still writes: no wait_group "
                    "before it",
                    _first_touch(context, pc, rows),
                    group.start + int(np.flatnonzero(mask[group.part])[0]),
                    other=(sums.site, group.start),
                )
        for _, site, held in group.held.values():
            rows = block.overwritten.intersection(held.tolist())
            if rows:
                context.collector.add(
                    "operand-in-flight",
                    "an instruction writes registers of A that wgmma may still be reading: no "
                    "wait_group before it",
                    _first_touch(context, pc, rows, writes_only=True),
                    group.start + int(np.flatnonzero(mask[group.part])[0]),
                    other=(site, group.start),
                )


def _first_touch(
    context: Context, pc: int, rows: frozenset[int], *, writes_only: bool = False
) -> int:
    """The first ordinary instruction of a basic block that names (or writes) one of some rows."""
    program = context.translation.program
    sites = []
    for batch in context.translation.blocks[pc].batches:
        for ins, what in batch:
            reads, writes = registers_of(ins, what.destinations)
            names = writes if writes_only else reads | writes
            if what.deferred:
                names = set() if writes_only else reads
            registers = (program.registers.get(n) for n in names)
            if any(r is not None and r.bank == "r" and r.row in rows for r in registers):
                sites.append(context.translation.names.sites[id(ins)])
    return min(sites)
