"""Memory that a program's kernels pass on to each other, which the caller owns.

The caller gives one block of it a launch; two launches at a time need two. Each region of it has
one purpose, one writer and its readers, and starts on `ALIGNMENT` bytes. What it holds before a
launch does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.plan.expressions import Expression, Number, plus, rounded_up, times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.dtypes import DType

__all__ = ["ALIGNMENT", "NO_WORKSPACE", "Region", "Workspace", "workspace_of"]

ALIGNMENT = 256
"""Bytes that the workspace and each of its regions start on: what cudaMalloc gives."""


@dataclass(frozen=True, slots=True)
class Region:
    """A named part of the workspace.

    Attributes:
        name: the argument of the kernels that use it.
        dtype: type of its elements.
        elements: how many, over the dynamic dimensions' names.
        offset: bytes from the workspace's start.
    """

    name: str
    dtype: DType
    elements: Expression
    offset: Expression

    @property
    def bytes(self) -> Expression:
        """Its size."""
        return times(self.elements, Number(self.dtype.bytes))


@dataclass(frozen=True, slots=True)
class Workspace:
    """All regions, in the order of their offsets; none for a program that needs no workspace."""

    regions: tuple[Region, ...] = ()

    @property
    def bytes(self) -> Expression:
        """Bytes that the caller provides, over the dynamic dimensions' names."""
        if not self.regions:
            return Number(0)
        last = self.regions[-1]
        return plus(last.offset, rounded_up(last.bytes, ALIGNMENT))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; sizes and offsets as expressions."""
        return {
            "bytes": str(self.bytes),
            "regions": [
                {
                    "name": region.name,
                    "dtype": region.dtype.name,
                    "bytes": str(region.bytes),
                    "offset": str(region.offset),
                }
                for region in self.regions
            ],
        }

    def region(self, name: str) -> Region:
        """The region of a name; KeyError when there is none."""
        for region in self.regions:
            if region.name == name:
                return region
        raise KeyError(name)


NO_WORKSPACE = Workspace()
"""Of a program whose kernels pass nothing on."""


def workspace_of(regions: Iterable[tuple[str, DType, Expression]]) -> Workspace:
    """The workspace that holds (name, type, elements) of each region, one after the other."""
    placed: list[Region] = []
    end: Expression = Number(0)
    for name, dtype, elements in regions:
        region = Region(name, dtype, elements, end)
        end = plus(end, rounded_up(region.bytes, ALIGNMENT))
        placed.append(region)
    return Workspace(tuple(placed))
