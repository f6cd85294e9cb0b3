"""wgmma when it runs: operands taken at issue, products added to sums in flight, waits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.descriptors import chunks
from deepgemm_codegen.emulator.fragments import a_elements
from deepgemm_codegen.emulator.instructions.cluster import whole_warpgroups
from deepgemm_codegen.emulator.listeners import Agent, Region
from deepgemm_codegen.emulator.registry import runtime
from deepgemm_codegen.emulator.warpgroup import (
    LANES,
    POISON,
    Accumulator,
    Product,
    Warpgroup,
    from_registers,
)

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context

__all__ = ["A_REGISTERS"]

Array = np.ndarray[Any, np.dtype[Any]]

A_REGISTERS = 4
"""Registers of A a lane: 64 rows of 32 bytes in 128 lanes."""


def _group(context: Context, start: int) -> Warpgroup:
    group = context.state.warpgroups.get(start)
    if group is None:
        group = Warpgroup(start, np.arange(start, start + LANES))
        context.state.warpgroups[start] = group
    return group


@runtime
def warpgroup_fence(context: Context, site: int, mask: Array | None) -> None:
    """What ordinary instructions did to registers, later wgmma may rely on."""
    for start in whole_warpgroups(context, site, mask):
        group = _group(context, start)
        group.fenced = True
        group.dirty.clear()


@runtime
def warpgroup_multiply(
    context: Context,
    product: Product,
    a: Array | None,
    b: Array,
    keep: Array | bool,
    mask: Array | None,
) -> None:
    """Take the operands, and add the product to the sums in flight."""
    for start in whole_warpgroups(context, product.number, mask):
        group = _group(context, start)
        kept = (
            keep
            if isinstance(keep, bool)
            else bool(_uniform(context, product, group, keep, "scale"))
        )
        time = group.committed + 1
        if a is None:
            left = _from_registers(context, product, group)
        else:
            left = _operand(context, product, group, 0, a, time)
        right = _operand(context, product, group, 1, b, time)
        if product.negate:
            left = left ^ left.dtype.type(1 << (left.itemsize * 8 - 1))
        sums = _sums(context, product, group)
        if not kept:
            sums.a, sums.b = [], []
            sums.matrix = np.zeros_like(sums.matrix)
        sums.add(product, left, right)
        sums.group, sums.site = time, product.number
        if product.a_rows is not None:
            group.held[product.a_rows.tobytes()] = (time, product.number, product.a_rows)
        group.unsettled = (time, product.number)


def _sums(context: Context, product: Product, group: Warpgroup) -> Accumulator:
    """The accumulators in flight, taken out of the registers where they were not."""
    used = product.rows.tolist()
    if product.a_rows is not None:
        used += product.a_rows.tolist()
    if not group.fenced or (group.dirty and not group.dirty.isdisjoint(used)):
        _no_fence(context, product.number, group.start)
        group.fenced = True
        group.dirty.clear()
    sums = group.flight.get(product.key)
    if sums is None:
        wanted = set(product.rows.tolist())
        for other in group.flight.values():
            if wanted.intersection(other.rows.tolist()):
                context.collector.add(
                    "accumulator-in-flight",
                    "wgmma takes registers that another one in flight still writes",
                    product.number,
                    group.start,
                    other=(other.site, group.start),
                )
        bank = context.banks["r"]
        registers = bank[product.rows, group.part]
        sums = Accumulator(product.rows, product.sums, from_registers(registers, product.sums))
        bank[product.rows, group.part] = POISON
        group.flight[product.key] = sums
        context.state.hot[group.start] = group
    return sums


def _uniform(context: Context, product: Product, group: Warpgroup, value: Array, what: str) -> int:
    """A value that all threads of the warpgroup must agree on."""
    values = value[group.part]
    if not (values == values[0]).all():
        context.collector.add(
            "divergent-instruction",
            f"threads of a warpgroup give wgmma different values for its {what}",
            product.number,
            group.start,
        )
    return int(values[0])


def _operand(
    context: Context,
    product: Product,
    group: Warpgroup,
    which: int,
    value: Array,
    time: int,
) -> Array:
    """An operand's patterns, (k, rows), by its descriptor."""
    descriptor = _uniform(context, product, group, value, "descriptor")
    operand = product.b if which else product.a
    offsets, fault = chunks(operand, descriptor, context.shared.nbytes)
    if fault:
        context.collector.add("bad-descriptor", fault, product.number, group.start)
    flat = offsets + group.start // context.threads * context.shared.stride
    words = context.shared.views[16].take(flat >> 4)
    region = Region(flat, group.lanes, product.number)
    agent = Agent("wgmma", group.start)
    for listener in context.shared.listeners:
        poison = listener.fetch(region, agent, time)
        if poison is not None:
            words.view(np.uint64).reshape(-1, 2)[poison] = np.uint64(2**64 - 1)
    elements = words.view(product.unit(which))
    if operand.transposed:
        return elements.reshape(product.k, operand.rows)
    return np.ascontiguousarray(elements.reshape(operand.rows, product.k).T)


