"""Operators on what a plan fixes in two places: the numbers of one place are other than those of
the other.

A layout in shared memory is a fact of the plan. Its writer and its reader, or the tensor map that
the host makes and the descriptor that the kernel makes, must agree on it; here one of the two has
another number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.plan import KernelPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.plan.tma import TensorMap

__all__ = ["PLAN_OPERATORS", "RULES", "PlanMutant", "PlanOperator", "plan_mutants_of"]


@dataclass(frozen=True)
class PlanMutant:
    """A kernel whose text, or whose host, has one number of the plan wrong.

    Attributes:
        operator: the operator's name.
        what: what was done, in words.
        row: the line in the CUDA text; 0 where the host has the wrong number.
        source: the CUDA text.
        program: what the host goes by.
    """

    operator: str
    what: str
    row: int
    source: str
    program: Program


@dataclass(frozen=True)
class PlanOperator:
    """One way in which the places of a plan's number disagree.

    Attributes:
        name: as reports have it.
        meaning: one line.
        apply: every mutant of a plan and its text.
    """

    name: str
    meaning: str
    apply: Callable[[Program, str], Iterator[PlanMutant]]


def plan_mutants_of(program: Program, source: str) -> Iterator[PlanMutant]:
    """Every mutant of a program's plan, operator by operator."""
    for operator in PLAN_OPERATORS:
        yield from operator.apply(program, source)


# -- in the kernel's text --


@dataclass(frozen=True)
class Rule:
    """Another number in a device function, for one of its calls.

    Attributes:
        function: its name.
        old: in its body, a regular expression.
        new: what stands there instead.
    """

    function: str
    old: str
    new: str


RULES = {
    "swizzle on one side": (
        Rule("tile_offset", r"\(within \^ .*\);", "within;"),
        Rule("tile_offset", r"\(SWIZZLE - 16\)", "(SWIZZLE / 2 - 16)"),
        Rule("slab_index", r"\(column \^ .*\);", "column;"),
        Rule("descriptor", r"u64\{ 1 \} << 62", "u64{ 2 } << 62"),
        Rule("descriptor", r"u64\{ 1 \} << 62", "u64{ 0 } << 62"),
    ),
    "descriptor stride": (
        Rule("descriptor", r"1024 >> 4", "512 >> 4"),
        Rule("descriptor", r"1024 >> 4", "2048 >> 4"),
        Rule("half_descriptor", r"LEADING >> 4 << 16", "2 * LEADING >> 4 << 16"),
    ),
}
"""By operator. A K-major operand has no use for its leading stride, so `_in_text` leaves it out."""


def _in_text(operator: str) -> Callable[[Program, str], Iterator[PlanMutant]]:
    def apply(program: Program, source: str) -> Iterator[PlanMutant]:
        for rule in RULES[operator]:
            found = re.search(
                rf"(?:template <[^>]*>\n)?__device__ [^\n]*\b{rule.function}\(.*?\n\}}\n",
                source,
                re.DOTALL,
            )
            if found is None:
                continue
            mutant = re.sub(rf"\b{rule.function}\b", f"{rule.function}_mutant", found[0])
            mutant, count = re.subn(rule.old, rule.new, mutant)
            for call in re.finditer(rf"\b{rule.function}(?=[<(])", source):
                if count and call.start() > found.end() and not _idle(program, source, call, rule):
                    text = source[: call.end()] + "_mutant" + source[call.end() :]
                    text = text[: found.end()] + mutant + text[found.end() :]
                    row = source.count("\n", 0, call.start()) + 1
                    yield PlanMutant(operator, f"{rule.old} became {rule.new}", row, text, program)

    return apply


def _idle(program: Program, source: str, call: re.Match[str], rule: Rule) -> bool:
    """Whether a change says nothing: nobody reads that stride, there is no such pattern."""
    if rule.function == "slab_index" and min(program.product.m.size, program.product.n.size) == 1:
        return True  # the pattern of the first row is none
    rest = source[call.end() : call.end() + 3]
    operands = {f"<{o.name.upper()}_": o for o in getattr(program.product.body, "operands", ())}
    operand = operands.get(rest)
    if operand is None:
        return False
    if "LEADING" in rule.old:
        return bool(operand.k_major)
    return bool(getattr(operand, "swizzle_bytes", 128) < 32 * (1 + ("/ 2" in rule.new)))


# -- on the host --


@dataclass(frozen=True, slots=True)
class _Misdescribed(KernelPlan):
    """A plan whose host describes a matrix wrongly to the copy engine."""

    maps: tuple[TensorMap, ...] = ()

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """See `KernelPlan`."""
        return self.maps


def _on_host(
    operator: str, change: Callable[[TensorMap], Iterator[TensorMap]]
) -> Callable[[Program, str], Iterator[PlanMutant]]:
    def apply(program: Program, source: str) -> Iterator[PlanMutant]:
        plan = program.product
        known = {field.name: getattr(plan, field.name) for field in fields(plan)}
        for number, right in enumerate(plan.tensor_maps):
            for wrong in change(right):
                maps = list(plan.tensor_maps)
                maps[number] = wrong
                what = ", ".join(
                    f"{name} {getattr(right, name)} became {getattr(wrong, name)}"
                    for name in ("box_inner", "box_outer", "swizzle_bytes")
                    if getattr(right, name) != getattr(wrong, name)
                )
                told = _Misdescribed(**known, maps=tuple(maps))
                kernels = tuple(told if kernel is plan else kernel for kernel in program.kernels)
                host = replace(program, kernels=kernels)
                yield PlanMutant(operator, f"{right.name}: {what}", 0, source, host)

    return apply


def _other_boxes(right: TensorMap) -> Iterator[TensorMap]:
    yield replace(right, box_inner=_half(right), swizzle_bytes=max(right.swizzle_bytes // 2, 32))
    if right.box_outer > 8:
        yield replace(right, box_outer=right.box_outer // 2)
        yield replace(right, box_outer=right.box_outer - 8)


def _half(right: TensorMap) -> int:
    """Half of a box's row, in whole 16 bytes."""
    chunk = 16 // right.dtype.bytes
    return max(right.box_inner // 2 // chunk, 1) * chunk


def _other_swizzles(right: TensorMap) -> Iterator[TensorMap]:
    yield replace(right, swizzle_bytes=0)
    yield replace(right, box_inner=_half(right))


PLAN_OPERATORS: tuple[PlanOperator, ...] = (
    PlanOperator(
        "swizzle on one side",
        "one writer or reader of a shared layout has another pattern",
        _in_text("swizzle on one side"),
    ),
    PlanOperator(
        "descriptor stride",
        "an instruction takes its operand's rows or panels from elsewhere",
        _in_text("descriptor stride"),
    ),
    PlanOperator(
        "box size",
        "the host's tensor map moves fewer elements",
        _on_host("box size", _other_boxes),
    ),
    PlanOperator(
        "map swizzle",
        "the host's tensor map has another pattern",
        _on_host("map swizzle", _other_swizzles),
    ),
)
