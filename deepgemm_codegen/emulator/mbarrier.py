"""mbarrier objects in shared memory: phase, pending arrivals, transaction count.

A phase ends when no arrival is pending and the transaction count is zero; the next begins at once
with the expected arrivals pending (PTX ISA, "mbarrier").
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MBARRIER_BYTES", "Mbarrier"]

MBARRIER_BYTES = 8
LARGEST_COUNT = (1 << 20) - 1
"""The most arrivals, and the largest transaction count, of a phase."""


@dataclass(slots=True)
class Mbarrier:
    """The state of one object.

    Attributes:
        number: order of initialisation, from 0.
        block, address: block in the batch, byte offset in its window.
        count: arrivals expected in each phase.
        pending: arrivals that the phase still lacks.
        tx: bytes announced and not yet landed; negative where they landed first.
        phase: phases completed.
        site, lane: of its initialisation.
        fenced: whether a fence made the initialisation visible to the copy engine.
    """

    number: int
    block: int
    address: int
    count: int
    pending: int
    site: int
    lane: int
    tx: int = 0
    phase: int = 0
    fenced: bool = False

    def passes(self, parity: int) -> bool:
        """Whether the phase of that parity, the current or the one before, is complete."""
        return (self.phase & 1) != parity

    def arrive(self, count: int) -> bool:
        """Count arrivals; False if the phase did not expect so many."""
        if count > self.pending:
            return False
        self.pending -= count
        return True

    def complete(self) -> bool:
        """End the phase if nothing is missing; whether it did."""
        if self.pending or self.tx:
            return False
        self.phase += 1
        self.pending = self.count
        return True

    def state(self) -> str:
        """What the phase lacks, in words."""
        return (
            f"phase {self.phase}, {self.pending} of {self.count} arrivals pending, "
            f"{self.tx} bytes to come"
        )
