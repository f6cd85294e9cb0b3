"""From the winning numbers to a `KernelPlan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.operands import output_vector, place_operand, travel_of
from deepgemm_codegen.decide.registers import fragment_buffers
from deepgemm_codegen.decide.tma import place_tma_operand, store_of
from deepgemm_codegen.epilogue import EpilogueStep
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.naming import kernel_name
from deepgemm_codegen.plan import Decision, Grid, KernelPlan, MmaSync, Persistent, Program, Wgmma
from deepgemm_codegen.tiles import Extent, Output
from deepgemm_codegen.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Choice", "WgmmaChoice", "assemble", "sources"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The numbers that distinguish one candidate from another.

    Attributes:
        tile_m, tile_n, tile_k: block tile in elements, in the plan's roles.
        warps_m, warps_n: warps along m and n.
        stages: ring slots.
        min_blocks: resident blocks that the register cap allows for.
        raster_group: tile rows of a raster group.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    min_blocks: int
    raster_group: int


@dataclass(frozen=True, slots=True)
class WgmmaChoice:
    """The numbers that distinguish one candidate of the wgmma family from another.

    Attributes:
        tile_m, tile_n: block tile in elements, in the plan's roles.
        consumers: consumer warpgroups.
        stages: ring slots.
        cluster_m, cluster_n: blocks of a cluster along m and n.
        raster_group: cluster rows of a raster group.
    """

    tile_m: int
    tile_n: int
    consumers: int
    stages: int
    cluster_m: int
    cluster_n: int
    raster_group: int


_SWAPPED: dict[str, Literal["row", "column"]] = {"row": "column", "column": "row"}

_Letter = Literal["a", "b"]


def _extents(
    spec: GemmSpec, tile_m: int, tile_n: int, tile_k: int, cluster_m: int = 1, cluster_n: int = 1
) -> tuple[Extent, Extent, Extent]:
    """m, n and k in the plan's roles."""
    rows, columns = ("M", spec.m), ("N", spec.n)
    if spec.layout_d == "t":
        rows, columns = columns, rows
    return (
        Extent("m", rows[0], rows[1].size, rows[1].dynamic, tile_m, cluster_m),
        Extent("n", columns[0], columns[1].size, columns[1].dynamic, tile_n, cluster_n),
        Extent("k", "K", spec.k.size, spec.k.dynamic, tile_k),
    )


def sources(spec: GemmSpec) -> tuple[_Letter, _Letter]:
    """The caller's operands that play the plan's a and b."""
    return ("b", "a") if spec.layout_d == "t" else ("a", "b")


def _program(
    spec: GemmSpec,
    target: str,
    extents: tuple[Extent, Extent, Extent],
    body: MmaSync | Wgmma,
    schedule: Grid | Persistent,
    vector: int,
    slab_n: int,
    decisions: tuple[Decision, ...],
) -> Program:
    """The one-kernel program of a body."""
    transposed = spec.layout_d == "t"
    epilogue = spec.epilogue
    if transposed:
        epilogue = tuple(
            EpilogueStep(s.kind, _SWAPPED.get(s.access, s.access), s.dtype) for s in epilogue
        )
    m, n, k = extents
    output = Output(
        dtype=spec.dtype_d,
        leading=spec.ldd or None,
        c_dtype=spec.dtype_c,
        c_leading=spec.ldc or None,
        vector=vector,
        warp_n=slab_n,
    )
    kernel = KernelPlan(
        name=kernel_name(spec),
        spec=spec,
        target=target,
        transposed=transposed,
        m=m,
        n=n,
        k=k,
        batch=spec.batch,
        output=output,
        epilogue=epilogue,
        body=body,
        schedule=schedule,
        decisions=decisions,
    )
    return Program((kernel,))


def assemble(
    spec: GemmSpec, arch: Arch, choice: Choice | WgmmaChoice, decisions: tuple[Decision, ...] = ()
) -> Program:
    """The program of one choice that the constraints have passed."""
    if isinstance(choice, WgmmaChoice):
        return _assemble_wgmma(spec, arch, choice, decisions)
    extents = _extents(spec, choice.tile_m, choice.tile_n, choice.tile_k)
    m, n, k = extents
    threads = 32 * choice.warps_m * choice.warps_n
    left, right = sources(spec)
    a = place_operand(spec, "a", left, travel_of(spec, left, arch), m, k, threads)
    b = place_operand(spec, "b", right, travel_of(spec, right, arch), n, k, threads)
    if a is None or b is None:
        raise InternalError(f"no panel width for {choice}; the constraints should have refused it")
    body = MmaSync(
        tile_m=choice.tile_m,
        tile_n=choice.tile_n,
        tile_k=choice.tile_k,
        warps_m=choice.warps_m,
        warps_n=choice.warps_n,
        mma_m=16,
        mma_n=8,
        mma_k=arch.mma_k,
        stages=choice.stages,
        min_blocks=choice.min_blocks,
        fragment_buffers=fragment_buffers(choice.tile_k),
        a=a,
        b=b,
    )
    slab_n = choice.tile_n // choice.warps_n
    schedule = Grid(raster_group=choice.raster_group)
    vector = output_vector(spec)
    return _program(spec, arch.name, extents, body, schedule, vector, slab_n, decisions)


def _assemble_wgmma(
    spec: GemmSpec, arch: Arch, choice: WgmmaChoice, decisions: tuple[Decision, ...]
) -> Program:
    tile_k = PANEL_BYTES // spec.dtype_a.bytes
    clusters = (choice.cluster_m, choice.cluster_n)
    extents = _extents(spec, choice.tile_m, choice.tile_n, tile_k, *clusters)
    m, n, k = extents
    left, right = sources(spec)
    store = store_of(spec, choice.tile_n)
    slab_n = next(w for w in (64, 48, 32, 16, 8) if choice.tile_n % w == 0)
    body = Wgmma(
        tile_m=choice.tile_m,
        tile_n=choice.tile_n,
        tile_k=tile_k,
        consumers=choice.consumers,
        stages=choice.stages,
        cluster_m=choice.cluster_m,
        cluster_n=choice.cluster_n,
        store=store,
        slab_n=slab_n,
        a=place_tma_operand(spec, "a", left, m, k, choice.cluster_n),
        b=place_tma_operand(spec, "b", right, n, k, choice.cluster_m),
    )
    vector = 2 if store == "tma" else output_vector(spec)
    schedule = Persistent(raster_group=choice.raster_group)
    return _program(spec, f"{arch.name}a", extents, body, schedule, vector, slab_n, decisions)
