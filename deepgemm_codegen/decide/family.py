"""What a kernel family is to the tree: who may serve a spec, with what, and at what cost.

Every family is one `Family` value, made in ``decide/NAME/family.py`` and listed in `families`; the
tree knows no more of it than stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.problem import problem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.refusal import Refusal
    from deepgemm_codegen.plan import Decision, Program
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Answer", "Choice", "Family", "Found", "Search", "Setting", "best_other", "setting_of"]


class Setting(NamedTuple):
    """What every family is asked about.

    Attributes:
        spec: as the caller gave it.
        arch: where.
        problem: the spec in the plan's roles.
        machine: the architecture in the cost model's units.
    """

    spec: GemmSpec
    arch: Arch
    problem: Problem
    machine: Machine


def setting_of(spec: GemmSpec, arch: Arch) -> Setting:
    """The setting of a spec on an architecture."""
    return Setting(spec, arch, problem_of(spec, arch), machine_of(arch, spec.dtype_a.name))


class Choice(Protocol):
    """The numbers that distinguish one candidate of a family from another."""

    @property
    def words(self) -> str:
        """The choice in a few words."""

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...]) -> Program:
        """The program of the choice, which the family's constraints have passed."""


class Found(Protocol):
    """The winner of one search."""

    @property
    def choice(self) -> Choice:
        """Its numbers."""

    @property
    def clocks(self) -> float:
        """Its predicted cost."""

    @property
    def costed(self) -> int:
        """Candidates whose cost was computed; the others' floors were too high."""


class Answer(Found, Protocol):
    """A family's cheapest candidate, and what can be said of it."""

    def prediction(self) -> Prediction:
        """Its cost in parts."""

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        """Every question of the tree with its answer and reason."""

    def rival(self, question: str) -> str:
        """The best candidate of the family that answers a question differently, and its cost."""

    def rejections(self) -> tuple[Rejection, ...]:
        """What each constraint ruled out."""


class Search(Protocol):
    """How a family finds its cheapest candidate: below some clocks, where they are given."""

    def __call__(self, setting: Setting, below: float = inf) -> Answer | None:
        """The answer; None when nothing is legal, or nothing takes fewer clocks than `below`."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kernel family as the tree sees it.

    Attributes:
        name: the word of the override ``family``.
        shown: the name in prose.
        obstacle: why it cannot serve a spec on an architecture; empty when it can.
        apart: whether that goes without saying: nobody would look for the family there.
        legal: every number that an override may ask for, by its name.
        best: its cheapest candidate under the spec's overrides, or None.
        refuse: why it does not serve a spec that it could, were it not for overrides or limits.
        tensor_cores: whether its kernels multiply on them.
        copies: whether it may read copies of the operands, see `repack`.
    """

    name: str
    shown: str
    obstacle: Callable[[GemmSpec, Arch], str]
    apart: Callable[[GemmSpec, Arch], bool]
    legal: Mapping[str, range]
    best: Search
    refuse: Callable[[Setting], Refusal]
    tensor_cores: bool = True
    copies: bool = False


def best_other(
    others: Mapping[str, Any],
    given: Mapping[str, int],
    clocks: float,
    search_in: Callable[[dict[str, Any]], Found | None],
) -> str:
    """The best candidate with another value of one of some fields of a menu, in words.

    Args:
        others: the menu's other values, by field; empty for a question with one answer only.
        given: the user's overrides.
        clocks: what the winner takes.
        search_in: searches the menu with some fields changed.
    """
    if not others:
        return ""
    tried = (search_in({field: values}) for field, values in others.items() if values)
    rivals = [rival for rival in tried if rival is not None]
    if not rivals:
        chosen = [field for field in others if field in given]
        return f"none: given as {', '.join(chosen)}" if chosen else "none is legal"
    best = min(rivals, key=lambda rival: rival.clocks)
    return in_words(best, clocks)


def in_words(rival: Found, clocks: float) -> str:
    """A rival and what it takes beside the winner's clocks."""
    ratio = f"{rival.clocks / clocks:.3f}"
    # Of what is predicted as all but equal a family may take what did best where it was measured.
    even = ", too close to call" if float(ratio) < 1.0 else ""
    return f"{rival.choice.words}: {ratio} x the time{even}"
