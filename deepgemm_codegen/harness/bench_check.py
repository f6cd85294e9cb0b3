"""A quick check before a kernel is timed: some rows of D against float64.

It is no verdict (``verify`` gives that), but nobody wants the speed of a wrong kernel. The bound
is the verdict's own, so a dropped slice of k does not pass.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.harness.compare import compare
from deepgemm_codegen.harness.inputs import Inputs
from deepgemm_codegen.harness.matrix import Region
from deepgemm_codegen.harness.numbers import decode, poison
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.sums import StepModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.harness.matrix import Matrix
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.sums import PrefixSums

__all__ = ["Rows", "Sample", "check_rows", "pick_sample", "stray"]

ROWS = 16
"""Rows that are compared, over all columns; the last one is among them."""

CELLS = 1 << 25
"""Elements of B that are looked at together."""

LOOSE = 0.01
"""What a library's D may differ, relative, in the root mean square: it may sum as it likes."""


@dataclass(frozen=True, slots=True)
class Rows(Region):
    """Some rows of D, and a range of its columns.

    Attributes:
        picks: the rows.
    """

    picks: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.picks), self.column_end - self.column

    def indices(self, xp: Any) -> tuple[int, Any, Any]:
        """See `Region`."""
        rows = xp.asarray(self.picks, dtype=xp.int64)[:, None]
        columns = xp.arange(self.column, self.column_end, dtype=xp.int64)[None, :]
        return self.batch, rows, columns


@dataclass(frozen=True, slots=True)
class _Stored:
    """Values that lie in memory already."""

    matrix: Matrix
    bits: Any

    def at(self, batch: Any, row: Any, column: Any, xp: Any) -> Any:
        """See `Values`."""
        found = self.bits[self.matrix.flat(batch, row, column)]
        return decode(found, self.matrix.dtype, xp).astype(xp.float32)


@dataclass(frozen=True, slots=True)
class Sample:
    """What is compared, and with what.

    Attributes:
        problem: sizes and scalars.
        bits: each operand as flat bits, D included.
        rows: the sample.
        xp: numpy or cupy.
    """

    problem: Problem
    bits: Mapping[str, Any]
    rows: tuple[Rows, ...]
    xp: Any

    @property
    def inputs(self) -> Inputs:
        """The operands as they lie."""
        return Inputs(
            "stored",
            {
                matrix.name: _Stored(matrix, self.bits[matrix.name])
                for matrix in self.problem.matrices
                if matrix.name not in self.problem.outputs
            },
        )

    def got(self, rows: Rows) -> tuple[Any, Any]:
        """D's values, and where the poison still stands."""
        d = self.problem.matrix("d")
        bits = self.bits["d"][d.flat(*rows.indices(self.xp))]
        return decode(bits, d.dtype, self.xp), bits == self.xp.asarray(
            poison(d.dtype), dtype=bits.dtype
        )


def pick_sample(problem: Problem, seed: int) -> tuple[Rows, ...]:
    """Random rows of the last and one more batch, in ranges of columns that memory can hold."""
    chooser = random.Random(f"{seed} {problem}")  # noqa: S311  a sample, not a secret
    m, n, batch = problem.m, problem.n, problem.spec.batch
    if not (m and n and batch):
        return ()
    picks = sorted([*chooser.sample(range(m - 1), min(ROWS, m) - 1), m - 1])
    width = max(1, CELLS // max(problem.k, 1))
    return tuple(
        Rows(b, picks[0], m, start, min(start + width, n), tuple(picks))
        for b in sorted({batch - 1, chooser.randrange(batch)})
        for start in range(0, n, width)
    )


def check_rows(sample: Sample, arch: str, sums: PrefixSums) -> str:
    """What is wrong with a kernel's D; empty when the rows are right.

    Args:
        sample: D and the operands.
        arch: whose tensor cores summed, such as ``sm_90``.
        sums: how A * B is summed in float64.
    """
    problem, xp = sample.problem, sample.xp
    oracle = Oracle(problem, sample.inputs, xp, StepModel.of(arch, problem.plan), sums)
    for rows in sample.rows:
        got, untouched = sample.got(rows)
        wanted, dtype = oracle.expected(rows), problem.matrix("d").dtype
        saturates = problem.spec.saturates
        found = compare(got, wanted, dtype, xp, untouched, saturates=saturates)
        if found.wrong:
            row, column = rows.picks[found.at[0]], rows.column + found.at[1]
            batch = f"batch {rows.batch}, " if problem.spec.batch > 1 else ""
            return (
                f"{found.wrong} of {found.elements} sampled elements of D; the worst at {batch}row"
                f" {row}, column {column}: {found.got:g} instead of {found.wanted:g}"
                f" ({found.low:g} to {found.high:g} allowed)"
            )
    return ""


def stray(sample: Sample, sums: PrefixSums, *, fused: bool = False) -> str:
    """How a library's D strays from what it is held to; empty when it does not.

    Args:
        sample: D and the operands.
        sums: how A * B is summed in float64.
        fused: whether it is held to the product with the spec's steps, not to the plain one.
    """
    xp = sample.xp
    plain = replace(sample.problem, alpha=1.0, beta=0.0)
    oracle = Oracle(plain, sample.inputs, xp, None, sums)
    for rows in sample.rows:
        got, _ = sample.got(rows)
        wanted = (oracle.expected(rows) if fused else oracle.products(rows)).value
        error = float(xp.sqrt(((got - wanted) ** 2).sum()))
        size = float(xp.sqrt((wanted**2).sum()))
        if not error <= LOOSE * size:  # written so that NaN fails
            what = "what the kernel computes" if fused else "the product"
            return f"its D differs from {what} by {error / max(size, 1e-30):.2g} of its size"
    return ""
