"""`explain`: every question with the choice, its reason, the best rival and what was ruled out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from deepgemm_codegen.decide.assemble import Choice, WgmmaChoice
from deepgemm_codegen.decide.families import Considered, consider
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.menu import Menu, menu_for
from deepgemm_codegen.decide.predict import predict
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.questions import answers
from deepgemm_codegen.decide.refuse import check_types, refuse
from deepgemm_codegen.decide.rejections import Rejection, rejections
from deepgemm_codegen.decide.search import search
from deepgemm_codegen.decide.wgmma import menu as wgmma_menu
from deepgemm_codegen.decide.wgmma.predict import predict as predict_wgmma
from deepgemm_codegen.decide.wgmma.questions import answers as answers_of_wgmma
from deepgemm_codegen.decide.wgmma.rejections import rejections as rejections_of_wgmma
from deepgemm_codegen.decide.wgmma.search import search as search_wgmma
from deepgemm_codegen.decide.wgmma.tile import TILE_K

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.predict import Prediction
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.wgmma.menu import WgmmaMenu
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Explanation", "Rejection", "explain", "format_explanation"]


class _Costed(Protocol):
    """What both families' searches find."""

    @property
    def choice(self) -> Choice | WgmmaChoice: ...
    @property
    def clocks(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with all that led to it.

    Attributes:
        spec: in one line.
        target: architecture and GPU.
        decisions: with rivals.
        prediction: cost of the winner.
        rejections: by constraint, in the order they are asked.
        costed: candidates whose cost was computed; the others' floors were too high.
    """

    spec: str
    target: str
    decisions: tuple[Decision, ...]
    prediction: Prediction
    rejections: tuple[Rejection, ...]
    costed: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "spec": self.spec,
            "target": self.target,
            "decisions": [
                {
                    "id": decision.id,
                    "question": decision.question,
                    "choice": decision.choice,
                    "reason": decision.reason,
                    "rival": decision.rival,
                }
                for decision in self.decisions
            ],
            "prediction": self.prediction._asdict(),
            "rejections": [
                {
                    "constraint": rejection.constraint,
                    "count": rejection.count,
                    "nearest": rejection.choice,
                    "got": rejection.got,
                    "limit": rejection.limit,
                    "text": rejection.text,
                }
                for rejection in self.rejections
            ],
            "costed": self.costed,
        }


def explain(spec: GemmSpec, arch: Arch) -> Explanation:
    """Decides as `decide` does, and keeps rivals and rejections.

    Raises:
        InputError: as `decide`.
    """
    check_types(spec, arch)
    problem, machine = problem_of(spec, arch), machine_of(arch)
    considered = consider(spec, arch, problem, machine)
    reason = considered.reason(arch)
    fast, slow, task = considered.fast, considered.slow, considered.task
    given = spec.overrides.numbers()
    family = _family_rival(spec, arch, problem, machine, considered)
    if slow is not None:
        menu = menu_for(problem, spec.overrides)
        prediction = predict(problem, machine, slow.choice)
        decisions = answers(problem, arch, machine, slow.choice, prediction, reason)
        decisions = tuple(
            replace(d, rival=_rival(d.question, problem, machine, menu, slow, given))
            for d in decisions
        )
        ruled_out = rejections(problem, machine, menu, slow.choice)
        costed = slow.costed
    elif fast is not None and task is not None:
        fast_menu = wgmma_menu.menu_for(problem, given)
        prediction = predict_wgmma(task, fast.choice)
        decisions = answers_of_wgmma(spec, task, fast.choice, prediction, reason)
        decisions = tuple(
            replace(d, rival=_rival_of_wgmma(d.question, task, fast_menu, fast, given))
            for d in decisions
        )
        ruled_out = rejections_of_wgmma(task, fast_menu, fast.choice)
        costed = fast.costed
    else:
        raise refuse(spec, problem, machine, considered)
    return Explanation(
        spec=str(spec),
        target=f"{arch.name}{'a' if arch.wgmma else ''}, {arch.gpu.name}, {arch.gpu.sms} SMs",
        decisions=(replace(decisions[0], rival=family), *decisions[1:]),
        prediction=prediction,
        rejections=ruled_out,
        costed=costed,
    )


def _family_rival(
    spec: GemmSpec, arch: Arch, problem: Problem, machine: Machine, considered: Considered
) -> str:
    """What the other family would take, or why it was not asked."""
    fast, slow = considered.fast, considered.slow
    if not arch.wgmma:
        return ""
    if slow is not None:
        if fast is None:
            return f"none: {considered.wgmma or 'no wgmma kernel has the values given'}"
        return _beside("wgmma", fast, slow, arch)
    if considered.mma_sync:
        return f"none: {considered.mma_sync}"
    other = search(problem, machine, menu_for(problem, spec.overrides))
    if other is None or fast is None:
        return "none: no mma.sync kernel has the values given"
    return _beside("mma_sync", other, fast, arch)


def _beside(family: str, rival: _Costed, winner: _Costed, arch: Arch) -> str:
    """The other family's best with its time."""
    microseconds = rival.clocks / arch.gpu.clock_mhz
    ratio = rival.clocks / winner.clocks
    return f"{family}, {_brief(rival.choice)}: {microseconds:.1f} us, {ratio:.3f} x the time"


def _rival(
    question: str,
    problem: Problem,
    machine: Machine,
    menu: Menu,
    found: _Costed,
    given: dict[str, int],
) -> str:
    """mma.sync's best candidate that answers a question differently, and its cost."""
    fields = _FIELDS.get(question, ())
    others = {}
    for field in fields:
        own: Any = getattr(found.choice, field, None)
        if field == "warps" and isinstance(found.choice, Choice):
            own = found.choice.warps_m, found.choice.warps_n
        others[field] = tuple(value for value in getattr(menu, field) if value != own)
    return _best_other(
        others, given, found, lambda changed: search(problem, machine, menu._replace(**changed))
    )


def _rival_of_wgmma(
    question: str, task: Task, menu: WgmmaMenu, found: _Costed, given: dict[str, int]
) -> str:
    """The same among wgmma's candidates."""
    others = {}
    for field in _WGMMA_FIELDS.get(question, ()):
        own = getattr(found.choice, field)
        others[field] = tuple(value for value in getattr(menu, field) if value != own)
    return _best_other(
        others, given, found, lambda changed: search_wgmma(task, menu._replace(**changed))
    )


def _best_other(
    others: dict[str, Any],
    given: dict[str, int],
    found: _Costed,
    search_in: Callable[[dict[str, Any]], _Costed | None],
) -> str:
    """The best candidate with another value of one of some fields; empty without fields."""
    if not others:
        return ""
    tried = (search_in({field: values}) for field, values in others.items() if values)
    rivals = [rival for rival in tried if rival is not None]
    if not rivals:
        chosen = [field for field in others if field in given]
        return f"none: given as {', '.join(chosen)}" if chosen else "none is legal"
    best = min(rivals, key=lambda rival: rival.clocks)
    return f"{_brief(best.choice)}: {best.clocks / found.clocks:.3f} x the time"


_FIELDS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n", "tile_k"),
    "warps": ("warps",),
    "stages": ("stages",),
    "occupancy": ("min_blocks",),
    "raster": ("raster_group",),
}
"""What of a menu answers a question; the other questions have one answer only."""

