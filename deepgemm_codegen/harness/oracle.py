"""What D must be: float64 values and how far a correct kernel may stray from them.

D = epilogue(alpha * A * B + beta * C). `sums` bounds the product; here each step of the epilogue
takes the interval on. Everything is written for numpy and cupy alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import INT32
from deepgemm_codegen.epilogue.meaning import row_scale
from deepgemm_codegen.harness.norms import normalized
from deepgemm_codegen.harness.numbers import decode, encode, quiet
from deepgemm_codegen.harness.summation import chains_of
from deepgemm_codegen.harness.sums import ROUND, Expected, PrefixSums, StepModel, added, prefix_sums
from deepgemm_codegen.plan import Rows
from deepgemm_codegen.plan.rows import SHARING, additions
from deepgemm_codegen.spec.block_scales import BLOCK
from deepgemm_codegen.spec.precision import integer_sums

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.epilogue import EpilogueStep, StepKind, StepOperand
    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.matrix import Region
    from deepgemm_codegen.harness.problem import Problem

__all__ = ["Oracle"]


@dataclass(frozen=True, slots=True)
class Oracle:
    """Answers what D must be, a region at a time.

    Attributes:
        problem: sizes and scalars.
        inputs: operand values.
        xp: numpy or cupy.
        model: the arithmetic to allow for; None when the inputs make everything exact.
        prefix_sums: how A * B is summed: `prefix_sums`, or a GPU's own.
        factors: what to multiply operands by, for hypotheses about wrong kernels.
        skipped: numbers of epilogue steps to leave out, for the same.
    """

    problem: Problem
    inputs: Inputs
    xp: Any
    model: StepModel | None = None
    prefix_sums: PrefixSums = field(default_factory=lambda: prefix_sums)
    factors: Mapping[str, float] = field(default_factory=dict)
    skipped: tuple[int, ...] = ()

    def operand(self, name: str, batch: Any, row: Any, column: Any) -> Any:
        """float64 values of an operand at broadcasting indices, rounded to its type."""
        matrix = self.problem.matrix(name)
        dtype = matrix.dtype
        values = self.inputs.at(name, matrix.owner(batch), row, column, self.xp)
        bits = encode(values, dtype, self.xp, saturates=False)
        return decode(bits, dtype, self.xp) * self.factors.get(name, 1.0)

    def slices(self, region: Region) -> tuple[Any, Any]:
        """A's rows and B's columns of a region, whole in k, scales and zero points applied."""
        batch, rows, columns = region.indices(self.xp)
        along = self.xp.arange(self.problem.k, dtype=self.xp.int64)
        a = self.operand("a", batch, rows, along[None, :])
        b = self.operand("b", batch, along[:, None], columns)
        if self.problem.spec.block_scaled:
            block = along // BLOCK
            scale_b = self.operand("scale_b", batch, columns // BLOCK, block[:, None])
            return a * self.operand("scale_a", batch, block[None, :], rows), b * scale_b
        return (
            a - self._zero_point("a", batch, rows),
            b - self._zero_point("b", batch, columns),
        )

    def _zero_point(self, letter: str, batch: Any, along: Any) -> Any:
        """The zero points of A's rows, or of B's columns, as they broadcast."""
        name, text = f"zero_point_{letter}", getattr(self.problem.spec, f"zero_point_{letter}")
        found = next((o for o in self.problem.spec.zero_operands if o.name == name), None)
        if found is None:
            return float(text or 0)
        if found.scalar:
            return self.problem.scalars[name]
        return self.operand(name, batch, self.xp.zeros_like(along), along)

    @quiet()
    def products(self, region: Region) -> Expected:
        """A * B over a region, with its bound; A itself, as fp32, where there is no product."""
        if not self.problem.spec.multiplies:
            a = self.operand("a", *region.indices(self.xp))
            a = self._as_float(a, self.problem.spec.dtype_a)
            return Expected(a, a, a)
        return self._sums(region)

    def _sums(self, region: Region) -> Expected:
        """A * B over a region, with its bound."""
        zeros = self.xp.zeros(region.shape)
        if self.problem.k == 0:
            return Expected.around(zeros, zeros)
        a, b = self.slices(region)
        if self.problem.spec.dtype_acc.integer:
            return self._integer_products(self.prefix_sums(a, b, None, self.xp).value)
        if self.model is None:
            return self.prefix_sums(a, b, None, self.xp)
        chains = chains_of(self.problem.plan, self.problem.k)
        if chains is not None:
            return self._chained(a, b, self.xp.asarray(chains))
        parts = self.problem.parts_of_k
        if len(parts) == 1:
            return self.prefix_sums(a, b, self.model, self.xp)
        sums = [
            self.prefix_sums(a[:, start:end], b[start:end], self.model, self.xp)
            for start, end in parts
        ]
        return added(sums, self.xp)

    def _chained(self, a: Any, b: Any, chains: Any) -> Expected:
        """A * B by chains, each of which takes the elements of k in an order of its own."""
        xp = self.xp
        a = xp.concatenate([a, xp.zeros((a.shape[0], 1))], axis=1)  # what stands for no element
        b = xp.concatenate([b, xp.zeros((1, b.shape[1]))], axis=0)
        sums = [self.prefix_sums(a[:, chain], b[chain], self.model, xp) for chain in chains]
        return added(sums, xp)

    def output(self, name: str, region: Region, product: Expected | None = None) -> Expected:
        """What a matrix must hold over a region: D, or what a step stores."""
        arguments = {
            operand.argument(index): index
            for index, step in enumerate(self.problem.spec.epilogue)
            for operand in step.operands
        }
        if name != "d" and self.problem.place(name, region) is not region:
            return self.scales(region, product)
        return self.expected(region, product, arguments.get(name))

    def _integer_products(self, sums: Any) -> Expected:
        """What the epilogue gets of sums of whole numbers, which wrap beyond 32 bits."""
        wrapped, xp = _wrap(sums, self.xp), self.xp
        error = xp.zeros(sums.shape)
        if not integer_sums(self.problem.spec.dtype_d):  # they become fp32
            error = xp.where(xp.abs(wrapped) > 2.0**24, ROUND * xp.abs(wrapped), error)
        return Expected.around(wrapped, error)

    @quiet()
    def expected(
        self, region: Region, product: Expected | None = None, steps: int | None = None
    ) -> Expected:
        """D over a region, unrounded, and its bound.

        Args:
            region: which part of D.
            product: A * B over what `Problem.seen` says of the region, where it is known, or a
                hypothesis says that it was something else.
            steps: how many steps of the epilogue are taken; None for all.
        """
        epilogue = self.problem.spec.epilogue
        taken = list(enumerate(epilogue))[:steps]
        rows = self.problem.seen(region)
        if rows is region:
            return self._chain(region, taken, product)
        whole = len(taken) == len(epilogue) and self.problem.spec.computes_scales
        found = self._chain(rows, taken[:-1] if whole else taken, product)
        here = _cropped(found, rows, region)
        if not whole or len(epilogue) - 1 in self.skipped:
            return here
        return self._quantized(epilogue[-1], here, self._row_scales(epilogue[-1], found))

    @quiet()
    def scales(self, region: Region, product: Expected | None = None) -> Expected:
        """The scales that the last step computes of a region's rows, as one row."""
        index = len(self.problem.spec.epilogue) - 1
        step = self.problem.spec.epilogue[index]
        rows = self.problem.seen(region)
        before = list(enumerate(self.problem.spec.epilogue))[:index]
        found = self._row_scales(step, self._chain(rows, before, product))
        return Expected(found.value.T, found.low.T, found.high.T)

    def _row_scales(self, step: EpilogueStep, rows: Expected) -> Expected:
        """The scale of each of some whole rows, as a column."""
        xp, to = self.xp, step.values["to"]
        low, high = xp.abs(rows.low), xp.abs(rows.high)
        least = xp.where(rows.low * rows.high <= 0, 0.0, xp.minimum(low, high))
        ends = (xp.abs(rows.value), least, xp.maximum(low, high))
        return Expected(*(row_scale(end.max(axis=1, keepdims=True), to) for end in ends))

    def _quantized(self, step: EpilogueStep, values: Expected, scales: Expected) -> Expected:
        """What a step makes of values and of the scales that it has computed."""
        ends = [
            step.definition.meaning(value, to=step.values["to"], scale=scale, divide=True)
            for value in self._ends(values)
            for scale in self._ends(scales)
        ]
        return self._rounded(ends, step.definition, 1.0)

    def _chain(
        self, region: Region, taken: list[tuple[int, EpilogueStep]], product: Expected | None
    ) -> Expected:
        """What the first steps of the epilogue make of a region, each element by itself."""
        epilogue = self.problem.spec.epilogue
        pairing = self.problem.spec.pairs
        if pairing is None:
            return self._steps(region, taken, self._scaled(region, product))
        place = epilogue.index(pairing)
        left, right = (
            self._steps(half, taken[:place], self._scaled(half)) for half in self._halves(region)
        )
        found = left if place in self.skipped else self._pair(pairing, left, right)
        return self._steps(region, taken[place + 1 :], found)

    def _halves(self, region: Region) -> tuple[Region, Region]:
        """What of B's first half and of its second a region of D is made of."""
        n = self.problem.n
        ends = {"column": region.column + n, "column_end": region.column_end + n}
        return region, replace(region, **ends)

    def _scaled(self, region: Region, product: Expected | None = None) -> Expected:
        """Alpha * A * B + beta * C over a region."""
        problem, xp = self.problem, self.xp
        relative = 0.0 if self.model is None else ROUND
        value = error = xp.zeros(region.shape)
        if not problem.spec.multiplies:
            return product or self.products(region)
        if problem.alpha != 0.0:
            base = product or self.products(region)
            value = problem.alpha * base.value
            error = abs(problem.alpha) * base.error + relative * xp.abs(value)
        if problem.beta != 0.0:
            value = problem.beta * self.operand("c", *region.indices(xp)) + value
            error = error + relative * xp.abs(value)
        if integer_sums(problem.spec.dtype_d):
            return Expected.around(_wrap(value, xp), xp.zeros(region.shape))
        return Expected.around(value, error)

    def _steps(
        self, region: Region, steps: Iterable[tuple[int, EpilogueStep]], found: Expected
    ) -> Expected:
        """What some steps, by their numbers, make of an interval."""
        for index, step in steps:
            if index not in self.skipped:
                found = self._step(region, index, step, found)
        return found

    def _pair(self, step: EpilogueStep, left: Expected, right: Expected) -> Expected:
        """What a step makes of two intervals: its meaning at their ends and the gate's turns."""
        kind = step.definition
        gate, other = (right, left) if step.values.get("gate") == "second" else (left, right)
        gates = [*self._ends(gate), *self._turns(kind, gate)]
        others = self._ends(other)
        lefts, rights = (gates, others) if gate is left else (others, gates)
        ends = [kind.meaning(x, y, **step.values) for x in lefts for y in rights]
        most = self.xp.maximum(abs(other.low), abs(other.high))
        return self._rounded(ends, kind, self.xp.maximum(most, 1.0))

    @staticmethod
    def _ends(given: Expected) -> list[Any]:
        return [given.value, given.low, given.high]

    def _turns(self, kind: StepKind, given: Expected) -> list[Any]:
        """The turns of a meaning that lie inside an interval, its value elsewhere."""
        return [
            self.xp.where((given.low < turn) & (turn < given.high), turn, given.value)
            for turn in kind.turns
        ]

    def _step(self, region: Region, index: int, step: EpilogueStep, given: Expected) -> Expected:
        """What a step makes of an interval: the image of its ends and of the turns between them."""
        kind = step.definition
        read = {o.name: self._read(region, index, o) for o in step.operands if not o.written}
        read |= step.values
        if kind.normalizes:
            ends = list(normalized(kind, self._ends(given), read, self._additions(), self.xp))
            value, low, high = (end.astype(self.xp.float32).astype(float) for end in ends)
            return Expected(value, low, high)
        places = [*self._ends(given), *self._turns(kind, given)]
        return self._rounded([kind.meaning(place, **read) for place in places], kind, 1.0)

    def _rounded(self, ends: list[Any], kind: StepKind, factor: Any) -> Expected:
        """The interval round some values, the first of which is the right one.

        Widened by what an approximate step may miss, its absolute part times a factor.
        """
        xp = self.xp
        low = high = ends[0]
        for end in ends[1:]:
            low, high = xp.minimum(low, end), xp.maximum(high, end)
        if not kind.exact:
            # An infinity stays one: its share of itself would make it NaN.
            low, high = (
                end + xp.where(xp.isfinite(end), side * room, 0.0)
                for end, side in ((low, -1.0), (high, 1.0))
                for room in (kind.relative * xp.abs(end) + kind.absolute * factor,)
            )
        # One rounding, which keeps order: the ends round to where a value between them may.
        value, low, high = (end.astype(xp.float32).astype(float) for end in (ends[0], low, high))
        return Expected(value, low, high)

    def _additions(self) -> int:
        """Most additions that an element of a row goes through on its way into a norm's sum."""
        kernels = self.problem.program.kernels
        holder = next((k for k in kernels if isinstance(k.body, Rows)), self.problem.plan)
        threads = holder.body.row_threads if isinstance(holder.body, Rows) else SHARING
        return additions(self.problem.n, threads, holder.output.vector)

    def _read(self, region: Region, index: int, operand: StepOperand) -> Any:
        """What a step reads, as it broadcasts against the region."""
        name = operand.argument(index)
        batch, rows, columns = region.indices(self.xp)
        if operand.scalar:
            return self.problem.scalars[name] * self.factors.get(name, 1.0)
        if operand.full:
            return self.operand(name, batch, rows, columns)
        along = columns if operand.access == "column" else rows
        values = self.operand(name, batch, self.xp.zeros_like(along), along)
        return self._as_float(values, operand.dtype)

    def _as_float(self, values: Any, dtype: DType) -> Any:
        """What is read of a type, as a kernel computes with it: int32 is rounded to fp32."""
        return values.astype(self.xp.float32).astype(float) if dtype == INT32 else values


def _cropped(found: Expected, area: Region, region: Region) -> Expected:
    """A part of an area that is known."""
    rows = slice(region.row - area.row, region.row_end - area.row)
    columns = slice(region.column - area.column, region.column_end - area.column)
    return Expected(*(end[rows, columns] for end in (found.value, found.low, found.high)))


def _wrap(whole: Any, xp: Any) -> Any:
    """Whole numbers modulo 2^32, from -2^31 on."""
    return xp.mod(whole + 2.0**31, 2.0**32) - 2.0**31
