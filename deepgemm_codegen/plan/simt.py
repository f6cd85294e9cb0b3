"""The CUDA-core family's body, and how A and B travel: one by one where k has to turn round.

Shared memory holds a slice as fp32, k by k: all of a tile's rows (or columns) of one k, then of
the next. Threads read four neighbours at a time, whatever the operand's layout was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deepgemm_codegen.plan.tiles import WARP, Extent, MatrixOperand

__all__ = [
    "LANES_M",
    "LANES_N",
    "PAD",
    "QUAD",
    "TURNED_FROM",
    "Simt",
    "SimtOperand",
    "turned_among",
]

LANES_M, LANES_N = 4, 8
"""How the lanes of a warp share its tile."""

QUAD = 4
"""Neighbouring rows or columns that a lane reads at a time: 16 bytes."""

PAD = 4
"""Floats between one k and the next where k is contiguous in memory: eight k then lie in different
banks, four rows in each; of quads of k two, eight rows in each."""

TURNED_FROM = 8
"""Elements of k in a slice up to which no bank is met twice with rows in their order."""


def turned_among(elements: int) -> int:
    """Rows among which threads of longer slices exchange theirs, for vectors of so many k."""
    return 16 if elements == QUAD else 4


@dataclass(frozen=True, slots=True)
class SimtOperand(MatrixOperand):
    """One operand's way into shared memory.

    Attributes:
        vector_bytes: bytes that one thread reads at a time; where k is contiguous an element, or
            four on their way through registers.
        mechanism: ``cp_async`` (fp32 only), or ``registers`` (load, convert, store).
        threads: threads of the block, all of which copy.
    """

    vector_bytes: int
    mechanism: Literal["cp_async", "registers"]
    threads: int

    @property
    def in_flight(self) -> bool:
        """Whether the copy is asynchronous."""
        return self.mechanism == "cp_async"

    @property
    def elements(self) -> int:
        """Elements of one vector."""
        return self.vector_bytes // self.dtype.bytes

    @property
    def row_vectors(self) -> int:
        """Vectors of one stored row of the tile."""
        return self.columns.tile // self.elements

    @property
    def pass_rows(self) -> int:
        """Stored rows that the block copies when every thread copies one vector."""
        return self.threads // self.row_vectors

    @property
    def vectors(self) -> int:
        """Vectors that a thread copies a slice."""
        return -(-self.rows.tile // self.pass_rows)

    @property
    def ragged_pass(self) -> bool:
        """Whether some threads have no row in the last pass."""
        return self.rows.tile % self.pass_rows != 0

    @property
    def pitch(self) -> int:
        """Floats from one k to the next in shared memory."""
        return self.rows.tile + PAD if self.k_major else self.columns.tile

    @property
    def bytes(self) -> int:
        """Bytes of one stage's tile in shared memory."""
        depth = self.columns.tile if self.k_major else self.rows.tile
        return self.pitch * depth * 4

    @property
    def turned_rows(self) -> bool:
        """Whether threads of the second eight k copy other rows, so that no bank is met twice."""
        return self.k_major and self.columns.tile > TURNED_FROM

    @property
    def turned_by(self) -> int:
        """How far apart the rows are that they exchange."""
        return turned_among(self.elements) // 2

    @property
    def slot_start(self) -> str:
        """C expression of where the slice starts in a slot, to be added before another."""
        return "" if self.name == "a" else "A_BYTES + "

    @property
    def first_row(self) -> str:
        """C expression of the stored row of a thread's first vector, in the block's first slice."""
        origin = self._first(self.rows)
        return f"({origin} + {self.name}_row)" if origin else f"{self.name}_row"

    @property
    def first_column(self) -> str:
        """The same of the first element in its row."""
        origin = self._first(self.columns)
        return f"{origin} + {self.name}_column" if origin else f"{self.name}_column"

    @staticmethod
    def _first(extent: Extent) -> str:
        """C expression of the tile's first element along an extent, or of its first slice."""
        return "" if extent.role == "k" else f"{extent.role}0"

    @property
    def slice_step(self) -> str:
        """C expression of the elements in memory from one slice to the next."""
        return "TILE_K" if self.k_major else f"TILE_K * {self.leading_symbol}"

    @property
    def pass_step(self) -> str:
        """C expression of the bytes in shared memory from one pass of the copy to the next."""
        step = (
            f"{self.role}_PASS_ROWS * 4"
            if self.k_major
            else f"{self.role}_PASS_ROWS * {self.role}_PITCH * 4"
        )
        return f"({step})"


@dataclass(frozen=True, slots=True)
class Simt:
    """A block tile computed in fp32 on the CUDA cores: k by k, one fused multiply-add a product.

    Each thread sums its rows and columns of the warp tile, four neighbours at a time, in the order
    of k.

    Attributes:
        tile_m, tile_n, tile_k: elements of the block tile.
        warps_m, warps_n: warps along m and n.
        stages: ring slots in shared memory.
        min_blocks: resident blocks a multiprocessor that the register cap allows for.
        a, b: the operands by role.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    min_blocks: int
    a: SimtOperand
    b: SimtOperand

    @property
    def role(self) -> str:
        """What the kernel is in a program of several."""
        return "product"

    @property
    def template(self) -> str:
        """Path of the template below ``templates/``."""
        return "kernels/simt.cu.j2"

    @property
    def operands(self) -> tuple[SimtOperand, SimtOperand]:
        """Both operands, A first."""
        return (self.a, self.b)

    @property
    def any_in_flight(self) -> bool:
        """Whether any operand is copied by cp.async."""
        return self.a.in_flight or self.b.in_flight

    @property
    def operands_in_registers(self) -> tuple[SimtOperand, ...]:
        """The operands that pass through registers on their way to shared memory."""
        return tuple(operand for operand in self.operands if not operand.in_flight)

    @property
    def copy_steps(self) -> str:
        """C expression of a slice's steps that start a later one's copies.

        Half of them where the others end copies through registers, and where addresses or tests
        are kept for each vector, for which more steps have no registers.
        """
        plain = all(o.in_flight and not o.tail and not o.rows.both for o in self.operands)
        return "TILE_K - 1" if plain else "TILE_K / 2"

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return WARP * self.warps_m * self.warps_n

    @property
    def stage_bytes(self) -> int:
        """Bytes of one ring slot."""
        return self.a.bytes + self.b.bytes

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return self.stages * self.stage_bytes
