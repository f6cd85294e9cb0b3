"""A candidate of the mma.sync family, and the program it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.decide.assemble import columns_of_b, extents_of, program_of, sources
from deepgemm_codegen.decide.mma_sync.registers import (
    fragment_buffers,
    stays_rolled,
    takes_few_passes,
)
from deepgemm_codegen.decide.operands import output_vector, place_operand, travel_of
from deepgemm_codegen.decide.problem import promotes
from deepgemm_codegen.decide.words import counted
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan import Decision, Grid, MmaSync, Program
from deepgemm_codegen.plan.tiles import FRAGMENT_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["MmaSyncChoice"]


@dataclass(frozen=True, slots=True)
class MmaSyncChoice:
    """The numbers that distinguish one candidate from another.

    Attributes:
        tile_m, tile_n, tile_k: block tile in elements, in the plan's roles.
        warps_m, warps_n: warps along m and n.
        stages: ring slots.
        min_blocks: resident blocks that the register cap allows for.
        raster_group: tile rows of a raster group.
        split_k: parts that k is cut into.
        abreast: tiles that a block computes side by side.
        holds_rows: whether a warp holds whole rows of D, for a step that needs them.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    min_blocks: int
    raster_group: int
    split_k: int = 1
    abreast: int = 1
    holds_rows: bool = False

    @property
    def words(self) -> str:
        """The choice in a few words."""
        blocks = counted(self.min_blocks, "block")
        words = (
            f"{self.tile_m}x{self.tile_n}x{self.tile_k}, warps {self.warps_m}x{self.warps_n},"
            f" {self.stages} stages, {blocks}, group {self.raster_group}"
        )
        if self.abreast > 1:
            words += f", {self.abreast} abreast"
        return f"{words}, k in {self.split_k} parts" if self.split_k > 1 else words

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, which the constraints have passed."""
        extents = extents_of(spec, self.tile_m, self.tile_n, self.tile_k, split_k=self.split_k)
        m, n, k = extents
        size = spec.dtype_a.bytes
        threads = 32 * self.warps_m * self.warps_n
        left, right = sources(spec)
        a = place_operand(spec, "a", left, travel_of(spec, left, arch), m, k, threads)
        b = place_operand(
            spec, "b", right, travel_of(spec, right, arch), columns_of_b(spec, n), k, threads
        )
        if a is None or b is None:
            raise InternalError(f"no panel width for {self}: the constraints should refuse it")
        vector = output_vector(spec)
        apart = self.split_k > 1 or (spec.norm is not None and not self.holds_rows)
        body = MmaSync(
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            warps_m=self.warps_m,
            warps_n=self.warps_n,
            mma_m=16,
            mma_n=8,
            mma_k=arch.mma_bytes // size,
            stages=self.stages,
            min_blocks=max(self.min_blocks // self.abreast, 1),
            fragment_buffers=fragment_buffers(self.tile_k, FRAGMENT_BYTES // size),
            promoted=promotes(spec, arch),
            a=a,
            b=b,
            holds_rows=self.holds_rows,
            rolled=stays_rolled(
                (a, b),
                k,
                self.tile_n // self.warps_n // 8,
                arch.number,
                promoted=promotes(spec, arch),
            ),
            few_passes=takes_few_passes(
                () if apart else spec.epilogue,  # a kernel behind this one takes them
                vector,
                dynamic=m.dynamic or n.dynamic,
            ),
        )
        slab_n = self.tile_n // self.warps_n
        schedule = Grid(raster_group=self.raster_group)
        return program_of(
            spec,
            arch,
            arch.name,
            extents,
            body,
            schedule,
            vector,
            slab_n,
            decisions,
            abreast=self.abreast,
        )
