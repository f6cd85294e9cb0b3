"""The questions of the tree as a CUDA-core plan answers them; ids and names as everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.abreast import abreast_answer
from deepgemm_codegen.decide.occupancy import occupancy_answer
from deepgemm_codegen.decide.operands import store_answer
from deepgemm_codegen.decide.rows.questions import rows_decisions
from deepgemm_codegen.decide.schedule import raster_answer
from deepgemm_codegen.decide.simt.constraints import register_estimate, shared_bytes
from deepgemm_codegen.decide.words import waves_of_tiles
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.simt import LANES_M, LANES_N, QUAD
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.simt.choice import SimtChoice
    from deepgemm_codegen.decide.simt.task import Task

__all__ = ["answers"]


def answers(
    setting: Setting, task: Task, choice: SimtChoice, prediction: Prediction, family_reason: str
) -> tuple[Decision, ...]:
    """Every question with its answer and reason, in the order of the tree."""
    problem = setting.problem
    questions = (
        ("family", "simt", family_reason),
        ("mma shape", "none", "fp32 multiply-adds on the CUDA cores, in the order of k"),
        ("tile", *_tile(task, choice, prediction)),
        ("warps", *_warps(choice)),
        ("copy of A", *_copy(task, "a", k_major=problem.a_k_major)),
        ("copy of B", *_copy(task, "b", k_major=problem.b_k_major)),
        ("swizzle", "none", "a slice lies k by k, and lanes read neighbouring quads"),
        ("stages", *_stages(task, choice)),
        ("occupancy", *_occupancy(task, choice)),
        ("raster", *raster_answer(task.problem, prediction, choice.raster_group)),
        ("store", *store_answer(problem.vector, problem.d_bytes, c=problem.c_bytes > 0)),
    )
    asked = tuple(
        Decision(f"D{number:02}", question, answer, reason)
        for number, (question, answer, reason) in enumerate(questions, start=1)
    )
    asked += rows_decisions(setting.spec, problem, setting.machine, 1, choice.tile_n)
    return asked + abreast_answer(prediction.tiles, choice.warps_m * choice.warps_n, choice.abreast)


def _tile(task: Task, choice: SimtChoice, prediction: Prediction) -> tuple[str, str]:
    reason = waves_of_tiles(prediction, task.machine, choice.min_blocks)
    return f"{choice.tile_m}x{choice.tile_n}x{choice.tile_k}", reason


def _warps(choice: SimtChoice) -> tuple[str, str]:
    rows = choice.tile_m // choice.warps_m // LANES_M
    columns = choice.tile_n // choice.warps_n // LANES_N
    reads = (rows + columns) // 4
    reason = f"{rows}x{columns} sums a thread: {rows * columns} multiply-adds for {reads} reads a k"
    return f"{choice.warps_m}x{choice.warps_n}", reason


def _copy(task: Task, role: str, *, k_major: bool) -> tuple[str, str]:
    travel = task.a if role == "a" else task.b
    how = "cp.async" if travel.mechanism == "cp_async" else "registers"
    if k_major:
        at_once = "four" if task.vector(role) == QUAD else "an element"
        reason = f"k is contiguous and has to turn round, {at_once} at a time"
        if task.elements:
            reason += ": through registers, in half a slice's time, four would come too late"
    elif travel.limit:
        reason = f"{travel.limit} allows no wider vector"
    else:
        reason = f"every row of {role.upper()} starts on {travel.vector_bytes} bytes"
    return f"{how}, {travel.vector_bytes} bytes", reason


def _stages(task: Task, choice: SimtChoice) -> tuple[str, str]:
    shape = choice.tile_m, choice.tile_n, choice.tile_k
    needed = shared_bytes(task, *shape, choice.stages)
    reason = f"{needed} of {task.machine.shared_per_block} bytes a block"
    if task.staged:
        reason += "; a copy through registers runs one slice ahead"
    return str(choice.stages), reason


def _occupancy(task: Task, choice: SimtChoice) -> tuple[str, str]:
    threads = WARP * choice.warps_m * choice.warps_n
    estimate = register_estimate(
        task, choice.tile_m, choice.tile_n, choice.tile_k, choice.warps_m, choice.warps_n
    )
    return occupancy_answer(choice.min_blocks, estimate, threads, task.machine)
