"""What the performance directives of a kernel say of its launches."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator.faults import PtxSyntaxError

if TYPE_CHECKING:
    from deepgemm_codegen.emulator import nodes

__all__ = ["LaunchBounds", "launch_bounds"]

_REGISTER_FILE, _MOST_REGISTERS = 65536, 256
"""Registers of a multiprocessor, and of a thread (CUDA programming guide)."""

# PTX ISA 9.0, "Performance-Tuning Directives" and "Cluster Dimension Directives": those with one to
# three numbers, and those that mean nothing here.
_NUMBERED = (
    *(".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg"),
    *(".reqnctapercluster", ".maxclusterrank"),
)
_OTHERS = frozenset(
    {".noreturn", ".explicitcluster", ".blocksareclusters", ".pragma", ".attribute", ".unified"}
    | {".abi_preserve", ".abi_preserve_control"}
)


@dataclass(frozen=True, slots=True)
class LaunchBounds:
    """What a launch of a kernel must keep to.

    Attributes:
        max_threads: threads of a block that ``.maxntid`` or ``.reqntid`` allows; 0 for any.
        block: threads of a block in x, y, z that ``.reqntid`` demands; None for any.
        registers: of a thread, the most that the directives leave; 0 where they say nothing.
        cluster: blocks of a cluster in x, y, z by ``.reqnctapercluster``; (1, 1, 1) for none.
    """

    max_threads: int = 0
    block: tuple[int, int, int] | None = None
    registers: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)


def launch_bounds(function: nodes.Function) -> LaunchBounds:
    """The bounds of a kernel.

    Raises:
        PtxSyntaxError: a directive that nobody here knows, one that stands twice, or one of other
            than one to three numbers above zero.
    """
    given: dict[str, tuple[int, ...]] = {}
    for directive in function.directives:
        word, *rest = directive.text.replace(",", " ").split()
        if word not in _NUMBERED:
            if word not in _OTHERS:
                raise PtxSyntaxError(directive.line, f"unknown directive '{directive.text}'")
            continue
        if not 1 <= len(rest) <= 3 or not all(n.isdigit() and int(n) for n in rest):
            raise PtxSyntaxError(directive.line, f"unreadable directive '{directive.text}'")
        if word in given:
            raise PtxSyntaxError(directive.line, f"directive '{word}' stands twice")
        given[word] = tuple(map(int, rest))
    exact = given.get(".reqntid")
    threads = prod(exact or given.get(".maxntid", (0,)))
    return LaunchBounds(
        threads,
        None if exact is None else _three(exact),
        _registers(given, threads),
        _three(given.get(".reqnctapercluster", ())),
    )


def _three(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    """Sizes in x, y, z; what is left out is 1."""
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return (x, y, z)


def _registers(given: dict[str, tuple[int, ...]], threads: int) -> int:
    """Registers that a thread starts with: no more than the launch bounds leave.

    The assembler may take fewer, but not where setmaxnreg moves them (it takes all there are).
    """
    most = prod(given.get(".maxnreg", (0,)))
    if most or not threads:
        return most
    blocks = prod(given.get(".minnctapersm", (1,)))
    return min(_REGISTER_FILE // (threads * blocks) // 8 * 8, _MOST_REGISTERS)
