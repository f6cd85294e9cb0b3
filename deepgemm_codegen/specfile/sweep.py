"""Sweeps as values: axes that multiply, and combinations that are left out.

An axis is a list of rows. One field with a list of values is an axis of one column; fields that
``zip`` ties together are the columns of one axis. `read_sweep` in `layer` makes them from YAML.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from deepgemm_codegen.arch import canonical_arch
from deepgemm_codegen.dtypes import parse_dtype
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.specfile.fields import kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from deepgemm_codegen.specfile.problems import Mark, Sink
    from deepgemm_codegen.specfile.values import Given

__all__ = ["EMPTY", "Axis", "Exclusion", "Sweep", "canonical"]


@dataclass(frozen=True, slots=True)
class Axis:
    """Fields that vary together.

    Attributes:
        names: the fields.
        rows: their values, one a field.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Given, ...], ...]

    def without(self, taken: Collection[str]) -> Axis | None:
        """The axis without the columns of some fields; None when no column is left.

        Rows that differed only there are one.
        """
        kept = [i for i, name in enumerate(self.names) if name not in taken]
        if len(kept) == len(self.names):
            return self
        if not kept:
            return None
        rows = {tuple(row[i].text for i in kept): tuple(row[i] for i in kept) for row in self.rows}
        return Axis(tuple(self.names[i] for i in kept), tuple(rows.values()))

    def __str__(self) -> str:
        return f"{len(self.rows)} {'+'.join(self.names)}"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Combinations that are left out: those in which each field has one of its values.

    Attributes:
        wanted: `canonical` texts by field.
        mark, sink: where it stands.
    """

    wanted: Mapping[str, frozenset[str]]
    mark: Mark
    sink: Sink

    def matches(self, values: Mapping[str, Given]) -> bool:
        """Whether a kernel with these values is left out."""
        return all(
            (given := values.get(name)) is not None
            and given.text is not None
            and canonical(name, given.text) in texts
            for name, texts in self.wanted.items()
        )


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a ``sweep`` asks for.

    Attributes:
        axes: the first varies slowest.
        exclusions: what is left out of their product.
        mark: where it stands, in the file that uses it; None when there is none.
    """

    axes: tuple[Axis, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    mark: Mark | None = None

    @property
    def names(self) -> set[str]:
        """The fields that are swept."""
        return {name for axis in self.axes for name in axis.names}

    @property
    def count(self) -> int:
        """Combinations, before any is left out."""
        return prod(len(axis.rows) for axis in self.axes)

    def over(self, base: Sweep, taken: Collection[str]) -> Sweep:
        """This sweep laid over that of ``defaults``, whose fields it and ``taken`` replace."""
        replaced = self.names | set(taken)
        kept = [axis for each in base.axes if (axis := each.without(replaced)) is not None]
        return Sweep(
            (*kept, *self.axes), (*base.exclusions, *self.exclusions), self.mark or base.mark
        )

    def combinations(self) -> Iterator[dict[str, Given]]:
        """Every combination of values; the exclusions are for the caller, who has the rest."""
        for rows in product(*(axis.rows for axis in self.axes)):
            yield {
                name: given
                for axis, row in zip(self.axes, rows, strict=True)
                for name, given in zip(axis.names, row, strict=True)
            }

    def __str__(self) -> str:
        return " x ".join(map(str, self.axes))


EMPTY = Sweep()


def canonical(name: str, text: str) -> str:
    """A field's text in the one spelling that equal values share."""
    kind = kind_of(name)
    try:
        if kind == "dtype" and text != "none":
            return parse_dtype(text).name
        if name == "arch":
            return canonical_arch(text)
    except InputError:
        return text  # refused where it is built
    return text.removeprefix("+")
