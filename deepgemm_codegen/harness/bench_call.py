"""What cuBLAS and cublasLt are asked for: a problem's plain product, or with the steps they fuse.

Both see D^T = B^T * A^T where D is row-major, as cuBLAS is column-major. A `Call` is worked out
without any library, so that tests can read it; bench_cublas.py makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepgemm_codegen.dtypes import INT32

if TYPE_CHECKING:
    from deepgemm_codegen.harness.matrix import Matrix
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Call", "Layout", "call_of", "fused_call_of", "no_plain_product"]

# cudaDataType of library_types.h; uint8 has one, too, but cuBLAS does not multiply it
_TYPES = {"fp32": 0, "fp16": 2, "int8": 3, "int32": 10, "bf16": 14, "e4m3": 28, "e5m2": 29}
# cublasComputeType_t of cublas_api.h
_COMPUTE_32F, _COMPUTE_32I = 68, 72
# cublasLtMatmulMatrixScale_t of cublasLt.h (CUDA 12.9): VEC128_32F and BLK128x128_32F
_SCALE_MODES = {"scale_a": 4, "scale_b": 5}
# cublasLtEpilogue_t of cublasLt.h
_RELU, _BIAS, _GELU = 2, 4, 32

_FUSED = {"relu": _RELU, "gelu_tanh": _GELU, "gelu": _GELU}
"""Steps that cublasLt fuses, last and alone or behind a bias. Its GELU is the tanh form."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A column-major matrix as cuBLAS sees it.

    Attributes:
        name: the caller's operand.
        type: cudaDataType.
        rows, columns: as stored, before any transposition.
        leading: elements from column to column.
        stride: elements from one matrix of the batch to the next.
    """

    name: str
    type: int
    rows: int
    columns: int
    leading: int
    stride: int


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one product, D = op(first) * op(second) + beta * D, column-major.

    Attributes:
        m, n, k: in cuBLAS's terms.
        turn_first, turn_second: whether the operand is transposed (CUBLAS_OP_T).
        first, second, d: the matrices.
        batch: products.
        beta: 0, or that of the kernel where C has D's type and place; the sum is then in place.
        note: what differs from what the kernel computes, or empty.
        fast: whether fp8 sums stay in the tensor cores (CUBLASLT_MATMUL_DESC_FAST_ACCUM).
        epilogue: cublasLtEpilogue_t, or 0 for none.
        bias: the operand that is added to every column of cuBLAS's D, or empty.
        scales: of products with scales by block: the operand that holds the first one's, and how
            they lie (cublasLtMatmulMatrixScale_t), and the same of the second's.
    """

    m: int
    n: int
    k: int
    turn_first: bool
    turn_second: bool
    first: Layout
    second: Layout
    d: Layout
    batch: int
    beta: float
    note: str = ""
    fast: bool = False
    epilogue: int = 0
    bias: str = ""
    scales: tuple[tuple[str, int], ...] = ()

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of what a launch is given pointers to, in that order."""
        bias = (self.bias,) if self.bias else ()
        return (self.first.name, self.second.name, "d", *bias, *(name for name, _ in self.scales))

    @property
    def integer(self) -> bool:
        """Whether sums, alpha and beta are int32."""
        return self.d.type == _TYPES["int32"]

    @property
    def float8(self) -> bool:
        """Whether an operand is fp8, which cublasLt alone multiplies."""
        return self.first.type in (_TYPES["e4m3"], _TYPES["e5m2"])

    @property
    def compute(self) -> int:
        """cublasComputeType_t."""
        return _COMPUTE_32I if self.integer else _COMPUTE_32F

    @property
    def scalar_type(self) -> int:
        """CudaDataType of alpha and beta."""
        return _TYPES["int32" if self.integer else "fp32"]


def call_of(problem: Problem) -> Call:
    """What cuBLAS is asked for so that D holds the plain product of a problem.

    A row-major matrix is its transpose, column-major. So a row-major D is asked for as
    D^T = B^T * A^T, whose operands lie as they should unless they are stored transposed.
    """
    spec = problem.spec
    a, b, d = (_layout(problem.matrix(name)) for name in "abd")
    turned_a, turned_b = (problem.matrix(name).transposed for name in "ab")
    beta, note = 0.0, ""
    if spec.dtype_c is not None:
        if problem.matrix("c").lies_like(problem.matrix("d")):
            beta = problem.beta
        else:
            note = "cuBLAS computes without C, whose type or stride is not D's"
    if spec.layout_d == "n":
        sizes, turns, pair = (problem.n, problem.m), (turned_b, turned_a), (b, a)
    else:
        sizes, turns, pair = (problem.m, problem.n), (not turned_a, not turned_b), (a, b)
    fast = spec.accumulate == "fast"
    call = Call(*sizes, problem.k, *turns, *pair, d, spec.batch, beta, note, fast)
    if not spec.block_scaled:
        return call
    scales = (f"scale_{operand.name}" for operand in pair)
    return replace(call, scales=tuple((name, _SCALE_MODES[name]) for name in scales))


def fused_call_of(problem: Problem) -> Call | None:
    """The call with the epilogue that cublasLt fuses; None where it fuses no such steps.

    It adds a bias along D's contiguous dimension, in D's type, and then applies relu or GELU.
    """
    spec = problem.spec
    steps = list(spec.epilogue)
    if not steps or spec.dtype_c is not None or no_plain_product(spec):
        return None
    epilogue, bias, note = 0, "", ""
    if steps[0].kind == "bias":
        (operand,) = steps.pop(0).operands
        along = "column" if spec.layout_d == "n" else "row"
        if operand.access != along or operand.dtype != spec.dtype_d or operand.per_product:
            return None
        epilogue, bias = _BIAS, operand.argument(0)
    if steps:
        step = steps.pop(0)
        if step.kind not in _FUSED:
            return None
        epilogue |= _FUSED[step.kind]
        if step.kind == "gelu":
            note = "its GELU is the tanh form; of the exact one, which takes more, it has none"
    if steps:
        return None
    return replace(call_of(problem), note=note, epilogue=epilogue, bias=bias)


def no_plain_product(spec: GemmSpec) -> str:
    """Why the plain product cannot stand in a problem's D; empty where it can."""
    if not spec.multiplies:
        return "op = epilogue has no product"
    if spec.block_scaled and spec.batch > 1:
        return "no batch of products with scales by block is timed"
    if spec.pairs is not None:
        return f"{spec.pairs.kind} makes D half as wide as the product"
    for letter in "abd":
        dtype = getattr(spec, f"dtype_{letter}")
        if dtype.name not in _TYPES or (letter == "d" and dtype.bytes == 1):
            return f"no plain product is timed with {letter.upper()} in {dtype}"
    if spec.dtype_acc == INT32 and spec.dtype_d != INT32:
        return f"of int8 cuBLAS makes int32, and D is {spec.dtype_d}"
    return ""


def _layout(matrix: Matrix) -> Layout:
    return Layout(
        matrix.name,
        _TYPES[matrix.dtype.name],
        matrix.stored_columns,
        matrix.stored_rows,
        matrix.leading,
        matrix.stride,
    )
