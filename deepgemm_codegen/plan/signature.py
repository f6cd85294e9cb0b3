"""The kernel's arguments: one ordered list for the C signature, the launcher and the harness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.dtypes import FP32, INT32
from deepgemm_codegen.plan.zero_points import ZEROS
from deepgemm_codegen.spec.block_scales import SCALES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.epilogue import StepOperand
    from deepgemm_codegen.plan.repack import Packed
    from deepgemm_codegen.plan.tma import TensorMap
    from deepgemm_codegen.plan.turn import Turn
    from deepgemm_codegen.plan.zero_points import OperandZeros
    from deepgemm_codegen.spec import GemmSpec

__all__ = [
    "Parameter",
    "kernel_parameters",
    "parameters",
    "partial_parameters",
    "reduce_parameters",
    "repack_parameters",
    "row_scales_parameters",
    "turn_parameters",
    "zero_points_parameters",
]

ZERO_POINTS = ("zero_point_a", "zero_point_b")
"""Arguments that only the kernel before the product takes."""

_SCALARS = {"alpha": "float", "beta": "float", "scalar": "float", "dim": "int", "stride": "i64"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of the kernel.

    Attributes:
        name: as the signature spells it.
        role: what the harness passes: ``a b c d`` and ``operand`` are device pointers, ``scales``
            one to A's or B's scales by block, ``alpha``, ``beta`` and ``scalar`` (a step's number)
            floats, ``dim`` a 32-bit size, ``stride`` a 64-bit leading dimension in elements,
            ``map`` a tensor map by value, ``region`` a pointer into the workspace.
        dtype: element type behind a pointer, else None.
        operand: what an epilogue step reads or writes, for ``operand`` and ``scalar``, else None.
        written: whether the kernel writes through the pointer.
        array: whether it is an array of pointers, one a product of the batch.
    """

    name: str
    role: Literal[
        "a",
        "b",
        "c",
        "d",
        "operand",
        "scales",
        "alpha",
        "beta",
        "scalar",
        "dim",
        "stride",
        "map",
        "region",
    ]
    dtype: DType | None = None
    operand: StepOperand | None = None
    written: bool = False
    array: bool = False

    @property
    def symbol(self) -> str:
        """How C code names it; the name itself is then one product's pointer, in the kernel."""
        return f"{self.name}_of" if self.array else self.name

    @property
    def target(self) -> str:
        """C type of what one product's pointer points to."""
        return f"{'' if self.written else 'const '}{self.dtype}"

    @property
    def pointer(self) -> bool:
        """Whether the argument is a device pointer."""
        return self.dtype is not None

    @property
    def whole(self) -> bool:
        """Whether a step's number is a whole one."""
        return self.operand is not None and self.operand.dtype.integer

    @property
    def declaration(self) -> str:
        """The argument in the C signature. C and D may be one matrix, so neither is restrict."""
        if self.role == "map":
            return f"const __grid_constant__ TensorMap {self.name}"
        if self.dtype is None:
            return f"{'int' if self.whole else _SCALARS[self.role]} {self.name}"
        if self.array:
            return f"{self.target}* const* {self.symbol}"
        if self.written:
            return f"{self.dtype}* {self.name}"
        if self.role == "c":
            return f"const {self.dtype}* {self.name}"
        return f"const {self.dtype}* __restrict__ {self.name}"


def parameters(spec: GemmSpec) -> tuple[Parameter, ...]:
    """The caller's arguments in order, which the launcher takes.

    Matrices, step operands, alpha and beta, the steps' scalars, dimensions, strides.
    """
    met = [
        (operand.argument(index), operand)
        for index, step in enumerate(spec.epilogue)
        for operand in step.operands
    ]
    met.extend((operand.name, operand) for operand in spec.zero_operands)
    found = [Parameter("a", "a", spec.dtype_a, array=spec.scattered("a"))]
    if spec.multiplies:
        found.append(Parameter("b", "b", spec.dtype_b, array=spec.scattered("b")))
    if spec.dtype_c is not None:
        found.append(Parameter("c", "c", spec.dtype_c, array=spec.scattered("c")))
    found.append(Parameter("d", "d", spec.dtype_d, written=True, array=spec.scattered("d")))
    found.extend(
        Parameter(name, "operand", operand.dtype, operand, written=operand.written)
        for name, operand in met
        if not operand.scalar
    )
    if spec.block_scaled:
        found.extend(Parameter(name, "scales", FP32) for name in SCALES)
    if spec.multiplies:
        found.append(Parameter("alpha", "alpha"))
    if spec.dtype_c is not None:
        found.append(Parameter("beta", "beta"))
    found.extend(Parameter(n, "scalar", operand=o) for n, o in met if o.scalar)
    dims = (("m", spec.m), ("n", spec.n), ("k", spec.k))
    found.extend(Parameter(name, "dim") for name, dim in dims if dim.dynamic)
    found.extend(
        Parameter(f"ld{letter}", "stride")
        for letter in ("abcd" if spec.multiplies else "ad")
        if getattr(spec, f"ld{letter}") == 0 and getattr(spec, f"dtype_{letter}") is not None
    )
    found.extend(
        Parameter(f"ld{name}", "stride")
        for name, operand in met
        if operand.full and spec.leading_of(operand) == 0
    )
    return tuple(found)


