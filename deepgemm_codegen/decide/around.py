"""What stands around a product: the kernels before and behind that a family knows nothing of.

A family plans a D that its tiles can make. Where more is asked for, it plans less, and kernels
around its program make up for it: they turn a column-major D (`turn`), quantise by scales that they
compute (`row_scales`), sum what zero points are multiplied by (`zero_points`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.problem import why_turned
from deepgemm_codegen.decide.row_scales import values_spec, with_row_scales
from deepgemm_codegen.decide.turn import rows_spec, with_turns
from deepgemm_codegen.decide.zero_points import with_zero_points

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["program_around"]


def program_around(spec: GemmSpec, arch: Arch, plan: Callable[[GemmSpec], Program]) -> Program:
    """The program of a spec.

    Args:
        spec: what was asked for.
        arch: where.
        plan: plans the spec that a family sees.
    """
    if why_turned(spec):
        return with_turns(program_around(rows_spec(spec), arch, plan), spec, arch)
    if spec.computes_scales:
        return with_row_scales(program_around(values_spec(spec), arch, plan), spec, arch)
    program = plan(spec)
    return with_zero_points(program, arch) if spec.zero_points else program
