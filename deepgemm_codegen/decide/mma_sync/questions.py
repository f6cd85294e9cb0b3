"""The questions of the tree, answered by the winner: what a plan carries as its decisions.

A reason is read off the winner alone, so that planning stays fast; `explain` adds what the best
rival would cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.abreast import abreast_answer
from deepgemm_codegen.decide.mma_sync.pipeline import shared_bytes
from deepgemm_codegen.decide.mma_sync.registers import (
    accumulators_of,
    operand_registers,
    register_estimate,
)
from deepgemm_codegen.decide.occupancy import occupancy_answer
from deepgemm_codegen.decide.operands import store_answer
from deepgemm_codegen.decide.rows.questions import rows_decisions
from deepgemm_codegen.decide.schedule import raster_answer
from deepgemm_codegen.decide.split_k import split_answer
from deepgemm_codegen.decide.words import waves_of_tiles
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.layout import swizzle_bytes_for
from deepgemm_codegen.plan.tiles import FRAGMENT_BYTES, WARP

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
    from deepgemm_codegen.decide.operands import Travel
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["answers"]


def answers(
    setting: Setting,
    problem: Problem,
    choice: MmaSyncChoice,
    prediction: Prediction,
    family_reason: str,
) -> tuple[Decision, ...]:
    """Every question with its answer and reason, in the order of the tree.

    Args:
        setting: of the whole problem.
        problem: as the product kernel sees it.
        choice: the winner.
        prediction: of all kernels.
        family_reason: why this family.
    """
    arch, machine, whole = setting.arch, setting.machine, setting.problem
    questions = [
        ("family", "mma_sync", family_reason),
        ("mma shape", *_mma(problem, arch)),
        ("tile", *_tile(machine, choice, prediction)),
        ("warps", *_warps(problem.element_bytes, choice)),
        ("copy of A", *_copy(problem.a, "A")),
        ("copy of B", *_copy(problem.b, "B")),
        ("swizzle", *_swizzle(problem, choice)),
        ("stages", *_stages(problem, machine, choice, prediction)),
        ("occupancy", *_occupancy(problem, machine, choice)),
        ("raster", *raster_answer(problem, prediction, choice.raster_group)),
        ("store", *store_answer(whole.vector, whole.d_bytes, c=whole.c_bytes > 0)),
    ]
    given = setting.spec.overrides
    questions += split_answer(whole, machine, given, choice.split_k, choice.tile_k)
    asked = tuple(
        Decision(f"D{number:02}", question, answer, reason)
        for number, (question, answer, reason) in enumerate(questions, start=1)
    )
    parts, tile_n = choice.split_k, choice.tile_n
    asked += rows_decisions(
        setting.spec, whole, machine, parts, tile_n, holds_rows=choice.holds_rows
    )
    return asked + abreast_answer(prediction.tiles, choice.warps_m * choice.warps_n, choice.abreast)


def _mma(problem: Problem, arch: Arch) -> tuple[str, str]:
    size = problem.element_bytes
    rows = 8 if size == 1 and arch.mma_bytes < FRAGMENT_BYTES else 16
    reason = f"the largest {8 * size}-bit shape of {arch.name}, sums in {problem.sums}"
    if problem.scaled:
        reason += "; each product is scaled by block as it is added"
    elif problem.promoted:
        reason += f"; it keeps {arch.fp8_sum_bits} fraction bits, so each product is added apart"
    return f"m{rows}n8k{arch.mma_bytes // size}", reason


def _tile(machine: Machine, choice: MmaSyncChoice, prediction: Prediction) -> tuple[str, str]:
    reason = waves_of_tiles(prediction, machine, choice.min_blocks)
    return f"{choice.tile_m}x{choice.tile_n}x{choice.tile_k}", reason


def _warps(size: int, choice: MmaSyncChoice) -> tuple[str, str]:
    warp_m, warp_n = choice.tile_m // choice.warps_m, choice.tile_n // choice.warps_n
    sums = accumulators_of(choice.tile_m, choice.tile_n, choice.warps_m * choice.warps_n)
    reads = size * (choice.tile_m * choice.warps_n + choice.tile_n * choice.warps_m)
    reason = f"warp tiles of {warp_m}x{warp_n}: {sums} sums a thread, {reads} bytes read a k"
    return f"{choice.warps_m}x{choice.warps_n}", reason


def _copy(travel: Travel, name: str) -> tuple[str, str]:
    how = "cp.async" if travel.mechanism == "cp_async" else "registers"
    if travel.limit:
        reason = f"{travel.limit} allows no wider vector"
    elif travel.mechanism == "cp_async":
        reason = f"every row of {name} starts on 16 bytes"
    else:
        reason = "no cp.async on this architecture"
    return f"{how}, {travel.vector_bytes} bytes", reason


def _swizzle(problem: Problem, choice: MmaSyncChoice) -> tuple[str, str]:
    size = problem.element_bytes
    threads = WARP * choice.warps_m * choice.warps_n
    panels, rows = [], []
    for travel, k_major, tile in (
        (problem.a, problem.a_k_major, choice.tile_m),
        (problem.b, problem.b_k_major, choice.tile_n),
    ):
        row = (choice.tile_k if k_major else tile) * size
        panels.append(swizzle_bytes_for(row, threads * travel.vector_bytes))
        rows.append(row)
    reason = f"the widest that rows of {rows[0]} and {rows[1]} bytes and the copy loop admit"
    return f"A {panels[0]}, B {panels[1]} bytes", reason


def _stages(
    problem: Problem, machine: Machine, choice: MmaSyncChoice, prediction: Prediction
) -> tuple[str, str]:
    needed = shared_bytes(
        choice.tile_m,
        choice.tile_n,
        choice.tile_k,
        choice.warps_m,
        choice.stages,
        problem.element_bytes,
    )
    reason = f"{needed} of {machine.shared_per_block} bytes a block"
    if problem.staged:
        reason += "; a copy through registers runs one slice ahead"
    elif choice.stages > prediction.slices:
        reason += f"; all of k is {prediction.slices} slices"
    else:
        reason += "; no more would be cheaper"
    return str(choice.stages), reason


def _occupancy(problem: Problem, machine: Machine, choice: MmaSyncChoice) -> tuple[str, str]:
    threads = WARP * choice.warps_m * choice.warps_n
    estimate = register_estimate(choice.tile_m, choice.tile_n, choice.warps_m, choice.warps_n)
    estimate += operand_registers(
        problem, choice.tile_m, choice.tile_n, choice.tile_k, choice.warps_m, choice.warps_n
    )
    return occupancy_answer(choice.min_blocks, estimate, threads, machine)
