"""Small integer expressions over the run-time dimensions.

Launch sizes, strides and workspace sizes are built once as these values and printed to C, to
JSON and evaluated in Python from the same object, so the three cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CeilDiv",
    "Expression",
    "FloorDiv",
    "Maximum",
    "Minimum",
    "Number",
    "Product",
    "Sum",
    "Variable",
    "ceildiv",
    "in_c",
    "plus",
    "rounded_up",
    "times",
]


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: int

    def evaluate(self, _: Mapping[str, int]) -> int:
        """The constant itself."""
        return self.value

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Variable:
    """A dimension or stride the kernel takes as an argument."""

    name: str

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value bound to the name; KeyError when it is not bound."""
        return values[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CeilDiv:
    """Division by a positive constant, rounded up."""

    value: Expression
    divisor: int

    def evaluate(self, values: Mapping[str, int]) -> int:
        """ceil(value / divisor)."""
        return -(-self.value.evaluate(values) // self.divisor)

    def __str__(self) -> str:
        return f"ceildiv({self.value}, {self.divisor})"


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """Division by a positive constant, rounded down."""

    value: Expression
    divisor: int

    def evaluate(self, values: Mapping[str, int]) -> int:
        """floor(value / divisor)."""
        return self.value.evaluate(values) // self.divisor

    def __str__(self) -> str:
        return f"floordiv({self.value}, {self.divisor})"


@dataclass(frozen=True, slots=True)
class Product:
    """The product of two expressions."""

    left: Expression
    right: Expression

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Left * right."""
        return self.left.evaluate(values) * self.right.evaluate(values)

    def __str__(self) -> str:
        return f"{_factor(self.left)} * {_factor(self.right)}"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of two expressions."""

    left: Expression
    right: Expression

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Left + right."""
        return self.left.evaluate(values) + self.right.evaluate(values)

    def __str__(self) -> str:
        return f"{self.left} + {self.right}"


@dataclass(frozen=True, slots=True)
class Minimum:
    """The smaller of two expressions."""

    left: Expression
    right: Expression

    def evaluate(self, values: Mapping[str, int]) -> int:
        """min(left, right)."""
        return min(self.left.evaluate(values), self.right.evaluate(values))

    def __str__(self) -> str:
        return f"min({self.left}, {self.right})"


@dataclass(frozen=True, slots=True)
class Maximum:
    """An expression, or a constant where that is larger."""

    value: Expression
    least: int

    def evaluate(self, values: Mapping[str, int]) -> int:
        """max(value, least)."""
        return max(self.value.evaluate(values), self.least)

    def __str__(self) -> str:
        return f"max({self.value}, {self.least})"


Expression = Number | Variable | CeilDiv | FloorDiv | Product | Sum | Minimum | Maximum


def _factor(expression: Expression) -> str:
    """A factor of a product: a sum stands in parentheses."""
    return f"({expression})" if isinstance(expression, Sum) else str(expression)


def ceildiv(value: Expression, divisor: int) -> Expression:
    """ceil(value / divisor), folded when the value is constant."""
    if isinstance(value, Number):
        return Number(-(-value.value // divisor))
    return CeilDiv(value, divisor)


def times(left: Expression, right: Expression) -> Expression:
    """Left * right, folded where that is possible."""
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value * right.value)
    if left == Number(1):
        return right
    if right == Number(1):
        return left
    return Product(left, right)


def plus(left: Expression, right: Expression) -> Expression:
    """Left + right, folded where that is possible."""
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value + right.value)
    if left == Number(0):
        return right
    if right == Number(0):
        return left
    return Sum(left, right)


def rounded_up(value: Expression, unit: int) -> Expression:
    """The least multiple of a positive constant that is not below the value."""
    return value if unit == 1 else times(ceildiv(value, unit), Number(unit))


def in_c(expression: Expression) -> str:
    """The expression in C, in 64-bit arithmetic.

    ``ceildiv`` and ``i64`` are defined by the launcher, ``min`` and ``max`` by the compiler; a
    FloorDiv's value is never negative.
    """
    text = str(expression)
    if isinstance(expression, Variable):
        text = f"i64{{ {expression.name} }}"
    elif isinstance(expression, FloorDiv):
        text = f"{_factor_in_c(expression.value)} / {expression.divisor}"
    elif isinstance(expression, CeilDiv):
        text = f"ceildiv({in_c(expression.value)}, {expression.divisor})"
    elif isinstance(expression, Product):
        text = f"{_factor_in_c(expression.left)} * {_factor_in_c(expression.right)}"
    elif isinstance(expression, Sum):
        text = f"{in_c(expression.left)} + {in_c(expression.right)}"
    elif isinstance(expression, Minimum):
        text = f"min({_wide_in_c(expression.left)}, {_wide_in_c(expression.right)})"
    elif isinstance(expression, Maximum):
        text = f"max({_wide_in_c(expression.value)}, {_wide_in_c(Number(expression.least))})"
    return text


def _wide_in_c(expression: Expression) -> str:
    """The same where the compiler wants 64 bits of a constant too."""
    text = in_c(expression)
    return f"i64{{ {text} }}" if isinstance(expression, Number) else text


def _factor_in_c(expression: Expression) -> str:
    text = in_c(expression)
    return f"({text})" if isinstance(expression, (Sum, FloorDiv)) else text
