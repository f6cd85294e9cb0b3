"""Refusals: what no family is asked about, with the limit and what would do instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.arch import DEPENDENT_FROM, known_architectures, load_arch
from deepgemm_codegen.decide.families import consider, foreign_override, obstacle_of, owners
from deepgemm_codegen.decide.family import setting_of
from deepgemm_codegen.decide.refusal import Refusal, named
from deepgemm_codegen.dtypes import FP32
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec.overrides import Overrides

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.families import Considered
    from deepgemm_codegen.decide.family import Family, Setting
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["check_types", "refuse"]


def check_types(spec: GemmSpec, arch: Arch) -> None:
    """Refuses operand types that the architecture's matrix instructions do not multiply.

    And what the user asks for, beside overrides, that no kernel of any family has.

    Raises:
        InputError: names the type, what the architecture has, and the ones that serve.
    """
    for dtype in (spec.dtype_a.name, spec.dtype_b.name) if spec.multiplies else ():
        if dtype not in arch.dtypes:
            raise InputError(
                f"dtype = {dtype}: {arch.name}{arch.suffix} multiplies no {dtype}, only"
                f" {', '.join(arch.dtypes)}; give one of them, or arch {_targets_with(dtype)}"
            )
    if spec.launch == "dependent" and arch.number < DEPENDENT_FROM:
        raise InputError(
            f"launch = dependent: {arch.name} has no programmatic dependent launch; give arch"
            f" sm_{DEPENDENT_FROM} or later, or launch plain"
        )


def _targets_with(dtype: str) -> str:
    """The targets whose matrix instructions multiply a type, in words."""
    known = known_architectures()
    able = [
        next(target for target in (name, f"{name}a") if dtype in load_arch(target).dtypes)
        for name in known
        if dtype in load_arch(f"{name}a").dtypes
    ]
    return f"{able[0]} or later" if able == known[-len(able) :] else " or ".join(able)


def refuse(setting: Setting) -> InputError:
    """The error for a spec that no candidate of any family serves.

    Where overrides are at fault it tells of those that contradict each other, or the problem, and
    of no other; without those that it says to leave out there is a plan.
    """
    spec, arch = setting.spec, setting.arch
    names = [name for name, _ in spec.overrides.items()]
    bare = _with(spec, [])
    if not names or not _serves(bare, arch):
        found = _told(bare, arch)
        return InputError("; ".join(filter(None, (found.text, found.remedy))))
    told: dict[str, Refusal] = {}  # by the override to leave out
    while not told or not _serves(_with(spec, names), arch):
        core = _contradiction(_with(spec, names), arch)
        found = _told(_with(spec, core), arch)
        blamed = _to_leave_out(_with(spec, names), arch, core, found.blamed)
        told[blamed] = found
        names.remove(blamed)
    for name in tuple(told)[:-1]:  # what came later may have been at fault alone
        if _serves(_with(spec, [*names, name]), arch):
            names.append(name)
            del told[name]
    last = f"leave {' and '.join(told)} out"
    if len(told) > 1:
        return InputError("; ".join([*(each.text for each in told.values()), last]))
    ((blamed, found),) = told.items()
    remedies = [found.remedy] if found.remedy else []
    nearest = _nearest_of((found, _told(spec, arch)), spec, arch, blamed)
    if nearest is not None:
        remedies.append(f"the nearest legal {blamed} is {nearest}")
    joined = ", or " if remedies or found.tells_nearest else "; "
    return InputError(f"{'; '.join([found.text, *remedies])}{joined}{last}")


def _with(spec: GemmSpec, names: Iterable[str]) -> GemmSpec:
    """The spec with these of its overrides."""
    given = dict(spec.overrides.items())
    kept: dict[str, Any] = {name: given[name] for name in names}
    return replace(spec, overrides=Overrides(**kept))


def _serves(spec: GemmSpec, arch: Arch) -> bool:
    """Whether there is a plan."""
    return consider(setting_of(spec, arch)).winner is not None


def _contradiction(spec: GemmSpec, arch: Arch) -> list[str]:
    """Overrides that leave no plan, any one of which could be left out for one."""
    core = [name for name, _ in spec.overrides.items()]
    for name in tuple(core):
        fewer = [other for other in core if other != name]
        if not _serves(_with(spec, fewer), arch):
            core = fewer
    return core


def _to_leave_out(spec: GemmSpec, arch: Arch, core: Sequence[str], blamed: str) -> str:
    """Which of some overrides that contradict each other to leave out.

    One without which there is a plan, if there is such a one, and the blamed one where it may be.
    """
    for name in (blamed, *reversed(core)):
        rest = [other for other, _ in spec.overrides.items() if other != name]
        if name in core and _serves(_with(spec, rest), arch):
            return name
    return blamed if blamed in core else core[-1]


def _nearest_of(
    told: Iterable[Refusal], spec: GemmSpec, arch: Arch, blamed: str
) -> int | str | None:
    """The nearest legal value of an override that serves beside all the others; None without."""
    for each in told:
        if each.blamed == blamed and each.nearest is not None:
            changed: dict[str, Any] = {blamed: each.nearest}
            if _serves(replace(spec, overrides=replace(spec.overrides, **changed)), arch):
                return each.nearest
    return None


def _told(spec: GemmSpec, arch: Arch) -> Refusal:
    """Why nothing serves a spec, of whose overrides each is needed for that.

    The last family that was asked serves most, and so knows best what is too much.
    """
    setting = setting_of(spec, arch)
    considered = consider(setting)
    if considered.refusal is not None:
        return considered.refusal
    asked = considered.asked
    return asked[-1].refuse(setting) if asked else _told_of_families(setting, considered)


def _told_of_families(setting: Setting, considered: Considered) -> Refusal:
    """Why no family was asked: none serves the spec, or overrides leave none."""
    spec, arch = setting.spec, setting.arch
    overrides = spec.overrides
    families = considered.families
    given = dict(overrides.items())
    own = {family.shown: family.obstacle(spec, arch) for family in families}
    if all(own.values()):
        why = "; ".join(f"{shown}: {obstacle}" for shown, obstacle in own.items())
        if not given:
            return Refusal(f"dtype = {spec.dtype_a}: no kernel family serves the spec; {why}")
        return _refusal_of_the_last(setting, considered, next(reversed(given)))
    blamed = next(reversed(given))
    forced = next((family for family in families if family.name == overrides.family), None)
    kept = [f for f in families if not foreign_override(f, spec, arch)]
    if overrides.tensor_cores == "on" and spec.dtype_a == FP32:
        why, blamed = "fp32 is multiplied on the CUDA cores alone", "tensor_cores"
    elif forced is not None:
        return _told_of_forced(forced, setting, considered)
    elif kept:
        names = " and ".join(family.shown for family in kept)
        has = "have it" if len(kept) > 1 else "has it"
        if len(given) > 1 or blamed not in {*kept[0].legal, "ring"}:
            has = "would do"
        why = f"only {names} {has}{_obstacles(kept, considered)}"
    elif len(given) == 1:
        what = f"dtype = {spec.dtype_a}" if spec.multiplies else f"op = {spec.op}"
        why = f"no kernel family that serves {what} has it"
    else:
        why = f"no kernel family has {'both' if len(given) == 2 else 'them all'}"
    return Refusal(f"{named(given, blamed)}: {why}", blamed)


def _obstacles(kept: Sequence[Family], considered: Considered) -> str:
    """What keeps some families out, as a sentence goes on; of several each has its name."""
    if len(kept) == 1:
        return f", but {considered.obstacles[kept[0].name]}"
    return "".join(f"; {family.shown}: {considered.obstacles[family.name]}" for family in kept)


def _refusal_of_the_last(setting: Setting, considered: Considered, blamed: str) -> Refusal:
    """The refusal where an override keeps all families out by what it makes of the spec."""
    spec, arch = setting.spec, setting.arch
    freed = _with(spec, [name for name, _ in spec.overrides.items() if name != blamed])
    able = [f for f in considered.families if not f.obstacle(freed, arch)]
    family = (able or considered.families)[-1]
    head = named(dict(spec.overrides.items()), blamed)
    return Refusal(f"{head}: {family.shown}: {family.obstacle(spec, arch)}", blamed)


def _told_of_forced(family: Family, setting: Setting, considered: Considered) -> Refusal:
    """Why the family that an override names does not serve the spec."""
    spec, arch = setting.spec, setting.arch
    for name, value in spec.overrides.numbers().items():
        if name not in family.legal:
            having = owners(name, spec, arch)
            return Refusal(
                f"{name} = {value} with family = {family.name}: only {' and '.join(having)}"
                f" {'has' if len(having) == 1 else 'have'} it",
                name,
            )
    text = f"family = {family.name}: {considered.obstacles[family.name]}"
    if family.name == "wgmma" and not arch.wgmma:
        return Refusal(text, "family", remedy="give arch sm_90a")
    able = [f.name for f in considered.families if not obstacle_of(f, _with(spec, []), arch)]
    nearest = next((name for name in reversed(able) if name != family.name), None)
    return Refusal(text, "family", nearest)
