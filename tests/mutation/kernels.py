"""Which shipped kernels are mutated: drawn by seed from the repository's kernel files.

What a family is, its plans tell. The draw takes kernels in a shuffled order, first those that add
the other parity of the number of slices, then such as add most traits (a tail, a primitive, a
layout) which none before had. Those that are smaller than a tile or a ring come last, where a
family has no others. What no kernel file asks for, or only for large ones, stands in
``more_kernels.yaml`` beside this module, in the same pool. Results have no say.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.plan import Wgmma
from deepgemm_codegen.render import render_program
from deepgemm_codegen.render.kernel_text import text_of
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.specfile import read_all
from tests.rendering.plans import GOLDEN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["Specimen", "draw", "family_of", "golden", "shipped", "traits_of", "work_of"]

_MORE = Path(__file__).with_name("more_kernels.yaml")
_QUANTISED = Path(__file__).parents[2] / "benchmarks" / "quantised.yaml"

MOST_TILE, MOST_WORK = 1 << 22, 1 << 31
"""Multiply-adds of a tile (all parts of k, but for those that blocks of a cluster have) and of the
whole: beyond them a kernel repeats itself, and a mutant takes seconds here, minutes under a GPU's
sanitizers."""

MOST_ROW = 1 << 26
"""The same of a row of tiles, where tiles are judged by those."""


@dataclass(frozen=True)
class Specimen:
    """A program to be mutated.

    Attributes:
        family: see `family_of`.
        spec: the spec's line.
        file: who asks for it.
        program: its plan.
        source: its CUDA text.
    """

    family: str
    spec: str
    file: str
    program: Program
    source: str

    @classmethod
    def of(cls, program: Program, file: str) -> Specimen:
        """The specimen of a plan."""
        spec = str(program.spec)
        return cls(family_of(program), spec, file, program, render_program(program))


_BESIDE = {
    "zeros": "zero points and product",
    "scales": "product and row scales",
    "rows": "product and norm",
    "repack": "repack and product",
}
"""Families of programs by what stands beside the product, whichever kernel multiplies."""


def family_of(program: Program) -> str:
    """What stands beside the product, if anything does; else how it is scaled or computed."""
    product, stem = program.product, stem_of(program)
    if not product.multiplies:
        return stem
    roles = {kernel.body.role for kernel in program.kernels}
    for role, family in _BESIDE.items():
        if role in roles:
            return family
    if product.scaled:
        return f"{stem}, scaled by block"
    if isinstance(product.body, Wgmma) and product.body.holds_rows:
        return f"{stem}, whole rows"
    if getattr(product.body, "cluster_k", 1) > 1:
        return f"{stem}, cluster-K"
    return f"{stem}, split-K" if "reduce" in roles else stem


def stem_of(program: Program) -> str:
    """The template that multiplies, or the only one."""
    return Path(program.product.body.template).name.partition(".")[0]


def slices_of(plan: KernelPlan) -> int:
    """Slices of k that one block sums."""
    return -(-plan.k.size // (plan.k.tile * plan.k.split))


def work_of(program: Program) -> int:
    """Multiply-adds of a program."""
    plan = program.product
    return plan.m.size * plan.n.size * plan.k.size * plan.batch


def shipped() -> list[Specimen]:
    """Every program of the kernel files, each spec once, but for the largest."""
    folder = data_folder("configs")
    files = sorted([*(folder / "kernels").glob("*.yaml"), *(folder / "bench").glob("*.yaml")])
    files += [_QUANTISED, _MORE]
    entries = {str(e.spec): (e.spec, file.name) for file in files for e in read_all([str(file)])}
    programs = (
        (decide(spec, load_arch(spec.arch, spec.gpu, spec.sms)), file)
        for spec, file in entries.values()
    )
    return [Specimen.of(program, file) for program, file in programs if _is_small(program)]


def golden() -> list[Specimen]:
    """The golden programs, for families that no kernel file asks for."""
    return [Specimen.of(p, f"golden/{name}.cu") for name, p in GOLDEN.items() if _is_small(p)]


def _is_small(program: Program) -> bool:
    plan = program.product
    tile = plan.m.tile * plan.n.tile * plan.k.size // getattr(plan.body, "cluster_k", 1)
    row = plan.m.tile * plan.n.size * plan.k.size if bind(program).by_rows else 0
    return tile <= MOST_TILE and row <= MOST_ROW and work_of(program) <= MOST_WORK


def _fills(program: Program) -> bool:
    """Whether there is a whole tile and a whole ring: of smaller ones most code does nothing."""
    plan = program.product
    whole = plan.m.size >= plan.m.tile and plan.n.size >= plan.n.tile
    return whole and slices_of(plan) >= getattr(plan.body, "stages", 1)


def traits_of(program: Program) -> frozenset[str]:
    """What distinguishes a program from others where faults are concerned."""
    plan = program.product
    slices, stages = slices_of(plan), getattr(plan.body, "stages", 1)
    traits = {f"tail {extent.role}" for extent in plan.extents if extent.tail}
    traits |= {f"{extent.role} dynamic" for extent in plan.extents if extent.dynamic}
    traits |= {"odd slices" if slices % 2 else "even slices", f"layout {plan.spec.layout}"}
    traits |= {"odd stages" if stages % 2 else "even stages", plan.spec.dtype_a.name}
    traits |= {"fewer slices than stages"} if slices < stages else set()
    traits |= {f"{getattr(plan.body, 'tiles_at_once', 1)} tiles at once", stem_of(program)}
    traits |= {kernel.body.role for kernel in program.kernels}
    for kernel in program.kernels:
        traits |= {f"{name} {width}" for name, width in text_of(kernel).primitives}
        traits |= {step.kind for step in kernel.epilogue}
    return frozenset(traits)


_PARITIES = frozenset({"odd slices", "even slices"})


def _worth(specimen: Specimen, seen: frozenset[str]) -> tuple[bool, int, int]:
    """How much a program adds to a draw with some traits."""
    new = traits_of(specimen.program) - seen
    return _fills(specimen.program), len(new & _PARITIES), len(new)


def draw(count: int, seed: int, specimens: Iterable[Specimen] = ()) -> list[Specimen]:
    """``count`` programs of every family, by family and then in the order drawn.

    Args:
        count: of each family; all of one that has no more.
        seed: the same seed draws the same programs from the same files.
        specimens: to draw from; empty for `shipped`, with `golden` where a family has too few.
    """
    families: dict[str, list[Specimen]] = {}
    for specimen in specimens or shipped():
        families.setdefault(specimen.family, []).append(specimen)
    for specimen in () if specimens else golden():
        if len(families.setdefault(specimen.family, [])) < count:
            families[specimen.family].append(specimen)
    chosen: list[Specimen] = []
    for family in sorted(families):
        rest = sorted(families[family], key=lambda specimen: (specimen.spec, specimen.file))
        random.Random(f"{seed} {family}").shuffle(rest)
        seen: set[str] = set()
        for _ in range(min(count, len(rest))):
            # Of equals, the first in the shuffled order.
            best = max(rest, key=partial(_worth, seen=frozenset(seen)))
            rest.remove(best)
            seen |= traits_of(best.program)
            chosen.append(best)
    return chosen
