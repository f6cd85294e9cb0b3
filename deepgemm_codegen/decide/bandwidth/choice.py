"""A candidate of the bandwidth family, and the program it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.assemble import columns_of_b, extents_of, program_of, sources
from deepgemm_codegen.decide.bandwidth.sides import place_lanes, sides_of
from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan import Decision, Grid, Program
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG, WARP_K, Bandwidth, RingPlace

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["BandwidthChoice"]

Side = Literal["long", "short"]


@dataclass(frozen=True, slots=True)
class BandwidthChoice:
    """The numbers that distinguish one candidate of the bandwidth family from another.

    Attributes:
        fragments: fragments of eight along D's long side that a warp computes.
        warps_long: warps along that side.
        warps_k: warps that share a slice of k.
        stages: slices that a warp has on their way or in use.
        min_blocks: resident blocks that the register cap allows for.
        abreast: tiles that a block computes side by side.
        ring: what holds the slices: registers, or shared memory.
    """

    fragments: int
    warps_long: int
    warps_k: int
    stages: int
    min_blocks: int
    abreast: int = 1
    ring: RingPlace = "registers"

    @property
    def words(self) -> str:
        """The choice in a few words."""
        blocks = counted(self.min_blocks, "block")
        words = (
            f"{self.fragments * self.warps_long * 8} along the long side, warps"
            f" {self.warps_long}x{self.warps_k}, {self.stages} stages, {blocks}"
        )
        if self.ring == "shared":
            words += ", ring in shared memory"
        return f"{words}, {self.abreast} abreast" if self.abreast > 1 else words

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, which the constraints have passed.

        Raises:
            InternalError: neither side of D is short.
        """
        sides = sides_of(spec)
        if sides is None:
            raise InternalError(f"neither side of {spec} is short")
        long_tile = self.fragments * self.warps_long * FRAGMENT_LONG
        tiles = (sides.tile, long_tile) if sides.short == "m" else (long_tile, sides.tile)
        tile_k = WARP_K["k" if sides.long_lanes.k_major else "mn"] * self.warps_k
        m, n, k = extents = extents_of(spec, *tiles, tile_k)
        left, right = sources(spec)
        along: tuple[Side, Side] = ("short", "long") if sides.short == "m" else ("long", "short")
        lanes = {"long": sides.long_lanes_of(self.fragments), "short": sides.short_lanes}
        body = Bandwidth(
            short=sides.short,
            short_tile=sides.tile,
            fragments=self.fragments,
            warps_long=self.warps_long,
            warps_k=self.warps_k,
            stages=self.stages,
            ring=self.ring,
            min_blocks=max(self.min_blocks // self.abreast, 1),
            mma_k=arch.mma_bytes // spec.dtype_a.bytes,
            a=place_lanes(spec, along[0], "a", left, lanes[along[0]], m, k),
            b=place_lanes(spec, along[1], "b", right, lanes[along[1]], columns_of_b(spec, n), k),
        )
        schedule = Grid(raster_group=1)
        return program_of(
            spec,
            arch,
            arch.name,
            extents,
            body,
            schedule,
            1,
            long_tile,
            decisions,
            abreast=self.abreast,
        )
