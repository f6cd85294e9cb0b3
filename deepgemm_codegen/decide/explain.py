"""`explain`: every question with the choice, its reason, the best rival and what was ruled out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.decide import constraints
from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.menu import menu_for
from deepgemm_codegen.decide.pipeline import shared_bytes
from deepgemm_codegen.decide.predict import predict
from deepgemm_codegen.decide.problem import problem_of
from deepgemm_codegen.decide.questions import answers
from deepgemm_codegen.decide.refuse import check_types, refuse
from deepgemm_codegen.decide.registers import (
    copied_vectors,
    operand_registers,
    register_estimate,
)
from deepgemm_codegen.decide.search import Found, search
from deepgemm_codegen.tiles import WARP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.assemble import Choice
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.menu import Menu
    from deepgemm_codegen.decide.predict import Prediction
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Explanation", "Rejection", "explain", "format_explanation"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """What one constraint ruled out.

    Attributes:
        constraint: its name.
        count: branches of the tree that it cut; an outer one is a cut of many candidates.
        choice: the nearest miss, as far as it was chosen: the branch that shares most answers
            with the winner, and of those the one that misses by least.
        got: the nearest miss's number.
        limit: what it may be at most (at least, for ``panel``).
        text: the same in words.
    """

    constraint: str
    count: int
    choice: str
    got: int
    limit: int
    text: str

    @property
    def excess(self) -> str:
        """By how much the nearest miss missed."""
        return f"{abs(self.got - self.limit)} too {'few' if self.got < self.limit else 'many'}"


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
    menu = menu_for(problem, spec.overrides)
    found = search(problem, machine, menu)
    if found is None:
        raise refuse(spec, problem, machine)
    prediction = predict(problem, machine, found.choice)
    given = dict(spec.overrides.items())
    decisions = tuple(
        replace(decision, rival=_rival(decision.question, problem, machine, menu, found, given))
        for decision in answers(problem, arch, machine, found.choice, prediction)
    )
    return Explanation(
        spec=str(spec),
        target=f"{arch.name}, {arch.gpu.name}, {arch.gpu.sms} SMs",
        decisions=decisions,
        prediction=prediction,
        rejections=_rejections(problem, machine, menu, found.choice),
        costed=found.costed,
    )


def _rival(
    question: str,
    problem: Problem,
    machine: Machine,
    menu: Menu,
    found: Found,
    given: dict[str, int],
) -> str:
    """The best candidate that answers a question differently, and its cost."""
    fields = _FIELDS.get(question)
    if fields is None:
        return ""
    rivals = []
    for field in fields:
        values = getattr(menu, field)
        own: Any = getattr(found.choice, field, None)
        if field == "warps":
            own = found.choice.warps_m, found.choice.warps_n
        others = tuple(value for value in values if value != own)
        if others:
            rival = search(problem, machine, menu._replace(**{field: others}))
            if rival is not None:
                rivals.append(rival)
    if not rivals:
        chosen = [field for field in fields if field in given]
        return f"none: given as {', '.join(chosen)}" if chosen else "none is legal"
    best = min(rivals, key=lambda rival: rival.clocks)
    return f"{_brief(best.choice)}: {best.clocks / found.clocks:.3f} x the time"


_FIELDS = {
    "tile": ("tile_m", "tile_n", "tile_k"),
    "warps": ("warps",),
    "stages": ("stages",),
    "occupancy": ("min_blocks",),
    "raster": ("raster_group",),
}
"""What of a menu answers a question; the other questions have one answer only."""


def _brief(choice: Choice) -> str:
    """A choice in a few words."""
    blocks = f"{choice.min_blocks} block{'s' if choice.min_blocks > 1 else ''}"
    return (
        f"{choice.tile_m}x{choice.tile_n}x{choice.tile_k}, warps"
        f" {choice.warps_m}x{choice.warps_n}, {choice.stages} stages, {blocks},"
        f" group {choice.raster_group}"
    )


_Branch = tuple[int, int, int, int, int, int, int]
"""tile_m, tile_n, tile_k, warps_m, warps_n, stages, min_blocks; 0 for what was not yet asked."""


def _order_cut(
    problem: Problem, menu: Menu, tile_m: int, tile_n: int
) -> tuple[str, constraints.Miss] | None:
    """What a tile breaks because there are too many of it."""
    tiles_n = -(-problem.n // tile_n)
    if miss := constraints.grid(problem.batch * -(-problem.m // tile_m) * tiles_n):
        return "grid", miss
    if miss := constraints.raster(min(menu.raster_group), tiles_n):
        return "raster", miss
    return None


def _cuts(
    problem: Problem, machine: Machine, menu: Menu
) -> Iterator[tuple[str, constraints.Miss, _Branch]]:
    """(constraint, miss, branch) of every branch that a constraint cuts from the full tree."""
    size = problem.element_bytes
    for tile_m, tile_n in product(menu.tile_m, menu.tile_n):
        if cut := _order_cut(problem, menu, tile_m, tile_n):
            yield *cut, (tile_m, tile_n, 0, 0, 0, 0, 0)
            continue
        for warps_m, warps_n in menu.warps:
            count = warps_m * warps_n
            name = "fragments"
            miss = constraints.fragments(tile_m, tile_n, warps_m, warps_n)
            if not miss:
                name, miss = "warps", constraints.warps(count)
            if not miss:
                name, miss = "accumulators", constraints.accumulators(tile_m, tile_n, count)
            if miss:
                yield name, miss, (tile_m, tile_n, 0, warps_m, warps_n, 0, 0)
                continue
            a_pass = WARP * count * problem.a.vector_bytes
            b_pass = WARP * count * problem.b.vector_bytes
            for tile_k in menu.tile_k:
                outer = tile_m, tile_n, tile_k, warps_m, warps_n
                a_row = (tile_k if problem.a_k_major else tile_m) * size
                b_row = (tile_k if problem.b_k_major else tile_n) * size
                name = "panel"
                miss = constraints.panel(a_row, a_pass) or constraints.panel(b_row, b_pass)
                if not miss:
                    vectors = copied_vectors(problem, tile_m, tile_n, tile_k, WARP * count)
                    name, miss = "copies", constraints.copies(*vectors)
                if miss:
                    yield name, miss, (*outer, 0, 0)
                else:
                    yield from _inner_cuts(problem, machine, menu, outer)


def _inner_cuts(
    problem: Problem, machine: Machine, menu: Menu, outer: tuple[int, int, int, int, int]
) -> Iterator[tuple[str, constraints.Miss, _Branch]]:
    """The same for stages and resident blocks under one tile, slice and layout of warps."""
    tile_m, tile_n, tile_k, warps_m, warps_n = outer
    threads = WARP * warps_m * warps_n
    estimate = register_estimate(tile_m, tile_n, warps_m, warps_n)
    estimate += operand_registers(problem, *outer)
    fitting = []
    for blocks in menu.min_blocks:
        name, miss = "registers", constraints.registers(estimate, threads, blocks, machine)
        if not miss:
            name, miss = "threads_sm", constraints.threads_sm(threads, blocks, machine)
        if not miss:
            name, miss = "blocks_sm", constraints.blocks_sm(blocks, machine)
        if miss:
            yield name, miss, (*outer, 0, blocks)
        else:
            fitting.append(blocks)
    for stages in menu.stages:
        needed = shared_bytes(tile_m, tile_n, tile_k, warps_m, stages, problem.element_bytes)
        name, miss = "staged_copy", constraints.staged_copy(stages, staged=problem.staged)
        if not miss:
            name, miss = "shared_block", constraints.shared_block(needed, machine)
        if miss:
            yield name, miss, (*outer, stages, 0)
            continue
        for blocks in fitting:
            if miss := constraints.shared_sm(needed, blocks, machine):
                yield "shared_sm", miss, (*outer, stages, blocks)


def _rejections(
    problem: Problem, machine: Machine, menu: Menu, winner: Choice
) -> tuple[Rejection, ...]:
    """What each constraint ruled out, with its nearest miss."""
    own = (
        winner.tile_m, winner.tile_n, winner.tile_k, winner.warps_m, winner.warps_n,
        winner.stages, winner.min_blocks,
    )  # fmt: skip
    counts: dict[str, int] = {}
    nearest: dict[str, tuple[tuple[int, float], _Branch, constraints.Miss]] = {}
    for name, miss, branch in _cuts(problem, machine, menu):
        counts[name] = counts.get(name, 0) + 1
        strange = sum(value not in (0, mine) for value, mine in zip(branch, own, strict=True))
        key = strange, abs(miss[0] - miss[1]) / max(miss[1], 1)
        if name not in nearest or key < nearest[name][0]:
            nearest[name] = key, branch, miss
    found = []
    for name, phrase in constraints.PHRASES.items():
        if name in counts:
            _, branch, (got, limit) = nearest[name]
            text = phrase.format(got=got, limit=limit, machine=machine.name)
            found.append(Rejection(name, counts[name], _words(branch), got, limit, text))
    return tuple(found)


def _words(branch: _Branch) -> str:
    """A branch as far as it was chosen."""
    tile_m, tile_n, tile_k, warps_m, warps_n, stages, blocks = branch
    words = [f"{tile_m}x{tile_n}" + (f"x{tile_k}" if tile_k else "")]
    if warps_m:
        words.append(f"warps {warps_m}x{warps_n}")
    if stages:
        words.append(f"{stages} stages")
    if blocks:
        words.append(f"{blocks} block" + ("s" if blocks > 1 else ""))
    return ", ".join(words)


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
