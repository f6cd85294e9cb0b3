"""The CUDA-core family: fp32 products, and what else is to do without tensor cores."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.abreast import Block, refusal, tiles_abreast
from deepgemm_codegen.decide.family import Family, Setting, best_other
from deepgemm_codegen.decide.menus import others_than
from deepgemm_codegen.decide.simt.constraints import shared_bytes
from deepgemm_codegen.decide.simt.menu import LEGAL, SimtMenu, menu_for
from deepgemm_codegen.decide.simt.predict import predict
from deepgemm_codegen.decide.simt.questions import answers
from deepgemm_codegen.decide.simt.refuse import refuse
from deepgemm_codegen.decide.simt.rejections import rejections
from deepgemm_codegen.decide.simt.search import SimtFound, search_all
from deepgemm_codegen.decide.simt.task import Task, tasks_of
from deepgemm_codegen.decide.split_k import reduce_clocks

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.refusal import Refusal
    from deepgemm_codegen.decide.simt.choice import SimtChoice
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["SIMT"]

_TYPES = ("fp32", "fp16", "bf16")


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`."""

    setting: Setting
    tasks: tuple[Task, ...]
    task: Task
    menu: SimtMenu
    choice: SimtChoice
    clocks: float
    costed: int

    def prediction(self) -> Prediction:
        microseconds = self.clocks / self.setting.machine.clock_mhz
        return predict(self.task, self.choice)._replace(clocks=self.clocks, us=microseconds)

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        return answers(self.setting, self.task, self.choice, self.prediction(), family_reason)

    def rival(self, question: str) -> str:
        others, tasks = others_than(self.choice, self.menu, question), self.tasks
        if question.startswith("copy of"):
            tasks = tuple(task for task in tasks if task is not self.task)
            others = {"stages": self.menu.stages} if tasks else {}

        def search_in(changed: dict[str, Any]) -> SimtFound | None:
            found = search_all(tasks, self.menu._replace(**changed))
            return found and found._replace(clocks=found.clocks + _later(self.setting))

        given = self.setting.spec.overrides.numbers()
        return best_other(others, given, self.clocks, search_in)

    def rejections(self) -> tuple[Rejection, ...]:
        return rejections(self.task, self.menu, self.choice)


def _obstacle(spec: GemmSpec, _arch: Arch) -> str:
    """What keeps the family out: operands that are not widened to fp32."""
    for dtype in (spec.dtype_a, spec.dtype_b):
        if dtype.name not in _TYPES:
            return f"{dtype} operands are not widened to fp32"
    return ""


def _later(setting: Setting) -> float:
    """Clocks of the kernel behind the product, where a step needs whole rows."""
    return reduce_clocks(setting.problem, setting.machine, 1)


def _best(setting: Setting, below: float = inf) -> _Answer | None:
    tasks = tasks_of(setting)
    menu = menu_for(setting.problem, setting.spec.overrides)
    found = search_all(tasks, menu)
    if found is None or found.clocks + _later(setting) >= below:
        return None
    task = found.task
    abreast = tiles_abreast(
        task.problem,
        task.machine,
        predict(task, found.choice).tiles,
        _block(task, found.choice),
        found.clocks,
        setting.spec.overrides.abreast,
    )
    if not abreast:
        return None
    choice = found.choice._replace(abreast=abreast)
    clocks = found.clocks + _later(setting)
    return _Answer(setting, tasks, task, menu, choice, clocks, found.costed)


def _block(task: Task, choice: SimtChoice) -> Block:
    """What a block of one tile takes."""
    shape = choice.tile_m, choice.tile_n, choice.tile_k
    return Block(choice.warps_m * choice.warps_n, shared_bytes(task, *shape, choice.stages))


def _refuse(setting: Setting) -> Refusal:
    given = setting.spec.overrides
    if given.abreast is not None:
        found = search_all(tasks_of(setting), menu_for(setting.problem, given))
        error = found and refusal(
            _block(found.task, found.choice), given.abreast, found.task.machine
        )
        if error:
            return error
    return refuse(setting)


SIMT = Family(
    name="simt",
    shown="CUDA cores",
    obstacle=_obstacle,
    apart=lambda _spec, _arch: False,
    legal=LEGAL,
    best=_best,
    refuse=_refuse,
    tensor_cores=False,
)
