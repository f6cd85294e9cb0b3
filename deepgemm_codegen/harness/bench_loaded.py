"""One kernel on the GPU beside cuBLAS: its operand sets, and functions that launch each side.

See `Loaded`; the operands are random, and every set of them lies in its own memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.bench_call import call_of, fused_call_of, no_plain_product
from deepgemm_codegen.harness.bench_check import Sample, check_rows, pick_sample, stray
from deepgemm_codegen.harness.bench_cublas import HEURISTICS
from deepgemm_codegen.harness.bench_data import CUBLAS, CUBLASLT, FUSED, PLAIN, WRITING, Rival
from deepgemm_codegen.harness.bench_stats import WARM_SECONDS, work_of
from deepgemm_codegen.harness.bench_words import choice_of
from deepgemm_codegen.harness.device import LaunchFailedError
from deepgemm_codegen.harness.gpu import launch_arguments, pointer_tables
from deepgemm_codegen.harness.inputs import Factors, Normal
from deepgemm_codegen.harness.launching import launch_kernel
from deepgemm_codegen.harness.numbers import bits_dtype, encode, poison
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec.block_scales import SCALES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from deepgemm_codegen.harness.bench_call import Call
    from deepgemm_codegen.harness.bench_check import Rows
    from deepgemm_codegen.harness.bench_data import Entry, Side
    from deepgemm_codegen.harness.bench_stream import GpuStream
    from deepgemm_codegen.harness.matrix import Matrix
    from deepgemm_codegen.harness.problem import Problem

__all__ = ["LoadedKernel"]

ALIGN = 256
"""Bytes that every set of an operand starts at: what cudaMalloc gives."""

_CHUNK = 1 << 24
"""Elements of random data made at a time."""

LT_REPLAYS = 3
"""Short replays that choose among cublasLt's algorithms, or kernels that write, before the best is
timed like any side."""

LT_WARM_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _Sets:
    """One operand's sets, one after the other.

    Attributes:
        matrix: the operand.
        bits: all sets, from an aligned base on.
        step: elements from set to set.
    """

    matrix: Matrix
    bits: Any
    step: int

    @classmethod
    def empty(cls, cupy: Any, matrix: Matrix, count: int) -> _Sets:
        """Room for some sets, each aligned as cudaMalloc does, or better where that is promised."""
        size, align = matrix.dtype.bytes, max(ALIGN, matrix.align)
        step = -(-max(matrix.elements, 1) * size // align) * align // size
        store = cupy.empty(step * count + align // size, bits_dtype(matrix.dtype))
        first = -int(store.data.ptr) % align // size
        return cls(matrix, store[first : first + step * count], step)

    def at(self, index: int) -> int:
        """The device address of a set."""
        return int(self.bits.data.ptr) + index * self.step * self.matrix.dtype.bytes

    def first(self) -> Any:
        """The first set as flat bits."""
        return self.bits[: self.matrix.elements]


@dataclass(frozen=True, slots=True)
class _Laid:
    """A problem whose operands lie in memory.

    Attributes:
        problem: sizes and scalars.
        operands: each one's sets, by name.
        rows: those of D that are looked at.
    """

    problem: Problem
    operands: Mapping[str, _Sets]
    rows: tuple[Rows, ...]


class LoadedKernel:
    """See `Loaded`."""

    def __init__(
        self, bench: GpuStream, entry: Entry, problem: Problem, sets: int, against: str
    ) -> None:
        self._bench, self._problem, self._sets, self._against = bench, problem, sets, against
        self._cupy = bench.cupy
        self._operands = {
            matrix.name: self._random(matrix, bench.seed + number)
            for number, matrix in enumerate(problem.matrices)
        }
        self._workspaces: list[Any] = []  # they live as long as what launches into them
        self._laid = _Laid(problem, self._operands, pick_sample(problem, bench.seed))
        self._plain = entry.plain
        self.kernel = self.side(entry)

    def _random(self, matrix: Matrix, seed: int) -> _Sets:
        """Random sets of an operand; D holds poison until a kernel writes it."""
        sets = _Sets.empty(self._cupy, matrix, self._sets)
        if matrix.name in self._problem.outputs:
            sets.bits[...] = poison(matrix.dtype)
            return sets
        values = Factors(seed) if matrix.name in SCALES else Normal(seed)
        for start in range(0, sets.bits.size, _CHUNK):
            flat = self._cupy.arange(start, min(start + _CHUNK, sets.bits.size), dtype=np.int64)
            made = values.at(0, 0, flat, self._cupy)
            sets.bits[start : start + flat.size] = encode(made, matrix.dtype, self._cupy)
        return sets

    def side(self, entry: Entry) -> Side:
        """A function that launches a kernel of this problem on an operand set.

        Sweeps call it for more kernels than the one that was loaded, with the same operands.
        """
        return self._side(entry, replace(self._problem, program=entry.program), self._operands)

    def _side(self, entry: Entry, problem: Problem, operands: Mapping[str, _Sets]) -> Side:
        workspace = self._workspace(problem)
        addresses = [self._addresses(problem, operands, index) for index in range(self._sets)]
        launches = []
        for kernel in entry.program.kernels:
            function = self._bench.function(entry.cubin, kernel.name, kernel.shared_bytes)
            blocks = problem.blocks_of(kernel, self._bench.machine.sms)
            arguments = [
                launch_arguments(problem, kernel, {**workspace, **found}) for found in addresses
            ]
            launches.append((function, kernel, blocks, arguments))

        def launch(index: int) -> None:
            for function, kernel, blocks, arguments in launches:
                launch_kernel(self._cupy, function, kernel, blocks, arguments[index])

        return launch

    def _addresses(
        self, problem: Problem, operands: Mapping[str, _Sets], index: int
    ) -> dict[str, int]:
        """Where the operands of a set lie, and arrays of pointers to them."""
        found = {name: sets.at(index) for name, sets in operands.items()}
        tables = pointer_tables(self._cupy, problem, found)
        self._workspaces.extend(tables.values())
        return {**found, **{name: int(table.data.ptr) for name, table in tables.items()}}

    def _workspace(self, problem: Problem) -> dict[str, int]:
        """Addresses of the workspace's regions: one workspace, as the launches do not overlap."""
        workspace = problem.program.workspace
        if not workspace.regions:
            return {}
        size = workspace.bytes.evaluate(problem.sizes)
        store = self._cupy.empty(size + ALIGN, np.uint8)
        store[...] = 0xFF
        self._workspaces.append(store)
        start = -(-int(store.data.ptr) // ALIGN) * ALIGN
        return {r.name: start + r.offset.evaluate(problem.sizes) for r in workspace.regions}

    def check(self) -> str:
        """See `Loaded`."""
        return self.fault_of(self.kernel)

    def fault_of(self, side: Side) -> str:
        """What is wrong with a kernel's D; empty when the sampled rows are right."""
        return self._checked(side, "kernel", self._laid)

    def _checked(self, side: Side, what: Literal["kernel", "plain", "fused"], laid: _Laid) -> str:
        """What is wrong with D's first set after one launch; empty when nothing is."""
        d = laid.operands["d"]
        in_place = what == "plain" and self._problem.beta != 0.0 and "c" in self._operands
        with self._bench.errors(), self._bench.stream:
            if in_place:  # D is summed into: it must hold numbers
                d.bits[...] = 0
            else:
                d.first()[...] = poison(d.matrix.dtype)
            side(0)
            self._bench.stream.synchronize()
            bits = {name: sets.first() for name, sets in laid.operands.items()}
            sample = Sample(laid.problem, bits, laid.rows, self._cupy)
            arch = self._bench.machine.arch
            sums = self._bench.prefix_sums
            if what == "kernel":
                return check_rows(sample, arch, sums)
            return stray(sample, sums, fused=what == "fused")

    def rivals(self) -> tuple[Rival, ...]:
        """See `Loaded`."""
        if self._against == "none":
            return ()
        lack = no_plain_product(self._problem.spec)
        if lack:
            return (Rival(CUBLAS, None, lack), Rival(CUBLASLT, None, lack), *self.own_plain())
        call, fused = call_of(self._problem), fused_call_of(self._problem)
        plain = (self.cublas(call), self.cublaslt(call))
        beside = () if fused is None else (self.cublaslt(fused, FUSED),)
        return (*plain, *beside, *self.own_plain(), *self.writing())

    def own_plain(self) -> tuple[Rival, ...]:
        """Our own kernel of the plain product, where the kernel has steps beside one.

        It is held to the bound that kernels are. The note is its plan.
        """
        entry = self._plain
        if isinstance(entry, str):
            return (Rival(PLAIN, None, entry),) if entry else ()
        try:
            with self._bench.errors(), self._bench.stream:
                laid = self._plainly(entry)
                side = self._side(entry, laid.problem, laid.operands)
            fault = self._checked(side, "kernel", laid)
        except EnvironmentLackError as error:
            return (Rival(PLAIN, None, str(error)),)
        except LaunchFailedError as error:  # not of the kernel in whose row it is told
            raise LaunchFailedError(f"{PLAIN}, {entry.program.name}: {error}") from error
        if fault:
            return (Rival(PLAIN, None, f"wrong, not timed: {fault}"),)
        d = laid.problem.spec.dtype_d
        remarks = [choice_of(entry.plan)]
        remarks += [f"D in {d}"] * (d != self._problem.spec.dtype_d)
        remarks += [f"{entry.spilled} bytes spilled"] * (entry.spilled > 0)
        return (Rival(PLAIN, side, ", ".join(remarks)),)

    def _plainly(self, entry: Entry) -> _Laid:
        """The plain product on the kernel's operands; a D of another type has its own memory."""
        problem = bind(entry.program, beta=self._problem.beta)
        d = problem.matrix("d")
        mine = self._operands["d"]
        if d.dtype != mine.matrix.dtype:
            mine = _Sets.empty(self._cupy, d, self._sets)
        operands = {m.name: self._operands[m.name] for m in problem.matrices} | {"d": mine}
        return _Laid(problem, operands, pick_sample(problem, self._bench.seed))

    def writing(self) -> tuple[Rival, ...]:
        """The best of the kernels that write D's bytes alone, where they are most of the traffic.

        The ceiling of a larger region is no measure: at 268 MB an H200 writes 4.0 TB/s where it
        writes 4.7 at 2 GiB.
        """
        work = work_of(self._problem)
        if 2 * work.written <= work.bytes:
            return ()
        d = self._operands["d"]
        size = d.matrix.elements * d.matrix.dtype.bytes

        def side_of(write: Callable[[int, int], None]) -> Side:
            return lambda index: write(d.at(index), size)

        sides = [side_of(write) for write in self._bench.writers()]
        return (Rival(WRITING, sides[self._fastest(sides)], f"{size} bytes"),)

    def cublas(self, call: Call) -> Rival:
        """The default algorithm; of fp8 cublasLt's first, as cublasGemmEx multiplies none."""
        if call.float8:
            return self.cublaslt(call, CUBLAS, most=1)
        library = self._bench.cublas
        if library is None:
            return Rival(CUBLAS, None, dict(self._bench.machine.software)[CUBLAS])
        pointers = self._pointers(call)

        def side(index: int) -> None:
            library.launch(call, *pointers[index])

        return self._judged(Rival(CUBLAS, side, call.note))

    def _pointers(self, call: Call) -> list[tuple[int, ...]]:
        """Of each set those of `Call.operands`."""
        return [tuple(self._operands[n].at(i) for n in call.operands) for i in range(self._sets)]

    def _judged(self, rival: Rival) -> Rival:
        """The rival, unless it does not run or computes something else."""
        try:
            what: Literal["fused", "plain"] = "fused" if rival.name == FUSED else "plain"
            fault = self._checked(rival.side, what, self._laid)
        except EnvironmentLackError as error:
            return Rival(rival.name, None, str(error))
        return Rival(rival.name, None, f"not timed: {fault}") if fault else rival

    def cublaslt(self, call: Call, name: str = CUBLASLT, most: int = HEURISTICS) -> Rival:
        """The best of the algorithms that cublasLt's heuristic names, or of the ``most`` first."""
        library = self._bench.cublaslt
        if library is None:
            return Rival(name, None, dict(self._bench.machine.software)[CUBLASLT])
        pointers = self._pointers(call)
        try:
            prepared = library.prepare(call, pointers[0])
        except EnvironmentLackError as error:
            return Rival(name, None, str(error))

        def side_of(algorithm: int) -> Side:
            def side(index: int) -> None:
                prepared.launch(algorithm, *pointers[index])

            return side

        judged = [
            (number, self._judged(Rival(name, side_of(number))))
            for number in range(min(prepared.count, most))
        ]
        running = [(number, rival.side) for number, rival in judged if rival.side is not None]
        if not running:
            return Rival(name, None, judged[0][1].note if judged else "no algorithm")
        sides = [side for _, side in running]
        best = self._fastest(sides) if len(sides) > 1 else 0
        note = f"heuristic {running[best][0] + 1} of {prepared.count}"
        return Rival(name, sides[best], "; ".join(filter(None, (note, call.note))))

    def _fastest(self, sides: Sequence[Side]) -> int:
        """Which of some sides a short run finds the fastest."""
        launches = max(self._sets, LT_REPLAYS)
        taken = self._bench.time(
            sides, self._sets, launches, replays=LT_REPLAYS, warm_seconds=LT_WARM_SECONDS
        )
        return min(range(len(sides)), key=lambda i: sorted(taken[i])[LT_REPLAYS // 2])

    def time(
        self, sides: Sequence[Side], launches: int, warm_seconds: float = WARM_SECONDS
    ) -> list[list[float]]:
        """See `Loaded`."""
        return self._bench.time(sides, self._sets, launches, warm_seconds=warm_seconds)
