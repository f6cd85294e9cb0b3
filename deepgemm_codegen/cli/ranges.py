"""Numbers within bounds, as flags of commands take them; click's own types, with our refusals."""

from __future__ import annotations

import math
from typing import Any

import click

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.numbers import whole_number

__all__ = ["Number", "Whole"]


class Whole(click.IntRange):
    """A whole number of plain decimal digits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; a `click.BadParameter` names what was given and the bounds."""
        try:
            number = whole_number(value, "")
        except InputError:
            number = None
        if number is None or not _within(self, number):
            self.fail(f"{value}: give a whole number {_bounds(self)}", param, ctx)
        return number


class Number(click.FloatRange):
    """A number that is finite."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; a `click.BadParameter` names what was given and the bounds."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and _within(self, number)):
            self.fail(f"{value}: give a number {_bounds(self)}", param, ctx)
        return number


def _within(kind: click.IntRange | click.FloatRange, number: float) -> bool:
    low, high = kind.min, kind.max
    return (low is None or number >= low) and (high is None or number <= high)


def _bounds(kind: click.IntRange | click.FloatRange) -> str:
    low, high = kind.min, kind.max
    return f"of {low:g} or more" if high is None else f"from {low} to {high}"
