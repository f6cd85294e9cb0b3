"""The questions of the tree as a wgmma plan answers them; ids and names are those of mma.sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.rows.questions import rows_decisions
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.decide.split_k import split_answer
from deepgemm_codegen.decide.tma import LANE_VECTOR, store_of, tma_obstacle
from deepgemm_codegen.decide.wgmma import whole_rows
from deepgemm_codegen.decide.wgmma.consumer import overlapped
from deepgemm_codegen.decide.wgmma.pacing import paced
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.tma import box_columns

if TYPE_CHECKING:
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["answers"]

_OCCUPANCY = ("1 block", "setmaxnreg: 24 registers a producer thread, 240 a consumer thread")


def answers(
    spec: GemmSpec, task: Task, choice: WgmmaChoice, prediction: Prediction, family_reason: str
) -> tuple[Decision, ...]:
    """Every question with its answer and reason, in the order of the tree."""
    questions = [
        ("family", "wgmma", family_reason),
        ("mma shape", *_mma(task, choice)),
        ("tile", *_tile(task, choice, prediction)),
        ("warps", *_consumers(spec, task, choice)),
        ("copy of A", *_copy(task, "A", choice.tile_m, choice.tile_k, choice.sharers_a)),
        ("copy of B", *_copy(task, "B", choice.tile_n, choice.tile_k, choice.cluster_m)),
        ("swizzle", "A 128, B 128 bytes", "one K-major row of a slice; TMA writes, wgmma reads it"),
        ("stages", *_stages(task, choice)),
        ("occupancy", *_OCCUPANCY),
        ("raster", *_raster(task, choice, prediction)),
        ("store", *_store(spec, task, choice)),
    ]
    questions += split_answer(
        task.problem,
        task.machine,
        spec.overrides,
        choice.split_k,
        choice.tile_k,
        choice.cluster_k,
    )
    asked = tuple(
        Decision(f"D{number:02}", question, answer, reason)
        for number, (question, answer, reason) in enumerate(questions, start=1)
    )
    whole = rows_decisions(
        spec,
        task.problem,
        task.machine,
        choice.split_k,
        choice.tile_n,
        cluster_rows=choice.cluster_rows,
    )
    return asked + whole


def _mma(task: Task, choice: WgmmaChoice) -> tuple[str, str]:
    kind = task.kind
    reason = f"one instruction spans the tile; sums in {task.problem.sums}"
    if kind.scaled:
        reason += f"; every {kind.tile_k} of k, a block of the scales, are scaled and added apart"
    elif kind.promoted:
        reason += f"; it keeps 13 fraction bits, so every {kind.tile_k} of k are added apart"
    rows = choice.tile_m * choice.tiles_at_once // choice.consumers
    if overlapped(rows, choice.tile_n, kind.sets):
        reason += ", while the next are multiplied"
    return f"m64n{choice.tile_n}k{kind.tile_k // 4}", reason


def _tile(task: Task, choice: WgmmaChoice, prediction: Prediction) -> tuple[str, str]:
    tiles = f"{prediction.tiles} tile" + ("s" if prediction.tiles > 1 else "")
    reason = f"{tiles} on {task.machine.sms} SMs: {prediction.waves:.2f} waves"
    return (
        f"{choice.tile_m}x{choice.tile_n}x{choice.tile_k}",
        f"{reason}; bound by {prediction.bound}",
    )


def _consumers(spec: GemmSpec, task: Task, choice: WgmmaChoice) -> tuple[str, str]:
    rows = choice.tile_m * choice.tiles_at_once // choice.consumers
    words = "1 consumer" if choice.consumers == 1 else f"{choice.consumers} consumers"
    sums = rows * choice.tile_n // 128
    reason = f"warpgroups; each sums {rows}x{choice.tile_n}, {sums} sums a thread"
    if choice.tiles_at_once > 1:
        words += " in turn"
        reason += "; one writes, one multiplies"
    behind = choice.lag(spec, promoted=task.kind.promoted)
    if behind:
        reason += f"; the second ends {behind} slices later"
    return f"{words}, 1 producer", reason


def _copy(task: Task, name: str, tile: int, tile_k: int, sharers: int) -> tuple[str, str]:
    problem, row = task.problem, task.kind.tile_k
    if name == "A":
        k_major, size, dynamic = problem.a_k_major, problem.m, problem.dynamic_m
    else:
        k_major, size, dynamic = problem.b_k_major, problem.n, problem.dynamic_n
    outer = tile_k
    if k_major:
        outer, size, dynamic = tile, problem.k, problem.dynamic_k
    paired = problem.halves > 1 and name == "B" and not k_major
    inner = row if dynamic or paired else box_columns(size, problem.element_bytes)
    reason = f"{name} starts on 16 bytes and so do its rows; boxes of {outer // sharers}x{inner}"
    if sharers > 1:
        reason += ", each for the whole cluster"
    return "TMA, 128-byte swizzle", reason


def _stages(task: Task, choice: WgmmaChoice) -> tuple[str, str]:
    shape = choice.tile_m, choice.tile_n, choice.consumers, choice.tiles_at_once
    limit = task.machine.shared_per_block
    rows = choice.tile_k // task.kind.tile_k
    if choice.cluster_rows:
        needed = whole_rows.shared_bytes(task, choice)
        return str(choice.stages), f"{needed} of {limit} bytes a block"
    needed = task.shared_bytes(*shape, choice.stages, rows)
    reason = f"{needed} of {limit} bytes a block"
    if task.shared_bytes(*shape, choice.stages + 1, rows) > limit:
        reason += "; one more would not fit"
    else:
        reason += "; no more would be cheaper"
    if rows > 1:
        reason += f"; each has {rows} rows of k"
    return str(choice.stages), reason


def _raster(task: Task, choice: WgmmaChoice, prediction: Prediction) -> tuple[str, str]:
    if choice.cluster_rows:
        who = "a cluster computes" if choice.cluster_rows > 1 else "blocks compute"
        reason = f"{who} tiles of whole rows; all tiles share B through the L2"
        return "rows of tiles, one after the other", reason
    once = compulsory_bytes(task.problem)
    if prediction.operand_bytes > once:
        reason = f"memory delivers A and B {prediction.operand_bytes / once:.2f} times over"
    else:
        reason = "memory delivers A and B once"
    unit = "tile"
    words = ""
    if choice.cluster_m * choice.cluster_n > 1:
        unit = "cluster"
        words = f", clusters {choice.cluster_m}x{choice.cluster_n}"
        reason += f"; a cluster reads {'B' if choice.cluster_m > 1 else 'A'} from the L2 once"
    else:
        reason += "; neighbours share the rest through the L2"
    rows = "row" if choice.raster_group == 1 else "rows"
    return f"{choice.raster_group} {unit} {rows}{words}", reason


def _sums(spec: GemmSpec, task: Task, store: str) -> tuple[str, str]:
    """How sums of 32 bits leave that need no slab."""
    if store == "rows":
        return (
            "TMA, rows",
            f"{spec.dtype_d} sums leave as they are, in rows; more than the L2 holds",
        )
    elements = task.problem.vector
    return f"{elements} elements", f"{spec.dtype_d} sums leave as they are; the L2 holds D"


def _from_registers(task: Task, choice: WgmmaChoice) -> tuple[str, str]:
    """How what leaves straight from registers does, for other kernels or behind a meeting."""
    elements = task.problem.vector
    if choice.meets:
        reason = (
            f"each block stores 1/{choice.cluster_k} of the tile, of sums that met in the cluster"
        )
    elif choice.cluster_rows:
        elements = min(elements, LANE_VECTOR)
        reason = "from registers, which keep a row until all of it is known"
    else:
        norm = task.problem.rows_follow
        reason = f"by the kernel that {'has whole rows' if norm else 'adds the parts'}"
    return f"{elements} element{'s' if elements > 1 else ''}", reason


def _store(spec: GemmSpec, task: Task, choice: WgmmaChoice) -> tuple[str, str]:
    if choice.meets or choice.cluster_rows or task.partial:
        return _from_registers(task, choice)
    rows = choice.tile_m * choice.tiles_at_once // choice.consumers
    sums = rows * choice.tile_n // 128
    store = store_of(spec, choice.tile_n // spec.halves, sums, task.machine.l2_bytes)
    if store in ("rows", "lanes"):
        return _sums(spec, task, store)
    if store == "tma":
        reason = "rows of D's tile are whole patterns; it leaves while the next is computed"
        if paced(spec, "tma", 2, choice.tiles_at_once):
            reason += "; few polynomials at a time, which spares the other consumer's wgmma"
        return "TMA", reason
    if spec.dtype_d.bytes > 2:
        reason = f"{spec.dtype_d} sums leave as they are"
    elif task.tma_store:
        reason = f"{choice.tile_n} columns are no whole swizzle pattern"
    elif tma_obstacle(spec, "d"):
        reason = tma_obstacle(spec, "d")
    elif any(operand.written for step in spec.epilogue for operand in step.operands):
        reason = "what steps store beside D leaves in rows"
    else:
        reason = "rows of D or of what is read like it are no whole pairs"
    return f"slabs of rows, {task.problem.vector} elements", f"through shared memory: {reason}"
