"""A program as JSON: what was asked, what was decided and why, and how to launch it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_args

from deepgemm_codegen import __version__
from deepgemm_codegen.dtypes import DType
from deepgemm_codegen.epilogue import EpilogueStep
from deepgemm_codegen.plan.expressions import Expression
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.dimension import Dim

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["FORMAT", "plan_json", "program_json"]

FORMAT = "1.0"
"""Additions raise the minor number, removals the major one."""

_AS_TEXT = (DType, Dim, EpilogueStep, *get_args(Expression))


def _value(value: object) -> Any:
    if isinstance(value, GemmSpec):
        return value.to_fields()
    if isinstance(value, _AS_TEXT):
        return str(value)
    if is_dataclass(value):
        return {f.name: _value(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (tuple, list)):
        return [_value(entry) for entry in value]
    return value


def plan_json(plan: KernelPlan) -> dict[str, Any]:
    """One kernel: its plan, and its launch with the grid as an expression over m, n, k.

    ``launch.parameters`` are the kernel's; ``tensor_maps`` describes those that the host makes
    from the caller's pointers. ``block`` counts threads, ``shared_bytes`` dynamic shared memory.
    """
    described: dict[str, Any] = _value(plan)
    decisions = described.pop("decisions")
    return {
        "name": plan.name,
        "target": plan.target,
        "launch": {
            "grid": str(plan.blocks),
            "block": plan.threads,
            "shared_bytes": plan.shared_bytes,
            "parameters": [
                {"name": p.symbol, "role": p.role, "declaration": p.declaration}
                for p in plan.kernel_parameters
            ],
            "tensor_maps": _value(plan.tensor_maps),
        },
        "decisions": decisions,
        "plan": described,
    }


def program_json(program: Program) -> str:
    """All kernels in launch order, as indented JSON with a final newline.

    A program of several also has its ``name``, and its ``workspace`` as the manifest tells it.
    """
    several = {"name": program.name, "workspace": program.workspace.to_dict()}
    fields = {
        "format": FORMAT,
        "generator": f"deepgemm_codegen {__version__}",
        **(several if len(program.kernels) > 1 else {}),
        "kernels": [plan_json(plan) for plan in program.kernels],
    }
    return json.dumps(fields, indent=2) + "\n"
