"""One product to run: a program with its sizes, strides and scalars bound to numbers.

Everything here is in the caller's terms: A is m x k, B is k x n, C and D are m x n, whatever the
plan swapped. `bind` makes a problem, `Matrix` knows where the elements of an operand lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import FP32
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.matrix import Matrix, Region
from deepgemm_codegen.numbers import MAX_DIMENSION
from deepgemm_codegen.plan import as_program
from deepgemm_codegen.spec.block_scales import BLOCK, line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.epilogue import StepOperand
    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.plan.signature import Parameter
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.spec.dimension import Dim

__all__ = ["Problem", "bind"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A program with every run-time value bound.

    Attributes:
        program: the kernels.
        m, n, k: the caller's sizes; up to the planned size where dynamic, equal to it where not.
        alpha, beta: the scalars (beta is not passed where the plan has no C).
        matrices: A, B, C where there is one, D, then what the epilogue's steps read, and scales by
            block, by parameter name.
        scalars: the numbers that steps take, by parameter name.
    """

    program: Program
    m: int
    n: int
    k: int
    alpha: float
    beta: float
    matrices: tuple[Matrix, ...]
    scalars: dict[str, float]

    @property
    def plan(self) -> KernelPlan:
        """The kernel that multiplies: its tiles are what is judged."""
        return self.program.product

    @property
    def spec(self) -> GemmSpec:
        """What its kernels compute, see `Program.solved`."""
        return self.program.solved

    @property
    def sizes(self) -> dict[str, int]:
        """m, n, k by name, as launch expressions take them."""
        return {"m": self.m, "n": self.n, "k": self.k}

    @property
    def grid(self) -> int:
        """Tiles of D, in whole clusters; zero launches nothing."""
        if self.plan.abreast > 1:
            return self.plan.tiles.evaluate(self.sizes)
        return self.blocks_of(self.plan) // self.plan.k.split

    def blocks_of(self, kernel: KernelPlan, sms: int = MAX_DIMENSION) -> int:
        """Thread blocks of a kernel's grid.

        Args:
            kernel: one of the program's.
            sms: multiprocessors, which limit a persistent grid; without it each of its blocks
                computes one tile.
        """
        return kernel.blocks.evaluate({**self.sizes, "sms": sms})

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the matrices that the program writes, D first."""
        written = (p.name for p in self.program.parameters if p.written)
        return ("d", *(name for name in written if name != "d"))

    @property
    def whole(self) -> tuple[Region, ...]:
        """All of D, one region a batch."""
        return tuple(Region(b, 0, self.m, 0, self.n) for b in range(self.spec.batch))

    def seen(self, region: Region) -> Region:
        """What of D has to be known to know a region: its rows, where a step needs them whole."""
        if not self.spec.computes_scales and self.spec.norm is None:
            return region
        return replace(region, column=0, column_end=self.n)

    @property
    def by_rows(self) -> bool:
        """Whether the product's tiles are judged by whole rows, which a second kernel needs."""
        follows = self.program.kernels[-1] is not self.plan
        return self.spec.computes_scales or (self.spec.norm is not None and follows)

    def place(self, name: str, region: Region) -> Region:
        """Where in an output what belongs to a region of D lies: its rows, of a vector of those."""
        if name == "d" or not self._by_row(name):
            return region
        return Region(region.batch, 0, 1, region.row, region.row_end)

    def _by_row(self, name: str) -> bool:
        operand = next(p.operand for p in self.program.parameters if p.name == name)
        return operand is not None and not operand.full

    def matrix(self, name: str) -> Matrix:
        """The matrix of a parameter."""
        return next(matrix for matrix in self.matrices if matrix.name == name)

    def scalar(self, parameter: Parameter) -> int | float:
        """The value of a parameter that is not a pointer."""
        if parameter.role in ("alpha", "beta"):
            value: float = getattr(self, parameter.role)
            return value
        if parameter.role == "dim":
            return self.sizes[parameter.name]
        if parameter.role == "scalar":
            number = self.scalars[parameter.name]
            return int(number) if parameter.whole else number
        return self.matrix(parameter.name[2:]).leading

    @property
    def parts_of_k(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of what is summed apart: all of k, or the parts that split-K cuts."""
        extent = self.plan.k
        if extent.split == 1 or not self.k:
            return ((0, self.k),)
        each, more = divmod(-(-self.k // extent.tile), extent.split)
        first = [part * each + min(part, more) for part in range(extent.split + 1)]
        ends = [min(slices * extent.tile, self.k) for slices in first]
        return tuple((a, b) for a, b in pairwise(ends) if a < b)

    def region_bytes(self, name: str) -> int:
        """Bytes of a region of the workspace."""
        return self.program.workspace.region(name).bytes.evaluate(self.sizes)

    def __str__(self) -> str:
        """Sizes and scalars in one line, as a verdict quotes them."""
        beta = f" beta={self.beta:g}" if self.spec.dtype_c is not None else ""
        batch = f" batch={self.spec.batch}" if self.spec.batch > 1 else ""
        scalars = "".join(f" {name}={value:g}" for name, value in self.scalars.items())
        if not self.spec.multiplies:
            return f"m={self.m} n={self.n}{batch}{scalars}"
        return f"m={self.m} n={self.n} k={self.k}{batch} alpha={self.alpha:g}{beta}{scalars}"


def bind(
    plan: Program | KernelPlan,
    *,
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    padding: int = 0,
    scalars: Mapping[str, float] | None = None,
) -> Problem:
    """A problem for a program or a lone kernel: sizes of dynamic dimensions, scalars, strides.

    A size that is None is the planned one. The scalars are rounded to fp32, as the kernel gets
    them; a step's is 1 unless ``scalars`` has it. ``padding`` elements are added to each row whose
    leading dimension is an argument.

    Raises:
        InputError: a size that the kernel was not made for.
    """
    import numpy as np  # noqa: PLC0415  plans are printed without numpy

    program = as_program(plan)
    spec = program.solved
    sizes = {
        "m": _bound("m", spec.m, m),
        "n": _bound("n", spec.n, n),
        "k": _bound("k", spec.k, k),
    }
    return Problem(
        program,
        **sizes,
        alpha=float(np.float32(alpha)),
        beta=0.0 if spec.dtype_c is None else float(np.float32(beta)),
        matrices=tuple(
            _matrix(spec, parameter, parameter.dtype, sizes, padding)
            for parameter in program.parameters
            if parameter.dtype is not None
        ),
        scalars={
            parameter.name: float(np.float32((scalars or {}).get(parameter.name, 1.0)))
            for parameter in program.parameters
            if parameter.role == "scalar"
        },
    )


def _bound(name: str, dim: Dim, given: int | None) -> int:
    if given is None:
        return dim.size
    if dim.dynamic and 0 <= given <= dim.size:
        return given
    if given != dim.size:
        limit = f"dynamic up to {dim.size}" if dim.dynamic else f"fixed at {dim.size}"
        raise InputError(f"{name} = {given}: the kernel's {name} is {limit}")
    return given


def _matrix(
    spec: GemmSpec, parameter: Parameter, dtype: DType, sizes: Mapping[str, int], padding: int
) -> Matrix:
    """What a pointer among the caller's arguments leads to."""
    if parameter.role == "scales":
        return _scales(spec, parameter, **sizes)
    operand = parameter.operand
    if operand is not None and not operand.full:
        return _vector(spec, parameter, dtype, operand, sizes)
    lengths = {**sizes, "columns of b": spec.halves * sizes["n"]}
    along = "k" if spec.multiplies else "n"
    roles = {"a": ("m", along, spec.layout[0]), "b": ("k", "columns of b", spec.layout[1])}
    rows, columns, letter = roles.get(parameter.role, ("m", "n", spec.layout_d))
    across, length = (columns, rows) if letter == "t" else (rows, columns)
    pitch = max(lengths[length], 1) + padding
    if operand is None:
        leading: int = getattr(spec, f"ld{parameter.role}") or pitch
        align: int = getattr(spec, f"align_{parameter.role}")
        batch = spec.matrices(parameter.role)
        stride = getattr(spec, f"stride_{parameter.role}")
        apart = stride if isinstance(stride, int) else None
        if parameter.array:
            apart = _scattered_apart(lengths[across], leading, align, dtype.bytes)
    else:
        leading = spec.leading_of(operand) or pitch
        align, batch, apart = operand.align, spec.batch, None
    return Matrix(
        name=parameter.name,
        dtype=dtype,
        batch=batch,
        rows=lengths[rows],
        columns=lengths[columns],
        transposed=letter == "t",
        leading=leading,
        align=align,
        apart=apart,
    )


def _vector(
    spec: GemmSpec,
    parameter: Parameter,
    dtype: DType,
    operand: StepOperand,
    sizes: Mapping[str, int],
) -> Matrix:
    """A value a row or a column, for a step: one for all products, or one a product's own.

    Zero points are as many as there are matrices of their operand.
    """
    batch = spec.batch if operand.written or operand.per_product else 1
    if parameter.name in {zero.name for zero in spec.zero_operands}:
        batch = spec.matrices(parameter.name[-1])
    length = sizes["n" if operand.access == "column" else "m"]
    if operand.access == "column" and spec.pairs_behind(parameter.name):
        length *= spec.halves
    promising = {  # operands of norms, which are read in vectors
        each.argument(index)
        for index, step in enumerate(spec.epilogue)
        if step.definition.normalizes
        for each in step.operands
    }
    return Matrix(
        name=parameter.name,
        dtype=dtype,
        batch=batch,
        rows=1,
        columns=length,
        leading=max(length, 1),
        align=operand.align if parameter.name in promising else dtype.bytes,
    )


def _scattered_apart(stored_rows: int, leading: int, align: int, element_bytes: int) -> int:
    """How far apart the harness puts matrices that each have a pointer.

    Their addresses are no more aligned than promised, and there is a gap between them.
    """
    step = max(align // element_bytes, 1)
    return (stored_rows * leading // step + 1 | 1) * step


def _scales(spec: GemmSpec, parameter: Parameter, m: int, n: int, k: int) -> Matrix:
    """Scales by block: of A a line for each block of k, of B one for each block of columns.

    As many of them as there are matrices of the operand, one behind the other.
    """
    blocks_n, blocks_k = -(-spec.halves * n // BLOCK), -(-k // BLOCK)
    rows, columns = (blocks_k, m) if parameter.name == "scale_a" else (blocks_n, blocks_k)
    return Matrix(
        name=parameter.name,
        dtype=FP32,
        batch=spec.matrices(parameter.name[-1]),
        rows=rows,
        columns=columns,
        leading=max(line(columns), 1),
        align=FP32.bytes,
    )
