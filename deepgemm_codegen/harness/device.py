"""What runs a kernel: the emulator or a GPU, behind one small face."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from deepgemm_codegen.errors import CodegenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.emulator import Statistics
    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.harness.sums import PrefixSums

__all__ = ["Device", "LaunchFailedError", "Outcome", "Written"]


class LaunchFailedError(CodegenError):
    """The kernel could not be run to its end: a fault of the kernel, such as an illegal address."""

    exit_code = 1


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A matrix that a launch wrote.

    Attributes:
        bits: its buffer as flat bits, from the base to the end of its last row.
        background: the bits that stood there before (in D's padding, where D is C): poison, or
            zero where the matrix is too big to fill.
    """

    bits: Any
    background: int


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a launch left behind.

    Attributes:
        outputs: what it wrote, by name: D, and what epilogue steps store.
        faults: findings and damaged guard bands, each a text for people.
        complete: whether the run went to its end; D means nothing otherwise.
        statistics: of each run of the emulator.
    """

    outputs: Mapping[str, Written]
    faults: tuple[str, ...] = ()
    complete: bool = True
    statistics: tuple[Statistics, ...] = ()

    @property
    def d(self) -> Any:
        """D's bits."""
        return self.outputs["d"].bits

    @property
    def background(self) -> int:
        """The bits that stood in D before."""
        return self.outputs["d"].background


class Device(Protocol):
    """Runs launches of one kernel."""

    @property
    def where(self) -> str:
        """How a verdict names it."""
        ...

    @property
    def arithmetic(self) -> str:
        """The architecture whose tensor cores add, such as ``sm_90``."""
        ...

    @property
    def xp(self) -> Any:
        """Numpy or cupy: the module of the arrays it returns."""
        ...

    @property
    def samples(self) -> bool:
        """Whether some blocks can run alone, and must where the grid is large."""
        ...

    @property
    def prefix_sums(self) -> PrefixSums:
        """How the oracle sums A * B on its arrays."""
        ...

    def launch(
        self,
        problem: Problem,
        inputs: Inputs,
        blocks: tuple[int, ...] | None,
        *,
        in_place: bool = False,
    ) -> Outcome:
        """Poisons D, places the operands, runs the blocks (None: all of the grid).

        Args:
            problem: what to run.
            inputs: operand values; a name that is missing passes a null pointer.
            blocks: flat block indices.
            in_place: D is C's buffer.

        Raises:
            LaunchFailedError: the kernel did not run to its end.
        """
        ...
