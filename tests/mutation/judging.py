"""Whether a mutant dies: the cases of `verify`, until the first fault.

One thread block of every case is run first, then each case as `verify` runs it at a quarter of its
effort: most mutants die at once, and a survivor has passed every case of `verify`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from deepgemm_codegen.checks import Settings
from deepgemm_codegen.emulator import Checks, nodes
from deepgemm_codegen.emulator.faults import LaunchError, UnsupportedError
from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.harness.teams import choose_blocks
from deepgemm_codegen.harness.trials import trials_of
from deepgemm_codegen.harness.verify import judge_case

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.nodes import Module
    from deepgemm_codegen.harness.cases import Case
    from deepgemm_codegen.harness.device import Outcome
    from deepgemm_codegen.plan import Program

__all__ = ["Judge"]

EFFORT = 0.25
"""Part of the thread blocks that `verify` runs by default: what dies of fewer dies of more."""

_PATIENCE = 4
"""Times the steps of the unbroken kernel after which a mutant counts as endless."""


class _Recorded(EmulatorDevice):
    """An emulator that keeps what a launch gave, and gives it again when asked to compare it."""

    outcome: Outcome | None = None

    def launch(self, *arguments: Any, **options: Any) -> Outcome:
        if self.outcome is None:
            self.outcome = super().launch(*arguments, **options)
        return self.outcome


@dataclass(frozen=True)
class _Trial:
    """A launch.

    Attributes:
        case: of `verify`.
        blocks: of the grid; None for all.
        steps: that the unbroken kernel takes.
        result: a checksum of what it writes.
        whole: whether `verify` runs just these blocks.
    """

    case: Case
    blocks: tuple[int, ...] | None
    steps: int
    result: int
    whole: bool


class Judge:
    """Judges the mutants of one program.

    Args:
        program: the plan.
        module: its unbroken PTX, which must pass.

    Raises:
        AssertionError: the unbroken program fails.
    """

    def __init__(self, program: Program, module: Module) -> None:
        self._program = program
        trials: list[_Trial] = []
        device = _Recorded(program, module)
        self._kernels = device.kernels
        self._functions = _functions(module)
        for trial in trials_of(program, Settings(effort=EFFORT), samples=True):
            corners = trial.case.check != "random"
            # The tails meet in the last block; what a thread block or a cluster runs comes with it.
            alone = choose_blocks(trial.case.problem, 1, trial.number, corners=corners)
            for blocks in dict.fromkeys((alone, trial.blocks)):
                device.outcome = None
                result = judge_case(device, trial.case, blocks)
                assert result.passed, f"{program.name}, unbroken: {result}"
                assert device.outcome is not None
                steps = max((s.steps for s in device.outcome.statistics), default=0)
                whole = blocks == trial.blocks
                trials.append(_Trial(trial.case, blocks, steps, _checksum(device.outcome), whole))
        self._trials = sorted(trials, key=lambda trial: trial.whole)

    def cause_of_death(self, module: Module, host: Program | None = None) -> str:
        """The first check that a mutant fails; empty for a survivor.

        ``refused`` is a mutant that the emulator does not translate or launch: `verify` ends with
        an error there.

        Args:
            module: the mutant.
            host: what the host takes it for, where that is not the program's own plan.
        """
        try:
            there = _functions(module)
            known = {n: k for n, k in self._kernels.items() if there[n] is self._functions[n]}
            device = _Recorded(self._program, module, most_findings=1, known=known)
            for trial in tuple(self._trials):
                cause = self._fault(device, trial, host)
                if cause == "stray write" and not trial.whole:
                    continue  # it may be another block's tile, which `verify` runs as well
                if cause:
                    if not trial.whole:  # what killed one will kill its like
                        self._trials.remove(trial)
                        self._trials.insert(0, trial)
                    return cause
        except (LaunchError, UnsupportedError):
            return "refused"
        return ""

    def _fault(self, device: _Recorded, trial: _Trial, host: Program | None) -> str:
        """What a mutant does wrong in a trial; empty for nothing."""
        case = trial.case
        if host is not None:
            case = replace(case, problem=replace(case.problem, program=host))
        device.checks = Checks(step_limit=_PATIENCE * trial.steps + 100)
        device.outcome = None
        outcome = device.launch(case.problem, case.inputs, trial.blocks, in_place=case.in_place)
        if outcome.faults:
            # Of several kernels, a fault begins with the kernel's part.
            return outcome.faults[0].split(": ")[len(self._program.kernels) > 1]
        if _checksum(outcome) == trial.result:
            return ""
        result = judge_case(device, case, trial.blocks)
        if result.passed:
            return ""
        return f"{case.check} values" if result.difference else "stray write"


def _functions(module: Module) -> dict[str, nodes.Function]:
    """A module's functions by name: an edit leaves all but one what they are."""
    return {item.name: item for item in module.items if isinstance(item, nodes.Function)}


def _checksum(outcome: Outcome) -> int:
    return sum(crc32(written.bits) for written in outcome.outputs.values())
