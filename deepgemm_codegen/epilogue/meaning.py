"""What each step means: a function of float64 values, by which kernels are judged.

A function takes the value, of shape (rows, columns), and by name what the step reads: operands
as arrays that broadcast against the value, constants as numbers. NaN passes through every step
but where its function says otherwise. Written for numpy and, through numpy's dispatch, for cupy.
"""

from __future__ import annotations

from functools import cache
from math import erfc, exp, pi, sqrt
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import DTYPES

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = [
    "bias",
    "clamp",
    "geglu",
    "gelu",
    "gelu_tanh",
    "layer_norm",
    "quantize",
    "relu",
    "relu6",
    "residual",
    "rms_norm",
    "row_scale",
    "scale",
    "silu",
    "store",
    "swiglu",
]

LEAST_SCALE = 2.0**-126
"""The least scale that is computed: fp32's smallest normal number."""

FAR = 40.0
"""Beyond this a gelu is 0 or x in float64: what is left falls faster than its exponents reach."""

FAR_SILU = 20 * FAR
"""The same of silu, whose rest falls as an exponential does."""


def bias(x: Array, bias: Array) -> Array:
    """The sum; the operand is a vector."""
    result: Array = x + bias
    return result


def residual(x: Array, residual: Array) -> Array:
    """The sum; the operand is a matrix as large as D."""
    result: Array = x + residual
    return result


def scale(x: Array, scale: Array) -> Array:
    """The product."""
    result: Array = x * scale
    return result


def clamp(x: Array, lo: float = -float("inf"), hi: float = float("inf")) -> Array:
    """Brought into the range from lo to hi."""
    import numpy as np  # noqa: PLC0415  only the oracle runs this

    # written so that NaN passes
    return np.where(x < lo, np.full_like(x, lo), np.where(x > hi, np.full_like(x, hi), x))


def relu(x: Array) -> Array:
    """Nothing below zero."""
    return clamp(x, lo=0.0)


def relu6(x: Array) -> Array:
    """The range from 0 to 6."""
    return clamp(x, 0.0, 6.0)


def gelu(x: Array) -> Array:
    """``x * Phi(x)``, Phi the normal distribution: 0 at minus infinity."""
    import numpy as np  # noqa: PLC0415

    size = np.minimum(np.abs(x), FAR)
    tail: Array = size * _normal_tail(size)
    return clamp(x, lo=0.0) - tail


def gelu_tanh(x: Array) -> Array:
    """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))``: 0 at minus infinity."""
    import numpy as np  # noqa: PLC0415

    size = np.minimum(np.abs(x), FAR)
    tail: Array = size * _logistic(-2 * sqrt(2 / pi) * (size + 0.044715 * size**3))
    return clamp(x, lo=0.0) - tail


def silu(x: Array) -> Array:
    """``x / (1 + exp(-x))``: 0 at minus infinity."""
    import numpy as np  # noqa: PLC0415

    size = np.minimum(np.abs(x), FAR_SILU)
    tail: Array = size * _logistic(-size)
    return clamp(x, lo=0.0) - tail


def swiglu(first: Array, second: Array, gate: str = "first") -> Array:
    """``silu(gate) * value``; the value is the other half."""
    if gate == "second":
        first, second = second, first
    result: Array = silu(first) * second
    return result


def geglu(first: Array, second: Array, gate: str = "first") -> Array:
    """``gelu(gate) * value``; the value is the other half."""
    if gate == "second":
        first, second = second, first
    result: Array = gelu(first) * second
    return result


def rms_norm(
    x: Array, weight: Array | float = 1.0, bias: Array | float = 0.0, eps: float = 1e-5
) -> Array:
    """Whole rows: ``x / sqrt(mean(x^2) + eps) * weight + bias``."""
    import numpy as np  # noqa: PLC0415

    square = (x * x).mean(axis=1, keepdims=True)
    result: Array = x / np.sqrt(square + eps) * weight + bias
    return result


def layer_norm(
    x: Array, weight: Array | float = 1.0, bias: Array | float = 0.0, eps: float = 1e-5
) -> Array:
    """Whole rows: `rms_norm` of what is left when a row's mean is taken away."""
    return rms_norm(x - x.mean(axis=1, keepdims=True), weight, bias, eps)


def quantize(
    x: Array,
    to: str,
    scale: Array | float,
    zero_point: Array | float | None = None,
    *,
    divide: bool = False,
    saturate: bool = True,
) -> Array:
    """``x * scale``, or ``x / scale``, in fp32; integers round half to even, then add a zero point.

    What is beyond D's type is left to D's own conversion. NaN becomes an integer's zero point.
    """
    import numpy as np  # noqa: PLC0415

    del saturate
    with np.errstate(divide="ignore"):
        scaled = x / scale if divide else x * scale
    single: Array = scaled.astype(np.float32).astype(np.float64)
    if not DTYPES[to].integer:
        return single
    zero = 0.0 if zero_point is None else zero_point
    return np.where(np.isnan(single), np.zeros_like(single), np.rint(single)) + zero


def row_scale(most: Array, to: str) -> Array:
    """The scale of a row whose largest magnitude is known: what one is worth in the quantised row.

    The magnitude over the type's largest number, in fp32, but no less than fp32's smallest normal
    number, so that a row of zeros has one too. NaN and infinity pass.
    """
    import numpy as np  # noqa: PLC0415

    single: Array = (most / DTYPES[to].largest).astype(np.float32).astype(np.float64)
    return clamp(single, lo=LEAST_SCALE)


def store(x: Array) -> Array:
    """The value as it is."""
    return x


def _logistic(x: Array) -> Array:
    """``1 / (1 + exp(-x))`` for x up to 0, without overflow."""
    import numpy as np  # noqa: PLC0415

    small = np.exp(x)
    result: Array = small / (1 + small)
    return result


def _normal_tail(u: Array) -> Array:
    """Phi(-u) for u from 0 to `FAR`, to some 1e-14 of itself.

    ``exp(-u * u / 2)`` times a function that falls slowly, by its Chebyshev series.
    """
    import numpy as np  # noqa: PLC0415

    t = (u - 3.0) / (u + 3.0)
    ahead = behind = np.zeros_like(u)
    *rest, last = _tail_series()
    for coefficient in rest:
        ahead, behind = coefficient + 2 * t * ahead - behind, ahead
    result: Array = np.exp(-u * u / 2) * (last + t * ahead - behind)
    return result


@cache
def _tail_series(terms: int = 32) -> tuple[float, ...]:
    """Chebyshev coefficients of ``Phi(-u) * exp(u * u / 2)`` in (u - 3) / (u + 3), last one first.

    The function's values come from the C library's erfc; far out from its asymptotic series.
    """
    from math import cos  # noqa: PLC0415

    def value(t: float) -> float:
        u = 3.0 * (1 + t) / (1 - t)
        if u < 26.0:
            return 0.5 * erfc(u / sqrt(2)) * exp(u * u / 2)
        term = total = 1.0
        for i in range(1, 12):
            term *= -(2 * i - 1) / (u * u)
            total += term
        return total / (u * sqrt(2 * pi))

    angles = [(j + 0.5) * pi / terms for j in range(terms)]
    values = [value(cos(angle)) for angle in angles]
    found = [
        2 / terms * sum(v * cos(i * angle) for v, angle in zip(values, angles, strict=True))
        for i in range(terms)
    ]
    return (*reversed(found[1:]), found[0] / 2)
