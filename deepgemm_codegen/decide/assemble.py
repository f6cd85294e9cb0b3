"""From the winning numbers to a `KernelPlan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.operands import output_vector, place_operand, travel_of
from deepgemm_codegen.epilogue import EpilogueStep
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.naming import kernel_name
from deepgemm_codegen.plan import Decision, Grid, KernelPlan, MmaSync, Program
from deepgemm_codegen.tiles import Extent, Output

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Choice", "assemble"]


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


_SWAPPED: dict[str, Literal["row", "column"]] = {"row": "column", "column": "row"}


def assemble(
    spec: GemmSpec, arch: Arch, choice: Choice, decisions: tuple[Decision, ...] = ()
) -> Program:
    """The program of one choice that the constraints have passed."""
    transposed = spec.layout_d == "t"

    rows, columns = (("N", spec.n), ("M", spec.m)) if transposed else (("M", spec.m), ("N", spec.n))
    m = Extent("m", rows[0], rows[1].size, rows[1].dynamic, choice.tile_m)
    n = Extent("n", columns[0], columns[1].size, columns[1].dynamic, choice.tile_n)
    k = Extent("k", "K", spec.k.size, spec.k.dynamic, choice.tile_k)
    threads = 32 * choice.warps_m * choice.warps_n
    sources: tuple[Literal["a", "b"], Literal["a", "b"]] = ("b", "a") if transposed else ("a", "b")
    a = place_operand(spec, "a", sources[0], travel_of(spec, sources[0], arch), m, k, threads)
    b = place_operand(spec, "b", sources[1], travel_of(spec, sources[1], arch), n, k, threads)
    if a is None or b is None:
        raise InternalError(f"no panel width for {choice}; the constraints should have refused it")
    epilogue = spec.epilogue
    if transposed:
        epilogue = tuple(
            EpilogueStep(s.kind, _SWAPPED.get(s.access, s.access), s.dtype) for s in epilogue
        )
    return Program(
        (
            KernelPlan(
                name=kernel_name(spec),
                spec=spec,
                target=arch.name,
                transposed=transposed,
                m=m,
                n=n,
                k=k,
                batch=spec.batch,
                output=Output(
                    dtype=spec.dtype_d,
                    leading=spec.ldd or None,
                    c_dtype=spec.dtype_c,
                    c_leading=spec.ldc or None,
                    vector=output_vector(spec),
                    warp_n=choice.tile_n // choice.warps_n,
                ),
                epilogue=epilogue,
                body=MmaSync(
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
                    a=a,
                    b=b,
                ),
                schedule=Grid(raster_group=choice.raster_group),
                decisions=decisions,
            ),
        )
    )
