"""What a norm makes of whole rows, and how far a correct kernel may stray.

A kernel sums n values in fp32, in an order of its own that takes an element through so many
additions at most; takes the mean away; sums squares; and divides by the root of their mean. The
bound follows these roundings one by one, ``docs/verification.md`` says why each is what it is. It
needs no knowledge of the order, and a sum of squares less the square of the sum, which cancels,
does not pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import FP32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deepgemm_codegen.epilogue import StepKind

__all__ = ["normalized"]

ROUND = 2.0**-24
"""One rounding to nearest of fp32, relative."""

TINY = 2.0**-148
"""What a rounding can lose where results are subnormal in fp32."""


def normalized(
    kind: StepKind,
    given: Sequence[Any],
    read: Mapping[str, Any],
    additions: int,
    xp: Any,
) -> tuple[Any, Any, Any]:
    """(value, low, high) of a norm of whole rows, before its last rounding to fp32.

    Args:
        kind: the step.
        given: (value, low, high) of what the norm gets, (rows, n) each.
        read: weight and bias, as they broadcast, and eps; what is not there is left out.
        additions: most additions that an element goes through on its way into a sum.
        xp: numpy or cupy.
    """
    x, low, high = given
    eps = float(xp.float32(read.get("eps", 1e-5)))
    weight, bias = read.get("weight"), read.get("bias")
    value = kind.meaning(x, **{**read, "eps": eps})
    stray = xp.where(high == low, 0.0, xp.maximum(high - x, x - low))  # none of an infinity
    centre, loss = x, stray
    if kind.name == "layer_norm":
        # The mean: every addition rounds a sum that no order makes larger than all magnitudes.
        size = (xp.abs(x) + stray).mean(axis=1, keepdims=True)
        off = stray.mean(axis=1, keepdims=True) + (additions + 3) * ROUND * size + TINY
        centre = x - x.mean(axis=1, keepdims=True)
        loss = stray + off
        loss = loss + ROUND * (xp.abs(centre) + loss)
    # A root mean square is a length: it changes by no more than that of what its vector changes.
    length = xp.sqrt((centre * centre).mean(axis=1, keepdims=True))
    slack = xp.sqrt((loss * loss).mean(axis=1, keepdims=True))
    growth = (additions + 4) * ROUND
    least = xp.maximum(length - slack, 0.0) ** 2 * (1 - growth)
    most = (length + slack) ** 2 * (1 + growth)
    ends = []
    for square, down in ((least, -1), (most, 1)):
        root = xp.sqrt(xp.maximum(square + down * TINY, 0.0) + eps) * (1 + 4 * down * ROUND)
        # A sum of squares beyond fp32 is infinite, and what is divided by it zero.
        beyond = square * x.shape[1] > FP32.largest
        ends.append(xp.where(beyond, xp.inf, root))
    if bool((ends[0] == xp.inf).any()):
        surely = xp.broadcast_to(ends[0] == xp.inf, x.shape)
        zero = _shifted(centre * 0.0 if weight is None else centre * 0.0 * weight, bias)
        value = xp.where(surely, zero, value)
    places = [(centre + side * loss) / root for side in (-1, 1) for root in ends]
    found = [_shifted(p if weight is None else p * weight, bias) for p in places]
    size = xp.abs(places[0])
    low = high = found[0]
    for place, end in zip(places[1:], found[1:], strict=True):
        low, high = xp.minimum(low, end), xp.maximum(high, end)
        size = xp.maximum(size, xp.abs(place))
    if weight is not None:
        size = size * xp.abs(weight)
    room = 4 * ROUND * size + TINY
    if bias is not None:
        room = room + ROUND * (size + xp.abs(bias))
    return value, low - room, high + room


def _shifted(value: Any, bias: Any) -> Any:
    return value if bias is None else value + bias
