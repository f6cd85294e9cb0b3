"""A block's ring of stages, and which of its slots are whose.

Slice s lies in slot ``s % stages``. Behind the main loop's last barrier the threads read the last
slice alone, so that all other slots are free.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Ring"]


@dataclass(frozen=True, slots=True)
class Ring:
    """The slots of shared memory that slices of A and B pass through.

    Attributes:
        stages: slots.
        stage_bytes: bytes of a slot.
        slices: the most slices that one block sums; None where only the launch tells.
    """

    stages: int
    stage_bytes: int
    slices: int | None

    @property
    def turns(self) -> bool:
        """Whether it goes round: a block may sum more slices than there are slots."""
        return self.slices is None or self.slices > self.stages

    @property
    def refilled(self) -> bool:
        """Whether the main loop starts copies: the prologue fills all slots but one."""
        return self.slices is None or self.slices >= self.stages

    def beside_last(self, size: int) -> int | None:
        """Where ``size`` bytes lie in one piece outside the last slice's slot; None for nowhere.

        From the slot on that a next slice would have, else from the first. Nowhere beside an only
        slice: warps that no barrier holds together then write D 2 % slower (384x384x64, H200).
        """
        if self.slices is None or self.slices < 2:
            return None
        last, after = (self.slices - 1) % self.stages, self.slices % self.stages
        for first, end in ((after, self.stages if after > last else last), (0, last)):
            if size <= (end - first) * self.stage_bytes:
                return first * self.stage_bytes
        return None
