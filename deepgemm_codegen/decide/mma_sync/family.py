"""The mma.sync family: runs everywhere, serves every spec of 16-bit operands."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.family import Family, Setting, best_other
from deepgemm_codegen.decide.mma_sync.menu import LEGAL, Menu, menu_for
from deepgemm_codegen.decide.mma_sync.predict import predict
from deepgemm_codegen.decide.mma_sync.questions import answers
from deepgemm_codegen.decide.mma_sync.refuse import refuse
from deepgemm_codegen.decide.mma_sync.rejections import rejections
from deepgemm_codegen.decide.mma_sync.search import search

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["MMA_SYNC"]

_FIELDS: dict[str, tuple[str, ...]] = {
    "tile": ("tile_m", "tile_n", "tile_k"),
    "warps": ("warps",),
    "stages": ("stages",),
    "occupancy": ("min_blocks",),
    "raster": ("raster_group",),
}
"""What of the menu answers a question; the other questions have one answer only."""


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`."""

    setting: Setting
    menu: Menu
    choice: MmaSyncChoice
    clocks: float
    costed: int

    def prediction(self) -> Prediction:
        return predict(self.setting.problem, self.setting.machine, self.choice)

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        _, arch, problem, machine = self.setting
        return answers(problem, arch, machine, self.choice, self.prediction(), family_reason)

    def rival(self, question: str) -> str:
        _, _, problem, machine = self.setting
        others = {}
        for field in _FIELDS.get(question, ()):
            own: Any = (
                (self.choice.warps_m, self.choice.warps_n)
                if field == "warps"
                else getattr(self.choice, field)
            )
            others[field] = tuple(value for value in getattr(self.menu, field) if value != own)
        return best_other(
            others,
            self.setting.spec.overrides.numbers(),
            self.clocks,
            lambda changed: search(problem, machine, self.menu._replace(**changed)),
        )

    def rejections(self) -> tuple[Rejection, ...]:
        return rejections(self.setting.problem, self.setting.machine, self.menu, self.choice)


def _obstacle(spec: GemmSpec, _arch: Arch) -> str:
    """What keeps mma.sync out."""
    return "" if spec.dtype_a.bytes == 2 else f"{spec.dtype_a} operands have no kernel yet"


def _best(setting: Setting, below: float = inf) -> _Answer | None:
    menu = menu_for(setting.problem, setting.spec.overrides)
    found = search(setting.problem, setting.machine, menu, below)
    return None if found is None else _Answer(setting, menu, *found)


MMA_SYNC = Family(
    name="mma_sync",
    shown="mma.sync",
    obstacle=_obstacle,
    legal=LEGAL,
    best=_best,
    refuse=refuse,
)
