"""Clusters, warpgroup registers and the fences of Hopper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import nodes
from deepgemm_codegen.emulator.faults import UnsupportedError
from deepgemm_codegen.emulator.instructions.mbarrier import EFFECTS
from deepgemm_codegen.emulator.printer import print_instruction
from deepgemm_codegen.emulator.registry import Semantics, add, runtime, semantics

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.context import Context
    from deepgemm_codegen.emulator.emitter import Emitter
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.program import Program

Array = np.ndarray[Any, np.dtype[Any]]


def _wait_form(_: Program, ins: Instruction) -> None:
    """What a wait at the cluster's barrier may say.

    Raises:
        UnsupportedError: a modifier or operand that it cannot have.
    """
    if ins.operands or not {*ins.opcode[3:]} <= {"acquire", "aligned"}:
        raise UnsupportedError(ins.line, print_instruction(ins), "unsupported modifier or operand")


add(
    ("barrier.cluster.wait",),
    Semantics(
        None,
        0,
        ends_block="cluster-barrier",
        asynchronous=True,
        describe=_wait_form,
        converged=True,
    ),
)


@semantics("barrier.cluster.arrive", destinations=0, effects=EFFECTS, asynchronous=True)
def _arrive(emitter: Emitter, ins: Instruction) -> None:
    emitter.modifiers(ins, {"cluster", "arrive", "release", "relaxed", "aligned"})
    words = set(ins.opcode)
    if not words <= {"barrier", "cluster", "arrive", "release", "relaxed", "aligned"}:
        raise emitter.fail(ins, "unsupported modifier")
    release = "relaxed" not in words
    emitter.line(f"cluster_arrive({emitter.site(ins)}, {release}, {emitter.mask})")


@runtime
def cluster_arrive(context: Context, site: int, release: bool, mask: Array | None) -> None:
    """Count arrivals at the cluster's barrier."""
    state = context.state
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    clusters = lanes // (context.threads * state.cluster)
    twice = state.arrived[lanes] > state.completed[clusters]
    if twice.any():
        context.collector.add(
            "divergent-barrier",
            "a second arrival at the cluster's barrier before the first was waited for",
            site,
            int(lanes[twice][0]),
            count=int(twice.sum()),
        )
    state.arrived[lanes] = state.completed[clusters] + 1
    state.recheck = True
    for cluster in np.unique(clusters).tolist():
        for listener in context.shared.listeners:
            listener.cluster_arrive(cluster, lanes[clusters == cluster], release=release)


@semantics("fence.proxy", destinations=0, effects=EFFECTS, asynchronous=True, operands=0)
def _fence_proxy(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[2:] == ("async", "global"):
        return  # says nothing of shared memory, and global memory's proxies are not checked
    if ins.opcode[2:] not in (("async",), ("async", "shared::cta"), ("async", "shared::cluster")):
        raise emitter.fail(ins, "only fence.proxy.async is supported")
    emitter.line(f"fence_proxy({emitter.mask})")


@runtime
def fence_proxy(context: Context, mask: Array | None) -> None:
    """What the lanes wrote becomes fit for asynchronous reads; mbarriers that they made too."""
    lanes = np.flatnonzero(context.alive if mask is None else mask)
    if lanes.size:
        for listener in context.shared.listeners:
            listener.fence(lanes)
        fence_init(context, mask)


@semantics("fence.mbarrier_init", destinations=0, effects=EFFECTS, asynchronous=True)
def _fence_init(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode != ("fence", "mbarrier_init", "release", "cluster"):
        raise emitter.fail(ins, "unsupported modifier")
    emitter.line(f"fence_init({emitter.mask})")


@runtime
def fence_init(context: Context, mask: Array | None) -> None:
    """The mbarriers that the lanes made become visible to the copy engine."""
    active = context.alive if mask is None else mask
    for barrier in context.state.mbarriers.values():
        if active[barrier.lane]:
            barrier.fenced = True


@semantics("setmaxnreg", destinations=0, asynchronous=True, alone=True, collective=True, operands=1)
def _setmaxnreg(emitter: Emitter, ins: Instruction) -> None:
    if ins.opcode[1] not in ("inc", "dec") or ins.opcode[2:] != ("sync", "aligned", "u32"):
        raise emitter.fail(ins, "unsupported modifier")
    count = ins.operands[0]
    if not isinstance(count, nodes.Immediate):
        raise emitter.fail(ins, "a constant was expected")
    number = int(count.text, 0)
    if number % 8 or not 24 <= number <= 256:
        raise emitter.fail(ins, "a multiple of 8 from 24 to 256 was expected")
    more = ins.opcode[1] == "inc"
    emitter.line(f"set_registers({emitter.site(ins)}, {number}, {more}, {emitter.mask})")


@runtime
def set_registers(context: Context, site: int, count: int, more: bool, mask: Array | None) -> None:
    """Registers hold no fewer values here; a warpgroup that gets none is blocked."""
    for start in whole_warpgroups(context, site, mask):
        context.registers.set(start, count, site, more=more)


@runtime
def whole_warpgroups(context: Context, site: int, mask: Array | None) -> list[int]:
    """First lanes of the warpgroups that execute an instruction; a part of one is a finding."""
    parts = [
        (block * context.threads + start, min(128, context.threads - start))
        for block in range(context.blocks)
        for start in range(0, context.threads, 128)
    ]
    active = context.alive if mask is None else mask
    result = []
    for start, size in parts:
        part = active[start : start + size]
        if size == 128 and part.all():
            result.append(start)
        elif part.any():
            context.collector.add(
                "divergent-instruction",
                "a warpgroup-wide instruction that a part of a warpgroup reached",
                site,
                start + int(np.flatnonzero(part)[0]),
                count=int(part.sum()),
            )
    return result


@semantics("elect.sync", operands=2, exact=True, converged=True)
def _elect(emitter: Emitter, ins: Instruction) -> None:
    """The lowest named lane is elected."""
    target = ins.operands[0]
    if not isinstance(target, nodes.Pair):
        raise emitter.fail(ins, "two destinations were expected")
    members = emitter.source(ins.operands[1], "u32", ins)
    emitter.line(f"check_members({emitter.site(ins)}, {members}, {emitter.mask})")
    leader = emitter.scratch("u32")
    emitter.line(f"elect({members}, {leader})")
    if target.first != nodes.Name("_"):
        emitter.copy(emitter.target(target.first, "u32", ins), leader)
    elected = emitter.target(target.second, "pred", ins)
    emitter.copy(elected, f"{emitter.use('s_laneid')} == {leader}")


@runtime
def elect(_: Context, members: Array, out: Array) -> None:
    """Number of the lowest bit of each member mask."""
    low = members & (~members + np.uint32(1))
    out[...] = np.log2(np.maximum(low, 1)).astype(np.uint32)
