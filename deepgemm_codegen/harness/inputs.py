"""Operand values by fixed seed, computed from an element's index and never stored.

A generator is a pure function of (batch, row, column) in the caller's terms, written for numpy
and cupy alike with integer arithmetic, so that both give the same bits and a small piece of a
huge operand costs only that piece. The same logical element has the same value in every layout
and with every leading dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deepgemm_codegen.harness.numbers import bits_dtype, decode

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType

__all__ = [
    "Alike",
    "Anything",
    "Constant",
    "Factors",
    "Given",
    "Inputs",
    "Integers",
    "Nans",
    "Normal",
    "Powers",
    "Shifted",
    "SmallIntegers",
    "Values",
    "exact_limit",
]

_MASK = 2**64 - 1
_ROW, _COLUMN, _BATCH = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


class Values(Protocol):
    """Where an operand's values come from."""

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """Values at broadcasting int64 index arrays: fp32, or float64 where integers need it."""
        ...


def _hash(seed: int, batch: Any, row: Any, column: Any, xp: Any) -> Any:
    """64 well-mixed bits an element (the finaliser of splitmix64 over an index sum)."""

    def term(index: Any, factor: int) -> Any:
        return xp.asarray(index).astype(xp.uint64) * xp.asarray([factor], dtype=xp.uint64)

    start = xp.asarray([(seed * 0xD6E8FEB86659FD93 + 0x2545F4914F6CDD1D) & _MASK], dtype=xp.uint64)
    z = term(batch, _BATCH) + term(row, _ROW) + (term(column, _COLUMN) + start)
    z ^= z >> xp.uint64(30)
    z *= xp.uint64(_MIX[0])
    z ^= z >> xp.uint64(27)
    z *= xp.uint64(_MIX[1])
    z ^= z >> xp.uint64(31)
    return z


@dataclass(frozen=True, slots=True)
class SmallIntegers:
    """Whole numbers from -limit to limit, evenly."""

    seed: int
    limit: int

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        z = _hash(self.seed, batch, row, column, xp)
        span = xp.uint64(2 * self.limit + 1)
        draw = ((z >> xp.uint64(32)) * span) >> xp.uint64(32)
        return (draw.astype(xp.int64) - self.limit).astype(xp.float32)


@dataclass(frozen=True, slots=True)
class Integers:
    """Whole numbers from low to high, evenly; fp32 tells them apart up to 2^24."""

    seed: int
    low: int
    high: int

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        z = _hash(self.seed, batch, row, column, xp)
        span = xp.uint64(self.high - self.low + 1)
        draw = ((z >> xp.uint64(32)) * span) >> xp.uint64(32)
        return (draw.astype(xp.int64) + self.low).astype(xp.float32)


@dataclass(frozen=True, slots=True)
class Anything:
    """Every finite number of a type, evenly by its bits; float64, which has all of int32."""

    seed: int
    dtype: DType

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        z = _hash(self.seed, batch, row, column, xp)
        bits = (z >> xp.uint64(64 - self.dtype.bits)).astype(bits_dtype(self.dtype))
        values = decode(xp.ascontiguousarray(bits), self.dtype, xp)
        return xp.where(xp.isfinite(values), values, 1.0)


@dataclass(frozen=True, slots=True)
class Normal:
    """Nearly normal values of standard deviation 1, with full significands.

    The sum of eight random bytes times a random factor in [1, 2): whole-number arithmetic below
    2^22, so that numpy and cupy agree in every bit.
    """

    seed: int

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        z = _hash(self.seed, batch, row, column, xp)
        lanes = xp.uint64(0x00FF00FF00FF00FF)
        pairs = (z & lanes) + ((z >> xp.uint64(8)) & lanes)
        total = (pairs * xp.uint64(0x0001000100010001)) >> xp.uint64(48)
        factor = (z * xp.uint64(_ROW)) >> xp.uint64(54)
        whole = (total.astype(xp.int64) - 1020) * (factor.astype(xp.int64) + 1024)
        # 209 is the deviation of the sum of bytes; 1.53 the root mean square of the factor.
        return whole.astype(xp.float32) * xp.float32(1 / 2.0**18) * xp.float32(0.8125)


