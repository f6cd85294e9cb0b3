"""wgmma: matrix products of a warpgroup with operands in shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.descriptors import Operand, chunks
from deepgemm_codegen.emulator.instructions.cluster import whole_warpgroups
from deepgemm_codegen.emulator.instructions.mbarrier import EFFECTS
from deepgemm_codegen.emulator.listeners import Agent, Region
from deepgemm_codegen.emulator.registry import runtime, semantics
from deepgemm_codegen.emulator.warpgroup import (
    LANES,
    POISON,
    Accumulator,
    Warpgroup,
    from_registers,
)

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_SHAPE = re.compile(r"m64n(\d+)k16")


@dataclass(frozen=True, slots=True)
class _Product:
    """What is fixed of one instruction.

    Attributes:
        number: of the instruction.
        kind: operand type.
        rows: accumulator registers, rows of the 32-bit bank; key identifies them.
        a, b: how the operands are read.
        negate: whether one of the two is negated.
    """

    number: int
    kind: str
    rows: Array
    key: bytes
    a: Operand
    b: Operand
    negate: bool


@semantics(
    "wgmma.mma_async", effects=EFFECTS[:2], asynchronous=True, deferred=True, collective=True
)
def _mma(emitter: Emitter, ins: Instruction) -> None:
    words = ins.opcode[2:]
    shape = _SHAPE.fullmatch(words[2]) if len(words) == 6 else None
    if words[:2] != ("sync", "aligned") or shape is None or words[3] != "f32":
        raise emitter.fail(ins, "unsupported shape or modifier")
    columns, kind = int(shape.group(1)), words[4]
    if kind not in ("f16", "bf16") or words[5] != kind or columns % 8 or not 8 <= columns <= 256:
        raise emitter.fail(ins, "unsupported shape or types")
    if len(ins.operands) != 8 or isinstance(ins.operands[1], nodes.Vector):
        raise emitter.fail(ins, "A and B in shared memory were expected")
    sums, a, b, scale, *flags = ins.operands
    if not isinstance(sums, nodes.Vector) or len(sums.items) != columns // 2:
        raise emitter.fail(ins, f"{columns // 2} accumulators were expected")
    rows = np.array([emitter.row(item, "r", ins) for item in sums.items])
    if np.unique(rows).size != rows.size:
        raise emitter.fail(ins, "an accumulator is named twice")
    numbers = []
    for flag in flags:
        if not isinstance(flag, nodes.Immediate):
            raise emitter.fail(ins, "constants were expected")
        numbers.append(int(flag.text, 0))
    if not {*numbers[:2]} <= {1, -1} or not {*numbers[2:]} <= {0, 1}:
        raise emitter.fail(ins, "scales of 1 or -1 and transpositions of 0 or 1 were expected")
    product = _Product(
        emitter.site(ins),
        kind,
        rows,
        rows.tobytes(),
        Operand(64, transposed=bool(numbers[2])),
        Operand(columns, transposed=bool(numbers[3])),
        numbers[0] * numbers[1] < 0,
    )
    keep = "None"
    if isinstance(scale, nodes.Immediate):
        keep = str(int(scale.text, 0) != 0)
    else:
        keep = emitter.source(scale, "pred", ins)
    left, right = (emitter.source(o, "u64", ins) for o in (a, b))
    emitter.line(
        f"warpgroup_multiply({emitter.object(product)}, {left}, {right}, {keep}, {emitter.mask})"
    )


@semantics(
    "wgmma.fence",
    destinations=0,
    effects=EFFECTS[:2],
    asynchronous=True,
    collective=True,
    fences=True,
    operands=0,
)
def _fence(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[2:] != ("sync", "aligned"):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"warpgroup_fence({emitter.site(ins)}, {emitter.mask})")


@semantics(
    "wgmma.commit_group",
    destinations=0,
    effects=EFFECTS,
    asynchronous=True,
    collective=True,
    operands=0,
)
def _commit(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[2:] != ("sync", "aligned"):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"warpgroup_commit({emitter.site(ins)}, {emitter.mask})")


@semantics(
    "wgmma.wait_group",
    destinations=0,
    effects=EFFECTS,
    asynchronous=True,
    alone=True,
    collective=True,
    operands=1,
)
def _wait(emitter: Emitter, ins: Instruction) -> None:
    count = ins.operands[0]
    if ins.opcode[2:] != ("sync", "aligned") or not isinstance(count, nodes.Immediate):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"warpgroup_wait({emitter.site(ins)}, {int(count.text, 0)}, {emitter.mask})")


# -- at run time --


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
    product: _Product,
    a: Array,
    b: Array,
    keep: Array | bool,
    mask: Array | None,
) -> None:
    """Take the operands, and add the product to the sums in flight."""
    for start in whole_warpgroups(context, product.number, mask):
        group = _group(context, start)
        first, second = (_uniform(context, product, group, d, "descriptor") for d in (a, b))
        kept = (
            keep
            if isinstance(keep, bool)
            else bool(_uniform(context, product, group, keep, "scale"))
        )
        time = group.committed + 1
        left = _operand(context, product, group, product.a, first, time)
        right = _operand(context, product, group, product.b, second, time)
        if product.negate:
            left = left ^ np.uint16(0x8000)
        sums = _sums(context, product, group)
        if not kept:
            sums.a, sums.b = [], []
            sums.matrix = np.zeros_like(sums.matrix)
        sums.add(product.kind, left, right, context.arithmetic)
        sums.group, sums.site = time, product.number
        group.unsettled = (time, product.number)


def _sums(context: Context, product: _Product, group: Warpgroup) -> Accumulator:
    """The accumulators in flight, taken out of the registers where they were not."""
    if not group.fenced or (group.dirty and not group.dirty.isdisjoint(product.rows.tolist())):
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
        sums = Accumulator(product.rows, from_registers(registers.view(np.float32)), 0, 0)
        bank[product.rows, group.part] = POISON
        group.flight[product.key] = sums
        context.state.hot[group.start] = group
    return sums


def _uniform(context: Context, product: _Product, group: Warpgroup, value: Array, what: str) -> int:
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
    product: _Product,
    group: Warpgroup,
    operand: Operand,
    descriptor: int,
    time: int,
) -> Array:
    """An operand's patterns, uint16 (16, rows)."""
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
    halves = words.view(np.uint16)
    if operand.transposed:
        return halves.reshape(16, operand.rows)
    return np.ascontiguousarray(halves.reshape(operand.rows, 16).T)


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
        group.settle(done, context.banks["r"], context.arithmetic)
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
