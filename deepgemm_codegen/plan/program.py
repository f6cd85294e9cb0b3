"""Plans: every choice about a kernel, as frozen values that are enough to render it.

A `Program` is an ordered tuple of `KernelPlan`s and the workspace through which they pass on what
they computed. A `KernelPlan` has a common head, exactly one body (how a tile is computed:
`MmaSync`, `Wgmma`, `Bandwidth` or `Simt`; of partial sums, `Reduce`; of copies, `Repack` or `Turn`;
of whole rows, `Rows` or `RowScales`; of zero points, `ZeroPoints`) and exactly one schedule (which
block computes which tile: `Grid` or `Persistent`). Everything a template prints is a field or a
property here.

Roles after canonicalisation: a spec with a transposed D is planned as D^T = B^T * A^T, so a plan's
D is always row-major. `KernelPlan.transposed` remembers it. Names (``M``, ``LDA``, the argument
``b``) stay the caller's; roles (``m``, ``tile_m``, body ``a``) are the plan's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan.bandwidth import Bandwidth
from deepgemm_codegen.plan.expressions import (
    Expression,
    Minimum,
    Number,
    Variable,
    ceildiv,
    times,
)
from deepgemm_codegen.plan.layout import AREA_ALIGNMENT
from deepgemm_codegen.plan.mma_sync import MmaSync
from deepgemm_codegen.plan.reduce import Reduce
from deepgemm_codegen.plan.repack import PACKED, Repack
from deepgemm_codegen.plan.ring import Ring
from deepgemm_codegen.plan.row_scales import VALUES, RowScales
from deepgemm_codegen.plan.rows import Rows
from deepgemm_codegen.plan.schedules import Grid, Persistent, clusters_at_once
from deepgemm_codegen.plan.signature import (
    Parameter,
    kernel_parameters,
    parameters,
    partial_parameters,
    reduce_parameters,
    repack_parameters,
    row_scales_parameters,
    turn_parameters,
    zero_points_parameters,
)
from deepgemm_codegen.plan.simt import Simt
from deepgemm_codegen.plan.tensor_maps import tensor_maps
from deepgemm_codegen.plan.tiles import PARTIALS
from deepgemm_codegen.plan.turn import Turn, turned_name
from deepgemm_codegen.plan.wgmma import Wgmma
from deepgemm_codegen.plan.workspace import NO_WORKSPACE, Workspace
from deepgemm_codegen.plan.zero_points import ZEROS, ZeroPoints
from deepgemm_codegen.spec.precision import integer_sums

if TYPE_CHECKING:
    from deepgemm_codegen.epilogue import EpilogueStep
    from deepgemm_codegen.plan.tiles import Extent, Output
    from deepgemm_codegen.plan.tma import TensorMap
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "ASIDE",
    "Bandwidth",
    "Decision",
    "Grid",
    "KernelPlan",
    "MmaSync",
    "Persistent",
    "Program",
    "Reduce",
    "Repack",
    "RowScales",
    "Rows",
    "Simt",
    "Turn",
    "Wgmma",
    "ZeroPoints",
    "as_program",
]


ASIDE = (Reduce, Repack, Rows, RowScales, Turn, ZeroPoints)
"""Bodies that multiply nothing: they stand before or behind a product, or alone."""


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
class KernelPlan:
    """One kernel: the problem in canonical form, body, schedule, and why.

    Attributes:
        name: the entry symbol.
        spec: what was asked for.
        target: architecture that the code is compiled for, such as ``sm_90``.
        transposed: whether D^T = B^T * A^T is computed (see the module's docstring).
        m, n, k: extents in the plan's roles.
        batch: products; strides are those of densely following operands.
        output: how D is written, or partial sums of it.
        epilogue: the steps, with row and column in the plan's roles; none for partial sums.
        body: how a tile is computed.
        schedule: which block computes which tile.
        decisions: every question of the tree with its answer; of a program, the product's.
        dependent: whether it is launched so that it may begin before the kernel before it in the
            stream has ended (programmatic dependent launch): it waits before it touches memory.
        followed: whether the kernel behind it is launched so, and is let in early.
        abreast: tiles that a block computes side by side, each with threads and shared memory of
            its own; what the body says is then of one tile.
        turned: matrices of its steps that lie by rows in the workspace, see `Turn`.
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
    body: (
        MmaSync | Wgmma | Bandwidth | Simt | Reduce | Repack | Rows | RowScales | Turn | ZeroPoints
    )
    schedule: Grid | Persistent
    decisions: tuple[Decision, ...] = ()
    dependent: bool = False
    followed: bool = False
    abreast: int = 1
    turned: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.body.threads * self.abreast

    @property
    def area_bytes(self) -> int:
        """Bytes from one tile's shared memory to the next one's, where a block has several."""
        return -(-self.body.shared_bytes // AREA_ALIGNMENT) * AREA_ALIGNMENT

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self.body.shared_bytes if self.abreast == 1 else self.area_bytes * self.abreast

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The caller's arguments, in order: what the launcher takes."""
        return parameters(self.spec)

    @property
    def kernel_parameters(self) -> tuple[Parameter, ...]:
        """The kernel's arguments, in order; the caller's, where nothing else stands for one."""
        if isinstance(self.body, (Repack, RowScales, Turn, ZeroPoints)):
            return self._placed(self._side_parameters(self.body))
        if isinstance(self.body, Rows) and not self.body.parts:
            return self._placed(self.parameters)
        if isinstance(self.body, Reduce | Rows):
            return self._placed(reduce_parameters(self.spec, PARTIALS))
        read = {operand.source for operand in self.body.operands}
        packed = {name: region for name, region in PACKED.items() if region in read}
        if self.output.partial:
            return partial_parameters(self.spec, self.tensor_maps, packed, PARTIALS)
        if self.output.pointer != "d":
            packed["d"] = self.output.pointer
        return self._placed(kernel_parameters(self.spec, self.tensor_maps, packed))

    def _side_parameters(
        self, body: Repack | RowScales | Turn | ZeroPoints
    ) -> tuple[Parameter, ...]:
        """Those of a kernel that prepares operands, makes D of values, or turns matrices."""
        if isinstance(body, Turn):
            return turn_parameters(self.spec, body)
        if isinstance(body, RowScales):
            return row_scales_parameters(self.spec, VALUES, body.scale)
        if isinstance(body, ZeroPoints):
            return zero_points_parameters(self.spec, body.operands)
        return repack_parameters(self.spec, body.matrices)

    def _placed(self, found: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        """Parameters with the regions that stand for D, C and matrices of steps, where some do."""
        elsewhere = {p.name for p in found if self.place_of(p.name) != p.name}
        return tuple(
            Parameter(self.place_of(p.name), "region", p.dtype, written=p.written)
            if p.name in elsewhere
            else p
            for p in found
            if p.name.removeprefix("ld") == p.name or p.name[2:] not in elsewhere
        )

    def place_of(self, argument: str) -> str:
        """What holds a matrix like D: the caller's argument, or a region of the workspace."""
        if argument == "d":
            return self.output.pointer
        if argument == "c":
            return self.output.c_pointer
        return turned_name(argument) if argument in self.turned else argument

    @property
    def starts_early(self) -> bool:
        """Whether the thread that makes a ring's barriers starts the first copies there and then.

        Not where it has to wait before: for the other blocks of a cluster, or for the kernel
        before.
        """
        alone = isinstance(self.body, Wgmma) and self.body.sharers == 1 and not self.body.meets
        return alone and not self.dependent

    @property
    def paired(self) -> bool:
        """Whether two columns of B make one of D, in the epilogue of this kernel."""
        return self.output.halves > 1

    @property
    def scaled_early(self) -> bool:
        """Whether alpha is on the sums before the epilogue, which then has nothing to do for 1."""
        at_once = isinstance(self.body, Wgmma) and self.body.store == "tma"
        return at_once and bool(self.epilogue) and self.sum_type == "float"

    @property
    def ring(self) -> Ring:
        """The ring of a body whose threads copy slices of k to shared memory."""
        if not isinstance(self.body, (MmaSync, Simt)):
            raise InternalError(f"{self.name}: {type(self.body).__name__} has no ring of slices")
        slices = None if self.k.dynamic else -(-self.k.tiles // self.k.split)
        return Ring(self.body.stages, self.body.stage_bytes, slices)

    @property
    def slabs_offset(self) -> int | None:
        """Where the slabs of `MmaSync` begin in shared memory, if not over the last slice.

        None where they may lie over it: they are then written behind a barrier.
        """
        if not isinstance(self.body, MmaSync):
            return None
        return self.ring.beside_last(self.body.slabs_bytes)

    @property
    def zeroed(self) -> bool:
        """Whether the kernel takes from its sums what zero points of A and B are to blame for."""
        return self.spec.zero_points and self.multiplies

    @property
    def scaled(self) -> bool:
        """Whether the kernel scales sums of blocks of k, see `spec.block_scales`."""
        return self.spec.block_scaled and self.multiplies

    @property
    def row_zeros(self) -> str:
        """The region with two numbers a row of the plan, see `zero_points`."""
        return ZEROS["b" if self.transposed else "a"]

    @property
    def column_zeros(self) -> str:
        """The same a column."""
        return ZEROS["a" if self.transposed else "b"]

    @property
    def multiplies(self) -> bool:
        """Whether the kernel computes A * B."""
        return not isinstance(self.body, ASIDE)

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """The tensor maps that the host builds, in the order of their pointers."""
        if not isinstance(self.body, Wgmma):
            return ()
        return tensor_maps(self.spec, self.body, self.output, self.m, self.n)

    @property
    def sum_type(self) -> str:
        """C type of the sums."""
        return "int" if self.spec.dtype_acc.integer else "float"

    @property
    def value_type(self) -> str:
        """C type of what the epilogue makes of a sum before it is D's."""
        return "int" if integer_sums(self.output.dtype) else "float"

    @property
    def value_template(self) -> str:
        """Path below ``templates/`` of the way from a sum to D's value."""
        return f"parts/value_{'paired' if self.paired else self.value_type}.cu.j2"

    @property
    def extents(self) -> tuple[Extent, ...]:
        """m, n and k."""
        return (self.m, self.n, self.k)

    @property
    def tiles(self) -> Expression:
        """Tiles of D of the whole batch, over the dynamic dimensions' names."""
        return self._count(1, 1)

    def _count(self, rows: int, columns: int) -> Expression:
        """Groups of rows x columns tiles in the whole batch."""
        along_m = ceildiv(self.m.expression, self.m.tile * rows)
        along_n = ceildiv(self.n.expression, self.n.tile * columns)
        return times(times(along_m, along_n), Number(self.batch))

    @property
    def blocks(self) -> Expression:
        """Blocks of the one-dimensional grid; a persistent one also over ``sms``."""
        if isinstance(self.body, (Repack, ZeroPoints)):
            return self.body.blocks
        if isinstance(self.body, (Bandwidth, Reduce, Rows, RowScales, Simt, Turn)):
            return self.tiles if self.abreast == 1 else ceildiv(self.tiles, self.abreast)
        if isinstance(self.body, MmaSync):
            parts = times(self.tiles, Number(self.k.split))
            return parts if self.abreast == 1 else ceildiv(parts, self.abreast)
        cluster = self.body.cluster
        if self.body.meets:
            return times(self.tiles, Number(cluster))
        clusters = self._count(self.body.cluster_m, self.body.cluster_n)
        clusters = times(clusters, Number(self.k.split))
        if cluster == 1:
            return Minimum(clusters, Variable("sms"))
        return times(Number(cluster), Minimum(clusters, clusters_at_once(cluster)))


@dataclass(frozen=True, slots=True)
class Program:
    """Kernels in launch order, on one stream: repack, product, reduce, of which only one is a must.

    Attributes:
        name: stem of the file and of the launcher.
        kernels: what is launched; one multiplies, unless there is no product, and the last
            one writes D.
        workspace: what the kernels pass on through memory of the caller's.
        asked: what the caller wrote, where the kernels compute it as another spec that means the
            same: a batch as one larger product.
    """

    name: str
    kernels: tuple[KernelPlan, ...]
    workspace: Workspace = NO_WORKSPACE
    asked: GemmSpec | None = None

    @property
    def product(self) -> KernelPlan:
        """The kernel that multiplies, or else the first by rows: its tiles are the program's."""
        own = [kernel for kernel in self.kernels if not isinstance(kernel.body, Turn)]
        return next((kernel for kernel in own if kernel.multiplies), own[0])

    @property
    def spec(self) -> GemmSpec:
        """What was asked for; `solved` is what the kernels compute."""
        return self.asked or self.solved

    @property
    def solved(self) -> GemmSpec:
        """The spec that the kernels were made for, in whose terms they are judged.

        A kernel before the last may be planned for another D.
        """
        return self.kernels[-1].spec

    @property
    def target(self) -> str:
        """Architecture that the code is compiled for."""
        return self.product.target

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Every question of the tree with its answer."""
        return self.product.decisions

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The caller's arguments, in order; the launcher takes the workspace behind them."""
        return self.kernels[-1].parameters


def as_program(plan: Program | KernelPlan) -> Program:
    """The program of one kernel that does everything; a program stays what it is."""
    return plan if isinstance(plan, Program) else Program(plan.name, (plan,))
