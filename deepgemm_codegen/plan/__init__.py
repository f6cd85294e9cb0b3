"""The plan: every choice about the kernels of a program, as frozen values that print themselves.

`program` has `Program` and `KernelPlan`; a body a file says how a tile is computed, `schedules`
which block computes which tile. The rest is what bodies are made of: tiles and operands, tensor
maps, formulas of shared memory, a kernel's arguments, the workspace, expressions over dynamic
dimensions. Nothing here chooses: `deepgemm_codegen.decide` does.
"""

from __future__ import annotations

from deepgemm_codegen.plan.program import (
    ASIDE,
    Bandwidth,
    Decision,
    Grid,
    KernelPlan,
    MmaSync,
    Persistent,
    Program,
    Reduce,
    Repack,
    Rows,
    RowScales,
    Simt,
    Turn,
    Wgmma,
    ZeroPoints,
    as_program,
)

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