_WGMMA_FIELDS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n"),
    "warps": ("consumers",),
    "stages": ("stages",),
    "raster": ("raster_group", "cluster_m", "cluster_n"),
}
"""The same of wgmma's."""


def _brief(choice: Choice | WgmmaChoice) -> str:
    """A choice in a few words."""
    if isinstance(choice, WgmmaChoice):
        consumers = f"{choice.consumers} consumer{'s' if choice.consumers > 1 else ''}"
        words = f"{choice.tile_m}x{choice.tile_n}x{TILE_K}, {consumers}, {choice.stages} stages"
        if choice.cluster_m * choice.cluster_n > 1:
            words += f", clusters {choice.cluster_m}x{choice.cluster_n}"
        return f"{words}, group {choice.raster_group}"
    blocks = f"{choice.min_blocks} block{'s' if choice.min_blocks > 1 else ''}"
    return (
        f"{choice.tile_m}x{choice.tile_n}x{choice.tile_k}, warps"
        f" {choice.warps_m}x{choice.warps_n}, {choice.stages} stages, {blocks},"
        f" group {choice.raster_group}"
    )


def format_explanation(explanation: Explanation) -> str:
    """The explanation as people read it."""
    prediction = explanation.prediction
    lines = [explanation.spec, f"on {explanation.target}", ""]
    for decision in explanation.decisions:
        lines.append(f"[{decision.id}] {decision.question}: {decision.choice}")
        lines.append(f"      why    {decision.reason}")
        if decision.rival:
            lines.append(f"      rival  {decision.rival}")
    parts = ", ".join(f"{part} {clocks:.0f}" for part, clocks in prediction.parts.items())
    moved = f"{prediction.l2_bytes / 1e6:.1f} MB from the L2"
    moved += f", {prediction.dram_bytes / 1e6:.1f} MB from and to device memory"
    time = f"{prediction.us:.1f} us ({prediction.clocks:.0f} clocks)"
    tiles = f"tiles {prediction.tiles}, waves {prediction.waves:.2f}, slices {prediction.slices}"
    lines += [
        "",
        f"predicted: {time}, bound by {prediction.bound}",
        f"  {tiles}",
        f"  {moved}",
        f"  clocks a slice: {parts}",
        "",
        f"ruled out ({explanation.costed} of the rest were costed, the others' floors too high):",
    ]
    for rejection in explanation.rejections:
        branches = f"{rejection.count} branch{'es' if rejection.count > 1 else ''}"
        lines.append(f"  {rejection.constraint}: {branches}; nearest miss {rejection.choice}:")
        lines.append(f"      {rejection.text}: {rejection.excess}")
    return "\n".join(lines) + "\n"
