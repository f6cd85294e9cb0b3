"""Kernel bodies: how a tile is computed. A plan has exactly one.

`MmaSync` is the family of Ampere-class instructions, which every architecture from Turing on runs;
`Wgmma` is Hopper's: TMA copies, warp specialisation, and matrix instructions that read shared
memory. `Reduce` multiplies nothing: it makes D of partial sums. The other bodies have modules of
their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.block_scales import blocks_of, shared_columns
from deepgemm_codegen.layout import staged_columns, store_panels
from deepgemm_codegen.tiles import WARP, Operand

if TYPE_CHECKING:
    from deepgemm_codegen.tma import TmaOperand

__all__ = ["FRAGMENT_BYTES", "WARPGROUP", "MmaSync", "Reduce", "Wgmma"]

WARPGROUP = 128
"""Threads that issue one wgmma together."""

FRAGMENT_BYTES = 32
"""Bytes of k that one set of ldmatrix fragments covers, on every architecture."""


@dataclass(frozen=True, slots=True)
class MmaSync:
    """A block tile computed by ``mma.sync`` from shared memory, fed by a ring of stages.

    Attributes:
        tile_m, tile_n, tile_k: elements of the block tile.
        warps_m, warps_n: warps along m and n.
        mma_m, mma_n, mma_k: instruction shape; where an architecture has it for 8 rows only, two
            instructions stand for one.
        stages: ring slots in shared memory; prefetch depth is one less.
        min_blocks: resident blocks a multiprocessor that the register cap allows for.
        fragment_buffers: 2 when the next step's fragments load while this step multiplies, across
            slices too (an even number of steps); otherwise 1.
        promoted: whether each product of 32 of k starts at zero and is added in fp32.
        a, b: the operands by role.
        holds_rows: whether a warp's columns are all of D's, so that a step may ask for whole rows.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    mma_m: int
    mma_n: int
    mma_k: int
    stages: int
    min_blocks: int
    fragment_buffers: int
    promoted: bool
    a: Operand
    b: Operand
    holds_rows: bool = False

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "product"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/mma_sync.cu.j2"

    @property
    def loop(self) -> str:
        """Stem of the main loop's template below ``templates/loops/``."""
        return "prefetched" if self.fragment_buffers == 2 else "plain"

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """Both operands, A first."""
        return (self.a, self.b)

    @property
    def any_in_flight(self) -> bool:
        """Whether any operand is copied by cp.async."""
        return self.a.in_flight or self.b.in_flight

    @property
    def operands_in_registers(self) -> tuple[Operand, ...]:
        """The operands that pass through registers on their way to shared memory."""
        return tuple(operand for operand in self.operands if not operand.in_flight)

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return WARP * self.warps_m * self.warps_n

    @property
    def warp_m(self) -> int:
        """Rows of the warp tile."""
        return self.tile_m // self.warps_m

    @property
    def warp_n(self) -> int:
        """Columns of the warp tile."""
        return self.tile_n // self.warps_n

    @property
    def fragment_k(self) -> int:
        """Elements of k that one set of fragments covers."""
        return FRAGMENT_BYTES // self.a.dtype.bytes

    @property
    def steps(self) -> int:
        """Fragment sets along k in one stage."""
        return self.tile_k // self.fragment_k

    @property
    def halves_rows(self) -> bool:
        """Whether an instruction multiplies 8 rows only, as Turing's do 8-bit ones."""
        return self.mma_k < self.fragment_k and self.a.dtype.bytes == 1

    @property
    def rows_interleaved(self) -> bool:
        """Whether rows r and r + 8 of a fragment are rows 2r and 2r + 1 of the tile."""
        return self.a.bytewise

    @property
    def columns_interleaved(self) -> bool:
        """Whether column c of two neighbouring fragments is 2c and 2c + 1 of the tile."""
        return self.b.bytewise

    @property
    def b_pairs(self) -> bool:
        """Whether one ldmatrix.x4 loads two of B's fragments (else .x2 loads one)."""
        return (self.warp_n // self.mma_n) % 2 == 0

    @property
    def stage_bytes(self) -> int:
        """Bytes of one ring slot."""
        return self.a.bytes + self.b.bytes

    @property
    def slab_bytes(self) -> int:
        """Bytes of one warp's epilogue slab: mma_m rows of fp32."""
        return self.mma_m * self.warp_n * 4

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        slabs = self.warps_m * self.warps_n * self.slab_bytes
        return max(self.stages * self.stage_bytes, slabs)

    @property
    def accumulators(self) -> int:
        """Accumulators a thread holds."""
        return self.warp_m * self.warp_n // WARP


@dataclass(frozen=True, slots=True)
class Wgmma:
    """A block tile computed by ``wgmma``, fed by TMA through a ring of stages.

    One producer warpgroup keeps the ring full. The consumer warpgroups share a tile, each
    computing ``tile_m / consumers`` rows of it (cooperative), or take tiles in turn, so that one
    multiplies while the other writes its tile (ping-pong). Rows come in fragments of 64.

    Attributes:
        tile_m, tile_n, tile_k: elements of the block tile; tile_k is one 128-byte row.
        consumers: consumer warpgroups.
        tiles_at_once: tiles in the consumers' hands: 1, cooperative; 2, ping-pong.
        stages: ring slots in shared memory.
        turns: whether slots are filled again. Not where each slice of a block's only tile has one.
        cluster_m, cluster_n: blocks of a cluster along m and n; blocks along m share B's tile,
            blocks along n share A's. At most one of them is more than 1.
        cluster_k: blocks of a cluster along k: each sums a part of it, then finishes a share of the
            tile, for which it reads the others' sums. More than 1 only in a cluster of its own.
        store: ``tma`` stages D in shared memory and lets TMA write it while the next tile is
            computed; ``slab`` stores rows from each warp's slab, for any alignment and for fp32;
            ``sums`` stores partial sums straight from registers; ``gather`` has the blocks of a
            cluster along k meet in shared memory.
        slab_n: columns of a warp's slab; a warp's row passes through it in parts.
        d_bytes: of an element of D.
        promoted: whether a slice's sums start at zero and are added in fp32.
        scaled: whether they are scaled on the way, see `deepgemm_codegen.block_scales`.
        halves: columns of the tile that make one of D.
        vectors: that the epilogue's steps read by columns, see `epilogue.column_vectors`.
        a, b: the operands by role.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    consumers: int
    tiles_at_once: int
    stages: int
    turns: bool
    cluster_m: int
    cluster_n: int
    cluster_k: int
    store: Literal["tma", "slab", "sums", "gather"]
    slab_n: int
    d_bytes: int
    promoted: bool
    scaled: bool
    halves: int
    vectors: int
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
    def epilogue_template(self) -> str:
        """Path of the epilogue's template below ``templates/``."""
        stems = {
            "tma": "tma_store",
            "slab": "consumer_slab",
            "sums": "consumer_sums",
            "gather": "consumer_gather",
        }
        stem = stems[self.store]
        if self.store == "tma" and self.d_bytes != 2:
            stem = "tma_bytes"
        return f"epilogues/{stem}.cu.j2"

    @property
    def raster_template(self) -> str:
        """Path below ``templates/`` of the text that tells which tile a block computes."""
        return f"parts/raster_{'cluster_k' if self.cluster_k > 1 else 'persistent'}.cu.j2"

    @property
    def sharers(self) -> int:
        """Blocks of a cluster that share a tile of A or B."""
        return self.cluster_m * self.cluster_n

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.sharers * self.cluster_k

    @property
    def mma_n(self) -> int:
        """Columns of one instruction: the whole tile's."""
        return self.tile_n

    @property
    def mma_k(self) -> int:
        """Elements of k that one instruction multiplies: 32 bytes."""
        return FRAGMENT_BYTES // self.a.dtype.bytes

    @property
    def loop(self) -> str:
        """Path of the main loop's template below ``templates/``."""
        if self.scaled:
            return "loops/wgmma_scaled.cu.j2"
        return f"loops/wgmma_{'promoted' if self.promoted else 'in_flight'}.cu.j2"

    @property
    def scale_n(self) -> int:
        """Columns of the tile that share B's scale, where it has scales by block."""
        return shared_columns(self.tile_n)

    @property
    def scales_n(self) -> int:
        """Blocks of B's columns that the tile may lie in."""
        return blocks_of(self.tile_n)

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
    def store_panels(self) -> tuple[int, int]:
        """(columns of a panel, panels that fit) of D on its way to TMA."""
        return store_panels(self.consumer_m, self.tile_n // self.halves, self.d_bytes)

    @property
    def store_bytes(self) -> int:
        """Bytes beside the ring that the epilogue uses; a gather's sums lie over the ring."""
        if self.store == "tma":
            columns, slots = self.store_panels
            return self.consumers * slots * self.consumer_m * columns * self.d_bytes
        if self.store == "sums":
            return 0
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
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: ring, epilogue, a slot's barriers, those of turns."""
        turns = 8 * self.consumers if self.tiles_at_once > 1 else 0
        barriers = 16 if self.turns else 8  # it has landed; it has been read
        epilogue = self.store_bytes + self.column_bytes
        return self.stages * (self.stage_bytes + barriers) + epilogue + turns


@dataclass(frozen=True, slots=True)
class Reduce:
    """A tile of D made of partial sums: added up in one order, then the epilogue.

    A thread owns a vector of D (`Output.vector` columns of one row) and adds the parts of k of
    its group; groups meet in shared memory.

    Attributes:
        tile_m, tile_n: rows and columns of the tile.
        parts: partial sums an element.
        groups: threads that share the parts of one vector.
        vector: columns of a thread's vector.
        leading: elements from row to row of the partial sums; None when known at run time.
    """

    tile_m: int
    tile_n: int
    parts: int
    groups: int
    vector: int
    leading: int | None

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "reduce"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/reduce.cu.j2"

    @property
    def leading_symbol(self) -> str:
        """What holds the leading dimension of the partial sums: ``LDP``, or ``ldp``."""
        return "ldp" if self.leading is None else "LDP"

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.tile_m * self.tile_n // self.vector * self.groups

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: a vector of each thread but those of group 0."""
        return self.tile_m * self.tile_n * (self.groups - 1) * 4
