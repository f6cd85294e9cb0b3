"""The harness's front door: choose where to judge a program, and judge it there."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.errors import EnvironmentLackError, InputError, KernelLackError
from deepgemm_codegen.harness.blocks import describe_tile, region_of
from deepgemm_codegen.harness.cases import Case, cases_of
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.memory import read_region
from deepgemm_codegen.harness.numbers import decode
from deepgemm_codegen.harness.teams import choose_blocks
from deepgemm_codegen.harness.trials import VALUES, block_budget, refuse_endless
from deepgemm_codegen.harness.verdict import CheckResult, Difference, Verdict
from deepgemm_codegen.harness.verify import judge
from deepgemm_codegen.plan import as_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.harness.device import Device
    from deepgemm_codegen.harness.verify import Progress
    from deepgemm_codegen.plan import KernelPlan, Program

__all__ = ["gpu_arch", "same_bits", "verify"]

Where = Literal["auto", "gpu", "emulator"]
_PLACES: tuple[Where, ...] = ("auto", "gpu", "emulator")

MOST_TOGETHER = 10
"""Tiles that one sampled tile may bring along for the comparison of a GPU's with the emulator's.

Where a second kernel wants whole rows they are many; the GPU's values are judged all the same.
"""


def verify(
    program: Program | KernelPlan,
    *,
    ptx: Callable[[], str] | str | None = None,
    cubin: Callable[[], bytes] | bytes | None = None,
    built_for: str = "",
    on: Where = "auto",
    arithmetic: str = "",
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Judges a program on a GPU or on the emulator.

    Args:
        program: its plan, or that of a kernel that is one.
        ptx: its PTX, or what makes it; the emulator needs it. On a GPU it adds the comparison of
            sampled tiles with the emulator for equal bits.
        cubin: its machine code, or what makes it; a GPU needs it.
        built_for: the architecture of the cubin; empty for the plan's target.
        on: ``gpu``, ``emulator``, or ``auto``: the GPU where there is one that runs the cubin,
            else the emulator, with a note that says why.
        arithmetic: whose tensor cores the emulator imitates; empty for the plan's target (on a
            GPU always that GPU's).
        settings: how; None for `Settings()`.
        progress: told of every launch that is done.

    Raises:
        EnvironmentLackError: what was asked for is not there.
        InputError: neither PTX nor a cubin was given for the place asked for, or no such place.
    """
    if on not in _PLACES:
        raise InputError(f"on = {on}: give {', '.join(_PLACES[:-1])} or {_PLACES[-1]}")
    plan, settings = as_program(program), settings or Settings()
    notes: tuple[str, ...] = ()
    if on == "auto" and not settings.checks & (VALUES | {"emulator"}):
        cubin = None  # a GPU has nothing to say about the rest
    if on != "emulator" and cubin is not None:
        try:
            return _on_gpu(
                plan,
                ptx=ptx,
                cubin=cubin,
                built_for=built_for or plan.target,
                settings=settings,
                progress=progress,
            )
        except EnvironmentLackError as error:
            if on == "gpu" or ptx is None:
                raise
            notes = (f"no GPU was used: {error}",)
    elif on == "gpu":
        raise InputError("verifying on a GPU needs a cubin")
    if ptx is None:
        raise InputError("verifying on the emulator needs PTX")
    from deepgemm_codegen.harness.spread import on_emulator  # noqa: PLC0415  numpy, parser

    refuse_endless(plan.product)
    text = _text_of(ptx)
    verdict = on_emulator(plan, text, arithmetic, settings, progress)
    return replace(verdict, notes=verdict.notes + notes)


def _text_of(ptx: Callable[[], str] | str) -> str:
    """The PTX, made where it is not there yet.

    Raises:
        InputError: it is no text, nor what makes text.
    """
    text = ptx() if callable(ptx) else ptx
    if not isinstance(text, str):
        raise InputError(f"ptx is {type(text).__name__}, where text is wanted; decode bytes")
    return text


