"""The arithmetic of a benchmark: work, times, rates, ceilings. Pure; no GPU, no numpy."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "LAUNCHES",
    "REPLAYS",
    "ROTATE_BYTES",
    "WARM_SECONDS",
    "Ceilings",
    "Timing",
    "Work",
    "geometric_mean",
    "group_of",
    "launches_for",
    "sets_for",
    "work_of",
]

LAUNCHES = 20
"""Launches that a graph holds at least."""

REPLAYS = 7
"""Replays of each side; the median counts."""

ROTATE_BYTES = 256 * 2**20
"""What all operand sets take together at least: several times the largest L2 cache."""

MOST_SETS = 1024
"""Operand sets at most: tiny products would need thousands, and their graphs seconds to build."""

WARM_SECONDS = 0.3
"""Each side runs this long before anything is timed."""

GRAPH_US = 400.0
"""What a graph lasts at least, so that the gap before its first launch does not count."""

Unit = Literal["mma.sync", "wgmma", "fp32 FMA"]


@dataclass(frozen=True, slots=True)
class Work:
    """What one launch has to do, whoever does it.

    Attributes:
        flop: multiplications and additions of the product.
        bytes: every operand once: A, B and D, C where it is read, and the epilogue's vectors.
        written: those of D.
    """

    flop: float
    bytes: float
    written: float = 0.0

    @property
    def intensity(self) -> float:
        """FLOP a byte."""
        return self.flop / self.bytes if self.bytes else math.inf


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds a launch, over the replays."""

    median_us: float
    least_us: float
    most_us: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """From one figure a replay."""
        return cls(statistics.median(samples), min(samples), max(samples))

    @property
    def spread(self) -> float:
        """Most less least, relative to the median."""
        return (self.most_us - self.least_us) / self.median_us

    def tflops(self, work: Work) -> float:
        """TFLOP/s at the median."""
        return work.flop / self.median_us / 1e6

    def gbs(self, work: Work) -> float:
        """GB/s at the median."""
        return work.bytes / self.median_us / 1e3


@dataclass(frozen=True, slots=True)
class Ceilings:
    """What the GPU can do at most.

    Attributes:
        gbs: memory bandwidth, GB/s, of reading.
        tflops: 16-bit rate of each matrix instruction that the GPU has, TFLOP/s.
        measured: which of the figures (``memory``, ``writing``, ``mma.sync``, ``wgmma``) were
            measured in this run; the others are the data sheet's.
        reasons: (figure, why it was not measured).
        write_gbs: memory bandwidth of writing, GB/s; 0 where it was not measured, and writing then
            counts as reading does.
    """

    gbs: float
    tflops: dict[Unit, float]
    measured: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    write_gbs: float = 0.0

    def roof_us(self, work: Work, unit: Unit) -> float:
        """The least time that the ceilings leave for some work.

        What is read and what is written take device memory one after the other.

        An instruction that the GPU does not have counts as its best one: what needs it will be
        refused, and until then only a rough figure is asked for.
        """
        rate = self.tflops.get(unit) or max(self.tflops.values())
        memory = (work.bytes - work.written) / self.gbs
        memory += work.written / (self.write_gbs or self.gbs)
        return max(work.flop / rate / 1e6, memory / 1e3)

    def fraction(self, timing: Timing, work: Work, unit: Unit) -> float:
        """How much of the ceiling above this work is reached: 1 is all of it."""
        return self.roof_us(work, unit) / timing.median_us

    def best_of(self, other: Ceilings) -> Ceilings:
        """The higher of two measurements of each figure; a measured one beats the data sheet."""

        def pick(name: str, mine: float, theirs: float) -> float:
            if (name in self.measured) == (name in other.measured):
                return max(mine, theirs)
            return mine if name in self.measured else theirs

        return Ceilings(
            pick("memory", self.gbs, other.gbs),
            {unit: pick(unit, rate, other.tflops[unit]) for unit, rate in self.tflops.items()},
            tuple(dict.fromkeys((*self.measured, *other.measured))),
            tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            max(self.write_gbs, other.write_gbs),
        )


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def work_of(problem: Problem) -> Work:
    """FLOP and bytes of a problem; padding between rows is not work."""
    spec = problem.spec
    flop = 2.0 * problem.m * problem.n * spec.halves * problem.k * spec.batch
    moved = {
        matrix.name: float(matrix.batch * matrix.rows * matrix.columns * matrix.dtype.bytes)
        for matrix in problem.matrices
        if matrix.name != "c" or problem.beta
    }
    return Work(flop, sum(moved.values()), moved["d"])


def sets_for(set_bytes: int, free_bytes: int | None = None) -> int:
    """Operand sets that together take `ROTATE_BYTES`, as far as memory allows.

    Args:
        set_bytes: bytes of one set, outputs included.
        free_bytes: what the sets may take, or None for no limit.
    """
    wanted = min(max(1, -(-ROTATE_BYTES // max(set_bytes, 1))), MOST_SETS)
    if free_bytes is None:
        return wanted
    return max(1, min(wanted, free_bytes // max(set_bytes, 1)))


def launches_for(sets: int, roof_us: float) -> int:
    """Launches of one graph: every set equally often, at least `LAUNCHES`, at least `GRAPH_US`."""
    wanted = max(LAUNCHES, math.ceil(GRAPH_US / max(roof_us, 2.0)))
    return sets * -(-wanted // sets)


def group_of(spec: GemmSpec) -> str:
    """The group that a spec's ratio is averaged in; the first that fits."""
    m, n, k = spec.m.size, spec.n.size, spec.k.size
    if not spec.multiplies:
        name = "rows without a product"
    elif spec.batch > 1:
        name = "batched"
    elif m <= 16:
        name = "decode (m <= 16)"
    elif n % 8 or k % 8:
        name = "unaligned (n or k no multiple of 8)"
    elif k < 512:
        name = "short k (k < 512)"
    elif m < 512:
        name = "few rows (m < 512)"
    else:
        name = "aligned"
    return f"{name}, {spec.dtype_a}"
