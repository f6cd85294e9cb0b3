"""Question: is a column-major D computed by rows, and turned?

Most column-major D are planned as D^T = B^T * A^T, whose tiles' rows are D's columns. Some are not:
a norm or a computed scale wants a whole row of D, a gated step two of its columns, scales by block
lie along A's rows, and without a product A may lie otherwise than D. Such a D is computed row-major
into the workspace, as if the caller had asked for that, and a kernel behind turns it, with what
steps store; one before turns what is read like D. So whatever serves a row-major D serves this one.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.operands import matrices_like_d
from deepgemm_codegen.decide.problem import why_turned
from deepgemm_codegen.decide.row_scales import L2_READ_RATE
from deepgemm_codegen.decide.schedule import MAX_GRID
from deepgemm_codegen.decide.split_k import LATE_US, REDUCE_US
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.numbers import DEFAULT_ALIGNMENT
from deepgemm_codegen.plan import Decision, Grid, KernelPlan, Program, Rows, Turn
from deepgemm_codegen.plan.expressions import Number, times
from deepgemm_codegen.plan.tiles import Extent, Output
from deepgemm_codegen.plan.turn import TILE, VECTOR_BYTES, Turned, turned_name
from deepgemm_codegen.plan.workspace import workspace_of
from deepgemm_codegen.spec.batching import DENSE
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.epilogue import StepOperand
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["rows_spec", "turn_answer", "turn_clocks", "with_turns"]

WAYS: tuple[Literal["in", "out"], ...] = ("in", "out")
"""A kernel before the others, and one behind them."""


ROOMY_BLOCKS, ROOMY_FROM = 4, 80
"""Blocks of a turning kernel that are to fit on a multiprocessor, from an architecture on: ptxas
(13.0) makes room for five and spills what they lack, where four need no spill. sm_75 has room for
fewer threads, and is left to itself."""


def rows_spec(spec: GemmSpec) -> GemmSpec:
    """The spec whose matrices like D lie by rows, in the workspace.

    Raises:
        InputError: more tiles to turn than a grid has blocks.
    """
    tiles = spec.batch * -(-spec.m.size // TILE) * -(-spec.n.size // TILE)
    if tiles > MAX_GRID:
        field = "layout_d" if spec.layout_d == "t" else "layout"
        raise InputError(
            f"m = {spec.m}, n = {spec.n}, batch = {spec.batch}: {why_turned(spec)}, so D is"
            f" turned, in {tiles} tiles of {TILE}x{TILE}, and a grid has {MAX_GRID} blocks at"
            f" most; leave {field} out, or make m smaller"
        )

    changed = spec
    if _a_turns(spec):
        pitch = _pitch(spec, spec.dtype_a)
        changed = replace(changed, layout="nn", lda=pitch, align_a=DEFAULT_ALIGNMENT)
    if spec.layout_d == "n":
        return changed

    def by_rows(operand: StepOperand) -> StepOperand:
        if not operand.full:
            return operand
        return replace(operand, leading=_pitch(spec, operand.dtype), align=DEFAULT_ALIGNMENT)

    return replace(
        changed,
        layout_d="n",
        ldc=0 if spec.dtype_c is None else _pitch(spec, spec.dtype_c),
        ldd=_pitch(spec, spec.dtype_d),
        stride_c=DENSE,
        stride_d=DENSE,
        align_c=DEFAULT_ALIGNMENT,
        align_d=DEFAULT_ALIGNMENT,
        epilogue=tuple(step.changed(by_rows) for step in spec.epilogue),
    )


def _a_turns(spec: GemmSpec) -> bool:
    """Whether A lies by columns and is all that D is made of."""
    return not spec.multiplies and spec.layout[0] == "t"


def _pitch(spec: GemmSpec, dtype: DType) -> int:
    """Elements from row to row in the workspace, as long as they may be: whole vectors."""
    vector = VECTOR_BYTES // dtype.bytes
    return -(-spec.n.size // vector) * vector


def _turned(spec: GemmSpec, way: Literal["in", "out"]) -> Turn | None:
    """The kernel that turns what is read like D, or what is written; None without any."""
    found = []
    if way == "in" and _a_turns(spec):
        found.append(_matrix(spec, "a", (spec.dtype_a, spec.lda, spec.align_a, 0)))
    if spec.layout_d == "t":
        names = ["d", *(["c"] if spec.dtype_c is not None else [])]
        written = {"d"}
        for index, step in enumerate(spec.epilogue):
            for operand in step.operands:
                if operand.full:
                    names.append(operand.argument(index))
                    written |= {names[-1]} if operand.written else set()
        for name, lying in zip(names, matrices_like_d(spec), strict=True):
            if (name in written) == (way == "out"):
                found.append(_matrix(spec, name, lying))
    return Turn(tuple(found), way) if found else None


def _matrix(spec: GemmSpec, name: str, lying: tuple[DType, int, int, int]) -> Turned:
    """One of the caller's matrices; how it lies is as `matrices_like_d` says."""
    dtype, leading, align, stride = lying
    vector = gcd(VECTOR_BYTES, align) // dtype.bytes
    if spec.n.dynamic or spec.n.size > 1:
        vector = gcd(vector, leading or 1)
    if stride:
        vector = gcd(vector, stride)
    asked = "beta != 0.0f" if name == "c" else ""
    return Turned(name, dtype, leading or None, _pitch(spec, dtype), vector, asked)


