"""Refusals: what no family is asked about, with the limit and what would do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide.assemble import DEPENDENT_FROM
from deepgemm_codegen.decide.families import FAMILIES, foreign_override
from deepgemm_codegen.errors import InputError

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.families import Considered
    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["check_types", "refuse"]


def check_types(spec: GemmSpec, arch: Arch) -> None:
    """Refuses operand types that the architecture's matrix instructions do not multiply.

    Raises:
        InputError: names the type, what the architecture has, and the ones that serve.
    """
    for dtype in (spec.dtype_a.name, spec.dtype_b.name):
        if dtype not in arch.dtypes:
            raise InputError(
                f"dtype = {dtype}: {arch.name} has no mma for it, only for"
                f" {', '.join(arch.dtypes)}; give dtype {arch.dtypes[0]}, or arch"
                f" {_targets_with(dtype)}"
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
    own = {family.shown: family.obstacle(spec, arch) for family in FAMILIES}
    if all(own.values()):
        why = "; ".join(f"{shown}: {obstacle}" for shown, obstacle in own.items())
        return InputError(f"dtype = {spec.dtype_a}: no kernel family serves the spec; {why}")
    for family in FAMILIES:
        if family.name != overrides.family:
            continue
        for name, value in overrides.numbers().items():
            if name not in family.legal:
                owners = [other.shown for other in FAMILIES if name in other.legal]
                return InputError(
                    f"{name} = {value} with family = {family.name}: only {' and '.join(owners)}"
                    f" {'has' if len(owners) == 1 else 'have'} it; leave out one of these overrides"
                )
        remedy = "the nearest legal family is mma_sync"
        if family.name == "wgmma" and not arch.wgmma:
            remedy = "give arch sm_90a, or family mma_sync"
        obstacle = considered.obstacles[family.name]
        return InputError(f"family = {family.name}: {obstacle}; {remedy}")
    for family in FAMILIES:
        if not foreign_override(family, overrides):
            rarest = min(
                overrides.numbers().items(),
                key=lambda item: sum(item[0] in other.legal for other in FAMILIES),
            )
            return InputError(
                f"{rarest[0]} = {rarest[1]}: only {family.shown} has it, but"
                f" {considered.obstacles[family.name]}; leave {rarest[0]} out"
            )
    names = " and ".join(f"{name} = {value}" for name, value in overrides.items())
    return InputError(f"{names}: no kernel family has them all; leave out one of these overrides")
