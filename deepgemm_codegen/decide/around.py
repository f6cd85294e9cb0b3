"""What stands around a product: the kernels before and behind that a family knows nothing of.

A family plans a D that its tiles can make. Where more is asked for, it plans less, and kernels
around its program make up for it: they turn a column-major D (`turn`), quantise by scales that they
compute (`row_scales`), sum what zero points are multiplied by (`zero_points`). Each of these is a
`Layer`; `decide` plans them and `explain` tells of them from the same list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.problem import why_turned
from deepgemm_codegen.decide.row_scales import (
    row_scales_answer,
    row_scales_clocks,
    values_spec,
    with_row_scales,
)
from deepgemm_codegen.decide.turn import rows_spec, turn_answer, turn_clocks, with_turns
from deepgemm_codegen.decide.zero_points import (
    with_zero_points,
    zero_points_answer,
    zero_points_clocks,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Decision, KernelPlan, Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Layer", "layers_of", "program_around"]


class Layer(NamedTuple):
    """Kernels that make of a program what its family did not plan.

    Attributes:
        spec: what is asked for of the program with these kernels.
        within: what is asked for of the program that they stand around.
        wrap: puts the kernels around that program.
        answer: the question, with its answer and reason.
        clocks: what the kernels take.
    """

    spec: GemmSpec
    within: GemmSpec
    wrap: Callable[[Program, GemmSpec, Arch], Program]
    answer: Callable[[GemmSpec, Arch], Decision]
    clocks: Callable[[GemmSpec, Arch], float]


def layers_of(spec: GemmSpec) -> tuple[GemmSpec, tuple[Layer, ...]]:
    """The spec that a family sees, and what stands around its program, innermost first.

    Raises:
        InputError: more than such kernels can do, as `rows_spec` and `values_spec` say.
    """
    layers = []
    if why_turned(spec):
        layers.append(Layer(spec, rows_spec(spec), with_turns, turn_answer, turn_clocks))
        spec = layers[-1].within
    if spec.computes_scales:
        within = values_spec(spec)
        layers.append(Layer(spec, within, with_row_scales, row_scales_answer, row_scales_clocks))
        spec = within
    if spec.zero_points:
        layers.append(Layer(spec, spec, with_zero_points, zero_points_answer, zero_points_clocks))
    return spec, tuple(reversed(layers))


def program_around(spec: GemmSpec, arch: Arch, plan: Callable[[GemmSpec], Program]) -> Program:
    """The program of a spec.

    Args:
        spec: what was asked for.
        arch: where.
        plan: plans the spec that a family sees.
    """
    inner, layers = layers_of(spec)
    program = plan(inner)
    for layer in layers:
        answer = layer.answer(layer.spec, arch)
        program = layer.wrap(program, layer.spec, arch)
        program = replace(
            program, kernels=tuple(_answering(kernel, answer) for kernel in program.kernels)
        )
    return program


def _answering(kernel: KernelPlan, answer: Decision) -> KernelPlan:
    """A kernel that has one more answer, where it tells of the tree's questions at all."""
    if not kernel.decisions:
        return kernel
    return replace(kernel, decisions=(*kernel.decisions, answer))
