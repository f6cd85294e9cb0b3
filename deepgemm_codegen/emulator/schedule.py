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
        before = self.previous
        if mode == "store" and self.current:
            before = [*before, self.current[-1]]
        self.current.append(index)
        return before


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


class _Schedule:
    """Which instructions are ready, and the batches emitted so far."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.needs = _dependences(members)
        self.users: list[list[int]] = [[] for _ in members]
        for index, before in enumerate(self.needs):
            for other in before:
                self.users[other].append(index)
        self.missing = [len(n) for n in self.needs]
        self.keys: list[Hashable | None] = [
            None if what.batch is None else what.batch(ins) for ins, what in members
        ]
        self.ready = [i for i, n in enumerate(self.missing) if n == 0]
        self.batches: list[list[Member]] = []

    def emit(self, indices: list[int]) -> None:
        """Append a batch; what waited for it alone becomes ready."""
        self.batches.append([self.members[i] for i in indices])
        together = set(indices)
        self.ready = [i for i in self.ready if i not in together]
        for i in indices:
            for user in self.users[i]:
                if user in together:
                    continue
                self.missing[user] -= 1
                if self.missing[user] == 0:
                    self.ready.append(user)

    def next_batch(self) -> list[int]:
        """All ready instructions of the first kind in line."""
        order = min(self.members[i][1].order for i in self.ready)
        first = min(i for i in self.ready if self.members[i][1].order == order)
        chosen = [i for i in self.ready if self.keys[i] == self.keys[first]]
        if self.members[first][1].ordered:
            self.extend(chosen)
        return sorted(chosen)

    def extend(self, chosen: list[int]) -> None:
        """Add to a batch of stores those that wait for nothing but stores of the batch."""
        together = set(chosen)
        for index in chosen:  # grows while it is walked
            for user in self.users[index]:
                if (
                    user not in together
                    and self.keys[user] == self.keys[index]
                    and self.missing[user] == len(self.needs[user] & together)
                ):
                    together.add(user)
                    chosen.append(user)


def schedule(members: list[Member]) -> list[list[Member]]:
    """The block's instructions as a list of batches, most of them of one instruction."""
    plan = _Schedule(members)
    while plan.ready:
        plain = sorted(i for i in plan.ready if plan.keys[i] is None)
        for i in plain:
            plan.emit([i])
        if not plain:
            plan.emit(plan.next_batch())
    return plan.batches
