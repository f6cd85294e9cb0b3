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
from typing import Literal

from deepgemm_codegen.dtypes import DType
from deepgemm_codegen.epilogue import EpilogueStep
from deepgemm_codegen.expressions import Expression, Number, Variable, ceildiv, times
from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "Decision",
    "Extent",
    "Grid",
    "KernelPlan",
    "MmaSync",
    "Operand",
    "Output",
    "Parameter",
    "Program",
]

WARP = 32
"""Threads of a warp."""

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
class Extent:
    """A dimension in a plan.

    Attributes:
        name: the caller's ``M``, ``N`` or ``K``, the generated constant; its lower case is the
            argument of a dynamic one.
        size: the fixed size, or the size a dynamic one is planned for.
        dynamic: whether the kernel takes it as an argument.
        tile: elements of it that a block covers.
    """

    name: str
    size: int
    dynamic: bool
    tile: int

    @property
    def symbol(self) -> str:
        """How the kernel's code names it: ``M`` or ``m``."""
        return self.name.lower() if self.dynamic else self.name

    @property
    def tail(self) -> bool:
        """Whether the last tile may be partial, so that guards are printed."""
        return self.dynamic or self.size % self.tile != 0

    @property
    def tiles(self) -> int:
        """Tiles along this dimension at the planned size."""
        return -(-self.size // self.tile)


@dataclass(frozen=True, slots=True)
class Operand:
    """How A or B travels: global memory, shared memory, fragments.

    Attributes:
        name: ``a`` or ``b``, its role in the plan; `source` is the caller's letter.
        source: ``a`` or ``b``, the caller's operand that plays the role.
        dtype: element type.
        major: ``k`` when k is contiguous in memory, ``mn`` when m or n is.
        leading: leading dimension in elements; None when it is the dynamic argument
            ``ld<source>``.
        rows: the extent across the rows of the stored matrix.
        columns: the contiguous extent.
        vector_bytes: bytes that one thread copies at a time.
        mechanism: ``cp_async`` from global to shared memory in flight, or ``registers`` (load,
            then store), for 2-byte vectors and for architectures without cp.async.
        swizzle_bytes: panel width in shared memory, see `deepgemm_codegen.layout`.
        threads: threads of the block, all of which copy.
    """

    name: Literal["a", "b"]
    source: Literal["a", "b"]
    dtype: DType
    major: Literal["k", "mn"]
    leading: int | None
    rows: Extent
    columns: Extent
    vector_bytes: int
    mechanism: Literal["cp_async", "registers"]
    swizzle_bytes: int
    threads: int

    @property
    def leading_symbol(self) -> str:
        """The generated constant or argument that holds the leading dimension."""
        return f"ld{self.source}" if self.leading is None else f"LD{self.source.upper()}"

    @property
    def bytes(self) -> int:
        """Bytes of one stage's tile."""
        return self.rows.tile * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the tile."""
        return self.columns.tile * self.dtype.bytes

    @property
    def panels(self) -> int:
        """Panels that a row is cut into."""
        return self.row_bytes // self.swizzle_bytes

    @property
    def panel_bytes(self) -> int:
        """Bytes of one panel."""
        return self.rows.tile * self.swizzle_bytes

    @property
    def panel_columns(self) -> int:
        """Elements of a row that a panel holds."""
        return self.swizzle_bytes // self.dtype.bytes

    @property
    def pass_bytes(self) -> int:
        """Bytes that the block copies when every thread copies one vector."""
        return self.threads * self.vector_bytes

    @property
    def pass_rows(self) -> int:
        """Rows of a panel that one pass fills."""
        return self.pass_bytes // self.swizzle_bytes

    @property
    def passes(self) -> int:
        """Passes that fill one panel."""
        return -(-self.rows.tile // self.pass_rows)

    @property
    def ragged_pass(self) -> bool:
        """Whether some threads have no row in the last pass."""
        return self.rows.tile % self.pass_rows != 0

    @property
    def vector_elements(self) -> int:
        """Elements of one copied vector."""
        return self.vector_bytes // self.dtype.bytes

    @property
    def row_tail(self) -> bool:
        """Whether the copy must test that a row exists."""
        return self.rows.tail

    @property
    def column_tail(self) -> bool:
        """Whether the copy must test how much of a row exists."""
        return self.columns.tail

    @property
    def tail(self) -> bool:
        """Whether any test is printed in the copy."""
        return self.row_tail or self.column_tail


@dataclass(frozen=True, slots=True)
class Output:
    """How D is written, and C read where there is one.

    Attributes:
        dtype, leading: of D; ``leading`` is None when it is the argument ``ldd``.
        c_dtype, c_leading: of C; ``c_dtype`` is None without C.
        vector: elements that a lane stores at a time (4, 2 or 1).
        warp_n: columns of the warp tile.
    """

    dtype: DType
    leading: int | None
    c_dtype: DType | None
    c_leading: int | None
    vector: int
    warp_n: int

    @property
    def leading_symbol(self) -> str:
        """``LDD`` or ``ldd``."""
        return "ldd" if self.leading is None else "LDD"

    @property
    def c_leading_symbol(self) -> str:
        """``LDC`` or ``ldc``."""
        return "ldc" if self.c_leading is None else "LDC"

    @property
    def vectors_per_row(self) -> int:
        """Vectors in one row of the warp's slab."""
        return self.warp_n // self.vector

    @property
    def lanes_per_row(self) -> int:
        """Lanes that store one row: the largest divisor of the row's vectors up to a warp."""
        return max(d for d in range(1, WARP + 1) if self.vectors_per_row % d == 0)

    @property
    def column_passes(self) -> int:
        """Times those lanes move along a row."""
        return self.vectors_per_row // self.lanes_per_row

    @property
    def rows_per_pass(self) -> int:
        """Rows that a warp stores at a time: a power of two up to 16."""
        rows = 16
        while rows * self.lanes_per_row > WARP:
            rows //= 2
        return rows

    @property
    def active_lanes(self) -> int:
        """Lanes that store; below a warp the others skip."""
        return self.rows_per_pass * self.lanes_per_row


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
class Parameter:
    """One argument of the kernel, in order.

    Attributes:
        name: as the signature spells it.
        role: what the harness passes: ``a b c d`` and ``operand`` are device pointers,
            ``alpha``/``beta`` floats, ``dim`` a 32-bit size, ``stride`` a 64-bit leading
            dimension.
        dtype: element type behind a pointer, else None.
        written: whether the kernel writes through the pointer.
        step: index of the epilogue step for ``operand``, else -1.
    """

    name: str
    role: Literal["a", "b", "c", "d", "operand", "alpha", "beta", "dim", "stride"]
    dtype: DType | None = None
    written: bool = False
    step: int = -1

    @property
    def pointer(self) -> bool:
        """Whether the argument is a device pointer."""
        return self.dtype is not None


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
        body, output = self.body, self.output
        by_source = {operand.source: operand for operand in (body.a, body.b)}
        found = [
            Parameter("a", "a", by_source["a"].dtype),
            Parameter("b", "b", by_source["b"].dtype),
        ]
        if output.c_dtype is not None:
            found.append(Parameter("c", "c", output.c_dtype))
        found.append(Parameter("d", "d", output.dtype, written=True))
        found.extend(
            Parameter(f"{step.kind}{index}", "operand", step.dtype, step=index)
            for index, step in enumerate(self.epilogue)
            if step.dtype is not None
        )
        found.append(Parameter("alpha", "alpha"))
        if output.c_dtype is not None:
            found.append(Parameter("beta", "beta"))
        dims = (("m", self.spec.m), ("n", self.spec.n), ("k", self.spec.k))
        found.extend(Parameter(name, "dim") for name, dim in dims if dim.dynamic)
        found.extend(
            Parameter(f"ld{operand}", "stride")
            for operand in self.dynamic_strides
        )
        return tuple(found)

    @property
    def dynamic_strides(self) -> tuple[str, ...]:
        """Letters of the operands whose leading dimension is an argument."""
        leading = {self.body.a.source: self.body.a.leading, self.body.b.source: self.body.b.leading}
        letters = [letter for letter in "ab" if leading[letter] is None]
        if self.output.c_dtype is not None and self.output.c_leading is None:
            letters.append("c")
        if self.output.leading is None:
            letters.append("d")
        return tuple(letters)

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
