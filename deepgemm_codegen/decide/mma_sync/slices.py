"""The slices of k on a menu, and what each means for the floors of a search.

Memory takes a wave at least share x its transfer + wait clocks: what `predict.kernel_clocks` makes
of latency under the deepest ring that the menu has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.mma_sync.pipeline import useful_stages
from deepgemm_codegen.decide.mma_sync.predict import slice_loss, waste_of_panel
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.operands import Travel
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["Slice", "Slices"]


class Slice(NamedTuple):
    """A slice of k in the context of a problem.

    Attributes:
        tile_k: elements.
        slices: that k takes.
        share: of a transfer that memory takes at least, see above.
        wait: clocks on top of it.
        loss: clocks of barriers and latencies of one slice, one warp a scheduler.
    """

    tile_k: int
    slices: int
    share: float
    wait: float
    loss: float


class Slices:
    """All slices that a search may choose from.

    Args:
        problem: what is computed.
        machine: where.
        tile_k: elements of each.
        stages: of the deepest ring.

    Attributes:
        menu: the slices, in the order given.
        least_share, least_wait: of any of them.
        least_loss: an element of k.
    """

    def __init__(
        self, problem: Problem, machine: Machine, tile_k: Iterable[int], stages: int
    ) -> None:
        self.problem = problem
        self.menu = [slice_of(problem, machine, each, stages) for each in tile_k]
        self.least_share = min([entry.share for entry in self.menu])
        self.least_wait = min([entry.wait for entry in self.menu])
        self.least_loss = min([entry.loss / entry.tile_k for entry in self.menu])
        self._along_k: dict[int, list[float]] = {}

    def wastes(self, tile_m: int, tile_n: int, warps: int) -> tuple[list[float], list[float]]:
        """Bytes moved a useful byte of A, and of B, slice by slice; 0 where no panel is legal."""
        problem = self.problem
        return (
            self._wastes(tile_m, problem.a, warps, k_major=problem.a_k_major),
            self._wastes(tile_n, problem.b, warps, k_major=problem.b_k_major),
        )

    def _wastes(self, rows: int, travel: Travel, warps: int, *, k_major: bool) -> list[float]:
        """The same of one operand.

        Where k is contiguous they are the same for all tiles, so each width of a pass has a list.
        """
        size, filled = self.problem.element_bytes, WARP * warps * travel.vector_bytes
        if not k_major:
            return [waste_of_panel(rows * size, filled)] * len(self.menu)
        known = self._along_k.get(filled)
        if known is None:
            known = [waste_of_panel(entry.tile_k * size, filled) for entry in self.menu]
            self._along_k[filled] = known
        return known


def slice_of(problem: Problem, machine: Machine, tile_k: int, stages: int) -> Slice:
    """What a slice of so many elements means, with a ring of so many stages."""
    slices = -(-problem.k // tile_k)
    loss = slice_loss(problem, tile_k)
    if not slices:
        return Slice(tile_k, 0, 1.0, 0.0, loss)
    depth = min(stages, useful_stages(slices)) - 1
    late = slices - depth
    share = 1 - late / slices * (1 - 1 / depth)
    wait = late * machine.loaded_latency / depth
    return Slice(tile_k, slices, share, wait, loss)
