"""The wgmma family: Hopper's own instruction, for operands that TMA can serve."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.family import Family, Setting, best_other
from deepgemm_codegen.decide.tma import tma_obstacle
from deepgemm_codegen.decide.wgmma.menu import LEGAL, WgmmaMenu, menu_for
from deepgemm_codegen.decide.wgmma.predict import predict
from deepgemm_codegen.decide.wgmma.questions import answers
from deepgemm_codegen.decide.wgmma.refuse import refuse
from deepgemm_codegen.decide.wgmma.rejections import rejections
from deepgemm_codegen.decide.wgmma.search import search
from deepgemm_codegen.decide.wgmma.task import Task, task_of
from deepgemm_codegen.decide.wgmma.tile import TILE_K

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.wgmma.choice import WgmmaChoice
    from deepgemm_codegen.errors import InputError
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
    """See `deepgemm_codegen.decide.family.Answer`."""

    setting: Setting
    task: Task
    menu: WgmmaMenu
    choice: WgmmaChoice
    clocks: float
    costed: int

    def prediction(self) -> Prediction:
        return predict(self.task, self.choice)

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        spec = self.setting.spec
        return answers(spec, self.task, self.choice, self.prediction(), family_reason)

    def rival(self, question: str) -> str:
        others = {}
        for field in _FIELDS.get(question, ()):
            own = getattr(self.choice, field)
            others[field] = tuple(value for value in getattr(self.menu, field) if value != own)
        return best_other(
            others,
            self.setting.spec.overrides.numbers(),
            self.clocks,
            lambda changed: search(self.task, self.menu._replace(**changed)),
        )

    def rejections(self) -> tuple[Rejection, ...]:
        return rejections(self.task, self.menu, self.choice)


def _obstacle(spec: GemmSpec, arch: Arch) -> str:
    """What about the architecture or the problem keeps wgmma out."""
    if not arch.wgmma:
        return f"{arch.name} has no wgmma"
    tile_k = spec.overrides.tile_k
    if tile_k not in (None, TILE_K):
        return f"tile_k = {tile_k} is given, and its slices are {TILE_K}"
    if spec.dtype_a.bytes != 2:
        return f"{spec.dtype_a} operands have no kernel yet"
    if spec.batch > 1:
        return f"batch = {spec.batch}, and its tensor maps have two dimensions"
    if spec.k.size == 0:
        return "k = 0 leaves nothing to multiply"
    return tma_obstacle(spec, "a") or tma_obstacle(spec, "b")


def _best(setting: Setting, below: float = inf) -> _Answer | None:
    task = task_of(setting.spec, setting.problem, setting.machine)
    menu = menu_for(setting.problem, setting.spec.overrides.numbers())
    found = search(task, menu)
    return None if found is None or found.clocks >= below else _Answer(setting, task, menu, *found)


def _refuse(setting: Setting) -> InputError:
    return refuse(setting.spec, task_of(setting.spec, setting.problem, setting.machine))


WGMMA = Family(
    name="wgmma",
    shown="wgmma",
    obstacle=_obstacle,
    apart=lambda _, arch: not arch.wgmma,
    legal=LEGAL,
    best=_best,
    refuse=_refuse,
)
