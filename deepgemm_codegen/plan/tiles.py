"""What a plan says about one dimension, one operand, and the output.

Names (``M``, ``LDA``, the argument ``b``) are the caller's; roles (`Extent.role`,
`Operand.name`) are the plan's, see `deepgemm_codegen.plan.program`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from deepgemm_codegen.plan.expressions import Expression, Number, Variable, times
from deepgemm_codegen.spec.batching import DENSE, POINTERS

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.spec.batching import Stride

__all__ = [
    "FRAGMENT_BYTES",
    "PARTIALS",
    "WARP",
    "Extent",
    "MatrixOperand",
    "Operand",
    "Output",
    "first_of",
]

WARP = 32
"""Threads of a warp."""

FRAGMENT_BYTES = 32
"""Bytes of k that one set of fragments covers, on every architecture."""

PARTIALS = "partials"
"""The workspace's region of partial sums: of each product and each part of k a matrix as large as
D, or one of each half of B, of the type that products are summed in, row-major, its rows on 16
bytes."""


def first_of(source: str, stride: Stride, dense: str) -> str:
    """C expression of where the matrix of the product ``batch`` begins.

    Args:
        source: the caller's argument.
        stride: from one product's matrix to the next's.
        dense: elements in C of a matrix, for those that follow each other.
    """
    if stride == POINTERS:
        return f"{source}_of[batch]"
    apart = dense if stride == DENSE else f"STRIDE_{source.upper()}"
    return f"{source} + batch * {apart}"


_VECTOR_TYPES = {16: "uint4", 8: "uint2", 4: "u32", 2: "ushort1"}


@dataclass(frozen=True, slots=True)
class Extent:
    """A dimension in a plan.

    Attributes:
        role: ``m``, ``n`` or ``k`` of the tile.
        name: the caller's ``M``, ``N`` or ``K``, the generated constant; its lower case is the
            argument of a dynamic one.
        size: the fixed size, or the size a dynamic one is planned for.
        dynamic: whether the kernel takes it as an argument.
        tile: elements of it that a block covers.
        cluster: blocks of a cluster along it.
        split: parts that k is cut into, each summed by a block of its own (split-K).
        halves: columns of B that make one of D, of D's columns and of B's.
        both: whether these are B's columns, where it has more than D.
    """

    role: Literal["m", "n", "k"]
    name: str
    size: int
    dynamic: bool
    tile: int
    cluster: int = 1
    split: int = 1
    halves: int = 1
    both: bool = False

    @property
    def argument(self) -> str:
        """The argument that holds a dynamic one: ``m``, ``n`` or ``k`` of the caller."""
        return self.name.lower()

    @property
    def symbol(self) -> str:
        """How the kernel's code names it: ``M`` or ``m``; ``2 * N`` for columns of both halves."""
        name = self.argument if self.dynamic else self.name
        return f"{self.halves} * {name}" if self.both else name

    @property
    def expression(self) -> Expression:
        """The size over the dynamic dimensions' names."""
        if not self.dynamic:
            return Number(self.size)
        argument = Variable(self.argument)
        return times(Number(self.halves), argument) if self.both else argument

    @property
    def tail(self) -> bool:
        """Whether the last tile may be partial or missing, so that guards are printed."""
        return self.dynamic or self.size % (self.tile * self.cluster) != 0

    @property
    def tiles(self) -> int:
        """Tiles along this dimension at the planned size."""
        return -(-self.size // self.tile)

    @property
    def part_tiles(self) -> tuple[int, int] | None:
        """(fewest, most) tiles of a part along k; None where only the launch tells."""
        return None if self.dynamic else (self.tiles // self.split, -(-self.tiles // self.split))

    @property
    def empty_parts(self) -> int:
        """Parts of k without a slice: a user may ask for more than there are. A whole k is none."""
        return max(self.split - self.tiles, 0) if self.split > 1 and not self.dynamic else 0

    @property
    def tile_constant(self) -> str:
        """``TILE_M``, ``TILE_N`` or ``TILE_K``; ``TILE_D`` for D's columns where B has more."""
        return "TILE_D" if self.halves > 1 and not self.both else f"TILE_{self.role.upper()}"

    @property
    def count_constant(self) -> str:
        """``TILES_M``, ``TILES_N`` or ``SLICES``."""
        return "SLICES" if self.role == "k" else f"TILES_{self.role.upper()}"

    @property
    def count_symbol(self) -> str:
        """How the kernel's code names the count: the constant, or a variable in lower case."""
        return self.count_constant.lower() if self.dynamic else self.count_constant

    @property
    def own_count_symbol(self) -> str:
        """The same for what one block walks: of a k that is cut, the slices of its part."""
        return "own_slices" if self.split > 1 else self.count_symbol

    @property
    def origin(self) -> str:
        """C expression of the first element of the block's tile, or of the slice."""
        if self.role != "k":
            return f"{self.role}0"
        return "k0 + slice * TILE_K" if self.split > 1 else "slice * TILE_K"


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """A or B in a plan, however it travels.

    Attributes:
        name: ``a`` or ``b``, its role in the plan; `source` is the caller's letter.
        source: ``a`` or ``b``, the caller's operand that plays the role, or the region of the
            workspace that holds its copy.
        dtype: element type.
        major: ``k`` when k is contiguous in memory, ``mn`` when m or n is.
        leading: leading dimension in elements; None when it is the dynamic argument
            ``ld<source>``.
        rows: the extent across the rows of the stored matrix.
        columns: the contiguous extent.
    """

    name: Literal["a", "b"]
    source: str
    dtype: DType
    major: Literal["k", "mn"]
    leading: int | None
    rows: Extent
    columns: Extent

    @property
    def role(self) -> str:
        """``A`` or ``B``: the prefix of the operand's generated constants."""
        return self.name.upper()

    @property
    def k_major(self) -> bool:
        """Whether k is contiguous."""
        return self.major == "k"

    @property
    def leading_symbol(self) -> str:
        """The generated constant or argument that holds the leading dimension."""
        return f"ld{self.source}" if self.leading is None else f"LD{self.source.upper()}"

    @property
    def bytewise(self) -> bool:
        """Whether fragments want k of a byte each from an operand with m or n contiguous.

        ldmatrix transposes pairs of bytes only, so the kernel turns them round in registers.
        """
        return not self.k_major and self.dtype.bytes == 1

    @property
    def paired(self) -> bool:
        """Whether its columns are two halves, of which each tile takes from both."""
        return self.rows.both or self.columns.both

    @property
    def bytes_left(self) -> str:
        """C expression of the bytes that a vector takes of ``left`` elements."""
        if self.dtype.bytes == 1:
            return f"min(max(left, 0), static_cast<int>({self.role}_VECTOR))"
        size = self.dtype.bytes
        return f"min(max(left, 0), {self.role}_VECTOR / {size}) * {size}"

    @property
    def row_tail(self) -> bool:
        """Whether the copy must test that a row exists."""
        return self.rows.tail

    @property
    def column_tail(self) -> bool:
        """Whether the copy must test how much of a row exists."""
        return self.columns.tail

    @property
    def tail(self) -> bool:
        """Whether any test is printed in the copy."""
        return self.row_tail or self.column_tail

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of the tile."""
        return self.columns.tile * self.dtype.bytes

    @property
    def bytes(self) -> int:
        """Bytes of one stage's tile."""
        return self.rows.tile * self.row_bytes


@dataclass(frozen=True, slots=True)
class Operand(MatrixOperand):
    """How A or B travels through the threads: global memory, shared memory, fragments.

    Attributes:
        vector_bytes: bytes that one thread copies at a time.
        mechanism: ``cp_async`` from global to shared memory in flight, or ``registers`` (load,
            then store), for 2-byte vectors and for architectures without cp.async.
        swizzle_bytes: panel width in shared memory, see `deepgemm_codegen.plan.layout`.
        threads: threads of the block, all of which copy.
    """

    vector_bytes: int
    mechanism: Literal["cp_async", "registers"]
    swizzle_bytes: int
    threads: int

    @property
    def in_flight(self) -> bool:
        """Whether the copy is asynchronous."""
        return self.mechanism == "cp_async"

    @property
    def vector_type(self) -> str:
        """C type of one copied vector."""
        if self.vector_bytes == self.dtype.bytes:
            return self.dtype.name
        return _VECTOR_TYPES[self.vector_bytes]

    @property
    def column_symbol(self) -> str:
        """C expression of where this thread's vector of a panel starts in the row, in elements."""
        start = f"{self.name}_byte + panel * {self.role}_SWIZZLE"
        return start if self.dtype.bytes == 1 else f"({start}) / {self.dtype.bytes}"

    @property
    def first_column_symbol(self) -> str:
        """The same of the first panel."""
        size = self.dtype.bytes
        return f"{self.name}_byte" if size == 1 else f"{self.name}_byte / {size}"

    @property
    def panel_columns_symbol(self) -> str:
        """C expression of the elements from panel to panel of a row."""
        size = self.dtype.bytes
        return f"{self.role}_SWIZZLE" if size == 1 else f"({self.role}_SWIZZLE / {size})"

    @property
    def stepped(self) -> bool:
        """Whether a thread's vectors are found from its first one: ptxas then keeps one pointer."""
        return self.in_flight and not self.paired

    @property
    def panels(self) -> int:
        """Panels that a row is cut into."""
        return self.row_bytes // self.swizzle_bytes

    @property
    def panel_bytes(self) -> int:
        """Bytes of one panel."""
        return self.rows.tile * self.swizzle_bytes

    @property
    def pass_bytes(self) -> int:
        """Bytes that the block copies when every thread copies one vector."""
        return self.threads * self.vector_bytes

    @property
    def pass_rows(self) -> int:
        """Rows of a panel that one pass fills."""
        return self.pass_bytes // self.swizzle_bytes

    @property
    def passes(self) -> int:
        """Passes that fill one panel."""
        return -(-self.rows.tile // self.pass_rows)

    @property
    def ragged_pass(self) -> bool:
        """Whether some threads have no row in the last pass."""
        return self.rows.tile % self.pass_rows != 0

    @property
    def vectors(self) -> int:
        """Vectors that a thread copies a slice."""
        return self.passes * self.panels


@dataclass(frozen=True, slots=True)
class Output:
    """How D is written, and C read where there is one.

    Attributes:
        dtype, leading: of D; ``leading`` is None when it is the argument ``ldd``.
        c_dtype, c_leading: of C; ``c_dtype`` is None without C.
        vector: elements that a lane stores at a time (4, 2 or 1).
        warp_n: columns of the warp tile.
        partial: whether it is no D yet: sums of one part of k, for another kernel to add up.
        halves: columns of the slab that make one of D.
        saturates: whether an 8-bit float is at most the largest finite number.
        pointer: what it is written through: the caller's ``d``, or a region of the workspace.
        c_pointer: what C is read through, likewise.
    """

    dtype: DType
    leading: int | None
    c_dtype: DType | None
    c_leading: int | None
    vector: int
    warp_n: int
    partial: bool = False
    saturates: bool = True
    halves: int = 1
    pointer: str = "d"
    c_pointer: str = "c"

    @property
    def overflows_to_nan(self) -> bool:
        """Whether what is beyond D's range becomes NaN, since its type has no infinity."""
        return not self.saturates and not self.dtype.infinite

    @property
    def leading_symbol(self) -> str:
        """``LDD`` or ``ldd``; of partial sums ``LDP``; of other regions such as ``LDD_TURNED``."""
        name = "ldp" if self.partial else f"ld{self.pointer}"
        return name if self.leading is None else name.upper()

    @property
    def c_leading_symbol(self) -> str:
        """``LDC`` or ``ldc``, or that of the region that stands for C."""
        name = f"ld{self.c_pointer}"
        return name if self.c_leading is None else name.upper()

    @property
    def halved(self) -> str:
        """``2 * `` before a matrix of partial sums where each half of B makes one."""
        return f"{self.halves} * " if self.halves > 1 else ""

    @property
    def vectors_per_row(self) -> int:
        """Vectors of D in one row of the warp's slab."""
        return self.warp_n // self.halves // self.vector

    @property
    def lanes_per_row(self) -> int:
        """Lanes that store one row: the largest divisor of the row's vectors up to a warp."""
        vectors = self.vectors_per_row
        return next(lanes for lanes in range(WARP, 0, -1) if vectors % lanes == 0)

    @property
    def rows_per_pass(self) -> int:
        """Rows that a warp stores at a time: a power of two up to 16."""
        rows, lanes = 16, self.lanes_per_row
        while rows * lanes > WARP:
            rows //= 2
        return rows

    @property
    def active_lanes(self) -> int:
        """Lanes that store; below a warp the others skip."""
        return self.rows_per_pass * self.lanes_per_row
