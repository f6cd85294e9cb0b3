"""A * B in float64, and how far a correct kernel's fp32 sums may stray from it.

The bound follows the tensor core's arithmetic: within one instruction step of `StepModel.length`
products, every addend is cut toward zero at a fixed place below the largest of them, and the sum is
cut to fp32. So each step is charged against its own prefix sum and products, not against k times
the largest operand, which would pass a D of zeros at large k. ``docs/verification.md`` derives it.
Everything is written for numpy and cupy alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deepgemm_codegen.emulator.tensorcore import arithmetic
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan import MmaSync, Rows, Simt, Wgmma

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan

__all__ = [
    "ROUND",
    "Expected",
    "PrefixSums",
    "StepModel",
    "added",
    "finish_bound",
    "prefix_sums",
]

ROUND = 2.0**-24
"""Half a unit in the last place of fp32, relative: one rounding to nearest."""

FMA_BITS = 24
"""Bits to which a fused multiply-add rounds: half a unit in the last place, relative."""

TINY = 2.0**-148
"""What a step can lose where sums are subnormal in fp32."""


@dataclass(frozen=True, slots=True)
class StepModel:
    """How a kernel adds: the numbers that the bound needs.

    Attributes:
        length: products added at once, ascending in k.
        fraction_bits: each addend is cut to this many bits below the largest one's exponent.
        kept: fraction bits of a step's result, the rest of which is cut.
        apart: k after which the sums so far are added in fp32 and begin at zero again; 0 never.
        scaled: whether they are multiplied by a scale then, itself a product rounded to fp32.
    """

    length: int
    fraction_bits: int
    kept: int = 23
    apart: int = 0
    scaled: bool = False

    @property
    def cut(self) -> float:
        """Largest loss of one step's alignment, relative to the largest addend."""
        return (self.length + 1) * 2.0**-self.fraction_bits

    @property
    def scaling(self) -> float:
        """Largest error of what sums are multiplied by before they are added, relative to it.

        The product of two scales is rounded; that of the sums with it is not, in a fused step.
        """
        return ROUND if self.scaled else 0.0

    @property
    def unit(self) -> float:
        """Largest loss of one step's result, relative to it."""
        return 2.0**-self.kept

    @classmethod
    def of(cls, arch: str, plan: KernelPlan) -> StepModel:
        """The model of a plan's products on an architecture such as ``sm_90``.

        The emulator's table holds the facts and their sources.
        """
        body = plan.body
        if isinstance(
            body, Simt | Rows
        ):  # one multiply-add after the other, each rounded to nearest
            return cls(1, 2 * FMA_BITS, FMA_BITS)
        found = arithmetic(arch).sums(plan.spec.dtype_a.ptx, warpgroup=isinstance(body, Wgmma))
        if found is None:
            raise InternalError(f"{arch} multiplies no {plan.spec.dtype_a}")
        apart = 0
        if isinstance(body, MmaSync | Wgmma) and body.promoted:
            apart = body.mma_k if isinstance(body, MmaSync) else body.tile_k
        elif found.halves:
            apart = found.group
        return cls(found.group, found.fraction, found.kept, apart, plan.scaled)


@dataclass(frozen=True, slots=True)
class Expected:
    """The oracle's answer for one region: an interval around each value.

    Attributes:
        value: float64, before rounding to D's type.
        low, high: where fp32 arithmetic may end, same shape; the value where it must be exact.
    """

    value: Any
    low: Any
    high: Any

    @classmethod
    def around(cls, value: Any, error: Any) -> Expected:
        """The interval that reaches equally far to both sides.

        An infinity or NaN may be nothing else, and its share of itself would make the ends NaN.
        """
        import numpy as np  # noqa: PLC0415  dispatches to cupy

        error = np.where(np.isfinite(value), error, np.zeros_like(error))
        return cls(value, value - error, value + error)

    @property
    def error(self) -> Any:
        """How far the further end is away."""
        return (self.high - self.low) / 2 + abs((self.high + self.low) / 2 - self.value)


class PrefixSums(Protocol):
    """Sums A * B in float64 and charges each step's loss."""

    def __call__(self, a: Any, b: Any, model: StepModel | None, xp: Any) -> Expected:
        """A (rows, k) times B (k, columns), with the bound that a model asks for."""
        ...


def added(sums: list[Expected], xp: Any) -> Expected:
    """Sums of parts of k added in fp32, in whatever order.

    Each addition rounds a sum of some of them, which no order makes larger than all magnitudes
    together, errors included.
    """
    total = error = size = xp.zeros_like(sums[0].value)
    for part in sums:
        total = total + part.value
        error = error + part.error
        size = size + xp.abs(part.value)
    additions = len(sums) - 1
    growth = math.exp(additions * ROUND)
    return Expected.around(total, growth * (error + additions * ROUND * (size + error)))


def prefix_sums(a: Any, b: Any, model: StepModel | None, xp: Any) -> Expected:
    """A * B by prefix sums, with the loss charged at each step; without a model just A * B."""
    rows, k = a.shape
    columns = b.shape[1]
    if model is None:
        return Expected.around(a @ b + 0.0, xp.zeros((rows, columns)))  # + 0.0: a zero sum is +0
    length = model.length
    steps = -(-k // length)
    pad = steps * length - k
    if pad:
        a = xp.concatenate([a, xp.zeros((rows, pad))], axis=1)
        b = xp.concatenate([b, xp.zeros((pad, columns))], axis=0)
    # A as steps of (rows, length), B as steps of (length, columns)
    a_steps = xp.ascontiguousarray(a.reshape(rows, steps, length).transpose(1, 0, 2))
    b_steps = b.reshape(steps, length, columns)
    a_peak = xp.abs(a_steps).max(axis=2)
    b_peak = xp.abs(b_steps).max(axis=1)
    total, error = xp.zeros((rows, columns)), xp.zeros((rows, columns))
    part, loss = total.copy(), error.copy()  # since the sums were last added in fp32
    for s in range(steps):
        # The largest addend: a product (at most the peaks' product) or the sum so far, which the
        # kernel's own differs from by the loss so far.
        largest = xp.maximum(xp.abs(part) + loss, a_peak[s][:, None] * b_peak[s][None, :])
        part += a_steps[s] @ b_steps[s]
        loss += model.cut * largest
        loss += model.unit * (xp.abs(part) + loss)
        if model.apart and ((s + 1) * length % model.apart == 0 or s == steps - 1):
            loss += model.scaling * (xp.abs(part) + loss)
            total, error = _promoted(total + part, error + loss, xp)
            part, loss = xp.zeros_like(part), xp.zeros_like(loss)
    total, error = total + part, error + loss
    return finish_bound(total, error, k, model)


def _promoted(total: Any, error: Any, xp: Any) -> tuple[Any, Any]:
    """A sum and its error once it has been rounded to fp32."""
    return total, error + ROUND * (xp.abs(total) + error)


def finish_bound(total: Any, error: Any, k: int, model: StepModel) -> Expected:
    """The bound from the charges of all steps: what the charges themselves left out."""
    steps = -(-k // model.length)
    # The oracle makes k roundings to float64 of what was cut at 2^-21 or above.
    growth = 1 + k * model.length * 2.0**-32
    return Expected.around(total + 0.0, growth * error + steps * TINY)
