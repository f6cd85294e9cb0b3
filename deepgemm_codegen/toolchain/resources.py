"""What a compiled kernel takes of an SM, and how many of its blocks fit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deepgemm_codegen.errors import ToolError

__all__ = ["ResourceUsage", "faults", "occupancy", "parse_resources", "without_statistics"]

# ptxas says "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized":
# the kernel still runs, at a fraction of its speed. C7508 drops a setmaxnreg the same way.
_FAULT = re.compile(r"\bC75\d\d\b")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(\w+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_STATISTICS = re.compile(r"^ptxas (?:info    : |        \.  )|^ +\d+ bytes stack frame")


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """One kernel's resources: registers and bytes a thread, shared bytes and barriers a block."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int  # static; the launch adds the dynamic ones
    barriers: int


def parse_resources(log: str) -> dict[str, ResourceUsage]:
    """Reads the statistics of ``ptxas -v``, one entry a kernel, from the log of either compiler.

    Raises:
        ToolError: The statistics are not there or are in a form unknown here.
    """
    found: dict[str, ResourceUsage] = {}
    entry: str | None = None
    function: str | None = None
    frame = (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, frame = match[1], (0, 0, 0)
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif match := _FRAME.search(line):
            if function == entry:
                frame = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and entry is not None:
            barriers, shared = _BARRIERS.search(line), _SHARED.search(line)
            found[entry] = ResourceUsage(
                registers=int(match[1]),
                spill_store_bytes=frame[1],
                spill_load_bytes=frame[2],
                stack_bytes=frame[0],
                shared_bytes=int(shared[1]) if shared else 0,
                barriers=int(barriers[1]) if barriers else 0,
            )
            entry = None
    if not found:
        raise ToolError(f"the compiler gave no resource statistics in its log:\n{log}")
    return found


def faults(log: str) -> list[str]:
    """The lines of a log that say the compiler worked against us (C7508, C7510, ...)."""
    return [line.strip() for line in log.splitlines() if _FAULT.search(line)]


def without_statistics(log: str) -> str:
    """The log without the lines that ``-v`` adds, which include times."""
    kept = [line for line in log.splitlines() if not _STATISTICS.match(line) or "(C" in line]
    return "\n".join(kept).strip("\n") + "\n" if any(kept) else ""


def occupancy(
    resources: ResourceUsage,
    threads: int,
    *,
    registers_per_sm: int,
    threads_per_sm: int,
    shared_per_sm: int,
    blocks_per_sm: int,
    barriers_per_sm: int | None = None,
    dynamic_shared: int = 0,
    reserved_shared: int = 1024,
) -> int:
    """Blocks of ``threads`` threads that fit on one SM at a time; 0 when not even one does.

    The arithmetic of NVIDIA's ``cuda_occupancy.h`` for sm_70 and newer: registers are given to
    warps in units of 256, from the warp's own quarter of the register file; shared memory comes
    in units of 128 bytes, with ``reserved_shared`` bytes a block for the driver (1 KB from sm_80
    on, 0 before). ``shared_per_sm`` is in bytes. Barriers limit from sm_90 on: ``barriers_per_sm``
    is twice the blocks on sm_90 and sm_100, once the blocks on sm_103 and newer.
    """
    warps = -(-threads // 32)
    limits = [blocks_per_sm, threads_per_sm // 32 // warps]
    registers_per_warp = -(-resources.registers * 32 // 256) * 256
    if registers_per_warp:
        limits.append(registers_per_sm // 4 // registers_per_warp * 4 // warps)
    shared = -(-(resources.shared_bytes + dynamic_shared + reserved_shared) // 128) * 128
    if shared:
        limits.append(shared_per_sm // shared)
    if barriers_per_sm is not None and resources.barriers:
        limits.append(barriers_per_sm // resources.barriers)
    return min(limits)
