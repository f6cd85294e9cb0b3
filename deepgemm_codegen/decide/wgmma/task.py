"""A problem as the wgmma family sees it: what the spec fixes for every candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from deepgemm_codegen.decide.prediction import output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.decide.split_k import SUM_BYTES, WHOLE, cut
from deepgemm_codegen.decide.tma import store_of, sums_leave, sums_of_tile
from deepgemm_codegen.decide.wgmma.consumer import PANEL_COLUMNS
from deepgemm_codegen.decide.wgmma.tile import (
    FINISH_OWN,
    FINISH_TMA,
    Kind,
    Result,
    slab_bytes,
    turn_bytes,
)
from deepgemm_codegen.plan.layout import row_slab_bytes
from deepgemm_codegen.plan.tma import PANEL_BYTES

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.decide.split_k import Cut
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Task", "task_of"]

HEAT, HEAT_US = 0.315, 15.0
"""How far power lowers the clock, and the microseconds of math that lower it half way.

Fitted as `predict` says: one number stands for the whole of power and boost. Tensor cores that wait
for memory take less."""

INTEGER_HEAT, INTEGER_HEAT_US = 0.063, 39.0
"""Both for integers, whose long products are at the board's power cap. Fitted as
`writing.WAYS`."""

MOSTLY = 2 / 3
"""Part of device memory's bytes that A and B have where what they have on its way queues: slices of
64-cubed do, and those of 384x384x64, of whose bytes they are a quarter, like a deep ring."""

MANY = 8
"""How many times A's and B's bytes D's have to be for `writing.CROWD`; with fewer, and with more
than a slice, rings are as deep as fits: int8 4096x32768x512 took 216 us in 256x192 with two slots,
191 with three, int8 4096x2560x320 15.5 in 128x128 with three, 14.4 with six."""


class Task(NamedTuple):
    """What every candidate of one problem shares.

    Attributes:
        problem: in the plan's roles.
        kind: of operands and sums.
        machine: where.
        parts: parts that k is cut into, see `split_k`.
        units: what each tile of D is summed in, apart: products of the batch times parts of k.
        cluster_k: blocks of a cluster along k: the parts, where they meet there.
        slices: slices of k that a block sums, of the longest part.
        heat: factor on clocks of math and of the L2, which power stretches in long products.
        once: clocks in which device memory delivers A and B once.
        out: clocks in which it takes D, and delivers C.
        tma_store: whether TMA can write D, if the tile is whole swizzle patterns.
        sums_leave: how sums of 32 bits do, if the tile's columns allow it, see `tma.sums_leave`.
        fits: whether the L2 holds D with the operands; it is then written as it would be delivered.
        step_clocks: of the steps for an element, beside those of an epilogue without any.
        outlast: part of device memory's time by which the writing of D outlasts the math.
        reads: how far device memory reads, and does not write: 1 from `MOSTLY` of its bytes on.
        sparse: how few A and B are beside D, where k is one slice: 1 where they are nothing, 0 from
            an eighth on.
    """

    problem: Problem
    kind: Kind
    machine: Machine
    parts: int
    units: int
    cluster_k: int
    slices: int
    heat: float
    once: float
    out: float
    tma_store: bool
    sums_leave: Literal["rows", "lanes", "slab"]
    fits: bool
    step_clocks: float
    outlast: float
    reads: float
    sparse: float

    @property
    def result(self) -> Result:
        """What becomes of a tile's sums."""
        return Result(self.problem.d_bytes, self.problem.halves, self.problem.vectors)

    @property
    def partial(self) -> bool:
        """Whether the sums go to a workspace, for another kernel to make D of them."""
        return self.parts > self.cluster_k or self.problem.rows_follow

    def leaves(
        self, rows: int, tile_n: int, *, whole_panels: bool
    ) -> Literal["tma", "rows", "lanes", "slab"]:
        """How D leaves a tile, see `Wgmma.store`.

        ``rows`` are a consumer's; ``whole_panels`` is of `Tile`.
        """
        if self.tma_store and whole_panels:
            return "tma"
        return sums_of_tile(self.sums_leave, tile_n, rows * tile_n // 128)

    def shared_bytes(
        self,
        tile_m: int,
        tile_n: int,
        consumers: int,
        tiles_at_once: int,
        stages: int,
        slice_rows: int = 1,
    ) -> int:
        """Dynamic shared memory of a block: ring, barriers, and D's panels or the slabs.

        ``slice_rows`` is how many 128-byte rows of k a slice has.
        """
        rows = tile_m * tiles_at_once // consumers
        store = self.result.store_bytes(rows, tile_n, consumers)
        ring = stages * slice_rows * (tile_m + self.landed_columns(tile_n)) * PANEL_BYTES
        if self.cluster_k > 1:
            store = max(tile_m * tile_n * SUM_BYTES - ring, 0)
        elif self.partial:
            store = 0
        else:
            store = {
                "tma": store,
                "rows": row_slab_bytes(tile_n, consumers),
                "lanes": 0,
                "slab": slab_bytes(self.result.slab_columns(tile_n), consumers),
            }[self.leaves(rows, tile_n, whole_panels=store > 0)]
        store += turn_bytes(consumers, tiles_at_once)
        barriers = 16 if self.turns(stages) else 8
        return ring + stages * barriers + store

    def landed_columns(self, tile_n: int) -> int:
        """Columns of B that a slot holds: whole panels, where n is contiguous."""
        return tile_n if self.problem.b_k_major else -(-tile_n // PANEL_COLUMNS) * PANEL_COLUMNS

    def turns(self, stages: int) -> bool:
        """Whether slots of a ring are filled again; see `wgmma.Wgmma`."""
        return self.cluster_k == 1 or self.outlasts(stages)

    def outlasts(self, stages: int) -> bool:
        """Whether one tile has more slices than a ring has slots, or may have."""
        return self.problem.dynamic_k or self.slices > stages


def task_of(spec: GemmSpec, problem: Problem, machine: Machine, how: Cut = WHOLE) -> Task:
    """The task of a spec that no obstacle keeps from the family, its k cut somehow."""
    parts, together = how
    flop = 2 * problem.batch * problem.m * problem.n * problem.k
    math = flop / (machine.wgmma_rate * machine.sms)
    kind = Kind(problem.element_bytes, problem.sums == "int32", problem.promoted, problem.scaled)
    slices = -(-problem.k // (kind.tile_k * parts))
    operands = compulsory_bytes(problem)
    once = operands / machine.dram_rate
    out = output_bytes(problem if together else cut(problem, parts)) / machine.dram_rate
    busy = math / max(math, once + out, 1.0)  # part of the time, at most, that tensor cores work
    most, half = (INTEGER_HEAT, INTEGER_HEAT_US) if kind.integers else (HEAT, HEAT_US)
    return Task(
        problem=problem,
        kind=kind,
        machine=machine,
        parts=parts,
        units=problem.batch * parts,
        cluster_k=how.cluster_k,
        slices=slices,
        heat=1 + most * math / (math + half * machine.clock_mhz) * busy,
        once=once,
        out=out,
        tma_store=parts == 1 and spec.norm is None and store_of(spec, PANEL_BYTES) == "tma",
        sums_leave=(
            sums_leave(spec, machine.l2_bytes) if parts == 1 and spec.norm is None else "slab"
        ),
        # What the special function units do is half hidden behind what moves the element.
        fits=operands + output_bytes(problem) <= machine.l2_bytes,
        outlast=max((out - math) / max(once + out, 1.0), 0.0),
        reads=min(once / max(once + out, 1.0) / MOSTLY, 1.0),
        sparse=max(1 - MANY * once / max(out, 1.0), 0.0) if slices == 1 else 0.0,
        step_clocks=max(problem.step_issue, problem.step_special - (FINISH_OWN + FINISH_TMA) / 2),
    )
