"""The body of Hopper's kernels: TMA copies, warp specialisation, products from shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.plan.layout import (
    CHUNK_BYTES,
    SLAB_ROWS,
    row_panels,
    row_slab_bytes,
    staged_columns,
    store_panels,
)
from deepgemm_codegen.plan.tiles import FRAGMENT_BYTES, WARP
from deepgemm_codegen.plan.tma import PANEL_BYTES, SWIZZLE_ROWS
from deepgemm_codegen.spec.block_scales import blocks_of, shared_columns

if TYPE_CHECKING:
    from deepgemm_codegen.plan.tma import TmaOperand

__all__ = ["Wgmma", "slices_for_lag", "told_bytes"]

WARPGROUP = 128
"""Threads that issue one wgmma together."""

WARP_ROWS = 16
"""Rows of each 64-row fragment whose sums one warp holds (PTX ISA)."""


def slices_for_lag(lag: int, stages: int) -> int:
    """Slices of a tile that so long a lag takes at least.

    More than twice the lag, for else both consumers wait for what has yet to come. And of a tile
    and a lag more than the ring's slots: with fewer the first consumer could end the next tile,
    too, before the second has come to wait for it once.

    Args:
        lag: slices by which the second consumer ends a shared tile after the first.
        stages: ring slots.
    """
    return max(stages - lag, 2 * lag + 1)


def told_bytes(blocks: int, consumers: int, rows: int) -> int:
    """Shared memory by which so many blocks tell each other of their rows; 0 for one alone.

    A number a block and row, and a barrier a warp, of a meeting and of the next.

    Args:
        blocks: of the cluster.
        consumers: of a block.
        rows: of each.
    """
    if blocks == 1:
        return 0
    return 2 * (blocks * consumers * rows * 4 + consumers * (WARPGROUP // WARP) * 8)


@dataclass(frozen=True, slots=True)
class Wgmma:
    """A block tile computed by ``wgmma``, fed by TMA through a ring of stages.

    One producer warpgroup keeps the ring full. The consumer warpgroups share a tile, each
    computing ``tile_m / consumers`` rows of it (cooperative), or take tiles in turn, so that one
    multiplies while the other writes its tile (ping-pong). Rows come in fragments of 64.

    Attributes:
        tile_m, tile_n, tile_k: elements of the block tile; tile_k is one 128-byte row, or two.
        consumers: consumer warpgroups.
        tiles_at_once: tiles in the consumers' hands: 1, cooperative; 2, ping-pong.
        lag: slices by which the second of two consumers ends a shared tile after the first; 0 where
            they end together.
        stages: ring slots in shared memory.
        turns: whether slots are filled again. Not where each slice of a block's only tile has one.
        cluster_m, cluster_n: blocks of a cluster along m and n, of which one is 1; blocks along m
            share B's tile, blocks along n share A's; of those that have whole rows
            `TmaOperand.sharers` tells.
        cluster_k: blocks of a cluster along k: each sums a part of it, then finishes a share of the
            tile, for which it reads the others' sums. More than 1 only in a cluster of its own.
        holds_rows: whether the blocks of a cluster along n have whole rows of D between them, for
            a step that asks: they tell each other of their rows.
        store: ``tma`` stages D in shared memory and lets TMA write it while the next tile is
            computed; ``rows`` has TMA write whole rows of the tile from each warp's slab, of sums
            of 32 bits; ``lanes`` stores such sums straight from registers, four neighbours a lane;
            ``slab`` stores rows from there itself, for any alignment and steps;
            ``sums`` stores partial sums straight from registers; ``gather`` has the blocks of a
            cluster along k meet in shared memory; ``whole`` stores whole rows from registers.
        slab_n: columns of a warp's slab; a warp's row passes through it in parts, of which the last
            may be narrower.
        d_bytes: of an element of D.
        promoted: whether a slice's sums start at zero and are added in fp32.
        overlapped: whether they are added while the next slice is multiplied.
        in_sequence: whether a consumer's fragments are multiplied and added one after the other,
            for there is room for one's sums.
        scaled: whether they are scaled on the way, see `deepgemm_codegen.spec.block_scales`.
        halves: columns of the tile that make one of D.
        vectors: that the epilogue's steps read by columns, see `epilogue.column_vectors`.
        paced: whether the steps' polynomials wait for each other, two at a time.
        a, b: the operands by role.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    consumers: int
    tiles_at_once: int
    lag: int
    stages: int
    turns: bool
    cluster_m: int
    cluster_n: int
    cluster_k: int
    holds_rows: bool
    store: Literal["tma", "rows", "lanes", "slab", "sums", "gather", "whole"]
    slab_n: int
    d_bytes: int
    promoted: bool
    overlapped: bool
    in_sequence: bool
    scaled: bool
    halves: int
    vectors: int
    paced: bool
    a: TmaOperand
    b: TmaOperand

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "product"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/wgmma.cu.j2"

    @property
    def operands(self) -> tuple[TmaOperand, TmaOperand]:
        """Both operands, A first."""
        return (self.a, self.b)

    @property
    def store_template(self) -> str:
        """Path below ``templates/`` of the text by which the sums become D."""
        stems = {
            "tma": "tma_store",
            "rows": "tma_rows",
            "lanes": "consumer_lanes",
            "slab": "consumer_slab",
            "sums": "consumer_sums",
            "gather": "consumer_gather",
            "whole": "consumer_rows",
        }
        stem = stems[self.store]
        if self.store == "tma" and self.d_bytes != 2:
            stem = "tma_bytes"
        return f"stores/{stem}.cu.j2"

    @property
    def raster_template(self) -> str:
        """Path below ``templates/`` of the text that tells which tile a block computes."""
        return f"parts/raster_{'cluster_k' if self.cluster_k > 1 else 'persistent'}.cu.j2"

    @property
    def meets(self) -> bool:
        """Whether sums meet in shared memory behind the last slice: a block then has one tile."""
        return self.cluster_k > 1

    @property
    def sharers(self) -> int:
        """Blocks of a cluster that share a tile of A or B."""
        return self.a.sharers * self.b.sharers

    @property
    def tells(self) -> bool:
        """Whether blocks tell each other what they have of a row."""
        return self.holds_rows and self.cluster > 1

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_m * self.cluster_n * self.cluster_k

    @property
    def mma_n(self) -> int:
        """Columns of one instruction: the whole tile's."""
        return self.tile_n

    @property
    def mma_k(self) -> int:
        """Elements of k that one instruction multiplies: 32 bytes."""
        return FRAGMENT_BYTES // self.a.dtype.bytes

    @property
    def steps(self) -> int:
        """Instructions along k of a slice: no more than all of k takes."""
        k = self.a.columns if self.a.k_major else self.a.rows
        most = self.tile_k if k.dynamic else min(self.tile_k, k.size)
        return -(-most // self.mma_k)

    @property
    def loop(self) -> str:
        """Path of the main loop's template below ``templates/``."""
        stem = "overlapped" if self.overlapped else "apart" if self.promoted else "in_flight"
        return f"loops/wgmma_{stem}.cu.j2"

    @property
    def lag_from(self) -> int:
        """Slices of a tile from which on there is the lag, where only the launch tells them."""
        return slices_for_lag(self.lag, self.stages)

    @property
    def scale_n(self) -> int:
        """Columns of the tile that share B's scale, where it has scales by block."""
        return shared_columns(self.tile_n // self.halves)

    @property
    def scales_n(self) -> int:
        """Blocks of B's columns that the tile may lie in."""
        return blocks_of(self.tile_n, self.halves)

    @property
    def rows_interleaved(self) -> bool:
        """See `MmaSync`; wgmma reads its operands from shared memory as they are."""
        return False

    @property
    def columns_interleaved(self) -> bool:
        """As above."""
        return False

    @property
    def min_blocks(self) -> int:
        """Resident blocks a multiprocessor. Two were never faster (benchmarks/notes.md)."""
        return 1

    @property
    def consumer_m(self) -> int:
        """Rows of the tile that a consumer computes."""
        return self.tile_m * self.tiles_at_once // self.consumers

    @property
    def fragments_m(self) -> int:
        """Fragments of 64 rows that a consumer computes."""
        return self.consumer_m // 64

    @property
    def accumulators(self) -> int:
        """fp32 accumulators a consumer thread holds."""
        return self.fragments_m * self.tile_n // 2

    @property
    def threads(self) -> int:
        """Threads of the block: the consumers and one producer."""
        return WARPGROUP * (self.consumers + 1)

    @property
    def registers(self) -> tuple[int, int]:
        """(producer, consumer) registers a thread that setmaxnreg asks for.

        The warpgroups share the 65,536 of a multiprocessor; what the producer leaves is cut down
        to a multiple of 8, and to 240, the most the instruction gives (PTX ISA).
        """
        producer = 24
        left = 65536 // WARPGROUP - producer
        return producer, min(left // self.consumers // 8 * 8, 240)

    @property
    def stage_bytes(self) -> int:
        """Bytes of one ring slot."""
        return self.a.bytes + self.b.bytes

    @property
    def landed_bytes(self) -> int:
        """Bytes that TMA writes into a slot."""
        return self.a.landed_bytes + self.b.landed_bytes

    @property
    def shared_operand(self) -> TmaOperand:
        """The operand whose copies the blocks of a cluster share."""
        return self.b if self.cluster_m > 1 else self.a

    @property
    def idle_operands(self) -> tuple[TmaOperand, ...]:
        """Operands with rows that no copy writes."""
        return tuple(operand for operand in self.operands if operand.idle_rows)

    @property
    def narrow_operands(self) -> tuple[tuple[TmaOperand, int, int], ...]:
        """Operands whose copies write less of a row than wgmma reads: (first, number) of chunks.

        A chunk is 16 bytes. Of a row along k the steps read a part, of one along m or n all.
        """
        found = []
        for operand in self.operands:
            first = operand.box_columns * operand.dtype.bytes // CHUNK_BYTES
            along_k = min(self.steps * FRAGMENT_BYTES, PANEL_BYTES)
            read = (along_k if operand.k_major else PANEL_BYTES) // CHUNK_BYTES
            if first < read:
                found.append((operand, first, read - first))
        return tuple(found)

    @staticmethod
    def rows_cleared(operand: TmaOperand) -> int:
        """Rows of a narrow operand that neighbours clear: of eight no bank is met twice."""
        return gcd(operand.landed_rows, SWIZZLE_ROWS)

    @property
    def cleared(self) -> bool:
        """Whether the ring has bytes that wgmma reads and no copy writes."""
        return bool(self.idle_operands or self.narrow_operands)

    @property
    def store_panels(self) -> tuple[int, int]:
        """(columns of a panel, panels that fit) of D on its way to TMA."""
        return store_panels(self.consumer_m, self.tile_n // self.halves, self.d_bytes)

    @property
    def row_panels(self) -> tuple[int, int]:
        """Panels of a row of D that a warp's slab holds, and that one copy of TMA writes."""
        return row_panels(self.tile_n)

    @property
    def slab_ragged(self) -> bool:
        """Whether the last part of a warp's row is narrower than its slab."""
        return self.store == "slab" and self.tile_n % self.slab_n != 0

    @property
    def stores_by_warp(self) -> bool:
        """Whether each warp hands its own rows of D to TMA, without a wait for the others.

        Consumers that take turns hide their epilogue; there larger boxes are written faster.
        """
        return self.store == "tma" and self.tiles_at_once == 1

    @property
    def store_rows(self) -> int:
        """Rows of D that one copy of TMA writes."""
        if self.store == "rows":
            return SLAB_ROWS
        return WARP_ROWS if self.stores_by_warp else self.consumer_m

    @property
    def store_bytes(self) -> int:
        """Bytes beside the ring that the epilogue uses; a gather's sums lie over the ring."""
        if self.store == "tma":
            columns, slots = self.store_panels
            return self.consumers * slots * self.consumer_m * columns * self.d_bytes
        if self.store in ("sums", "lanes", "whole"):
            return 0
        if self.store == "rows":
            return row_slab_bytes(self.tile_n, self.consumers)
        if self.store == "gather":
            return max(self.tile_m * self.tile_n * 4 - self.stages * self.stage_bytes, 0)
        return self.consumers * 4 * 16 * self.slab_n * 4

    @property
    def staged(self) -> int:
        """Of the vectors those, from the first on, of which consumers keep a tile's columns."""
        return staged_columns(self.vectors, self.tile_n) if self.store == "tma" else 0

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns that the consumers keep."""
        return self.consumers * self.staged * self.tile_n * 4

    @property
    def told_bytes(self) -> int:
        """Bytes of what a block is told of its rows, and of the barriers at which that arrives."""
        return told_bytes(self.cluster, self.consumers, self.consumer_m) if self.tells else 0

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: ring, epilogue, a slot's barriers, those of turns."""
        turns = 8 * self.consumers if self.tiles_at_once > 1 else 0
        barriers = 16 if self.turns else 8  # it has landed; it has been read
        epilogue = self.store_bytes + self.column_bytes + self.told_bytes
        return self.stages * (self.stage_bytes + barriers) + epilogue + turns
