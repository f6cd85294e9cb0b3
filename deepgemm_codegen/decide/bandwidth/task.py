"""A problem as the bandwidth family sees it: what the spec fixes for every candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.bandwidth.sides import sides_of
from deepgemm_codegen.decide.prediction import output_bytes
from deepgemm_codegen.decide.schedule import compulsory_bytes
from deepgemm_codegen.plan.bandwidth import FRAGMENT_LONG, WARP_K, shared_bytes

if TYPE_CHECKING:
    from deepgemm_codegen.arch import Arch
    from deepgemm_codegen.decide.bandwidth.sides import Sides
    from deepgemm_codegen.decide.family import Setting
    from deepgemm_codegen.decide.machine import Machine
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.plan.bandwidth import RingPlace
    from deepgemm_codegen.spec import GemmSpec

__all__ = ["Task", "task_of"]

LAUNCH_US = 1.7
"""Launch, the first read from cold memory and the last write. 1x1x1 takes 1.85 us."""

STREAM = 1.04
"""Bytes that streams of whole lines get, over the plain read that `Machine.dram_rate` is."""

VECTOR_BYTES = 16
"""Bytes of a lane's copy to shared memory, past the L1."""

ENOUGH = 3.2
"""Bytes in flight, over those of Little's law, that are enough."""


class Task(NamedTuple):
    """What every candidate of one problem shares.

    Attributes:
        problem: in the plan's roles.
        machine: where.
        sides: D's sides and how the operands along them travel.
        short, long: D's extents along them.
        memory: clocks in which device memory moves all operands and D once.
        launch: clocks that a kernel takes beside what its operands' size asks for.
        enough: bytes on their way to a multiprocessor that keep device memory busy.
        own_slots: why no ring in shared memory serves; empty where one may.
    """

    problem: Problem
    machine: Machine
    sides: Sides
    short: int
    long: int
    memory: float
    launch: float
    enough: float
    own_slots: str

    @property
    def warp_k(self) -> int:
        """Elements of k in a warp's part of a slice."""
        return WARP_K["k" if self.sides.long_lanes.k_major else "mn"]

    @property
    def short_rows(self) -> int:
        """Rows of the short side in a lane: one, two or four."""
        return self.sides.tile // 8

    @property
    def instructions(self) -> int:
        """That hold the short side: 16 rows each."""
        return -(-self.short_rows // 2)

    def tiles(self, long_tile: int) -> int:
        """Blocks of a grid."""
        return self.problem.batch * -(-self.long // long_tile)

    def slot_words(self, fragments: int) -> tuple[int, int]:
        """32-bit registers of a lane that a slice of the (long, short) operand takes."""
        words = self.warp_k // 8
        return fragments * FRAGMENT_LONG * self.warp_k // 64, self.short_rows * words

    def shared_bytes(
        self, fragments: int, warps_long: int, warps_k: int, stages: int, ring: RingPlace
    ) -> int:
        """Dynamic shared memory of a block; see `bandwidth.shared_bytes`."""
        return shared_bytes(self.sides.tile, fragments, warps_long, warps_k, stages, ring)

    def long_bytes(self, long_tile: int) -> int:
        """Bytes of the long operand that a block reads."""
        return min(long_tile, self.long) * self.problem.k * self.problem.element_bytes

    def slices(self, warps_k: int) -> int:
        """Slices of k, the partial one included."""
        return -(-self.problem.k // (self.warp_k * warps_k))


def task_of(setting: Setting) -> Task | None:
    """The task of a spec; None when neither side of its D is short."""
    spec, _, problem, machine = setting
    sides = sides_of(spec)
    if sides is None:
        return None
    short, long = problem.m, problem.n
    if sides.short == "n":
        short, long = long, short
    moved = compulsory_bytes(problem) + output_bytes(problem)
    return Task(
        problem=problem,
        machine=machine,
        sides=sides,
        short=short,
        long=long,
        memory=moved / (STREAM * machine.dram_rate),
        launch=LAUNCH_US * machine.clock_mhz,
        enough=ENOUGH * machine.dram_rate / machine.sms * machine.loaded_latency,
        own_slots=own_slots(spec, setting.arch, sides),
    )


def own_slots(spec: GemmSpec, arch: Arch, sides: Sides) -> str:
    """See `Task.own_slots`."""
    if not arch.cp_async:
        return f"{arch.name} copies nothing to shared memory by itself"
    if spec.k.dynamic:
        return "k is known only at run time"
    for lanes in (sides.long_lanes, sides.short_lanes):
        if not lanes.k_major:
            return "k is not contiguous in both operands"
        if lanes.vector * spec.dtype_a.bytes != VECTOR_BYTES or lanes.checked:
            return f"a lane loads no {VECTOR_BYTES} bytes at a time: {lanes.limit}"
    return ""
