"""A candidate of the CUDA-core family, and the program it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.assemble import columns_of_b, extents_of, program_of, sources
from deepgemm_codegen.decide.operands import output_vector
from deepgemm_codegen.decide.simt.copies import place_simt_operand, simt_travel
from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.plan import Decision, Grid, Program, Simt

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["SimtChoice"]


class SimtChoice(NamedTuple):
    """The numbers that distinguish one candidate of the CUDA-core family from another.

    Attributes:
        tile_m, tile_n, tile_k: block tile in elements, in the plan's roles.
        warps_m, warps_n: warps along m and n.
        stages: ring slots.
        min_blocks: resident blocks that the register cap allows for.
        raster_group: tile rows of a raster group.
        abreast: tiles that a block computes side by side.
        elements: whether k turns round by elements where quads would do; see `copies`.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    min_blocks: int
    raster_group: int
    abreast: int = 1
    elements: bool = False

    @property
    def words(self) -> str:
        """The choice in a few words."""
        blocks = counted(self.min_blocks, "block")
        words = (
            f"{self.tile_m}x{self.tile_n}x{self.tile_k}, warps {self.warps_m}x{self.warps_n},"
            f" {self.stages} stages, {blocks}, group {self.raster_group}"
        )
        words += ", k by elements" if self.elements else ""
        return f"{words}, {self.abreast} abreast" if self.abreast > 1 else words

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, which the constraints have passed."""
        extents = extents_of(spec, self.tile_m, self.tile_n, self.tile_k)
        m, n, k = extents
        threads = 32 * self.warps_m * self.warps_n
        left, right = sources(spec)
        a, b = (simt_travel(spec, source, arch, elements=self.elements) for source in (left, right))
        body = Simt(
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            warps_m=self.warps_m,
            warps_n=self.warps_n,
            stages=self.stages,
            min_blocks=max(self.min_blocks // self.abreast, 1),
            a=place_simt_operand(spec, "a", left, a, m, k, threads),
            b=place_simt_operand(spec, "b", right, b, columns_of_b(spec, n), k, threads),
        )
        schedule = Grid(raster_group=self.raster_group)
        vector = output_vector(spec)
        return program_of(
            spec,
            arch,
            arch.name,
            extents,
            body,
            schedule,
            vector,
            self.tile_n,
            decisions,
            abreast=self.abreast,
        )
