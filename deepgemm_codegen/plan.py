"""Plans: every choice about a kernel, as frozen values that are enough to render it.

A `Program` is an ordered tuple of `KernelPlan`s. A `KernelPlan` has a common head, exactly one
body (how a tile is computed; so far `MmaSync`) and exactly one schedule (which block computes
which tile; so far `Grid`). Everything a template prints is a field or a property here.

Roles after canonicalisation: a spec with a transposed D is planned as D^T = B^T * A^T, so a plan's
D is always row-major. `KernelPlan.transposed` remembers it. Names (``M``, ``LDA``, the argument
``b``) stay the caller's; roles (``m``, ``tile_m``, body ``a``) are the plan's.
"""

from __future__ import annotations

from dataclasses import dataclass

from deepgemm_codegen.epilogue import EpilogueStep
from deepgemm_codegen.expressions import Expression, Number, Variable, ceildiv, times
from deepgemm_codegen.signature import Parameter, parameters
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.tiles import WARP, Extent, Operand, Output

__all__ = ["Decision", "Grid", "KernelPlan", "MmaSync", "Program"]

FRAGMENT_K = 16
"""Elements of k that one set of ldmatrix fragments covers, on every architecture."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One question of the tree and its answer.

    Attributes:
        id: stable id such as ``D03``; the same in the generated file, explain and manifest.
        question: what was asked, such as ``tile``.
        choice: the answer as people read it, such as ``128x128x32``.
        reason: why, in one line.
        rival: the best plan that answers differently and what it would cost, or empty.
    """

    id: str
    question: str
    choice: str
    reason: str
    rival: str = ""


@dataclass(frozen=True, slots=True)
class MmaSync:
    """A block tile computed by ``mma.sync`` from shared memory, fed by a ring of stages.

    Attributes:
        tile_m, tile_n, tile_k: elements of the block tile.
        warps_m, warps_n: warps along m and n.
        mma_m, mma_n, mma_k: instruction shape.
        stages: ring slots in shared memory; prefetch depth is one less.
        min_blocks: resident blocks a multiprocessor that the register cap allows for.
        a, b: the operands by role.
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
    a: Operand
    b: Operand

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/mma_sync.cu.j2"

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
    def steps(self) -> int:
        """Fragment sets along k in one stage."""
        return self.tile_k // FRAGMENT_K

    @property
    def mmas_per_step(self) -> int:
        """mma instructions along k in one fragment set: 1, or 2 where mma_k is 8."""
        return FRAGMENT_K // self.mma_k

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
        """fp32 accumulators a thread holds."""
        return self.warp_m * self.warp_n // WARP


@dataclass(frozen=True, slots=True)
class Grid:
    """One block a tile, tiles in groups of rows so that neighbours in time share operands.

    Attributes:
        raster_group: tile rows that a group walks, column by column.
    """

    raster_group: int

    def tile_of(self, block: int, tiles_m: int, tiles_n: int) -> tuple[int, int, int]:
        """(batch, tile row, tile column) that a block computes; what the templates print.

        Batches follow each other. In one, a group of `raster_group` tile rows (the last one may
        be lower) is walked down its first column, then down the next.
        """
        batch, block = divmod(block, tiles_m * tiles_n)
        group, within = divmod(block, self.raster_group * tiles_n)
        height = min(self.raster_group, tiles_m - group * self.raster_group)
        column, row = divmod(within, height)
        return batch, group * self.raster_group + row, column

    def block_of(self, batch: int, tile_m: int, tile_n: int, tiles_m: int, tiles_n: int) -> int:
        """The block that computes a tile: the inverse of `tile_of`."""
        group, row = divmod(tile_m, self.raster_group)
        height = min(self.raster_group, tiles_m - group * self.raster_group)
        within = tile_n * height + row
        return batch * tiles_m * tiles_n + group * self.raster_group * tiles_n + within


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One kernel: the problem in canonical form, body, schedule, and why.

    Attributes:
        name: the entry symbol and file stem.
        spec: what was asked for.
        target: architecture that the code is compiled for, such as ``sm_90``.
        transposed: whether D^T = B^T * A^T is computed (see the module's docstring).
        m, n, k: extents in the plan's roles.
        batch: products; strides are those of densely following operands.
        output: how D is written.
        epilogue: the steps, with row and column in the plan's roles.
        body: how a tile is computed.
        schedule: which block computes which tile.
        decisions: every question of the tree with its answer.
    """

    name: str
    spec: GemmSpec
    target: str
    transposed: bool
    m: Extent
    n: Extent
    k: Extent
    batch: int
    output: Output
    epilogue: tuple[EpilogueStep, ...]
    body: MmaSync
    schedule: Grid
    decisions: tuple[Decision, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's arguments, in order."""
        return parameters(self)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """m, n and k."""
        return (self.m, self.n, self.k)

    @property
    def blocks(self) -> Expression:
        """Blocks of the one-dimensional grid, over the dynamic dimensions' names."""

        def tiles(extent: Extent) -> Expression:
            size = Variable(extent.symbol) if extent.dynamic else Number(extent.size)
            return ceildiv(size, extent.tile)

        return times(times(tiles(self.m), tiles(self.n)), Number(self.batch))


@dataclass(frozen=True, slots=True)
class Program:
    """Kernels in launch order; one GEMM may take several (repack, product, reduce)."""

    kernels: tuple[KernelPlan, ...]