def turn_clocks(spec: GemmSpec, arch: Arch) -> float:
    """Clocks of the kernels that turn: each element is read and written once more."""
    machine = machine_of(arch, spec.dtype_a.name)
    clocks = 0.0
    for way in WAYS:
        if (body := _turned(spec, way)) is None:
            continue
        size = sum(matrix.dtype.bytes for matrix in body.matrices)
        moved = size * spec.batch * spec.m.size * spec.n.size
        flow = 2 * moved / (machine.sms * L2_READ_RATE)
        memory = (1 if moved <= machine.l2_bytes else 2) * moved / machine.dram_rate
        clocks += (REDUCE_US + LATE_US) * machine.clock_mhz + max(flow, memory)
    return clocks


def turn_answer(spec: GemmSpec, arch: Arch) -> Decision:
    """The question with its answer and reason."""
    us = turn_clocks(spec, arch) / machine_of(arch, spec.dtype_a.name).clock_mhz
    words = []
    for way, where in zip(WAYS, ("before", "behind"), strict=True):
        if body := _turned(spec, way):
            names = [m.name.upper() if len(m.name) == 1 else m.name for m in body.matrices]
            words.append(f"{' and '.join(names)} turned {where}")
    return Decision(
        "D17",
        "columns",
        f"by rows, {', '.join(words)}",
        f"{why_turned(spec)}; {us:.1f} us more as predicted",
    )


def with_turns(program: Program, spec: GemmSpec, arch: Arch) -> Program:
    """A program by rows between the kernels that turn.

    Args:
        program: of `rows_spec`.
        spec: what was asked for.
        arch: where.
    """
    name = kernel_name(spec)
    early = arch.dependent_launch
    blocks = ROOMY_BLOCKS if arch.number >= ROOMY_FROM else 0
    bodies = [_turned(spec, way) for way in WAYS]
    before, behind = (body and replace(body, min_blocks=blocks) for body in bodies)
    turned = {m.name for body in (before, behind) if body for m in body.matrices}
    kernels = [
        _by_rows(replace(kernel, name=f"{name}_{kernel.body.role}"), turned)
        for kernel in program.kernels
    ]
    last = kernels[-1]
    if before is not None:
        kernels[0] = replace(kernels[0], dependent=early)
        kernels.insert(0, _turning(last, before, spec, name))
        kernels[0] = replace(kernels[0], followed=early)
    if behind is not None:
        kernels[-1] = replace(kernels[-1], followed=early)
        kernels.append(replace(_turning(last, behind, spec, name), dependent=early))
    else:  # the last kernel is the one in whose terms the program is judged
        kernels[-1] = replace(kernels[-1], spec=spec)
    rows = times(kernels[-1].m.expression, Number(spec.batch))
    regions = [
        (matrix.region, matrix.dtype, times(rows, Number(matrix.pitch)))
        for body in (before, behind)
        if body
        for matrix in body.matrices
    ]
    regions += [(r.name, r.dtype, r.elements) for r in program.workspace.regions]
    return Program(name, tuple(kernels), workspace_of(regions))


def _by_rows(kernel: KernelPlan, turned: set[str]) -> KernelPlan:
    """A kernel that finds what is turned in the workspace."""
    output, body = kernel.output, kernel.body
    if "d" in turned and output.pointer == "d" and not output.partial:
        output = replace(output, pointer=turned_name("d"))
    if "c" in turned and output.c_dtype is not None:
        output = replace(output, c_pointer=turned_name("c"))
    if "a" in turned and isinstance(body, Rows) and body.source == "a":
        body = replace(body, source=turned_name("a"))
    return replace(kernel, output=output, body=body, turned=tuple(sorted(turned - {"c", "d"})))


def _turning(last: KernelPlan, body: Turn, spec: GemmSpec, name: str) -> KernelPlan:
    """A kernel that turns, beside the last of those by rows."""
    alone = spec.launch == "dependent"
    return KernelPlan(
        name=f"{name}_{body.role}",
        spec=spec,
        target=last.target,
        transposed=False,
        m=Extent("m", "M", spec.m.size, spec.m.dynamic, TILE),
        n=Extent("n", "N", spec.n.size, spec.n.dynamic, TILE),
        k=replace(last.k, split=1),
        batch=spec.batch,
        output=Output(
            dtype=spec.dtype_d,
            leading=spec.ldd or None,
            c_dtype=None,
            c_leading=None,
            vector=1,
            warp_n=TILE,
        ),
        epilogue=(),
        body=body,
        schedule=Grid(raster_group=1),
        dependent=alone,
        followed=alone,
    )
