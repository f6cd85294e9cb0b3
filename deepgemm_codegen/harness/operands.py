"""A launch's memory on the emulator: operands, workspace, tensor maps, scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator import GlobalBuffer, PointerTable, TensorMap
from deepgemm_codegen.harness.memory import HUGE, Paged, fill, untouched
from deepgemm_codegen.harness.numbers import bits_dtype, poison
from deepgemm_codegen.plan.repack import PACKED
from deepgemm_codegen.plan.workspace import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.harness.inputs import Inputs
    from deepgemm_codegen.harness.matrix import Matrix
    from deepgemm_codegen.harness.problem import Problem
    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.plan.signature import Parameter

__all__ = ["LaunchMemory"]

SMALL = 1 << 17
"""Operands up to this many elements are computed whole."""

WIDEST = 16
"""Bytes that an instruction moves at most, and so the widest alignment that it asks for."""

ADDRESS_STEP = 4096
"""A buffer's address misses a multiple of this by its promised alignment (the emulator's rule), or
by a multiple of that below `WIDEST`: kernels may look at the address and take other ways."""


class LaunchMemory:
    """Buffers of one launch of a program: its kernels meet the same ones.

    Args:
        problem: the program with its sizes.
        inputs: operand values; a name that is missing passes a null pointer.
        outputs: bits of D, and of what steps store, by name; written in place.
        in_place: whether D is C's buffer.
        aligned: whether operands start where an allocation would, instead of at the address that
            the inputs say, of those that the spec allows.
        whole: whether all blocks run. Where some do, those of a later kernel may read what blocks
            that did not run would have written, for elements that nobody looks at.
    """

    def __init__(
        self,
        problem: Problem,
        inputs: Inputs,
        outputs: Mapping[str, Any],
        *,
        in_place: bool,
        aligned: bool,
        whole: bool,
    ) -> None:
        self._problem, self._inputs = problem, inputs
        self._aligned, self._whole = aligned, whole
        self._regions = {region.name for region in problem.program.workspace.regions}
        self._buffers: dict[str, GlobalBuffer] = {
            name: self._place(problem.matrix(name), bits, writable=True)
            for name, bits in outputs.items()
        }
        if in_place:
            self._buffers["c"] = self._buffers["d"]

    def argument(self, kernel: KernelPlan, parameter: Parameter) -> Any:
        """What a kernel gets for a parameter; null for an operand that the inputs leave out."""
        if parameter.role == "map":
            return self._tensor_map(kernel, parameter.name)
        if not parameter.pointer:
            return self._problem.scalar(parameter)
        name = parameter.name
        if name not in self._buffers:
            if parameter.role == "region":
                self._buffers[name] = self._region(name)
            elif name in self._inputs.values:
                self._buffers[name] = self._operand(name)
            else:
                return 0
        if parameter.array:
            matrix, buffer = self._problem.matrix(name), self._buffers[name]
            size = matrix.dtype.bytes
            return PointerTable(
                parameter.symbol, tuple(buffer.at(start * size) for start in matrix.starts)
            )
        return self._buffers[name]

    def _region(self, name: str) -> GlobalBuffer:
        """A region of the workspace, full of NaN: no byte may be read that was not written.

        As the emulator keeps its bounds, no region can reach into another.
        """
        region = self._problem.program.workspace.region(name)
        count = self._problem.region_bytes(name) // region.dtype.bytes
        what = f"{self._problem}: the workspace's region {name}"
        bits = untouched(count, bits_dtype(region.dtype), what)
        if count <= HUGE:
            bits[...] = poison(region.dtype)
        marked = count <= HUGE and (self._whole or name in PACKED.values())
        unwritten = np.ones(bits.nbytes, bool) if marked else None
        return GlobalBuffer(
            name, bits, writable=True, misalign=ALIGNMENT % ADDRESS_STEP, unwritten=unwritten
        )

    def _tensor_map(self, kernel: KernelPlan, name: str) -> TensorMap:
        """A tensor map as the host would encode it.

        It cannot describe a null pointer: an operand that may not be read is there, all poison.
        """
        problem = self._problem
        described = next(m for m in kernel.tensor_maps if m.name == name)
        pointer = described.pointer
        if pointer not in self._buffers and pointer in self._regions:
            self._buffers[pointer] = self._region(pointer)
        if pointer not in self._buffers:
            matrix = problem.matrix(pointer)
            if pointer in self._inputs.values:
                buffer = self._operand(pointer)
            else:
                buffer = self._place(matrix, _Poison(matrix.elements * matrix.dtype.bytes))
            self._buffers[pointer] = buffer
        size = described.dtype.bytes
        sizes = {**problem.sizes, **{f"ld{m.name}": m.leading for m in problem.matrices}}
        return TensorMap(
            buffer=self._buffers[pointer],
            element_bytes=size,
            # A dimension of zero is no map; such a kernel copies nothing, so one serves.
            sizes=tuple(max(each.evaluate(sizes), 1) for each in described.sizes),
            strides_bytes=tuple(each.evaluate(sizes) * size or 16 for each in described.strides),
            box=described.box,
            swizzle_bytes=described.swizzle_bytes,
        )

    def _place(self, matrix: Matrix, data: Any, *, writable: bool = False) -> GlobalBuffer:
        misalign = 0 if self._aligned else matrix.align % ADDRESS_STEP
        if 0 < misalign < WIDEST:
            misalign = (self._inputs.shift + 1) * misalign % WIDEST
        return GlobalBuffer(matrix.name, data, writable, misalign=misalign)

    def _operand(self, name: str) -> GlobalBuffer:
        matrix = self._problem.matrix(name)
        if matrix.elements <= SMALL:
            bits = np.empty(matrix.elements, bits_dtype(matrix.dtype))
            fill(matrix, self._inputs, bits, np)
            return self._place(matrix, bits)
        along_row = matrix.transposed == (name == "b")
        return self._place(matrix, Paged(matrix, self._inputs, 1 if along_row else matrix.leading))


class _Poison:
    """Bytes that are NaN wherever they are read."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def read(self, offsets: Any, width: int) -> Any:
        """See `emulator.LazyArray`."""
        return np.full((len(offsets), width), 0xFF, dtype=np.uint8)
