"""How a tile is computed by ``mma.sync``, which every architecture from Turing on runs."""

from __future__ import annotations

from dataclasses import dataclass

from deepgemm_codegen.plan.tiles import FRAGMENT_BYTES, WARP, Operand

__all__ = ["MmaSync"]


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
        rolled: whether the compiler may not unroll the loop over slices, for want of registers.
        few_passes: the same of the loop over the passes that D leaves a slab in, but by four.
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
    rolled: bool = False
    few_passes: bool = False

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
        if self.fragment_buffers != 2:
            return "plain"
        return "prefetched" if self.operands_in_registers else "in_flight"

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
    def slabs_bytes(self) -> int:
        """Bytes of all warps' slabs, one after the other."""
        return self.warps_m * self.warps_n * self.slab_bytes

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return max(self.stages * self.stage_bytes, self.slabs_bytes)

    @property
    def accumulators(self) -> int:
        """Accumulators a thread holds."""
        return self.warp_m * self.warp_n // WARP
