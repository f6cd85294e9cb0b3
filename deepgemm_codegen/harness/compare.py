"""Is D what the oracle says? An interval test that NaN cannot pass, and what to tell when it fails.

An element is right when it lies in the oracle's interval, both ends of which are rounded to D's
type. Rounding is monotone, so this allows for the output's rounding exactly:
overflow to infinity and subnormals need no case of their own. Plus and minus zero are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness.numbers import quantum, quiet, round_to

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.harness.sums import Expected

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One region of D against the oracle.

    Attributes:
        worst: largest error, beyond the output's own rounding, as a fraction of the bound; above 1
            is wrong, infinite where nothing is allowed or NaN stands.
        at: (row, column) of the worst element inside the region.
        got, wanted: its value and the oracle's.
        low, high: the ends of what is allowed there.
        wrong: how many elements are wrong.
        mask: which ones, as a boolean array of the region's shape.
        elements: how many were compared.
    """

    worst: float
    at: tuple[int, int]
    got: float
    wanted: float
    low: float
    high: float
    wrong: int
    mask: Any
    elements: int


@quiet()
def compare(
    got: Any,
    expected: Expected,
    dtype: DType,
    xp: Any,
    untouched: Any = None,
    *,
    saturates: bool = True,
) -> Comparison:
    """Compares float64 values of D over a region.

    Where the oracle itself is NaN, D must be NaN too, and not the NaN that stood there before:
    ``untouched`` marks the elements whose bits are still poison. In an integer D that may be a
    result. Where an 8-bit D does not saturate, what is beyond a type without infinity is NaN.
    """
    value = expected.value
    low = round_to(expected.low, dtype, xp, saturates=saturates)
    high = round_to(expected.high, dtype, xp, saturates=saturates)
    if not saturates and not dtype.infinite:
        got = xp.where(xp.isnan(got) & ~xp.isnan(value), xp.copysign(xp.inf, value), got)
    right = (got >= low) & (got <= high) | (xp.isnan(got) & xp.isnan(value))
    if untouched is not None and not dtype.integer:
        right &= ~untouched
    mask = ~right
    # Part of the bound that is needed before the output's rounding explains the rest.
    wanted = value
    if dtype.integer or (dtype.bits == 8 and saturates):
        wanted = xp.clip(value, dtype.least, dtype.largest)
    needed = xp.maximum(xp.abs(got - wanted) - quantum(got, dtype, xp) / 2, 0.0)
    needed = xp.where(xp.isinf(got), 0.0, needed)  # where a value becomes that
    side = xp.where(got > wanted, expected.high - wanted, wanted - expected.low)
    ratio = xp.where(needed > 0, needed / xp.where(side > 0, side, 1.0), 0.0)
    # The interval decides; the ratio reports, and agrees with it.
    ratio = xp.where(mask, xp.where(ratio > 1.0, ratio, xp.inf), xp.minimum(ratio, 1.0))
    ratio = xp.where(right & ~(ratio >= 0.0), 0.0, ratio)  # NaN or infinity, as it must be
    wrong = int(mask.sum())
    flat = int((xp.argmax(mask) if wrong else xp.argmax(ratio)).item())
    row, column = divmod(flat, got.shape[1])
    worst = float(ratio.max()) if ratio.size else 0.0
    return Comparison(
        worst=worst,
        at=(row, column),
        got=float(got[row, column]),
        wanted=float(value[row, column]),
        low=float(low[row, column]),
        high=float(high[row, column]),
        wrong=wrong,
        mask=mask,
        elements=int(got.size),
    )
