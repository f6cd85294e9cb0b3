"""What the harness concludes, as values, and as the lines people read."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

__all__ = ["CheckResult", "Demand", "Difference", "Verdict", "as_json", "format_verdict"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first wrong element of a check.

    Attributes:
        tile: where it lies among the block tiles, such as ``tile (3, 5)``.
        batch, row, column: its place in the caller's D.
        got, expected: D's value and the oracle's.
        low, high: what would have passed.
    """

    tile: str
    batch: int
    row: int
    column: int
    got: float
    expected: float
    low: float
    high: float

    def __str__(self) -> str:
        allowed = (
            f"expected {self.expected:.9g}"
            if self.low == self.high
            else f"expected {self.expected:.9g}, allowed {self.low:.9g} to {self.high:.9g}"
        )
        return f"{self.tile} row {self.row} column {self.column}: got {self.got:.9g}, {allowed}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: a launch (or several) compared with what it must give.

    Attributes:
        name: ``exact``, ``random``, ``hostile``, ``repeat`` or ``emulator``.
        passed: the answer.
        problem: sizes and scalars of the launch.
        worst: largest error as a fraction of the bound; 0 where bits must be equal and are.
        elements, wrong: compared, and found wrong.
        blocks: the thread blocks that ran.
        difference: the first wrong element, or None.
        faults: what is wrong besides values: writes outside D, emulator findings.
        hints: likely causes.
        fatal: whether the device runs nothing after it.
    """

    name: str
    passed: bool
    problem: str
    worst: float = 0.0
    elements: int = 0
    wrong: int = 0
    blocks: int = 0
    difference: Difference | None = None
    faults: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    fatal: bool = False

    @classmethod
    def fault(cls, name: str, problem: object, error: Exception) -> CheckResult:
        """A check whose launch did not end."""
        return cls(name, passed=False, problem=str(problem), faults=(str(error),), fatal=True)

    def joined(self, other: CheckResult) -> CheckResult:
        """This part of a check with another one."""
        return replace(
            self,
            passed=self.passed and other.passed,
            worst=max(self.worst, other.worst),
            elements=self.elements + other.elements,
            wrong=self.wrong + other.wrong,
            blocks=self.blocks + other.blocks,
            difference=self.difference or other.difference,
            faults=tuple(dict.fromkeys((*self.faults, *other.faults))),
            hints=tuple(dict.fromkeys((*self.hints, *other.hints))),
            fatal=self.fatal or other.fatal,
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that was required of a kernel beside right values.

    Attributes:
        text: what, such as ``max_registers: 168``.
        passed: the answer; None where it could not be judged here.
        found: what the kernel has, or why that is not known.
    """

    text: str
    passed: bool | None
    found: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The harness's answer about one kernel.

    Attributes:
        name: the kernel.
        where: ``emulator`` or ``gpu``, with whose arithmetic or which device.
        checks: in the order they ran.
        grid: thread blocks of the largest launch.
        sampled: thread blocks of that launch that ran.
        notes: what else there is to know.
        demands: what was required beside right values.
        unjudged: launches for which the time did not suffice.
    """

    name: str
    where: str
    checks: tuple[CheckResult, ...]
    grid: int = 0
    sampled: int = 0
    notes: tuple[str, ...] = field(default=())
    demands: tuple[Demand, ...] = field(default=())
    unjudged: int = 0

    @property
    def passed(self) -> bool:
        """Whether everything was judged and passed; a verdict of nothing has shown nothing."""
        return bool(self.checks or self.demands) and not (self.failed or self.unjudged)

    @property
    def failed(self) -> bool:
        """Whether something was judged and did not pass."""
        checks = any(not check.passed for check in self.checks)
        return checks or any(demand.passed is False for demand in self.demands)

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0 for a pass, 1 for an honest no."""
        return 0 if self.passed else 1

    @property
    def worst(self) -> float:
        """The largest error of the bounded checks as a fraction of the bound."""
        return max((c.worst for c in self.checks if c.name == "random"), default=0.0)

    @property
    def input_sets(self) -> int:
        """Launches that were compared."""
        return len(self.checks)


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as JSON's types; numbers that JSON lacks (NaN, infinity) become texts."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return value

    found: dict[str, Any] = plain(asdict(verdict))
    for check in found["checks"]:
        del check["fatal"]
    return {"passed": verdict.passed, **found}


def _one_check(name: str, results: list[CheckResult]) -> str:
    if not all(result.passed for result in results):
        return f"{name} FAILED"
    worst = max(result.worst for result in results)
    if name == "random" or worst:  # approximate steps leave room in the other checks, too
        return f"{name} worst {worst:.2f} of bound"
    return {"exact": "exact bit-equal", "hostile": "hostile clean"}.get(name, f"{name} equal bits")


def _failure(check: CheckResult) -> list[str]:
    """What went wrong, and where first."""
    lines = [f"  {check.name} ({check.problem}):"]
    if check.wrong:
        lines.append(f"    {check.wrong} of {check.elements} elements are wrong; the first:")
    if check.difference is not None:
        lines.append(f"    {check.difference}")
    for fault in check.faults:
        lines.extend(f"    {line}" for line in fault.splitlines())
    lines.extend(f"    likely: {hint}" for hint in check.hints)
    return lines


def _blocks(verdict: Verdict) -> str:
    if verdict.sampled == verdict.grid:
        return f"all {verdict.grid} blocks" if verdict.grid > 1 else "the one block"
    return f"{verdict.sampled} of {verdict.grid} blocks"


def format_verdict(verdict: Verdict) -> list[str]:
    """The verdict in lines: one that says it all, and after a failure what went wrong where."""
    by_name: dict[str, list[CheckResult]] = {}
    for check in verdict.checks:
        by_name.setdefault(check.name, []).append(check)
    parts = [_one_check(name, results) for name, results in by_name.items()]
    if verdict.checks:
        parts.append(_blocks(verdict))
        sets = verdict.input_sets
        parts.append(f"{sets} input set{'s' if sets != 1 else ''}")
    if verdict.demands:
        met = sum(demand.passed is True for demand in verdict.demands)
        parts.append(f"{met} of {len(verdict.demands)} requirements met")
    if verdict.unjudged:
        parts.append(f"{verdict.unjudged} launches not judged for want of time")
    stopped = verdict.unjudged and not verdict.failed
    word = "PASS" if verdict.passed else "STOP" if stopped else "FAIL"
    lines = [f"{word}  {verdict.name}  {verdict.where}  {', '.join(parts)}"]
    for demand in verdict.demands:
        if not demand.passed:
            word = "not judged" if demand.passed is None else "not met"
            lines.append(f"  {demand.text}: {word}: {demand.found}")
    for check in verdict.checks:
        if not check.passed:
            lines += _failure(check)
    lines.extend(f"  note: {note}" for note in verdict.notes)
    return lines
