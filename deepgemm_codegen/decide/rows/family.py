"""The family of row kernels, which serve specs without a product (op = epilogue)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.family import Family, Setting, best_other
from deepgemm_codegen.decide.misses import Rejection, nearest_miss, nearest_misses
from deepgemm_codegen.decide.prediction import Prediction
from deepgemm_codegen.decide.refusal import Refusal, named
from deepgemm_codegen.decide.rows.choice import RowChoice
from deepgemm_codegen.decide.rows.search import (
    LEGAL,
    PHRASES,
    Cost,
    RowMenu,
    candidates,
    cheapest,
    cost_of,
    menu_for,
    violations,
)
from deepgemm_codegen.decide.rows.task import RowTask, row_task
from deepgemm_codegen.plan import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deepgemm_codegen.decide.misses import Branch, Miss
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["ROWS"]


class _Found(NamedTuple):
    """See `deepgemm_codegen.decide.family.Found`."""

    choice: RowChoice
    clocks: float
    costed: int


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`."""

    setting: Setting
    task: RowTask
    menu: RowMenu
    choice: RowChoice
    clocks: float
    costed: int

    @property
    def cost(self) -> Cost:
        return cost_of(self.task, self.choice)

    def prediction(self) -> Prediction:
        task, cost = self.task, self.cost
        machine = task.machine
        return Prediction(
            clocks=cost.clocks,
            us=cost.clocks / machine.clock_mhz,
            tiles=task.blocks(self.choice.warps_m),
            waves=cost.waves,
            slices=0,
            l2_bytes=task.rows * task.n * task.read,
            operand_bytes=task.rows * task.n * task.read,
            dram_bytes=task.rows * task.n * (task.read + task.written),
            parts={"memory": cost.memory, "instructions": cost.issue, "latency": cost.rounds},
            bound=cost.bound,
        )

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        task, cost, spec = self.task, self.cost, self.setting.spec
        warps_m, warps_n, held = self.choice
        questions = (
            ("family", "rows", family_reason),
            ("row", *_row(spec, warps_n)),
            ("vectors", *_vectors(task)),
            ("registers", *_registers(task, held)),
            ("block", *_block(task, cost, warps_m, warps_n)),
        )
        return tuple(
            Decision(f"D{number:02}", question, answer, reason)
            for number, (question, answer, reason) in enumerate(questions, start=1)
        )

    def rival(self, question: str) -> str:
        fields = {"row": "warps_n", "block": "warps_m"}
        if question not in fields:
            return ""
        field = fields[question]
        own = getattr(self.choice, field)
        others = {field: tuple(v for v in getattr(self.menu, field) if v != own)}
        given = self.setting.spec.overrides.numbers()

        def search_in(changed: dict[str, tuple[int, ...]]) -> _Found | None:
            found = cheapest(self.task, self.menu._replace(**changed))
            if found is None:
                return None
            numbers, cost, costed = found
            return _Found(numbers, cost.clocks, costed)

        return best_other(others, given, self.clocks, search_in)

    def rejections(self) -> tuple[Rejection, ...]:
        return nearest_misses(
            _cuts(self.task, self.menu),
            tuple(self.choice),
            PHRASES,
            lambda branch: RowChoice(*branch).words,
            self.task.machine,
        )


def _row(spec: GemmSpec, warps_n: int) -> tuple[str, str]:
    where = "a warp" if warps_n == 1 else f"{warps_n} warps"
    if spec.norm is None:
        return where, "no step needs a whole row; its threads walk it together"
    kind = spec.epilogue[spec.norm].kind
    how = "by shuffles" if warps_n == 1 else "by shuffles, then in shared memory"
    return where, f"{kind} needs a whole row, added up {how}, always in one order"


def _vectors(task: RowTask) -> tuple[str, str]:
    reason = f"{task.limit} allows no wider vector" if task.limit else "rows start on 16 bytes"
    if task.checked:
        reason = "where lengths and strides given at run time allow it; else elements one by one"
    return f"{task.vector} elements", reason


def _registers(task: RowTask, held: int) -> tuple[str, str]:
    if not held:
        return "none held", f"rows of {task.n} do not fit; each pass reads them anew"
    values = held * task.vector
    vectors = "a vector" if held == 1 else f"{held} vectors"
    return f"{vectors} held", f"a row is read once: {values} elements in each thread"


def _block(task: RowTask, cost: Cost, warps_m: int, warps_n: int) -> tuple[str, str]:
    threads = 32 * warps_m * warps_n
    flight = cost.blocks * warps_m * task.n * task.read
    reason = f"{cost.blocks} blocks and {flight / 1024:.0f} KB in flight a multiprocessor"
    reason += f"; {cost.waves:.2f} waves, bound by {cost.bound}"
    rows = "a row" if warps_m == 1 else f"{warps_m} rows"
    return f"{rows}, {threads} threads", reason


def _cuts(task: RowTask, menu: RowMenu) -> Iterator[tuple[str, Miss, Branch]]:
    """(constraint, miss, branch) of every candidate that a constraint rules out."""
    for choice in candidates(task, menu):
        missed = next(violations(task, choice), None)
        if missed is not None:
            name, got, limit = missed
            yield name, (got, limit), tuple(choice)


def _best(setting: Setting, below: float = inf) -> _Answer | None:
    task = row_task(setting.spec, setting.machine)
    menu = menu_for(setting.spec.overrides)
    found = cheapest(task, menu)
    if found is None or found[1].clocks >= below:
        return None
    numbers, cost, costed = found
    return _Answer(setting, task, menu, numbers, cost.clocks, costed)


def _refuse(setting: Setting) -> Refusal:
    """Why no candidate serves a spec."""
    spec = setting.spec
    task = row_task(spec, setting.machine)
    given = spec.overrides.numbers()
    missed = [list(violations(task, c)) for c in candidates(task, menu_for(spec.overrides))]
    name, got, limit = nearest_miss(missed, PHRASES)
    why = PHRASES[name].format(got=got, limit=limit, machine=task.machine.name)
    if given and cheapest(task, RowMenu()) is not None:
        blamed = next(reversed(given))
        return Refusal(f"{named(dict(spec.overrides.items()), blamed)}: {why}", blamed)
    sizes = f"m = {spec.m}, n = {spec.n}, batch = {spec.batch}"
    smaller = "m" if spec.batch == 1 else "m or batch"
    return Refusal(f"{sizes}: {why}", remedy=f"make {smaller} smaller")


ROWS = Family(
    name="rows",
    shown="whole rows",
    obstacle=lambda _spec, _arch: "",
    apart=lambda _spec, _arch: False,
    legal=LEGAL,
    best=_best,
    refuse=_refuse,
    tensor_cores=False,
)