def kernel_parameters(
    spec: GemmSpec, tensor_maps: tuple[TensorMap, ...], packed: Mapping[str, str]
) -> tuple[Parameter, ...]:
    """The arguments of a kernel that computes D from A and B.

    Args:
        spec: what is computed.
        tensor_maps: stand for the pointers that only TMA follows.
        packed: regions that stand for operands, as their copies do, or for D, by argument.
    """
    mapped = {tensor_map.pointer: tensor_map.name for tensor_map in tensor_maps}
    strides = {f"ld{name}" for name in (*mapped, *packed)}
    found = []
    for parameter in parameters(spec):
        pointer = packed.get(parameter.name, parameter.name)
        if pointer in mapped:
            found.append(Parameter(mapped[pointer], "map"))
        elif parameter.name in packed:
            found.append(Parameter(pointer, "region", parameter.dtype, written=parameter.written))
        elif parameter.name not in strides and parameter.name not in ZERO_POINTS:
            found.append(parameter)
    if spec.zero_points:
        found.extend(Parameter(region, "region", INT32) for region in ZEROS.values())
    return tuple(found)


def partial_parameters(
    spec: GemmSpec, tensor_maps: tuple[TensorMap, ...], packed: Mapping[str, str], partials: str
) -> tuple[Parameter, ...]:
    """The arguments of a kernel that sums parts of k into the region ``partials``."""
    kept = {"a", "b", "scales", "alpha", "dim", "map", "region"}
    found = [
        p
        for p in kernel_parameters(spec, tensor_maps, packed)
        if p.role in kept or p.name in ("lda", "ldb")
    ]
    found.insert(2, Parameter(partials, "region", spec.dtype_acc, written=True))
    return tuple(found)


def reduce_parameters(spec: GemmSpec, partials: str) -> tuple[Parameter, ...]:
    """The arguments of a kernel that makes D of the region ``partials``."""
    unused = ("a", "b", "k", "lda", "ldb", *ZERO_POINTS, *SCALES)
    found = (p for p in parameters(spec) if p.name not in unused)
    return (Parameter(partials, "region", spec.dtype_acc), *found)


def repack_parameters(spec: GemmSpec, matrices: Sequence[Packed]) -> tuple[Parameter, ...]:
    """The arguments of a kernel that copies operands into regions of the workspace."""
    found = []
    for matrix in matrices:
        found.append(Parameter(matrix.name, "region", matrix.dtype, written=True))
        found.append(Parameter(matrix.source, matrix.source, matrix.dtype, array=matrix.scattered))
    extents = [extent for matrix in matrices for extent in (matrix.rows, matrix.columns)]
    needed = {"alpha", *(extent.argument for extent in extents if extent.dynamic)}
    needed |= {f"ld{matrix.source}" for matrix in matrices if matrix.leading is None}
    return (*found, *(p for p in parameters(spec) if p.name in needed))


def row_scales_parameters(spec: GemmSpec, values: str, scale: str) -> tuple[Parameter, ...]:
    """The arguments of a kernel that makes D and its ``scale`` of the region ``values``."""
    used = ("d", scale, "m", "ldd")
    found = (p for p in parameters(spec) if p.name in used)
    return (Parameter(values, "region", FP32), *found)


def turn_parameters(spec: GemmSpec, body: Turn) -> tuple[Parameter, ...]:
    """The arguments of a kernel that copies matrices between the caller's and the workspace."""
    inwards = body.way == "in"
    regions = (Parameter(m.region, "region", m.dtype, written=inwards) for m in body.matrices)
    used = {"m", "n", *(m.name for m in body.matrices), *(f"ld{m.name}" for m in body.matrices)}
    used |= {"beta"} if any(matrix.asked for matrix in body.matrices) else set()
    return (*regions, *(p for p in parameters(spec) if p.name in used))


def zero_points_parameters(
    spec: GemmSpec, operands: Sequence[OperandZeros]
) -> tuple[Parameter, ...]:
    """The arguments of a kernel that prepares zero points of operands."""
    found = [Parameter(operand.name, "region", INT32, written=True) for operand in operands]
    needed = {"alpha", *ZERO_POINTS}
    for operand in operands:
        extents = [operand.across]
        if operand.summed:
            needed |= {operand.source, f"ld{operand.source}"}
            extents.append(operand.k)
        needed |= {extent.argument for extent in extents if extent.dynamic}
    return (*found, *(p for p in parameters(spec) if p.name in needed))
