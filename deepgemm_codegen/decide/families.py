"""Question: which family of kernels serves?

mma.sync runs everywhere and serves every layout. wgmma is Hopper's own (sm_90a): faster, and bound
to operands that TMA can serve. fp32 is multiplied on the CUDA cores, and what else the user wants
kept off the tensor cores. The bandwidth family is for products with a short side, which wait for
memory and for nothing else. Of those that can serve, the one that is predicted to take least is
taken.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.abreast import abreast_obstacle
from deepgemm_codegen.decide.bandwidth.family import BANDWIDTH
from deepgemm_codegen.decide.menus import why_illegal
from deepgemm_codegen.decide.mma_sync.family import MMA_SYNC
from deepgemm_codegen.decide.refusal import Refusal
from deepgemm_codegen.decide.repack import copies_for
from deepgemm_codegen.decide.rows.family import ROWS
from deepgemm_codegen.decide.simt.family import SIMT
from deepgemm_codegen.decide.wgmma.family import WGMMA
from deepgemm_codegen.dtypes import FP32

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.family import Answer, Family, Setting
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["AS_GIVEN", "FAMILIES", "Considered", "consider", "obstacle_of"]

FAMILIES: tuple[Family, ...] = (SIMT, BANDWIDTH, WGMMA, MMA_SYNC)
"""Every family that multiplies, the narrow ones first: a later one need only be searched below
their cost."""


def competing(spec: GemmSpec) -> tuple[Family, ...]:
    """The families that are asked about a spec, in that order.

    Without tensor cores operands other than fp32 are multiplied on request only: it is no faster.
    """
    if not spec.multiplies:
        return (ROWS,)
    given = spec.overrides
    wanted = spec.dtype_a == FP32 or given.tensor_cores == "off" or given.family == "simt"
    return FAMILIES if wanted else tuple(f for f in FAMILIES if f.tensor_cores)


AS_GIVEN = "as given"
"""Why a family that the user did not name was not asked."""


class Considered(NamedTuple):
    """What came of asking for the family.

    Attributes:
        families: those that compete for the spec.
        obstacles: why a family was not asked, by name.
        beaten: clocks of the families that were asked and lost; infinite for one that was left
            as soon as it could not win, or has no kernel at all.
        family: the cheapest, or None when nothing serves.
        winner: its answer.
        refusal: which override no kernel could have, where that alone leaves nothing.
    """

    families: tuple[Family, ...]
    obstacles: dict[str, str]
    beaten: dict[str, float]
    family: Family | None
    winner: Answer | None
    refusal: Refusal | None = None

    @property
    def asked(self) -> list[Family]:
        """The families that no obstacle kept out."""
        return [family for family in self.families if family.name not in self.obstacles]

    def reason(self, setting: Setting) -> str:
        """Why the winner, in one line; families that stand apart are not mentioned."""
        if self.family is None or self.winner is None:
            return ""
        spec, arch = setting.spec, setting.arch
        alone = _alone(self.family, spec, arch)
        if alone and not self.beaten:
            return alone
        mhz = arch.gpu.clock_mhz
        families = [f for f in self.families if not f.apart(spec, arch)]
        place = families.index(self.family)
        lost = [f for f in families if f.name in self.beaten]
        costed = [f for f in lost if self.beaten[f.name] < inf]
        # One that was asked after the winner was left where it could not win any more.
        left = [f for f in lost if f not in costed and families.index(f) > place]
        if costed or left:
            words = [f"{f.shown} would take {self.beaten[f.name] / mhz:.1f}" for f in costed]
            words += [f"{f.shown} would take longer" for f in left]
            return f"{self.winner.clocks / mhz:.1f} us predicted; {', '.join(words)}"
        for other in reversed(families[:place]):
            if other in lost:
                return f"no {other.shown} kernel has the values that are given"
            obstacle = self.obstacles[other.name]
            return obstacle if obstacle == AS_GIVEN else f"no {other.shown}: {obstacle}"
        return next((self.obstacles[f.name] for f in families if f.name in self.obstacles), "")


def _alone(family: Family, spec: GemmSpec, arch: Arch) -> str:
    """Why a family won where it is the only one to ask; empty where others might have been."""
    if family is ROWS:
        return "op = epilogue: there is no product"
    if not family.tensor_cores:
        given = spec.overrides.tensor_cores == "off" or spec.overrides.family is not None
        return AS_GIVEN if given else f"{spec.dtype_a} is multiplied on the CUDA cores"
    if family.name == "mma_sync" and not arch.wgmma:
        opens = "; sm_90a opens wgmma" if arch.number == 90 else ""
        return f"{arch.name} multiplies through mma.sync{opens}"
    return ""


def consider(setting: Setting) -> Considered:
    """Asks the families that can serve a spec under its overrides for their best."""
    spec, arch = setting.spec, setting.arch
    given = spec.overrides.numbers()
    obstacles: dict[str, str] = {}
    beaten: dict[str, float] = {}
    illegal: Refusal | None = None
    chosen: Family | None = None
    winner: Answer | None = None
    families = competing(spec)
    if barred := abreast_obstacle(spec):
        return Considered(families, {}, {}, None, None, barred)
    for family in families:
        obstacle = obstacle_of(family, spec, arch)
        if given and not obstacle:
            name, obstacle = _illegal(family, given)
            if obstacle:
                able = [family for family in families if not family.obstacle(spec, arch)]
                forced = spec.overrides.family is not None and family is not able[-1]
                where = f" with family = {family.name}" if forced else ""
                illegal = Refusal(obstacle.replace(":", f"{where}:", 1), name, tells_nearest=True)
        if obstacle:
            obstacles[family.name] = obstacle
            continue
        answer = family.best(setting, inf if winner is None else winner.clocks)
        if answer is None:
            beaten[family.name] = inf
            continue
        if chosen is not None and winner is not None:
            beaten[chosen.name] = winner.clocks
        chosen, winner = family, answer
    refusal = illegal if len(obstacles) == len(families) else None
    return Considered(families, obstacles, beaten, chosen, winner, refusal)


def _illegal(family: Family, given: Mapping[str, int]) -> tuple[str, str]:
    """Which override no kernel of a family could have, and why, with the nearest legal value."""
    for name, value in given.items():
        if value not in family.legal[name]:
            return name, f"{name} = {value}: {why_illegal(value, family.legal[name])}"
    return "", ""


def obstacle_of(family: Family, spec: GemmSpec, arch: Arch) -> str:
    """Why a family is not asked about a spec: the user's overrides or its own limits."""
    return foreign_override(family, spec, arch) or family.obstacle(spec, arch)


