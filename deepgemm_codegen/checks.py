"""What a verification looks at and how, and what a kernel file may require of a kernel.

The words of ``verify --checks`` and of a file's ``require`` are these tables' keys.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Literal

from deepgemm_codegen.errors import InputError, nearest

__all__ = [
    "CHECKS",
    "DEFAULT_CHECKS",
    "EFFORTS",
    "MOST_SEED",
    "REQUIREMENTS",
    "Limit",
    "Requirement",
    "Settings",
    "check_judging",
    "parse_checks",
]

CHECKS: dict[str, str] = {
    "exact": "whole numbers: equal bits",
    "random": "normal numbers: inside the error bound",
    "hostile": "NaN and null pointers where nothing may be read",
    "races": "races, uninitialised reads and bytes in flight, on the emulator",
    "emulator": "after a GPU's verdict, sampled tiles equal the emulator's in every bit",
    "require": "what the kernel file requires",
    "conflicts": "no bank conflict in shared memory, on the emulator",
    "spills": "no register is spilled to memory",
}
"""Kinds of check, with what each looks at."""

DEFAULT_CHECKS = frozenset({"exact", "random", "hostile", "races", "emulator", "require"})
"""What is checked where nothing else is asked for."""


MOST_SEED = 2**32 - 1
"""The largest seed of inputs and samples."""

EFFORTS = (0.01, 1000.0)
"""The least and the most effort: a factor on the number of thread blocks that are emulated."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How a requirement is written.

    Attributes:
        help: one line.
        kind: ``number`` is a whole one, ``ratio`` any, ``flag`` is ``true`` or ``false``.
        low, high: of a number.
    """

    help: str
    kind: Literal["number", "ratio", "flag"]
    low: float = 0
    high: float = 0


REQUIREMENTS: dict[str, Limit] = {
    "max_registers": Limit("registers per thread, at most", "number", 16, 255),
    "no_spills": Limit("whether a register that is spilled to memory is a failure", "flag"),
    "bank_conflicts": Limit(
        "wavefronts that bank conflicts in shared memory may cost in the blocks that are run",
        "number",
        0,
        2**31 - 1,
    ),
    "min_ratio_vs_cublas": Limit(
        "the least part of cuBLAS's speed; judged where there is a GPU", "ratio", 0.01, 100
    ),
}
"""What ``require`` may hold."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a kernel file requires of a kernel.

    Attributes:
        name: a key of `REQUIREMENTS`.
        limit: what is required; a flag is 1 or 0.
    """

    name: str
    limit: float

    def __str__(self) -> str:
        value = f"{self.limit:g}"
        if REQUIREMENTS[self.name].kind == "flag":
            value = "true" if self.limit else "false"
        return f"{self.name}: {value}"


def parse_checks(text: str, option: str = "--checks") -> frozenset[str]:
    """The kinds that ``exact,races`` names; ``all`` names every one.

    Args:
        text: words with commas between them.
        option: what an error calls it.

    Raises:
        InputError: an unknown word, or none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise InputError(f"{option} is empty; give some of {', '.join(CHECKS)}, or all")
    for word in words:
        if word not in CHECKS and word != "all":
            close = nearest(word, [*CHECKS, "all"])
            known = f"; known: {', '.join(CHECKS)}, all"
            raise InputError(f"{option}: no check is called '{word}'{close or known}")
    return frozenset(CHECKS) if "all" in words else frozenset(words)


def check_judging(seed: object, effort: object, checks: Collection[str]) -> None:
    """Refuses what no kernel can be judged by.

    Raises:
        InputError: a seed or an effort outside its bounds, or a kind of check that nobody knows.
    """
    if not (isinstance(seed, Integral) and 0 <= int(seed) <= MOST_SEED):
        raise InputError(f"seed = {seed}: give a whole number from 0 to {MOST_SEED}")
    low, high = EFFORTS
    if not (isinstance(effort, Real) and low <= float(effort) <= high):  # NaN is not
        raise InputError(f"effort = {effort}: give a number from {low} to {high}")
    if isinstance(checks, str) or not isinstance(checks, Collection):
        raise InputError(f"checks = {checks}: give a set of some of {', '.join(CHECKS)}")
    for word in sorted(map(str, set(checks) - set(CHECKS))):
        raise InputError(f"checks: no check is called '{word}'; known: {', '.join(CHECKS)}")


@dataclass(frozen=True, slots=True)
class Settings:
    """How a kernel is judged.

    Attributes:
        seed: of the random inputs, the sampled blocks and the sampled kernels.
        effort: factor on the number of blocks that the emulator runs.
        checks: kinds of check, see `CHECKS`.
        deadline: time (``time.monotonic``) after which nothing is begun.
        jobs: processes that share the launches of one kernel on the emulator.

    Raises:
        InputError: see `check_judging`.
    """

    seed: int = 0
    effort: float = 1.0
    checks: frozenset[str] = DEFAULT_CHECKS
    deadline: float = inf
    jobs: int = 1

    def __post_init__(self) -> None:
        check_judging(self.seed, self.effort, self.checks)
        if not isinstance(self.deadline, Real):
            raise InputError(f"deadline = {self.deadline}: give a time of time.monotonic, or inf")
        if not (isinstance(self.jobs, Integral) and int(self.jobs) >= 1):
            raise InputError(f"jobs = {self.jobs}: give a whole number from 1 on")
