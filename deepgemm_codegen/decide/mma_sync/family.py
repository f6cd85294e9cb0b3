"""The mma.sync family: runs everywhere, serves every layout and alignment."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from deepgemm_codegen.decide.abreast import Block, refusal, tiles_abreast
from deepgemm_codegen.decide.family import Answer, Family, Setting, best_other, setting_of
from deepgemm_codegen.decide.menus import MAX_TILE, others_than
from deepgemm_codegen.decide.mma_sync.menu import LEGAL, Menu, menu_for
from deepgemm_codegen.decide.mma_sync.pipeline import shared_bytes
from deepgemm_codegen.decide.mma_sync.predict import predict, roofline
from deepgemm_codegen.decide.mma_sync.questions import answers
from deepgemm_codegen.decide.mma_sync.refuse import refuse
from deepgemm_codegen.decide.mma_sync.rejections import rejections
from deepgemm_codegen.decide.mma_sync.search import Found, search
from deepgemm_codegen.decide.prediction import output_bytes
from deepgemm_codegen.decide.repack import as_copied, best_with_copies, copies_for
from deepgemm_codegen.decide.split_k import (
    Cut,
    cheapest_cut,
    cut,
    cuts_to_try,
    late_clocks,
    trailing_clocks,
)
from deepgemm_codegen.decide.tma import store_of
from deepgemm_codegen.plan.rows import SHARING
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.misses import Rejection
    from deepgemm_codegen.decide.mma_sync.choice import MmaSyncChoice
    from deepgemm_codegen.decide.prediction import Prediction
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.refusal import Refusal
    from deepgemm_codegen.plan import Decision
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["MMA_SYNC"]

ROWS_CLOCKS = 1500
"""What summing the rows of its slabs adds to a product whose warps hold them: four passes of a
fragment, each two times three exchanges and the arithmetic round them. An estimate."""


SLABS = 1.1
"""What D takes longer to leave through warps' slabs than its bytes at the rate of reads: by TMA, as
wgmma's may, whole rows of a tile are written together. The same for every tile, so that it decides
between families only. Measured where k is 40 to 128, at 5 to 268 MB of D
(``benchmarks/results/program_sweep_short_k_h200.json``)."""


class _Answer(NamedTuple):
    """See `deepgemm_codegen.decide.family.Answer`.

    Attributes:
        setting: of the whole problem.
        problem: as the product kernel sees it, see `split_k.cut`.
        menu: what it was chosen from.
        choice, costed: see there.
        clocks: of all kernels.
        others: of those around the product.
    """

    setting: Setting
    problem: Problem
    menu: Menu
    choice: MmaSyncChoice
    clocks: float
    costed: int
    others: float

    def prediction(self) -> Prediction:
        machine = self.setting.machine
        found = predict(self.problem, machine, self.choice)
        return found._replace(clocks=self.clocks, us=self.clocks / machine.clock_mhz)

    def decisions(self, family_reason: str) -> tuple[Decision, ...]:
        return answers(self.setting, self.problem, self.choice, self.prediction(), family_reason)

    def rival(self, question: str) -> str:
        others = others_than(self.choice, self.menu, question)

        def search_in(changed: dict[str, Any]) -> Found | None:
            found = search(self.problem, self.setting.machine, self.menu._replace(**changed))
            return None if found is None else self._whole(found)

        given = self.setting.spec.overrides.numbers()
        return best_other(others, given, self.clocks, search_in)

    def _whole(self, found: Found) -> Found:
        """A product of the same cut with the kernels around it."""
        choice = replace(
            found.choice, split_k=self.choice.split_k, holds_rows=self.choice.holds_rows
        )
        return found._replace(choice=choice, clocks=found.clocks + self.others)

    def rejections(self) -> tuple[Rejection, ...]:
        return rejections(self.problem, self.setting.machine, self.menu, self.choice)


def _obstacle(spec: GemmSpec, arch: Arch) -> str:
    """What keeps mma.sync out. Types that only wgmma multiplies are fine where k is 0."""
    for dtype in (spec.dtype_a, spec.dtype_b):
        nothing = spec.k.size == 0 and arch.wgmma_rate(dtype.name)
        if not nothing and not arch.mma_rate(dtype.name):
            return f"{arch.name} has no mma.sync for {dtype}"
    return ""


def _best(setting: Setting, below: float = inf) -> Answer | None:
    copies = copies_for(setting.spec)
    return best_with_copies(_best_product, setting, below, copies, as_they_lie=True)


def _best_product(setting: Setting, below: float = inf, copying: float = 0.0) -> _Answer | None:
    spec, _, problem, machine = setting
    menus: dict[int, Menu] = {}  # by parts of k

    def others(each: Cut) -> float:
        # The second kernel is let in behind the main loop: small blocks would take its room.
        late = late_clocks(machine, 1.0) if each.parts > 1 else slabs_clocks(setting)
        return copying + trailing_clocks(problem, machine, each.parts) + late

    def found_for(each: Cut, limit: float) -> Found | None:
        own = cut(problem, each.parts)
        menu = menus[each.parts] = menu_for(own, spec.overrides, cut=each.parts > 1)
        return search(own, machine, menu, limit)

    whole = _holding_rows(setting, below, copying)
    below = below if whole is None else whole.clocks
    cheapest = cheapest_cut(
        cuts_to_try(problem, machine, spec.overrides),
        others,
        found_for,
        roofline(problem, machine),
        below,
    )
    if cheapest is None:
        return whole
    chosen, found = cheapest
    parts = chosen.parts
    own, rest = cut(problem, parts), others(chosen)
    abreast = _abreast(setting, found) if parts == 1 else 1
    if not abreast:
        return None
    choice = found.choice
    if parts > 1 or abreast > 1:
        choice = replace(choice, split_k=parts, abreast=abreast)
    return _Answer(setting, own, menus[parts], choice, found.clocks + rest, found.costed, rest)


def slabs_clocks(setting: Setting) -> float:
    """Clocks that D takes to leave through slabs, beyond those of its bytes, where TMA could.

    Where it could not, wgmma's D leaves through slabs as well.
    """
    spec, arch, problem, machine = setting
    by_tma = arch.wgmma and not problem.rows_follow and store_of(spec, PANEL_BYTES) == "tma"
    return SLABS * output_bytes(problem) / machine.dram_rate if by_tma else 0.0


def block_of(choice: MmaSyncChoice, problem: Problem) -> Block:
    """What a block of one tile takes."""
    warps_m, warps_n = choice.warps_m, choice.warps_n
    tile = choice.tile_m, choice.tile_n, choice.tile_k
    size = problem.element_bytes
    return Block(warps_m * warps_n, shared_bytes(*tile, warps_m, choice.stages, size))


def _abreast(setting: Setting, found: Found) -> int:
    """How many tiles a block has; 0 where the user's number does not fit."""
    spec, _, problem, machine = setting
    choice = found.choice
    tiles = problem.batch * -(-problem.m // choice.tile_m) * -(-problem.n // choice.tile_n)
    block, given = block_of(choice, problem), spec.overrides.abreast
    return tiles_abreast(problem, machine, tiles, block, found.clocks, given)


def _holding_rows(setting: Setting, below: float, copying: float) -> _Answer | None:
    """The best product whose warps hold whole rows, for a step that needs them; None without."""
    spec, _, problem, machine = setting
    given = spec.overrides
    if not problem.rows_follow or problem.n > MAX_TILE:
        return None
    if (given.split_k or 1) > 1 or (given.abreast or 1) > 1:
        return None
    own = problem._replace(rows_follow=False)
    menu = menu_for(own, spec.overrides)
    menu = menu._replace(
        tile_n=tuple(tile_n for tile_n in menu.tile_n if tile_n >= max(problem.n, 4 * SHARING)),
        warps=tuple(layout for layout in menu.warps if layout[1] == 1),
    )
    if not menu.tile_n or not menu.warps:
        return None
    rest = copying + trailing_clocks(own, machine, 1) + ROWS_CLOCKS
    found = search(own, machine, menu, below - rest)
    if found is None:
        return None
    choice = replace(found.choice, holds_rows=True)
    return _Answer(setting, own, menu, choice, found.clocks + rest, found.costed, rest)


def _refuse(setting: Setting) -> Refusal:
    if setting.spec.overrides.repack == "on" and (copies := copies_for(setting.spec)):
        setting = setting_of(as_copied(setting.spec, copies), setting.arch)  # none other is tried
    spec, _, problem, machine = setting
    if spec.overrides.abreast is not None:
        found = search(problem, machine, menu_for(problem, spec.overrides))
        error = found and refusal(block_of(found.choice, problem), spec.overrides.abreast, machine)
        if error:
            return error
    return refuse(
        setting._replace(problem=cut(setting.problem, setting.spec.overrides.split_k or 1))
    )


MMA_SYNC = Family(
    name="mma_sync",
    shown="mma.sync",
    obstacle=_obstacle,
    apart=lambda _spec, _arch: False,
    legal=LEGAL,
    best=_best,
    refuse=_refuse,
    copies=True,
)
