"""A problem as the CUDA-core family sees it: what the spec fixes for every candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.simt.copies import simt_travel
from deepgemm_codegen.decide.split_k import cut

if TYPE_CHECKING:
    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.operands import Travel
    from deepgemm_codegen.decide.problem import Problem

__all__ = ["Task", "tasks_of"]


class Task(NamedTuple):
    """What every candidate of one problem shares.

    Attributes:
        problem: in the plan's roles; its travels are those of the tensor cores' families.
        machine: where.
        a, b: how each operand's bytes travel here, by role.
        fma_rate: fused multiply-adds that a multiprocessor does a clock on its CUDA cores.
        elements: see `copies.simt_travel`.
    """

    problem: Problem
    machine: Machine
    a: Travel
    b: Travel
    fma_rate: int
    elements: bool = False

    @property
    def staged(self) -> bool:
        """Whether any operand passes through registers on its way to shared memory."""
        return self.a.mechanism == "registers" or self.b.mechanism == "registers"

    def vector(self, role: str) -> int:
        """Elements of a vector of an operand."""
        travel = self.a if role == "a" else self.b
        return travel.vector_bytes // self.problem.element_bytes


def tasks_of(setting: Setting) -> tuple[Task, ...]:
    """A task for each way in which A and B may travel, of a spec that nothing keeps out."""
    by_quads, by_elements = (_task(setting, elements=elements) for elements in (False, True))
    if by_elements[2:4] == by_quads[2:4]:
        return (by_quads,)
    return by_quads, by_elements


def _task(setting: Setting, *, elements: bool) -> Task:
    spec, arch, problem, machine = setting
    a, b = (simt_travel(spec, source, arch, elements=elements) for source in "ab")
    if spec.layout_d == "t":
        a, b = b, a
    return Task(cut(problem, 1), machine, a, b, arch.fma_per_clock, elements)
