"""The questions of the tree as a plan of the bandwidth family answers them.

Ids and names are those of mma.sync. What passes through shared memory on its way in, the warp reads
that copied it, and the grid has one dimension, so that swizzle and raster are no questions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.decide.abreast import abreast_answer
from deepgemm_codegen.decide.bandwidth.registers import register_estimate
from deepgemm_codegen.decide.occupancy import occupancy_answer
from deepgemm_codegen.decide.words import counted, waves_of_tiles
from deepgemm_codegen.plan import Decision
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG
from deepgemm_codegen.plan.tiles import WARP

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.bandwidth.choice import BandwidthChoice
    from deepgemm_codegen.decide.bandwidth.sides import Lanes
    from deepgemm_codegen.decide.bandwidth.task import Task
    from deepgemm_codegen.decide.prediction import Prediction

__all__ = ["answers"]


def answers(
    arch: Arch, task: Task, choice: BandwidthChoice, prediction: Prediction, family_reason: str
) -> tuple[Decision, ...]:
    """Every question with its answer and reason, in the order of the tree."""
    sides = task.sides
    lanes = (sides.short_lanes, sides.long_lanes_of(choice.fragments))
    a, b = lanes if sides.short == "m" else lanes[::-1]
    questions = (
        ("D01", "family", "bandwidth", family_reason),
        ("D02", "mma shape", f"m16n8k{arch.mma_bytes // 2}", *_mma(task)),
        ("D03", "tile", *_tile(task, choice, prediction)),
        ("D04", "warps", *_warps(task, choice)),
        ("D05", "copy of A", *_copy(a, task, choice)),
        ("D06", "copy of B", *_copy(b, task, choice)),
        ("D08", "stages", *_stages(task, choice)),
        ("D09", "occupancy", *_occupancy(task, choice)),
        ("D11", "store", "1 element", "after the warps' sums have met in shared memory"),
    )
    warps = choice.warps_long * choice.warps_k
    answered = tuple(Decision(*question) for question in questions)
    return answered + abreast_answer(prediction.tiles, warps, choice.abreast)


def _mma(task: Task) -> tuple[str]:
    sides = task.sides
    long = "n" if sides.short == "m" else "m"
    rows = "its 16 rows hold" if task.instructions == 1 else "the 16 rows of two hold"
    return (f"{rows} all {task.short} of {sides.short}, its 8 columns eight of {long}",)


def _tile(task: Task, choice: BandwidthChoice, prediction: Prediction) -> tuple[str, str]:
    long_tile = choice.fragments * choice.warps_long * FRAGMENT_LONG
    tile = (task.sides.tile, long_tile)
    tile_m, tile_n = tile if task.sides.short == "m" else tile[::-1]
    reason = waves_of_tiles(prediction, task.machine, choice.min_blocks)
    return f"{tile_m}x{tile_n}x{task.warp_k * choice.warps_k}", reason


def _warps(task: Task, choice: BandwidthChoice) -> tuple[str, str]:
    long = "n" if task.sides.short == "m" else "m"
    fragments = counted(choice.fragments, "fragment")
    reason = f"each {fragments} of eight; sums of the {choice.warps_k} along k meet at the end"
    if choice.warps_k == 1:
        reason = f"each {fragments} of eight, all of k"
    return f"{choice.warps_long} along {long}, {choice.warps_k} along k", reason


def _copy(lanes: Lanes, task: Task, choice: BandwidthChoice) -> tuple[str, str]:
    size = lanes.vector * task.problem.element_bytes
    if choice.ring == "shared":
        return f"cp.async, {size} bytes", "whole lines, to slots that only this warp reads"
    return f"into registers, {size} bytes", lanes.limit or "every row starts on 16 bytes"


def _stages(task: Task, choice: BandwidthChoice) -> tuple[str, str]:
    long, short = task.slot_words(choice.fragments)
    slices = task.slices(choice.warps_k)
    if choice.ring == "shared":
        own = task.shared_bytes(
            choice.fragments, choice.warps_long, choice.warps_k, choice.stages, "shared"
        )
        return str(choice.stages), f"{own} bytes of operands in shared memory; k is {slices} slices"
    under_way = f"{choice.stages * (long + short)} registers of operands under way"
    return str(choice.stages), f"{under_way}; k is {counted(slices, 'slice')}"


def _occupancy(task: Task, choice: BandwidthChoice) -> tuple[str, str]:
    threads = WARP * choice.warps_long * choice.warps_k
    estimate = register_estimate(task, choice.fragments, choice.warps_k, choice.stages, choice.ring)
    return occupancy_answer(choice.min_blocks, estimate, threads, task.machine)
