"""What the emulator found wrong in a kernel, and the collector that gathers it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

__all__ = ["Actor", "Collector", "Finding", "Lookup", "Place", "StopEmulation"]


class StopEmulation(Exception):  # noqa: N818  it is control flow, not an error
    """Raised inside a run when enough has been found; ``run`` catches it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instruction stands.

    Attributes:
        line: PTX line, 1-based.
        text: the instruction as PTX.
        source: ``gemm.cu:50`` or ``gemm.cu:50, inlined at gemm.cu:120``; empty with no line info.
    """

    line: int
    text: str
    source: str = ""

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        return f"PTX line {self.line}: {self.text}{source}"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who executed it: block index (x, y, z), warp in the block, flat thread in the block."""

    block: tuple[int, int, int]
    warp: int
    thread: int

    def __str__(self) -> str:
        return f"thread {self.thread} (warp {self.warp}) of block {self.block}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of the kernel under test.

    Attributes:
        kind: a short stable word: ``race``, ``uninitialised-read``, ``in-flight-read``,
            ``in-flight-write``, ``out-of-bounds-read``, ``out-of-bounds-write``,
            ``read-only-write``, ``misaligned``, ``poison-read``, ``divergent-barrier``,
            ``divergent-instruction``, ``deadlock``, ``timeout``, ``bad-size``, ``bad-barrier``,
            ``trap``; of asynchronous instructions: ``missing-fence``, ``accumulator-in-flight``,
            ``operand-in-flight``, ``exit-in-flight``, ``remote-after-exit``,
            ``remote-before-start``, ``over-arrival``, ``transaction-count``,
            ``no-mbarrier``, ``missed-phase``, ``barrier-access``, ``bad-descriptor``, ``bad-rank``,
            ``out-of-bounds-access``.
        message: one sentence.
        place, actor: the access that was caught; the actor is the first of ``count``.
        other_place, other_actor: the other side of a race, or None.
        address: byte address (shared: offset in the block's window; global: the address), or None.
        count: how many accesses of this place against the other place were caught.
    """

    kind: str
    message: str
    place: Place
    actor: Actor
    other_place: Place | None = None
    other_actor: Actor | None = None
    address: int | None = None
    count: int = 1

    def __str__(self) -> str:
        text = f"{self.kind}: {self.message}\n  {self.place}\n    by {self.actor}"
        if self.address is not None:
            text += f" at {self.address:#x}"
        if self.other_place is not None:
            text += f"\n  against {self.other_place}\n    by {self.other_actor}"
        return text + (f"\n  {self.count} such accesses" if self.count > 1 else "")


class Lookup(Protocol):
    """Resolves the numbers that the hot path carries."""

    def place(self, site: int) -> Place:
        """The instruction with that number."""
        ...

    def actor(self, lane: int) -> Actor:
        """The thread that runs in that lane."""
        ...


class Collector:
    """Gathers findings: one for each (kind, place, other place), with a count."""

    def __init__(self, limit: int, *, fail_fast: bool) -> None:
        self.limit = 1 if fail_fast else limit
        self._found: dict[tuple[str, int, int], Finding] = {}
        self.lookup: Lookup | None = None

    def add(
        self,
        kind: str,
        message: str,
        site: int,
        lane: int,
        *,
        other: tuple[int, int] | None = None,
        other_actor: Actor | None = None,
        address: int | None = None,
        count: int = 1,
    ) -> None:
        """Record a fault; ``other`` is (site, lane) of the other side.

        That side is ``other_actor`` where it did not run together with this one.

        Raises:
            StopEmulation: the limit of distinct findings is reached.
        """
        key = (kind, site, -1 if other is None else other[0])
        known = self._found.get(key)
        if known is not None:
            self._found[key] = replace(known, count=known.count + count)
            return
        look = self.lookup
        if look is None:
            raise RuntimeError("a collector needs a lookup before its first finding")
        self._found[key] = Finding(
            kind,
            message,
            look.place(site),
            look.actor(lane),
            None if other is None else look.place(other[0]),
            look.actor(other[1]) if other is not None and other_actor is None else other_actor,
            address,
            count,
        )
        if len(self._found) >= self.limit:
            raise StopEmulation

    def findings(self) -> tuple[Finding, ...]:
        """All, in the order found."""
        return tuple(self._found.values())
