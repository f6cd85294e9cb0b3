"""The wgmma family: Hopper's own instruction, for operands that TMA can serve."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.family import Answer, Family, Setting, best_other, in_words
from deepgemm_codegen.decide.repack import Copies, best_with_copies, contiguous_of, copies_for
from deepgemm_codegen.decide.split_k import (
    Cut,
    cheapest_cut,
    cluster_obstacle,
    cuts_to_try,
    trailing_clocks,
)
from deepgemm_codegen.decide.tma import tma_obstacle
from deepgemm_codegen.decide.wgmma.menu import CLUSTER_KS, LEGAL, WgmmaMenu, menu_for
from deepgemm_codegen.decide.wgmma.predict import predict, roofline
from deepgemm_codegen.decide.wgmma.questions import answers
from deepgemm_codegen.decide.wgmma.refuse import refuse
from deepgemm_codegen.decide.wgmma.rejections import rejections
from deepgemm_codegen.decide.wgmma.search import WgmmaFound, search
from deepgemm_codegen.decide.wgmma.task import Task, task_of
from deepgemm_codegen.decide.wgmma.whole_rows import (
    best_holding_rows,
    blocks_to_try,
    predict_holding_rows,
    rows_menu,
    rows_obstacle,
)
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.refusal import Refusal
    from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["WGMMA"]

_FIELDS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n"),
    "warps": ("consumers", "tiles_at_once"),
    "stages": ("stages",),
    "raster": ("raster_group", "cluster_m", "cluster_n"),
}
"""What of the menu answers a question; the other questions have one answer only."""


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`.

    Attributes:
        setting: of the whole problem.
        task: of the product kernel.
        menu: what it was chosen from.
        choice, costed: see there.
        clocks: of all kernels.
        others: of those around the product.
        copying: of those before it, among them.
    """

    setting: Setting
    task: Task
    menu: WgmmaMenu
    choice: WgmmaChoice
    clocks: float
    costed: int
    others: float
    copying: float

    def prediction(self) -> Prediction:
        microseconds = self.clocks / self.setting.machine.clock_mhz
        own = predict_holding_rows if self.choice.cluster_rows else predict
        return own(self.task, self.choice)._replace(clocks=self.clocks, us=microseconds)

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        spec = self.setting.spec
        return answers(spec, self.task, self.choice, self.prediction(), family_reason)

    def rival(self, question: str) -> str:
        others = {}
        if question == "whole rows":
            return self._other_rows()
        holds_rows = self.choice.cluster_rows > 0
        for field in () if holds_rows and question == "raster" else _FIELDS.get(question, ()):
            own = getattr(self.choice, field)
            others[field] = tuple(value for value in getattr(self.menu, field) if value != own)

        def search_in(changed: dict[str, Any]) -> WgmmaFound | None:
            if holds_rows:
                menu = self.menu._replace(**changed)
                found = best_holding_rows(self.task, menu, blocks_to_try(self.setting.spec))
                return found and found._replace(clocks=found.clocks + self.others)
            if "stages" in changed:  # of slices that are as long
                changed["slice_rows"] = (self.choice.tile_k // self.task.kind.tile_k,)
            found = search(self.task, self.menu._replace(**changed))
            return found and found._replace(clocks=found.clocks + self.others)

        given = self.setting.spec.overrides.numbers()
        return best_other(others, given, self.clocks, search_in)

    def _other_rows(self) -> str:
        """What has whole rows if not what was chosen: a second kernel, or a cluster."""
        given = self.setting.spec.overrides.cluster_rows
        if given is not None:
            return "none: given as cluster_rows"
        kind, other = "a cluster", _holding_rows(self.setting, inf, self.copying)
        if self.choice.cluster_rows:
            kind, other = "a second kernel", _in_memory(self.setting, inf, self.copying)
        if other is None:
            return "none is legal"
        return f"{kind}, {in_words(other, self.clocks)}"

    def rejections(self) -> tuple[Rejection, ...]:
        # Those of the search, which costs other kernels, would mislead where a cluster has rows.
        return () if self.choice.cluster_rows else rejections(self.task, self.menu, self.choice)


def _obstacle(spec: GemmSpec, arch: Arch) -> str:
    """What about the architecture or the problem keeps wgmma out."""
    if not arch.wgmma:
        return f"{arch.name} has no wgmma"
    tile_k, row = spec.overrides.tile_k, PANEL_BYTES // spec.dtype_a.bytes
    slices = (row,) if spec.dtype_a.bytes == 1 else (row, 2 * row)
    if tile_k not in (None, *slices):
        return f"tile_k = {tile_k} is given, and its slices are {' or '.join(map(str, slices))}"
    if spec.k.size == 0:
        return "k = 0 leaves nothing to multiply"
    rows = spec.overrides.cluster_rows
    no_rows = rows_obstacle(spec, rows) if rows else ""
    if reason := cluster_obstacle(spec) or no_rows or _types_obstacle(spec, arch):
        return reason
    unread = _unread(spec, Copies())
    if not unread or not _unread(spec, copies_for(spec, along_k=True)):
        return ""
    return f"{unread}, and repack = off" if spec.overrides.repack == "off" else unread


def _types_obstacle(spec: GemmSpec, arch: Arch) -> str:
    """What about the operands' types keeps it out."""
    for dtype in (spec.dtype_a, spec.dtype_b):
        if not arch.wgmma_rate(dtype.name):
            return f"it multiplies no {dtype}"
    return ""


def _unread(spec: GemmSpec, copies: Copies) -> str:
    """Why it cannot read an operand that is not copied first."""
    for letter in "ab":
        if letter in copies.letters:
            continue
        where = contiguous_of(spec, letter)
        if spec.dtype_a.bytes == 1 and where != "k":
            return (
                f"{letter.upper()} has {where} contiguous, but 1-byte operands are read along k"
                " (layout nt, or repack = on)"
            )
        if reason := tma_obstacle(spec, letter):
            return reason
    return ""


def _best(setting: Setting, below: float = inf) -> Answer | None:
    spec = setting.spec
    served, copies = not _unread(spec, Copies()), copies_for(spec, along_k=True)
    return best_with_copies(_best_product, setting, below, copies, as_they_lie=served)


def _best_product(setting: Setting, below: float = inf, copying: float = 0.0) -> _Answer | None:
    whole = _holding_rows(setting, below, copying)
    if setting.spec.overrides.cluster_rows:
        return whole
    other = _in_memory(setting, below if whole is None else whole.clocks, copying)
    return whole if other is None else other


def _in_memory(setting: Setting, below: float, copying: float) -> _Answer | None:
    """The best product that stores D, or sums for a second kernel."""
    spec, _, problem, machine = setting

    def others(how: Cut) -> float:
        return copying + trailing_clocks(problem, machine, 1 if how.together else how.parts)

    given = spec.overrides.numbers()

    def found_for(how: Cut, limit: float) -> WgmmaFound | None:
        menu = menu_for(problem, given, cut=how.parts > 1)
        return search(task_of(spec, problem, machine, how), menu, limit)

    cheapest = cheapest_cut(
        cuts_to_try(problem, machine, spec.overrides, CLUSTER_KS),
        others,
        found_for,
        roofline(task_of(spec, problem, machine)),
        below,
    )
    if cheapest is None:
        return None
    how, (choice, clocks, costed) = cheapest
    task, rest = task_of(spec, problem, machine, how), others(how)
    menu = menu_for(problem, given, cut=how.parts > 1)
    return _Answer(setting, task, menu, choice, clocks + rest, costed, rest, copying)


def _holding_rows(setting: Setting, below: float, copying: float) -> _Answer | None:
    """The best product whose clusters have whole rows, for a step that needs them; None without."""
    spec, _, problem, machine = setting
    blocks, given = blocks_to_try(spec), spec.overrides.numbers()
    if not blocks:
        return None
    task = task_of(spec, problem._replace(rows_follow=False), machine)  # no kernel follows
    menu = rows_menu(problem, given)
    found = best_holding_rows(task, menu, blocks, below - copying)
    if found is None:
        return None
    return _Answer(
        setting, task, menu, found.choice, found.clocks + copying, found.costed, copying, copying
    )


def _refuse(setting: Setting) -> Refusal:
    return refuse(setting.spec, setting.problem, setting.machine)


WGMMA = Family(
    name="wgmma",
    shown="wgmma",
    obstacle=_obstacle,
    apart=lambda _, arch: not arch.wgmma,
    legal=LEGAL,
    best=_best,
    refuse=_refuse,
    copies=True,
)
