"""What a kernel's memory accesses cost, by line of its source: conflicts and coalescing.

The emulator counts in some of the kernel's blocks; every block runs the same code. Operands start
where an allocation would (at a multiple of 4096 bytes), not at the worst address that is promised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.harness.cases import cases_of
from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.harness.teams import choose_blocks
from deepgemm_codegen.harness.trials import block_budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from deepgemm_codegen.emulator import GlobalCost, Place, SharedCost, Statistics
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["GlobalLine", "MemoryCosts", "SharedLine", "cost_lines", "memory_costs"]

_KINDS = (
    (r"cp\.async\.bulk\.tensor\S*shared::c\w+\.global", "TMA load"),
    (r"cp\.async\.bulk\.tensor\S*global\.shared", "TMA store"),
    (r"(ldmatrix|stmatrix)\S*?\.(x[124])(\.trans)?\.\S*", r"\1.\2\3"),
)


@dataclass(frozen=True, slots=True)
class SharedLine:
    """Accesses of one kind to shared memory at one line.

    Attributes:
        line: of the generated source, 0 where the PTX does not tell.
        access: ``ldmatrix.x4``, ``st.shared 8`` (bytes a lane) and so on.
        requests: of warps.
        wavefronts: taken by all of them.
        excess: wavefronts beyond the fewest that could serve them; 0 is free of bank conflicts.
        degree: the most wavefronts that one pass took.
    """

    line: int
    access: str
    requests: int
    wavefronts: int
    excess: int
    degree: int


@dataclass(frozen=True, slots=True)
class GlobalLine:
    """Accesses of one kind to global memory at one line.

    Attributes:
        line, access, requests: see `SharedLine`; of TMA, the boxes of single threads.
        sectors: 32-byte sectors touched, summed over the requests.
        ideal: the fewest that could hold the bytes.
    """

    line: int
    access: str
    requests: int
    sectors: int
    ideal: int


@dataclass(frozen=True, slots=True)
class MemoryCosts:
    """What some blocks of a kernel cost.

    Attributes:
        blocks: that were counted; grid: of the launch.
        shared, in_global: by line, then kind.
    """

    blocks: int
    grid: int
    shared: tuple[SharedLine, ...]
    in_global: tuple[GlobalLine, ...]

    @property
    def excess(self) -> int:
        """Wavefronts that bank conflicts cost, in all."""
        return sum(line.excess for line in self.shared)


def memory_costs(
    plan: Program | KernelPlan, ptx: str, *, seed: int = 0, effort: float = 1.0
) -> MemoryCosts:
    """Counts in the blocks that the exact case of a verification would run.

    Args:
        plan: the program's plan, or that of a kernel that is one.
        ptx: its PTX; lines are told where it has line information.
        seed: of the sampled blocks.
        effort: factor on their number.
    """
    case = cases_of(plan, seed)[0]
    problem = case.problem
    blocks = choose_blocks(problem, block_budget(problem, case.share, effort), seed)
    device = EmulatorDevice(plan, ptx, races=False, costs=True, aligned=True)
    outcome = device.launch(problem, case.inputs, blocks)
    return MemoryCosts(
        len(blocks),
        problem.grid,
        _shared(outcome.statistics),
        _global(outcome.statistics),
    )


def _shared(statistics: Iterable[Statistics]) -> tuple[SharedLine, ...]:
    found: dict[tuple[int, str], SharedLine] = {}
    for cost in (cost for each in statistics for cost in each.shared_costs):
        key = (_line(cost.place), _access(cost))
        old = found.get(key, SharedLine(*key, 0, 0, 0, 0))
        found[key] = SharedLine(
            *key,
            old.requests + cost.requests,
            old.wavefronts + cost.wavefronts,
            old.excess + cost.excess,
            max(old.degree, cost.degree),
        )
    return tuple(found[key] for key in sorted(found))


def _global(statistics: Iterable[Statistics]) -> tuple[GlobalLine, ...]:
    found: dict[tuple[int, str], GlobalLine] = {}
    for cost in (cost for each in statistics for cost in each.global_costs):
        key = (_line(cost.place), _access(cost))
        old = found.get(key, GlobalLine(*key, 0, 0, 0))
        found[key] = GlobalLine(
            *key,
            old.requests + cost.requests,
            old.sectors + cost.sectors,
            old.ideal + cost.ideal,
        )
    return tuple(found[key] for key in sorted(found))


def _line(place: Place) -> int:
    """The kernel's own line: where a function was inlined last."""
    found = re.findall(r":(\d+)", place.source)
    return int(found[-1]) if found else 0


def _access(cost: SharedCost | GlobalCost) -> str:
    """What is done, and with how many bytes a lane."""
    text = re.sub(r"^@\S+ ", "", cost.place.text)
    for pattern, kind in _KINDS:
        match = re.search(pattern, text)
        if match:
            return match.expand(kind)
    opcode = text.split()[0]
    space = next((f".{word}" for word in ("shared", "global") if f".{word}" in opcode), "")
    verb = "cp.async" if opcode.startswith("cp.async") else opcode.split(".")[0] + space
    return f"{verb} {cost.width}"


def cost_lines(costs: MemoryCosts, source: str) -> list[str]:
    """Two tables for people, with the text of each line.

    Args:
        costs: what was counted.
        source: the generated text that the lines are of.
    """
    lines = source.splitlines()

    def text(number: int) -> str:
        words = " ".join(lines[number - 1].split()) if 0 < number <= len(lines) else ""
        return words if len(words) <= 48 else f"{words[:45]}..."

    free = "no bank conflict" if not costs.excess else f"{costs.excess:,} wavefronts too many"
    shared = [("line", "access", "requests", "wavefronts", "excess", "degree", "source")]
    shared += [
        (str(s.line), s.access, f"{s.requests:,}", f"{s.wavefronts:,}", f"{s.excess:,}",
         str(s.degree), text(s.line))
        for s in costs.shared
    ]  # fmt: skip
    in_global = [("line", "access", "requests", "sectors", "a request", "ideal", "source")]
    in_global += [
        (str(g.line), g.access, f"{g.requests:,}", f"{g.sectors:,}",
         f"{g.sectors / g.requests:.1f}", f"{g.ideal / g.requests:.1f}", text(g.line))
        for g in costs.in_global
    ]  # fmt: skip
    where = f"{costs.blocks:,} of {costs.grid:,} blocks, on the emulator"
    found = [f"shared memory, {where}: {free}" if costs.shared else "shared memory: not used"]
    found += _table(shared) if costs.shared else []
    found.append(f"global memory, {where}")
    return found + _table(in_global)


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Numbers to the right, words to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = (1, 6)
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return lines
