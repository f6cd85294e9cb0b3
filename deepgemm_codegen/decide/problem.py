"""The spec in the plan's roles: what every question of the tree asks about.

A spec with a transposed D is planned as D^T = B^T * A^T (see `deepgemm_codegen.plan`), so here m
is the extent of the plan's rows and ``a`` the operand that lies along them; but where D has to be
computed by rows (`why_turned`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.operands import matrices_like_d, output_vector, travel_of
from deepgemm_codegen.dtypes import FP32
from deepgemm_codegen.epilogue import column_vectors
from deepgemm_codegen.plan.tiles import FRAGMENT_BYTES
from deepgemm_codegen.spec.block_scales import BLOCK

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.operands import Travel
    from deepgemm_codegen.epilogue import EpilogueStep
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Problem", "canonical_steps", "problem_of", "promotes", "why_turned"]


class Problem(NamedTuple):
    """A GEMM as the tree sees it; sizes of dynamic dimensions are those planned for.

    Attributes:
        m, n, k, batch: extents in the plan's roles.
        a_matrices, b_matrices: how many there are of each operand; 1 where all products share it.
        dynamic_m: whether m is known only at run time.
        dynamic_n: the same of n.
        dynamic_k: the same of k.
        element_bytes: of A and B.
        sums: name of the type that products are summed in.
        promoted: whether sums leave the tensor core on the way, to be added in fp32.
        scaled: whether they are scaled by block then.
        a, b: how each operand's bytes travel.
        a_k_major, b_k_major: whether k is contiguous in memory.
        vector: elements of D that a lane stores at a time.
        d_bytes, c_bytes: of one element; ``c_bytes`` is that of all that is read like D: of C and
            of the matrices of epilogue steps, 0 without any.
        halves: how many of the n columns, which are B's, make one of D.
        step_issue: clocks of a multiprocessor in which the epilogue's steps are issued for one
            element of D.
        step_special: those that they take of its special function units.
        staged: whether any operand passes through registers on its way to shared memory.
        vectors: that the epilogue's steps read by columns of the tile.
        rows_follow: whether a second kernel makes D of the sums because a step needs whole rows.
    """

    m: int
    n: int
    k: int
    batch: int
    a_matrices: int
    b_matrices: int
    dynamic_m: bool
    dynamic_n: bool
    dynamic_k: bool
    element_bytes: int
    sums: str
    promoted: bool
    scaled: bool
    a: Travel
    b: Travel
    a_k_major: bool
    b_k_major: bool
    vector: int
    d_bytes: int
    c_bytes: int
    halves: int
    step_issue: float
    step_special: float
    staged: bool
    vectors: int
    rows_follow: bool

    @property
    def step_clocks(self) -> float:
        """Clocks of a multiprocessor that the epilogue's steps take for one element of D."""
        return max(self.step_issue, self.step_special)

    @property
    def fragment_k(self) -> int:
        """Elements of k that one set of mma.sync's fragments covers."""
        return FRAGMENT_BYTES // self.element_bytes

    @property
    def columns_apart(self) -> int:
        """Columns that a warp tile is a multiple of: one fragment of B, or two (`bytewise`).

        Where columns are paired, so many of each half.
        """
        apart = 16 if self.element_bytes == 1 and not self.b_k_major else 8
        return self.halves * apart

    @property
    def columns_within(self) -> int:
        """Columns that a warp tile divides, so that each half lies in one block; 0 if any may."""
        return self.halves * BLOCK if self.scaled else 0


def promotes(spec: GemmSpec, arch: Arch) -> bool:
    """Whether sums leave the tensor core on the way.

    To be scaled, or where it keeps less of them than fp32 does.
    """
    kept = arch.fp8_sum_bits >= FP32.mantissa_bits
    return spec.block_scaled or (spec.accumulate == "promoted" and not kept)


def why_turned(spec: GemmSpec) -> str:
    """Why D is computed by rows and turned; empty where it is not."""
    if not spec.multiplies and spec.layout[0] != spec.layout_d:
        return f"A lies by {'rows' if spec.layout_d == 't' else 'columns'}, and D does not"
    if spec.layout_d == "n":
        return ""
    if spec.norm is not None:
        return f"{spec.epilogue[spec.norm].kind} wants whole rows"
    if spec.pairs is not None:
        return f"{spec.pairs.kind} pairs columns"
    if spec.computes_scales:
        return "a scale wants the whole row"
    return "scales by block lie along A's rows" if spec.block_scaled else ""


def canonical_steps(spec: GemmSpec) -> tuple[EpilogueStep, ...]:
    """The epilogue with row and column in the plan's roles."""
    if spec.layout_d == "t":
        return tuple(step.transposed() for step in spec.epilogue)
    return spec.epilogue


def problem_of(spec: GemmSpec, arch: Arch) -> Problem:
    """The canonical form of a spec."""
    a, b = travel_of(spec, "a", arch), travel_of(spec, "b", arch)
    a_k_major, b_k_major = spec.k_major("a"), spec.k_major("b")
    m, n = spec.m, spec.b_columns
    left, right = ("b", "a") if spec.layout_d == "t" else ("a", "b")
    if spec.layout_d == "t":
        m, n, a, b, a_k_major, b_k_major = n, m, b, a, b_k_major, a_k_major
    return Problem(
        m=m.size,
        n=n.size,
        k=spec.k.size,
        batch=spec.batch,
        a_matrices=spec.matrices(left),
        b_matrices=spec.matrices(right),
        dynamic_m=m.dynamic,
        dynamic_n=n.dynamic,
        dynamic_k=spec.k.dynamic,
        element_bytes=spec.dtype_a.bytes,
        sums=spec.dtype_acc.name,
        promoted=promotes(spec, arch),
        scaled=spec.block_scaled,
        a=a,
        b=b,
        a_k_major=a_k_major,
        b_k_major=b_k_major,
        vector=output_vector(spec),
        d_bytes=spec.dtype_d.bytes,
        c_bytes=sum(dtype.bytes for dtype, *_ in matrices_like_d(spec)[1:]),
        halves=spec.halves,
        step_issue=sum(step.definition.issue for step in spec.epilogue),
        step_special=sum(step.definition.special for step in spec.epilogue),
        staged=a.mechanism == "registers" or b.mechanism == "registers",
        vectors=len(column_vectors(canonical_steps(spec))),
        rows_follow=spec.norm is not None,
    )
