"""Order of the instructions of a basic block, so that alike ones can run as one numpy call.

Within a basic block nothing but data and memory dependences fixes the order. Ordinary
instructions keep theirs as far as they are ready; instructions with a batch key (mma, ldmatrix,
cp.async) wait until no ordinary one is ready, and then all ready ones of a kind go together.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from deepgemm_codegen.emulator import nodes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.registry import Semantics

__all__ = ["registers_of", "schedule"]

Member = tuple["Instruction", "Semantics"]


def _names(operand: nodes.Operand) -> Iterator[str]:
    match operand:
        case nodes.Name(text):
            yield text
        case nodes.Negated(inner):
            yield inner.text
        case nodes.Vector(items):
            for item in items:
                yield from _names(item)
        case nodes.Pair(first, second):
            yield from _names(first)
            yield from _names(second)
        case nodes.Address(base, _, extra):
            if isinstance(base, nodes.Name):
                yield base.text
            for item in extra:
                yield from _names(item)


def registers_of(ins: Instruction, destinations: int) -> tuple[set[str], set[str]]:
    """Names read and names written by an instruction."""
    reads: set[str] = set()
    writes: set[str] = set()
    for i, operand in enumerate(ins.operands):
        (writes if i < destinations else reads).update(_names(operand))
    if ins.guard is not None:
        reads.add(ins.guard.predicate)
    return reads, writes


class _Resource:
    """Accesses to one memory since its last change of mode."""

    def __init__(self) -> None:
        self.mode = ""
        self.current: list[int] = []
        self.previous: list[int] = []

    def access(self, index: int, mode: str) -> list[int]:
        if mode != self.mode or mode == "write":
            self.previous, self.current = self.current, []
            self.mode = mode
        self.current.append(index)
        return self.previous


def _dependences(members: list[Member]) -> list[set[int]]:
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = defaultdict(list)
    resources: dict[str, _Resource] = defaultdict(_Resource)
    result = []
    for index, (ins, what) in enumerate(members):
        reads, writes = registers_of(ins, what.destinations)
        needs = {writer[name] for name in reads if name in writer}
        for name in writes:
            if name in writer:
                needs.add(writer[name])
            needs.update(readers[name])
        if what.effects is not None:
            for resource, mode in what.effects(ins):
                needs.update(resources[resource].access(index, mode))
        for name in reads:
            readers[name].append(index)
        for name in writes:
            writer[name] = index
            readers[name] = []
        needs.discard(index)
        result.append(needs)
    return result


def schedule(members: list[Member]) -> list[list[Member]]:
    """The block's instructions as a list of batches, most of them of one instruction."""
    needs = _dependences(members)
    users: list[list[int]] = [[] for _ in members]
    for index, before in enumerate(needs):
        for other in before:
            users[other].append(index)
    missing = [len(n) for n in needs]
    keys: list[Hashable | None] = [
        None if what.batch is None else what.batch(ins) for ins, what in members
    ]
    ready = [i for i, n in enumerate(missing) if n == 0]
    result: list[list[Member]] = []

    def finish(indices: list[int]) -> None:
        result.append([members[i] for i in indices])
        for i in indices:
            for user in users[i]:
                missing[user] -= 1
                if missing[user] == 0:
                    ready.append(user)

    while ready:
        plain = sorted(i for i in ready if keys[i] is None)
        if plain:
            ready = [i for i in ready if keys[i] is not None]
            for i in plain:
                finish([i])
            continue
        order = min(members[i][1].order for i in ready)
        first = min(i for i in ready if members[i][1].order == order)
        chosen = sorted(i for i in ready if keys[i] == keys[first])
        gone = set(chosen)
        ready = [i for i in ready if i not in gone]
        finish(chosen)
    return result