def gpu_arch() -> str:
    """The architecture of the current GPU, such as ``sm_90``: what to build a cubin for.

    Raises:
        EnvironmentLackError: no usable GPU.
    """
    from deepgemm_codegen.harness.gpu import find_gpu  # noqa: PLC0415  imports cupy

    return f"sm_{find_gpu().cuda.Device().compute_capability}"


def _on_gpu(
    plan: Program,
    *,
    ptx: Callable[[], str] | str | None,
    cubin: Callable[[], bytes] | bytes,
    built_for: str,
    settings: Settings,
    progress: Progress | None,
) -> Verdict:
    from deepgemm_codegen.harness.emulate import EmulatorDevice  # noqa: PLC0415
    from deepgemm_codegen.harness.gpu import GpuDevice  # noqa: PLC0415  imports cupy's needs

    device = GpuDevice(plan, cubin if isinstance(cubin, bytes) else cubin(), built_for)
    try:
        verdict = judge(device, plan, settings, progress=progress)
    except MemoryError as error:  # cupy's own is one
        raise KernelLackError(
            f"{plan.name}: the GPU's memory does not hold the operands and the oracle ({error})"
        ) from error
    if ptx is None or not verdict.passed or "emulator" not in settings.checks:
        return verdict
    text = _text_of(ptx)
    emulator = EmulatorDevice(plan, text, device.arithmetic, races="races" in settings.checks)
    more: list[CheckResult] = []
    left = 0
    for number, case in enumerate(cases_of(plan, settings.seed)):
        if case.check != "random" or not all(s.definition.exact for s in plan.spec.epilogue):
            continue
        if time.monotonic() > settings.deadline:
            left += 1
            continue
        count = block_budget(case.problem, case.share, settings.effort)
        blocks = choose_blocks(case.problem, count, settings.seed + number)
        if len(blocks) > MOST_TOGETHER * count:
            note = f"{len(blocks)} tiles want each other: not compared with the emulator's"
            verdict = replace(verdict, notes=(*verdict.notes, note))
            continue
        try:
            more.append(same_bits(device, emulator, case, blocks))
        except LaunchFailedError as error:
            more.append(CheckResult.fault("emulator", case.problem, error))
            break
    return replace(verdict, checks=verdict.checks + tuple(more), unjudged=verdict.unjudged + left)


def same_bits(device: Device, emulator: Device, case: Case, blocks: tuple[int, ...]) -> CheckResult:
    """Whether a GPU's tiles equal the emulator's in every bit.

    A difference is then a matter of synchronisation or addressing, not of rounding.
    """
    problem = case.problem
    there = device.launch(problem, case.inputs, None, in_place=case.in_place)
    here = emulator.launch(problem, case.inputs, blocks, in_place=case.in_place)
    wrong = elements = 0
    first: Difference | None = None
    for block, name in product(blocks, problem.outputs):
        matrix = problem.matrix(name)
        region = problem.place(name, region_of(problem, block))
        got = read_region(matrix, there.outputs[name].bits, region, device.xp)
        if hasattr(got, "get"):  # a cupy array comes to the CPU
            got = got.get()
        wanted = read_region(matrix, here.outputs[name].bits, region, emulator.xp)
        differs = got != wanted
        elements += differs.size
        wrong += int(differs.sum())
        if first is None and differs.any():
            row, column = divmod(int(differs.argmax()), differs.shape[1])
            value = float(decode(wanted, matrix.dtype, emulator.xp)[row, column])
            first = Difference(
                tile=describe_tile(problem, region.batch, region.row + row, region.column + column),
                batch=region.batch,
                row=region.row + row,
                column=region.column + column,
                got=float(decode(got, matrix.dtype, emulator.xp)[row, column]),
                expected=value,
                low=value,
                high=value,
            )
    hints = ("the emulator computes other bits: synchronisation or addressing",) if wrong else ()
    return CheckResult(
        "emulator",
        wrong == 0 and not here.faults,
        str(problem),
        elements=elements,
        wrong=wrong,
        blocks=len(blocks),
        difference=first,
        faults=here.faults,
        hints=hints,
    )
