"""Question: which family of instructions multiplies?

mma.sync runs everywhere and serves every spec. wgmma is Hopper's own (sm_90a): faster, and bound
to operands that TMA can serve. Where both can, the one that is predicted to take less is taken.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Literal, NamedTuple

from deepgemm_codegen.decide.menu import menu_for
from deepgemm_codegen.decide.search import Found, search
from deepgemm_codegen.decide.tma import tma_obstacle
from deepgemm_codegen.decide.wgmma import menu as wgmma_menu
from deepgemm_codegen.decide.wgmma.search import WgmmaFound
from deepgemm_codegen.decide.wgmma.search import search as wgmma_search
from deepgemm_codegen.decide.wgmma.task import Task, task_of
from deepgemm_codegen.decide.wgmma.tile import TILE_K

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.overrides import Overrides
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Considered", "consider", "mma_sync_obstacle", "wgmma_obstacle"]

ONLY_MMA_SYNC = ("warps_m", "warps_n", "min_blocks")
"""Overrides that mean nothing to wgmma: its warps and its one resident block are its own."""


AS_GIVEN = "as given"
"""Why a family that the user did not name was not asked."""


class Considered(NamedTuple):
    """What came of asking for the family.

    Attributes:
        wgmma: why wgmma was not asked, or empty.
        mma_sync: why mma.sync was not asked, or empty.
        task: the problem as wgmma sees it, where it was asked.
        fast: wgmma's cheapest candidate, where it was asked and has one.
        slow: mma.sync's, where it was asked and is cheaper than that.
    """

    wgmma: str
    mma_sync: str
    task: Task | None
    fast: WgmmaFound | None
    slow: Found | None

    @property
    def family(self) -> Literal["mma_sync", "wgmma"]:
        """The answer."""
        return "wgmma" if self.slow is None else "mma_sync"

    def reason(self, arch: Arch) -> str:
        """Why, in one line."""
        fast, slow, clock = self.fast, self.slow, arch.gpu.clock_mhz
        if fast is not None and slow is None:
            if self.mma_sync:
                return self.mma_sync
            return f"{fast.clocks / clock:.1f} us predicted; mma.sync would take longer"
        if not arch.wgmma:
            opens = "; sm_90a opens wgmma" if arch.number == 90 else ""
            return f"{arch.name} multiplies through mma.sync{opens}"
        if fast is not None and slow is not None:
            return (
                f"{slow.clocks / clock:.1f} us predicted;"
                f" wgmma would take {fast.clocks / clock:.1f}"
            )
        if self.wgmma:
            return self.wgmma if self.wgmma == AS_GIVEN else f"no wgmma: {self.wgmma}"
        return "no wgmma kernel has the values that are given"


def consider(spec: GemmSpec, arch: Arch, problem: Problem, machine: Machine) -> Considered:
    """Asks the families that can serve a spec under its overrides for their best.

    Raises:
        InputError: an override that no kernel of the families asked could have.
    """
    overrides = spec.overrides
    no_wgmma, no_mma_sync = wgmma_obstacle(spec, arch), mma_sync_obstacle(overrides)
    task = fast = slow = None
    given = overrides.numbers()
    if no_mma_sync:
        if no_wgmma:
            return Considered(no_wgmma, no_mma_sync, None, None, None)
        wgmma_menu.check_legal(given)
    else:
        menu = menu_for(problem, overrides)
    if not no_wgmma:
        task = task_of(spec, problem, machine)
        fast = wgmma_search(task, wgmma_menu.menu_for(problem, given))
    if not no_mma_sync:
        slow = search(problem, machine, menu, inf if fast is None else fast.clocks)
    return Considered(no_wgmma, no_mma_sync, task, fast, slow)


def mma_sync_obstacle(overrides: Overrides) -> str:
    """Which override keeps mma.sync out; empty when none does."""
    if overrides.family == "wgmma":
        return AS_GIVEN
    for name in wgmma_menu.ONLY_HERE:
        value = getattr(overrides, name)
        if value is not None:
            return f"{name} = {value} is given, which only wgmma has"
    return ""


def wgmma_obstacle(spec: GemmSpec, arch: Arch) -> str:
    """What keeps wgmma out; empty when nothing does."""
    if not arch.wgmma:
        return f"{arch.name} has no wgmma"
    return _override_obstacle(spec.overrides) or _operand_obstacle(spec)


def _override_obstacle(overrides: Overrides) -> str:
    """Which override keeps wgmma out."""
    if overrides.family == "mma_sync":
        return AS_GIVEN
    for name in ONLY_MMA_SYNC:
        value = getattr(overrides, name)
        if value is not None:
            return f"{name} = {value} is given, which only mma.sync has"
    if overrides.tile_k not in (None, TILE_K):
        return f"tile_k = {overrides.tile_k} is given, and its slices are {TILE_K}"
    return ""


def _operand_obstacle(spec: GemmSpec) -> str:
    """What about the problem keeps wgmma out."""
    if spec.dtype_a.bytes != 2:
        return f"{spec.dtype_a} operands have no kernel yet"
    if spec.batch > 1:
        return f"batch = {spec.batch}, and its tensor maps have two dimensions"
    if spec.k.size == 0:
        return "k = 0 leaves nothing to multiply"
    return tma_obstacle(spec, "a") or tma_obstacle(spec, "b")
