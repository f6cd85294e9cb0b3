"""`explain`: every question with the choice, its reason, the best rival and what was ruled out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.around import layers_of
from deepgemm_codegen.decide.families import Considered, consider
from deepgemm_codegen.decide.family import Answer, Setting, setting_of
from deepgemm_codegen.decide.fold import answers_fold, fold
from deepgemm_codegen.decide.misses import Rejection
from deepgemm_codegen.decide.refuse import check_types, refuse

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.around import Layer
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["ANSWERED", "Explanation", "Given", "Rejection", "explain", "format_explanation"]

ANSWERED: dict[str, tuple[str, ...]] = {
    "family": ("family",),
    "tensor_cores": ("family",),
    "tile_m": ("tile",),
    "tile_n": ("tile",),
    "tile_k": ("tile",),
    "warps_m": ("warps", "block"),
    "warps_n": ("warps", "row"),
    "warps_k": ("warps",),
    "stages": ("stages",),
    "min_blocks": ("occupancy",),
    "raster_group": ("raster",),
    "consumers": ("warps",),
    "tiles_at_once": ("warps",),
    "cluster_m": ("raster",),
    "cluster_n": ("raster",),
    "cluster_k": ("split k",),
    "cluster_rows": ("whole rows",),
    "split_k": ("split k",),
    "split_k_from": ("split k",),
    "abreast": ("tiles abreast",),
    "ring": ("stages",),
    "repack": ("operands",),
}
"""The questions that an override has a part in, of which a family asks one at most."""


class Given(NamedTuple):
    """A choice that the user made in the tree's place.

    Attributes:
        name: the override's.
        value: what was given.
        decision: id of the decision that it answers, or a part of; empty where the question did
            not come up, as that for parts of k that stays whole.
    """

    name: str
    value: int | str
    decision: str


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
        given: what the user chose, in the order of the overrides; the tree chose the rest.
    """

    spec: str
    target: str
    decisions: tuple[Decision, ...]
    prediction: Prediction
    rejections: tuple[Rejection, ...]
    costed: int
    given: tuple[Given, ...] = ()

    def given_for(self, decision: str) -> dict[str, int | str]:
        """What the user chose of a decision, by the override's name; the id may be empty."""
        return {each.name: each.value for each in self.given if each.decision == decision}

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
                    "given": self.given_for(decision.id),
                }
                for decision in self.decisions
            ],
            "given_besides": self.given_for(""),
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
    solved = fold(spec)
    inner, layers = layers_of(solved)
    told = _explained(inner, arch, answers_fold(spec, solved))
    for layer in layers:
        told = _longer(told, layer, arch)
    return replace(told, spec=str(spec), given=_given(spec, told.decisions))


def _given(spec: GemmSpec, decisions: tuple[Decision, ...]) -> tuple[Given, ...]:
    """The user's choices, each with the decision that it has a part in."""
    asked = {decision.question: decision.id for decision in decisions}
    return tuple(
        Given(name, value, next((asked[q] for q in ANSWERED[name] if q in asked), ""))
        for name, value in spec.overrides.items()
    )


def _explained(spec: GemmSpec, arch: Arch, folded: tuple[Decision, ...]) -> Explanation:
    """The explanation of a spec as a family sees it; ``folded`` says how it came of another."""
    setting = setting_of(spec, arch)
    considered = consider(setting)
    winner = considered.winner
    if winner is None:
        raise refuse(setting)
    family, *others = winner.decisions(considered.reason(setting))
    others += folded
    return Explanation(
        spec=str(spec),
        target=f"{arch.name}{'a' if arch.wgmma else ''}, {arch.gpu.name}, {arch.gpu.sms} SMs",
        decisions=(
            replace(family, rival=_family_rivals(setting, considered, winner)),
            *(replace(decision, rival=winner.rival(decision.question)) for decision in others),
        ),
        prediction=winner.prediction(),
        rejections=winner.rejections(),
        costed=winner.costed,
    )


def _longer(told: Explanation, layer: Layer, arch: Arch) -> Explanation:
    """An explanation with that of the kernels that stand around the program."""
    prediction, clocks = told.prediction, layer.clocks(layer.spec, arch)
    return replace(
        told,
        decisions=(*told.decisions, layer.answer(layer.spec, arch)),
        prediction=prediction._replace(
            clocks=prediction.clocks + clocks, us=prediction.us + clocks / arch.gpu.clock_mhz
        ),
    )


def _family_rivals(setting: Setting, considered: Considered, winner: Answer) -> str:
    """What the other families would take, or why they were not asked."""
    arch = setting.arch
    told = []
    for family in considered.families:
        if family is considered.family or family.apart(setting.spec, arch):
            continue
        obstacle = considered.obstacles.get(family.name)
        if obstacle is not None:
            told.append(f"none: {obstacle}")
            continue
        rival = family.best(setting)
        if rival is None:
            told.append(f"none: no {family.shown} kernel has the values given")
            continue
        microseconds, ratio = rival.clocks / arch.gpu.clock_mhz, rival.clocks / winner.clocks
        told.append(
            f"{family.name}, {rival.choice.words}: {microseconds:.1f} us, {ratio:.3f} x the time"
        )
    return "; ".join(told)


def format_explanation(explanation: Explanation) -> str:
    """The explanation as people read it."""
    prediction = explanation.prediction
    lines = [explanation.spec, f"on {explanation.target}", ""]
    for decision in explanation.decisions:
        lines.append(f"[{decision.id}] {decision.question}: {decision.choice}")
        if given := explanation.given_for(decision.id):
            lines.append(f"      given  {_listed(given)}")
        lines.append(f"      why    {decision.reason}")
        if decision.rival:
            lines.append(f"      rival  {decision.rival}")
    if besides := explanation.given_for(""):
        lines.append(f"given, with no decision of its own: {_listed(besides)}")
    parts = ", ".join(f"{part} {clocks:.0f}" for part, clocks in prediction.parts.items())
    moved = f"{prediction.l2_bytes / 1e6:.1f} MB from the L2"
    moved += f", {prediction.dram_bytes / 1e6:.1f} MB from and to device memory"
    ruled_out = f"ruled out by a constraint ({explanation.costed} others were costed; the rest were"
    ruled_out += " skipped, as even their lower bound is slower):"
    time = f"{prediction.us:.1f} us ({prediction.clocks:.0f} clocks)"
    tiles = f"tiles {prediction.tiles}, waves {prediction.waves:.2f}"
    tiles += f", slices {prediction.slices}" if prediction.slices else ""
    lines += [
        "",
        f"predicted: {time}, bound by {prediction.bound}",
        f"  {tiles}",
        f"  {moved}",
        f"  clocks{' a slice' if prediction.slices else ''}: {parts}",
        "",
        ruled_out,
    ]
    for rejection in explanation.rejections:
        branches = f"{rejection.count} branch{'es' if rejection.count > 1 else ''}"
        lines.append(f"  {rejection.constraint}: {branches}; nearest miss {rejection.choice}:")
        lines.append(f"      {rejection.text}: {rejection.excess}")
    return "\n".join(lines) + "\n"


def _listed(given: dict[str, int | str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items())
