"""A device that computes D by the oracle, so that the harness itself can be tested.

A planted fault changes the inputs that it sees, the values that it computes, or where it writes.
A harness that cannot tell a planted fault from the real thing has shown nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.harness.blocks import regions_of
from deepgemm_codegen.harness.device import Outcome, Written
from deepgemm_codegen.harness.memory import fill, fill_regions
from deepgemm_codegen.harness.numbers import bits_dtype, encode, poison
from deepgemm_codegen.harness.oracle import Oracle
from deepgemm_codegen.harness.sums import prefix_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.matrix import Matrix, Region
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.sums import PrefixSums

__all__ = ["ReferenceDevice"]

Array = np.ndarray[Any, np.dtype[Any]]


def _same_problem(problem: Problem) -> Problem:
    return problem


def _same_values(_: Problem, __: Region, values: Array) -> Array:
    return values


def _no_more(_: Problem, __: Array) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ReferenceDevice:
    """Computes every block's region by the oracle.

    Attributes:
        changes_problem: what the device takes the problem for.
        changes_values: what it makes of a region's right values.
        changes_memory: what else it does to D's flat bits.
        whole: whether it runs whole grids only, as a GPU does.
    """

    changes_problem: Callable[[Problem], Problem] = _same_problem
    changes_values: Callable[[Problem, Region, Array], Array] = _same_values
    changes_memory: Callable[[Problem, Array], None] = field(default=_no_more)
    whole: bool = False

    @property
    def where(self) -> str:
        """See `Device`."""
        return "reference"

    @property
    def arithmetic(self) -> str:
        """See `Device`."""
        return "sm_80"

    @property
    def xp(self) -> Any:
        """See `Device`."""
        return np

    @property
    def samples(self) -> bool:
        """See `Device`."""
        return not self.whole

    @property
    def prefix_sums(self) -> PrefixSums:
        """See `Device`."""
        return prefix_sums

    def launch(
        self,
        problem: Problem,
        inputs: Inputs,
        blocks: tuple[int, ...] | None,
        *,
        in_place: bool = False,
    ) -> Outcome:
        """See `Device`."""
        outputs = {name: _blank(problem.matrix(name)) for name in problem.outputs}
        d = outputs["d"].bits
        if in_place:
            fill_regions(problem.matrix("c"), inputs, regions_of(problem, blocks), d, np)
        oracle = Oracle(self.changes_problem(problem), inputs, np)
        for region in regions_of(problem, tuple(range(problem.grid)) if blocks is None else blocks):
            for name, output in outputs.items():
                matrix = problem.matrix(name)
                values = oracle.output(name, region).value
                if name == "d":
                    values = self.changes_values(problem, region, values)
                bits = encode(values.astype(np.float32), matrix.dtype, np)
                place = problem.place(name, region)
                output.bits[matrix.flat(*place.indices(np))] = bits
        self.changes_memory(problem, d)
        return Outcome(outputs)


def _blank(matrix: Matrix) -> Written:
    bits: Array = np.empty(matrix.elements, bits_dtype(matrix.dtype))
    fill(matrix, None, bits, np)
    return Written(bits, poison(matrix.dtype))
