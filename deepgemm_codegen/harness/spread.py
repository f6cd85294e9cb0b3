"""Judging on the emulator, by one process or by several that share a kernel's launches."""

from __future__ import annotations

import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.harness.trials import split, trials_of
from deepgemm_codegen.harness.verify import conclude, judge, judge_trial
from deepgemm_codegen.parallel import in_processes

if TYPE_CHECKING:
    from deepgemm_codegen.checks import Settings
    from deepgemm_codegen.harness.trials import Trial
    from deepgemm_codegen.harness.verdict import CheckResult, Verdict
    from deepgemm_codegen.harness.verify import Progress
    from deepgemm_codegen.plan import Program

__all__ = ["on_emulator"]


def on_emulator(
    plan: Program,
    ptx: str,
    arithmetic: str,
    settings: Settings,
    progress: Progress | None = None,
) -> Verdict:
    """The emulator's verdict; whether it is a pass does not depend on the number of processes.

    Args:
        plan: the program's.
        ptx: its PTX.
        arithmetic: whose tensor cores to imitate; empty for the plan's target.
        settings: how; `Settings.jobs` processes share the launches.
        progress: told of every launch that is done.
    """
    if settings.jobs <= 1:
        return judge(_device(plan, ptx, arithmetic, settings), plan, settings, progress=progress)
    trials = _parts(plan, settings)
    results: list[tuple[Trial, CheckResult]] = []
    work = partial(_judged, plan, ptx, arithmetic, settings)
    found = in_processes(work, range(len(trials)), settings.jobs)
    for number, (trial, result) in enumerate(zip(trials, found, strict=True), 1):
        if result is not None:
            results.append((trial, result))
        if progress is not None:
            progress(number, len(trials))
    return conclude(plan.name, EmulatorDevice.where, results, trials)


def _parts(plan: Program, settings: Settings) -> tuple[Trial, ...]:
    """The launches that the processes share: the same list in each of them."""
    return split(trials_of(plan, settings, samples=True), 2 * settings.jobs)


def _judged(
    plan: Program, ptx: str, arithmetic: str, settings: Settings, number: int
) -> CheckResult | None:
    """One launch, in a process of its own; None when the time is up."""
    if time.monotonic() > settings.deadline:
        return None
    trial = _parts(plan, settings)[number]
    return judge_trial(_kept(plan, ptx, arithmetic, settings), trial)


def _device(plan: Program, ptx: str, arithmetic: str, settings: Settings) -> EmulatorDevice:
    return EmulatorDevice(plan, ptx, arithmetic, races="races" in settings.checks)


_kept = lru_cache(maxsize=1)(_device)
"""A process translates a kernel once, for all launches of it that it gets."""
