"""Plans, their PTX, and literal launches on the emulator, for the tests of several folders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.checks import Settings
from deepgemm_codegen.decide import (
    BandwidthChoice,
    MmaSyncChoice,
    RepackChoice,
    SimtChoice,
    WgmmaChoice,
    decide,
)
from deepgemm_codegen.decide.around import program_around
from deepgemm_codegen.harness.blocks import regions_of, written_by
from deepgemm_codegen.harness.emulate import EmulatorDevice
from deepgemm_codegen.harness.inputs import Constant, Given, Inputs, Values
from deepgemm_codegen.harness.memory import read_region, stray_writes
from deepgemm_codegen.harness.numbers import decode
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.harness.trials import trials_of
from deepgemm_codegen.harness.verdict import format_verdict
from deepgemm_codegen.harness.verify import conclude, judge, judge_trial
from deepgemm_codegen.plan import as_program
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import compile_ptx

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deepgemm_codegen.harness.cases import Case
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.verdict import Verdict
    from deepgemm_codegen.plan import KernelPlan, Program

Choice = BandwidthChoice | MmaSyncChoice | RepackChoice | SimtChoice | WgmmaChoice

NAN = float("nan")

SMALL = MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8)
"""A tile that the emulator runs in milliseconds."""


@lru_cache(maxsize=256)
def program_of(text: str, choice: Choice | None = SMALL) -> Program:
    """The program of a spec's line with a tile of our choice, or the tree's (None)."""
    spec = GemmSpec.from_text(text)
    arch = load_arch(spec.arch, spec.gpu, spec.sms)
    if choice is None:
        return decide(spec, arch)
    return program_around(spec, arch, lambda inner: choice.program(inner, arch))


def plan_of(text: str, choice: Choice | None = SMALL) -> KernelPlan:
    """The plan of a program of one kernel."""
    (kernel,) = program_of(text, choice).kernels
    return kernel


FAULTS: list[Callable[[Program, str], str]] = []
"""Changes made to every generated text, by tests that plant faults; usually empty."""


def source_of(plan: Program | KernelPlan) -> str:
    """The generated text, with the faults that a test has planted."""
    program = as_program(plan)
    source = render_program(program)
    for fault in FAULTS:
        source = fault(program, source)
    return source


@lru_cache(maxsize=256)
def compiled(source: str, arch: str) -> str:
    """PTX of a text, past any cache on disk."""
    return compile_ptx(source, name="test.cu", arch=arch, cached=False).ptx


def device_of(plan: Program | KernelPlan, source: str = "", arithmetic: str = "") -> EmulatorDevice:
    """The emulator with a plan's kernel, or with another text in its place."""
    return EmulatorDevice(plan, compiled(source or source_of(plan), plan.target), arithmetic)


def verdict_of(text: str, choice: Choice | None = SMALL, effort: float = 0.5) -> Verdict:
    """Judges the kernel of a spec's line on the emulator."""
    program = program_of(text, choice)
    return judge(device_of(program), program, Settings(effort=effort))


def assert_right(text: str, choice: Choice | None = SMALL, effort: float = 0.5) -> Verdict:
    """Judges and demands a pass; the failure shows the whole verdict."""
    verdict = verdict_of(text, choice, effort)
    assert verdict.passed, "\n".join(format_verdict(verdict))
    return verdict


def assert_wrong(
    plan: Program | KernelPlan,
    source: str,
    *,
    seen: str = "",
    effort: float = 1.0,
    cases: Sequence[Case] | None = None,
) -> None:
    """Demands that a text in a plan's place is judged wrong, and that the verdict holds `seen`.

    Launches what `judge` would, and no more of it once both are so.
    """
    device = device_of(plan, source)
    trials = trials_of(plan, Settings(effort=effort), samples=device.samples, cases=cases)
    results = []
    for number, trial in enumerate(trials, 1):
        results.append((trial, judge_trial(device, trial)))
        verdict = conclude(plan.name, device.where, results, trials[:number])
        told = "\n".join(format_verdict(verdict))
        if not verdict.passed and seen in told:
            return
    raise AssertionError(told if seen == "" else f"{seen!r} is not told of:\n{told}")


def values(source: float | list[list[float]] | Values) -> Values:
    """A generator from a number, from rows, or itself."""
    if isinstance(source, int | float):
        return Constant(float(source))
    if isinstance(source, list):
        return Given(tuple(tuple(map(float, row)) for row in source))
    return source


@dataclass(frozen=True, slots=True, eq=False)
class Launched:
    """What a literal launch gave.

    Attributes:
        d: float64 values of D, one array a batch or a block.
        bits: the same as bits.
    """

    d: list[Any]
    bits: list[Any]


def launch(
    plan: Program | KernelPlan,
    problem: Problem | None = None,
    *,
    blocks: tuple[int, ...] | None = None,
    **operands: Any,
) -> Launched:
    """Runs a grid, or some of its blocks, with literal operands; any fault fails the test.

    An operand is a number, a list of rows (indices wrap round), or a generator; one that is left
    out is passed as a null pointer. Of some blocks, D is what each of them wrote.
    """
    problem = problem or bind(plan)
    inputs = Inputs("literal", {name: values(source) for name, source in operands.items()})
    outcome = device_of(plan).launch(problem, inputs, blocks)
    assert outcome.faults == ()
    matrix = problem.matrix("d")
    regions = regions_of(problem, blocks)
    ran = None if blocks is None else written_by(problem, blocks)
    assert stray_writes(matrix, outcome.d, ran, np, outcome.background) == []
    bits = [read_region(matrix, outcome.d, region, np) for region in regions]
    return Launched([decode(each, matrix.dtype, np) for each in bits], bits)