@cache
def _fragment(k: int, parts: int) -> Array:
    """Index into (registers, lanes, parts) of each element of A, (k, 64)."""
    row, depth = a_elements(k, parts)
    at = np.arange(row.size).reshape(A_REGISTERS, 32, parts)
    register, lane, part = np.unravel_index(at, row.shape)
    result = np.empty((k, 64), np.int64)
    for warp in range(4):
        flat = (register * LANES + 32 * warp + lane) * parts + part
        result[depth, 16 * warp + row] = flat
    return result


def _from_registers(context: Context, product: Product, group: Warpgroup) -> Array:
    """A's patterns, (k, 64), out of registers; each warp has 16 rows, as mma.sync has them."""
    unit = product.unit(0)
    registers = np.ascontiguousarray(context.banks["r"][product.a_rows, group.part])
    return registers.view(unit).reshape(-1).take(_fragment(product.k, 4 // unit.itemsize))


@runtime
def warpgroup_commit(context: Context, site: int, mask: Array | None) -> None:
    """Close the warpgroup's group; an empty one counts."""
    for start in whole_warpgroups(context, site, mask):
        _group(context, start).committed += 1


@runtime
def warpgroup_wait(context: Context, site: int, allowed: int, mask: Array | None) -> None:
    """Wait for all but the newest ``allowed`` groups."""
    for start in whole_warpgroups(context, site, mask):
        group = _group(context, start)
        done = group.committed - allowed
        if done <= 0:
            continue
        group.settle(done, context.banks["r"])
        if not group.flight:
            context.state.hot.pop(start, None)
        for listener in context.shared.listeners:
            listener.settle(Agent("wgmma", start), group.lanes, done)


def _no_fence(context: Context, site: int, lane: int, other: int = -1) -> None:
    context.collector.add(
        "missing-fence",
        "wgmma uses registers with no wgmma.fence after the instructions that wrote them",
        site,
        lane,
        other=None if other < 0 else (other, lane),
    )


@runtime
def touch_unfenced(context: Context, site: int, other: int, mask: Array | None) -> None:
    """A deferred instruction used what an ordinary one wrote just before."""
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if lanes.size:
        _no_fence(context, site, int(lanes[0]), other)


@runtime
def touch_early(context: Context, site: int, other: int, mask: Array | None) -> None:
    """An instruction used what a deferred one before it still writes."""
    active = context.alive if mask is None else mask
    lanes = np.flatnonzero(active)
    if lanes.size:
        context.collector.add(
            "accumulator-in-flight",
            "an instruction touches registers that wgmma still writes: no wait_group before it",
            site,
            int(lanes[0]),
            other=(other, int(lanes[0])),
            count=int(lanes.size),
        )


@runtime
def overrun_operand(context: Context, site: int, other: int, mask: Array | None) -> None:
    """An instruction wrote what a deferred one before it still reads."""
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if lanes.size:
        context.collector.add(
            "operand-in-flight",
            "an instruction writes registers of A that wgmma may still be reading: no wait_group "
            "before it",
            site,
            int(lanes[0]),
            other=(other, int(lanes[0])),
            count=int(lanes.size),
        )
