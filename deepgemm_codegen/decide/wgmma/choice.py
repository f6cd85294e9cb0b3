"""A candidate of the wgmma family, and the program it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.assemble import columns_of_b, extents_of, program_of, sources
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.operands import output_vector
from deepgemm_codegen.decide.problem import canonical_steps, promotes
from deepgemm_codegen.decide.tma import LANE_VECTOR, place_tma_operand, store_of
from deepgemm_codegen.decide.wgmma import consumer
from deepgemm_codegen.decide.wgmma.lagging import lag
from deepgemm_codegen.decide.wgmma.pacing import paced
from deepgemm_codegen.decide.wgmma.tile import slab_columns
from deepgemm_codegen.epilogue import column_vectors
from deepgemm_codegen.plan import Decision, Grid, Persistent, Program, Wgmma
from deepgemm_codegen.plan.tma import SWIZZLE_ROWS

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["WgmmaChoice"]


@dataclass(frozen=True, slots=True)
class WgmmaChoice:
    """The numbers that distinguish one candidate of the wgmma family from another.

    Attributes:
        tile_m, tile_n: block tile in elements, in the plan's roles.
        consumers: consumer warpgroups.
        tiles_at_once: tiles in their hands: 1, cooperative; 2, ping-pong.
        stages: ring slots.
        cluster_m, cluster_n: blocks of a cluster along m and n.
        raster_group: cluster rows of a raster group.
        split_k: parts that k is cut into.
        tile_k: elements of k in a slice: a 128-byte row, or two.
        cluster_k: blocks of a cluster along k: the parts, where they meet in shared memory.
        cluster_rows: blocks of a cluster that have whole rows of D; 0 where none have.
    """

    tile_m: int
    tile_n: int
    consumers: int
    tiles_at_once: int
    stages: int
    cluster_m: int
    cluster_n: int
    raster_group: int
    split_k: int = 1
    tile_k: int = 64
    cluster_k: int = 1
    cluster_rows: int = 0

    @property
    def meets(self) -> bool:
        """See `Wgmma.meets`."""
        return self.cluster_k > 1

    @property
    def sharers_a(self) -> int:
        """Blocks that share A's tile: each brings whole swizzle patterns of it, for all of them.

        Tiles have 64 rows or a power of two times as many (`TILE_MS`), so that the 64 rows of k of
        an A with m contiguous are divided as well.
        """
        if self.cluster_rows and self.tile_m % (self.cluster_rows * SWIZZLE_ROWS) == 0:
            return self.cluster_rows
        return self.cluster_n

    @property
    def words(self) -> str:
        """The choice in a few words."""
        consumers = f"{self.consumers} consumer{'s' if self.consumers > 1 else ''}"
        if self.tiles_at_once > 1:
            consumers += " in turn"
        tile = f"{self.tile_m}x{self.tile_n}x{self.tile_k}"
        words = f"{tile}, {consumers}, {self.stages} stages"
        if self.cluster_m * self.cluster_n > 1:
            words += f", clusters {self.cluster_m}x{self.cluster_n}"
        if self.cluster_rows:
            words += f", rows by {self.cluster_rows} block{'s' if self.cluster_rows > 1 else ''}"
        words += f", group {self.raster_group}"
        if self.split_k > 1:
            words += f", k in {self.split_k} parts"
        return f"{words} of a cluster" if self.cluster_k > 1 else words

    def _slices(self, spec: GemmSpec) -> int:
        """Slices that a block of a cluster along k sums, at most."""
        return -(-spec.k.size // (self.tile_k * self.cluster_k))

    def lag(self, spec: GemmSpec, *, promoted: bool) -> int:
        """Slices by which the second consumer ends a tile after the first: see `lagging`."""
        # Parts that meet have no other tile; rows that are told were not measured with a lag.
        if promoted or self.meets or self.cluster_rows:
            return 0
        if self.consumers != 2 or self.tiles_at_once > 1:  # in turn one writes as it is
            return 0
        k = extents_of(spec, self.tile_m, self.tile_n, self.tile_k, split_k=self.split_k)[2]
        return lag(self.tile_m, self.tile_n, k, self.stages)

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, which the constraints have passed."""
        extents = extents_of(
            spec,
            self.tile_m,
            self.tile_n,
            self.tile_k,
            cluster_m=self.cluster_m,
            cluster_n=max(self.cluster_n, self.cluster_rows),
            split_k=self.split_k,
        )
        m, n, k = extents
        columns = columns_of_b(spec, n)
        left, right = sources(spec)
        slab_n = slab_columns(self.tile_n, spec.halves, spec.dtype_d.bytes)
        store: Literal["tma", "rows", "lanes", "slab", "sums", "gather", "whole"] = "sums"
        if self.meets:
            store, slab_n = "gather", self.tile_n
        elif self.cluster_rows:
            store = "whole"
        elif self.split_k == 1 and spec.norm is None:
            sums = self.tile_m * self.tiles_at_once // self.consumers * self.tile_n // 128
            l2_bytes = machine_of(arch, spec.dtype_a.name).l2_bytes
            store = store_of(spec, self.tile_n // spec.halves, sums, l2_bytes)
        vector = 2 if store in ("tma", "rows") else output_vector(spec)
        if store == "whole":
            vector = min(vector, LANE_VECTOR)
        promoted = promotes(spec, arch)
        sets = 2 if promoted else 1
        rows = self.tile_m * self.tiles_at_once // self.consumers
        body = Wgmma(
            tile_m=self.tile_m,
            tile_n=self.tile_n,
            tile_k=self.tile_k,
            consumers=self.consumers,
            tiles_at_once=self.tiles_at_once,
            lag=self.lag(spec, promoted=promoted),
            stages=self.stages,
            turns=not self.meets or k.dynamic or self._slices(spec) > self.stages,
            cluster_m=self.cluster_m,
            cluster_n=n.cluster,
            cluster_k=self.cluster_k,
            holds_rows=self.cluster_rows > 0,
            store=store,
            slab_n=slab_n,
            d_bytes=spec.dtype_d.bytes,
            promoted=promoted,
            overlapped=consumer.overlapped(rows, self.tile_n, sets),
            in_sequence=consumer.in_sequence(rows, self.tile_n, sets),
            scaled=spec.block_scaled,
            halves=spec.halves,
            vectors=len(column_vectors(canonical_steps(spec))),
            paced=paced(spec, store, vector, self.tiles_at_once),
            a=place_tma_operand(spec, "a", left, m, k, self.sharers_a),
            b=place_tma_operand(spec, "b", right, columns, k, self.cluster_m),
        )
        rounds = Grid if self.meets else Persistent
        schedule = rounds(raster_group=self.raster_group)
        return program_of(
            spec, arch, f"{arch.name}a", (m, n, k), body, schedule, vector, slab_n, decisions
        )
