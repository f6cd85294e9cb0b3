"""A candidate of the row kernels, and the kernel it makes: alone, or behind a product."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.machine import machine_of
from deepgemm_codegen.decide.occupancy import register_cap
from deepgemm_codegen.decide.problem import canonical_steps, why_turned
from deepgemm_codegen.decide.rows.task import row_task
from deepgemm_codegen.decide.split_k import partial_leading
from deepgemm_codegen.errors import InternalError
from deepgemm_codegen.plan import Decision, Grid, KernelPlan, Program, Rows
from deepgemm_codegen.plan.tiles import PARTIALS, WARP, Extent, Output
from deepgemm_codegen.spec.naming import kernel_name

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.rows.task import RowTask
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["RowChoice", "resident", "row_registers", "rows_kernel"]

BASE_REGISTERS = 28
"""Registers of a thread beside the elements it holds: as ptxas counts them for sm_90."""

READ_AHEAD = 20
"""More of them where rows are read anew: ptxas unrolls those loops."""

WIDE = 12
"""More where a matrix of 32 bits is read, whose vectors are under way at once, or a step is a
polynomial. 4096 elements of fp32 in 128 threads spilled under a cap of 64, and do not under 72."""


CROWDED = 8
"""More beside that where vectors and elements one by one have a text each."""


BYTEWISE = 4
"""More where bytes are read one by one, each with a test of its own."""


class RowChoice(NamedTuple):
    """The numbers that distinguish one candidate from another.

    Attributes:
        warps_m: rows of a block.
        warps_n: warps of a row.
        held: vectors that a thread holds; 0 where rows are read anew for each pass.
    """

    warps_m: int
    warps_n: int
    held: int

    @property
    def words(self) -> str:
        """The choice in a few words."""
        rows = "a row" if self.warps_m == 1 else f"{self.warps_m} rows"
        warps = "a warp" if self.warps_n == 1 else f"{self.warps_n} warps"
        vectors = "a vector" if self.held == 1 else f"{self.held} vectors"
        kept = f"{vectors} held" if self.held else "read anew for each pass"
        return f"{warps} a row, {rows} a block, {kept}"

    def program(self, spec: GemmSpec, arch: Arch, decisions: tuple[Decision, ...] = ()) -> Program:
        """The program of the choice, for a spec without a product."""
        task = row_task(spec, machine_of(arch, spec.dtype_a.name))
        kernel = rows_kernel(spec, arch, task, self, decisions)
        return Program(kernel.name, (kernel,))


def row_registers(task: RowTask, choice: RowChoice) -> int:
    """Registers that a thread needs."""
    needed = BASE_REGISTERS + (choice.held * task.vector or READ_AHEAD + task.vector)
    needed += BYTEWISE * task.bytewise
    return needed + WIDE * task.wide + CROWDED * task.crowded


def resident(task: RowTask, choice: RowChoice) -> int:
    """Blocks that a multiprocessor holds: what threads and registers leave room for."""
    machine = task.machine
    threads = WARP * choice.warps_m * choice.warps_n
    most = min(machine.blocks_per_sm, machine.threads_per_sm // threads)
    needed = row_registers(task, choice)
    while most > 1 and register_cap(threads, most, machine) < needed:
        most -= 1
    return most


def rows_kernel(
    spec: GemmSpec,
    arch: Arch,
    task: RowTask,
    choice: RowChoice,
    decisions: tuple[Decision, ...] = (),
) -> KernelPlan:
    """The kernel of a choice, under the name of the whole program."""
    if why := why_turned(spec):
        raise InternalError(f"{spec}: {why}, and no family turns D")
    threads = WARP * choice.warps_n
    covered = -(-task.n // (threads * task.vector)) * threads * task.vector
    names = "NM" if spec.layout_d == "t" else "MN"
    rows, length = spec.stored("d")
    n = Extent("n", names[1], length.size, length.dynamic, covered)
    leading = spec.lda or None
    if task.parts:
        leading = partial_leading(n)
    body = Rows(
        warps_m=choice.warps_m,
        warps_n=choice.warps_n,
        vector=task.vector,
        held=choice.held,
        min_blocks=resident(task, choice),
        checked=task.checked,
        parts=task.parts,
        leading=leading,
        source=PARTIALS if task.parts else "a",
    )
    return KernelPlan(
        name=kernel_name(spec),
        spec=spec,
        target=arch.name,
        transposed=spec.layout_d == "t",
        m=Extent("m", names[0], rows.size, rows.dynamic, choice.warps_m),
        n=n,
        k=Extent("k", "K", spec.k.size, spec.k.dynamic, 1),
        batch=spec.batch,
        output=Output(
            dtype=spec.dtype_d,
            leading=spec.ldd or None,
            c_dtype=spec.dtype_c,
            c_leading=spec.ldc or None,
            vector=task.vector,
            warp_n=covered,
            saturates=spec.saturates,
        ),
        epilogue=canonical_steps(spec),
        body=body,
        schedule=Grid(raster_group=1),
        decisions=decisions,
        dependent=spec.launch == "dependent",
        followed=spec.launch == "dependent",
    )