def owners(name: str, spec: GemmSpec, arch: Arch) -> list[str]:
    """The families, as prose names them, that have an override: those that can serve the spec."""
    having = [family for family in competing(spec) if name in family.legal]
    able = [family.shown for family in having if not family.obstacle(spec, arch)]
    return able or [family.shown for family in (*FAMILIES, ROWS) if name in family.legal]


def foreign_override(family: Family, spec: GemmSpec, arch: Arch) -> str:
    """Which override keeps a family out; empty when none does."""
    overrides = spec.overrides
    if overrides.family is not None and overrides.family != family.name:
        return AS_GIVEN
    kept_out = {"off": family.tensor_cores, "on": spec.multiplies and not family.tensor_cores}
    if kept_out.get(overrides.tensor_cores or ""):
        return f"tensor_cores = {overrides.tensor_cores}"
    if overrides.ring is not None and family is not BANDWIDTH:
        return f"ring = {overrides.ring} is given, which only {BANDWIDTH.shown} has"
    if overrides.repack == "on" and not family.copies and copies_for(spec):
        return "repack = on is given, and it reads operands as they lie"
    for name, value in overrides.numbers().items():
        if name not in family.legal:
            others = owners(name, spec, arch)
            having = "has" if len(others) == 1 else "have"
            return f"{name} = {value} is given, which only {' and '.join(others)} {having}"
    return ""
