"""Says who waits for what when no thread can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.machine import Machine

__all__ = ["report_deadlock"]

Array = np.ndarray[Any, np.dtype[Any]]


def report_deadlock(machine: Machine) -> None:
    """One finding that names each stuck warp, what it waits at, and the PTX line."""
    context = machine.context
    stuck = np.flatnonzero(machine.alive)
    groups: dict[str, list[int]] = {}
    for warp in np.unique(stuck // 32).tolist():
        lanes = stuck[stuck // 32 == warp]
        for what in dict.fromkeys(_what(machine, lane) for lane in lanes.tolist()):
            groups.setdefault(what, []).append(warp)
    lines = [f"{_warps(machine, warps)} {what}" for what, warps in groups.items()]
    lane = int(stuck[0])
    request = machine.registers.request(lane)
    site = machine.wait_site[lane]
    if request is not None:
        site = request.site
    elif machine.state.asleep[lane]:
        site = machine.state.wait_site[lane]
    context.collector.add(
        "deadlock",
        "no thread can go on: these wait at a barrier that the others never reach: "
        + "; ".join(lines),
        int(site),
        lane,
        count=int(stuck.size),
    )


def _what(machine: Machine, lane: int) -> str:
    """What a lane waits at."""
    state = machine.state
    if machine.waiting[lane] == -1 and state.asleep[lane]:
        number, parity = int(state.wait_barrier[lane]), int(state.wait_parity[lane])
        line = _line(machine, int(state.wait_site[lane]))
        for barrier in state.mbarriers.values():
            if barrier.number == number:
                where = f"offset {barrier.address:#x} of block {_block(machine, barrier.block)}"
                return (
                    f"at PTX line {line} for parity {parity} of the mbarrier at {where} "
                    f"({barrier.state()})"
                )
        return f"at PTX line {line} for an mbarrier that is gone"
    request = machine.registers.request(lane)
    if request is not None:
        free = machine.registers.free(request.start)
        return (
            f"at PTX line {_line(machine, request.site)} for {request.more} more registers a "
            f"thread (the block's pool holds {free})"
        )
    line = _line(machine, int(machine.wait_site[lane]))
    kind = int(machine.waiting[lane])
    name = {
        -1: "nowhere",
        -2: "a warp barrier",
        -3: "the cluster's barrier",
        -4: "an instruction that the rest of its warpgroup never reaches",
    }.get(kind, f"barrier {kind}")
    return f"at PTX line {line} at {name}"


def _line(machine: Machine, site: int) -> int:
    return machine.translation.program.instructions[site].line


def _block(machine: Machine, number: int) -> tuple[int, int, int]:
    """Index of a block of the batch."""
    look = machine.context.collector.lookup
    return (number, 0, 0) if look is None else look.actor(number * machine.context.threads).block


def _warps(machine: Machine, warps: list[int]) -> str:
    """``warps 4 to 7 of block (0, 0, 0)``, for warps of the batch."""
    per_block = machine.context.threads // 32
    parts = []
    for block in dict.fromkeys(w // per_block for w in warps):
        mine = [w % per_block for w in warps if w // per_block == block]
        runs: list[list[int]] = []
        for warp in mine:
            if runs and warp == runs[-1][1] + 1:
                runs[-1][1] = warp
            else:
                runs.append([warp, warp])
        text = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
        parts.append(f"warp{'s' if len(mine) > 1 else ''} {text} of block {_block(machine, block)}")
    return " and ".join(parts)