@dataclass(frozen=True, slots=True)
class Factors:
    """Values with full significands from half to twice a typical one, for what multiplies."""

    seed: int
    typical: float = 1.0

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        z = _hash(self.seed, batch, row, column, xp) >> xp.uint64(41)
        whole = (z.astype(xp.int64) * 3 + (1 << 23)).astype(xp.float32)
        return whole * xp.float32(2.0**-24 * self.typical)


@dataclass(frozen=True, slots=True)
class Powers:
    """A half, one or two, evenly: what multiplies, and leaves whole numbers exact."""

    seed: int

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        drawn = SmallIntegers(self.seed, 1).at(batch, row, column, xp)
        return xp.where(drawn > 0, xp.float32(2.0), xp.where(drawn, xp.float32(0.5), xp.float32(1)))


@dataclass(frozen=True, slots=True)
class Constant:
    """One value everywhere; NaN for an operand that must not be read."""

    value: float

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        shape = xp.broadcast(xp.asarray(batch), xp.asarray(row), xp.asarray(column)).shape
        return xp.full(shape, self.value, dtype=xp.float32)


@dataclass(frozen=True, slots=True)
class Given:
    """Literal values, as a tuple of rows; a literal test case writes these.

    Indices wrap round, so that one row can stand for all; each batch sees the same matrix.
    """

    rows: tuple[tuple[float, ...], ...]

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        table = xp.asarray(self.rows, dtype=xp.float64)
        batch, row, column = xp.broadcast_arrays(
            xp.asarray(batch), xp.asarray(row), xp.asarray(column)
        )
        return table[row % table.shape[0], column % table.shape[1]]


@dataclass(frozen=True, slots=True)
class Nans:
    """Other values with NaN in some places; in A, those rows of D must be NaN, in B its columns.

    Attributes:
        values: the others.
        rows, columns: the first index and the step to the next ones, 0 for that index alone.
        odd: what stands there in NaN's place.
    """

    values: Values
    rows: tuple[int, int] = (0, 0)
    columns: tuple[int, int] = (0, 0)
    odd: float = float("nan")

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        found = self.values.at(batch, row, column, xp)
        here = _is_among(xp.asarray(row), *self.rows) & _is_among(xp.asarray(column), *self.columns)
        return xp.where(here, xp.float32(self.odd), found)


@dataclass(frozen=True, slots=True)
class Alike:
    """Rows of one value each: the first of the same row of other values."""

    values: Values

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        return self.values.at(batch, row, xp.zeros_like(xp.asarray(column)), xp)


@dataclass(frozen=True, slots=True)
class Shifted:
    """Other values with a number added: a mean far from zero."""

    values: Values
    by: float

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        return self.values.at(batch, row, column, xp) + xp.float32(self.by)


def _is_among(index: Any, first: int, step: int) -> Any:
    return index % step == first % step if step else index == first


@dataclass(frozen=True, slots=True)
class Inputs:
    """One input set: where each operand's values come from.

    Attributes:
        name: as a verdict calls it, such as ``exact``.
        values: generators by parameter name (``a``, ``b``, ``c``, ``bias0``, ...).
        shift: by how many more alignments the emulator shifts operands that need not start on 16
            bytes; 0 is as little aligned as the spec allows.
    """

    name: str
    values: dict[str, Values]
    shift: int = 0

    def at(self, name: str, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """Values of an operand before they are rounded to its type."""
        return self.values[name].at(batch, row, column, xp)


NARROW = {"promoted": 5, "fast": 1}
"""Largest magnitude of whole-number fp8 operands, where tensor cores keep 13 fraction bits of sums:
those of 128 products stay below 2^12; those of a whole k do so by chance, 24 deviations away at
65,536."""


def exact_limit(k: int, accumulate: str = "") -> int:
    """Largest magnitude of whole-number operands for a product over ``k``.

    Every sum of products stays below 2^24, which truncating adders keep exactly; smaller than
    that, so that sums usually stay where fp16 still tells neighbouring whole numbers apart.

    Args:
        k: products that are summed.
        accumulate: how fp8 sums are kept; empty for other operands.
    """
    if accumulate:
        return min(exact_limit(k), NARROW[accumulate])
    for limit in (8, 6, 4, 3, 2):
        # The deviation of a sum is about sqrt(k) * limit * (limit + 1) / 3.
        spread = k**0.5 * limit * (limit + 1) / 3
        if spread <= 700 and k * limit * limit < 2**23:
            return limit
    return 1
