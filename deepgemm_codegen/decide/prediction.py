"""What a candidate of any family is predicted to cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["Prediction", "output_bytes"]


class Prediction(NamedTuple):
    """What a choice is predicted to cost.

    Attributes:
        clocks, us: the whole kernel with its launch.
        tiles: blocks of the grid.
        waves: waves of blocks, the last one counted by its share.
        slices: slices of k.
        l2_bytes: bytes of A and B that cross from the L2.
        operand_bytes: bytes of A and B from device memory.
        dram_bytes: the same with C and D.
        parts: clocks a slice of a full wave by what takes them (see the module's docstring).
        bound: the longest part, or ``launch and latency`` where those outweigh it.
    """

    clocks: float
    us: float
    tiles: int
    waves: float
    slices: int
    l2_bytes: float
    operand_bytes: float
    dram_bytes: float
    parts: dict[str, float]
    bound: str


def output_bytes(problem: Problem) -> int:
    """Bytes of D written and of C read."""
    elements = problem.batch * problem.m * problem.n // problem.halves
    return elements * (problem.d_bytes + problem.c_bytes)
