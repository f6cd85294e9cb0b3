"""Refusals: what no family is asked about, with the limit and what would do instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide.abreast import check_abreast
from deepgemm_codegen.decide.assemble import DEPENDENT_FROM
from deepgemm_codegen.decide.families import foreign_override, owners
from deepgemm_codegen.dtypes import FP32
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.families import Considered
    from deepgemm_codegen.decide.family import Family, Setting
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["check_types", "refuse"]


def check_types(spec: GemmSpec, arch: Arch) -> None:
    """Refuses operand types that the architecture's matrix instructions do not multiply.

    And what the user asks for that no kernel of any family has.

    Raises:
        InputError: names the type, what the architecture has, and the ones that serve.
    """
    for dtype in (spec.dtype_a.name, spec.dtype_b.name) if spec.multiplies else ():
        if dtype not in arch.dtypes:
            raise InputError(
                f"dtype = {dtype}: {arch.name}{arch.suffix} multiplies no {dtype}, only"
                f" {', '.join(arch.dtypes)}; give one of them, or arch {_targets_with(dtype)}"
            )
    if spec.block_scaled and not arch.wgmma:
        raise InputError(
            f"scale_a = {spec.scale_a} and scale_b = {spec.scale_b}: {arch.name} has no wgmma,"
            " which alone scales by block; give arch sm_90a, or leave them out"
        )
    check_abreast(spec)
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


def refuse(setting: Setting, considered: Considered) -> InputError:
    """The error for a spec that no candidate of any family serves.

    The last family that was asked serves most, and so knows best what is too much.
    """
    asked = considered.asked
    return asked[-1].refuse(setting) if asked else _refuse_families(setting, considered)


def _refuse_families(setting: Setting, considered: Considered) -> InputError:
    """The error where no family was asked: none serves the spec, or overrides leave none."""
    spec, arch = setting.spec, setting.arch
    overrides = spec.overrides
    families = considered.families
    own = {family.shown: family.obstacle(spec, arch) for family in families}
    if all(own.values()):
        why = "; ".join(f"{shown}: {obstacle}" for shown, obstacle in own.items())
        text = f"dtype = {spec.dtype_a}: no kernel family serves the spec; {why}"
        return InputError(_override_at_fault(spec, arch, families) or text)
    if overrides.tensor_cores == "on" and spec.dtype_a == FP32:
        return InputError(
            "tensor_cores = on: fp32 is multiplied on the CUDA cores alone; leave it out"
        )
    forced = next((family for family in families if family.name == overrides.family), None)
    if forced is not None:
        return _refuse_forced(forced, setting, considered)
    kept = next((f for f in families if not foreign_override(f, spec, arch)), None)
    if kept is not None:
        return _refuse_kept(kept, setting, considered)
    names = [f"{name} = {value}" for name, value in overrides.items()]
    text = f"{' and '.join(names)}: no kernel family has them all; leave out one of these overrides"
    if len(names) == 1:
        what = f"dtype = {spec.dtype_a}" if spec.multiplies else f"op = {spec.op}"
        text = f"{names[0]}: no kernel family that serves {what} has it; leave it out"
    return InputError(text)


def _refuse_kept(family: Family, setting: Setting, considered: Considered) -> InputError:
    """The error where overrides leave one family, which does not serve the spec."""
    overrides = setting.spec.overrides
    obstacle = considered.obstacles[family.name]
    if not overrides.numbers():
        words = " and ".join(f"{name} = {value}" for name, value in overrides.items())
        return InputError(f"{words}: only {family.shown} would do, but {obstacle}")
    name, value = min(
        overrides.numbers().items(),
        key=lambda item: sum(item[0] in other.legal for other in considered.families),
    )
    return InputError(
        f"{name} = {value}: only {family.shown} has it, but {obstacle}; leave {name} out"
    )


def _override_at_fault(spec: GemmSpec, arch: Arch, families: Sequence[Family]) -> str:
    """What is said of an override without which a family serves the spec; empty if none is."""
    for name, value in spec.overrides.items():
        changed: dict[str, Any] = {name: None}
        freed = replace(spec, overrides=replace(spec.overrides, **changed))
        for family in reversed(families):
            if not family.obstacle(freed, arch):
                obstacle = family.obstacle(spec, arch)
                return f"{name} = {value}: {family.shown}: {obstacle}; leave {name} out"
    return ""


def _refuse_forced(family: Family, setting: Setting, considered: Considered) -> InputError:
    """The error where the family that an override names does not serve the spec."""
    spec, arch = setting.spec, setting.arch
    for name, value in spec.overrides.numbers().items():
        if name not in family.legal:
            having = owners(name, spec, arch)
            return InputError(
                f"{name} = {value} with family = {family.name}: only {' and '.join(having)}"
                f" {'has' if len(having) == 1 else 'have'} it; leave out one of these overrides"
            )
    able = next(f.name for f in reversed(considered.families) if not f.obstacle(spec, arch))
    remedy = f"the nearest legal family is {able}"
    if family.name == "wgmma" and not arch.wgmma:
        remedy = f"give arch sm_90a, or family {able}"
    elif not family.obstacle(spec, arch):  # it serves the spec, and another override keeps it out
        remedy = "leave out one of these overrides"
    return InputError(f"family = {family.name}: {considered.obstacles[family.name]}; {remedy}")
