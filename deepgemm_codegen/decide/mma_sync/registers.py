"""Question: how many registers does a thread need, and how many blocks may share an SM?

``__launch_bounds__(threads, min_blocks)`` tells ptxas the cap. The estimate here must not be
under what ptxas needs to keep out of local memory; ``tests/decide`` compares the two.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from deepgemm_codegen.plan.layout import CHUNK_BYTES
from deepgemm_codegen.plan.tiles import FRAGMENT_BYTES, WARP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deepgemm_codegen.decide.operands import Travel
    from deepgemm_codegen.decide.problem import Problem
    from deepgemm_codegen.epilogue import EpilogueStep
    from deepgemm_codegen.plan.tiles import Extent, Operand

__all__ = [
    "MIN_BLOCKS",
    "accumulators_of",
    "copied_vectors",
    "fragment_buffers",
    "operand_registers",
    "register_estimate",
    "stays_rolled",
    "takes_few_passes",
]

MIN_BLOCKS = (1, 2, 3, 4, 5, 6, 7, 8)
"""Resident blocks that the tree tries to plan for, fewest first."""

FEW_TESTED = 8
"""Asynchronous vectors with a test at the matrix's edge that cost no further registers."""

FEW_SLICES = 12
"""Slices of a fixed k that compilers may unroll whole."""

LAID_OUT = 7
"""Such vectors that cost none where all slices are unrolled: with eight sm_80 spilled."""

LAID_OUT_LONG = 3
"""The same for `HOISTING` architectures, and where a warp has `MANY_SINGLE` fragments of B that are
no pairs, each loaded by itself. With four, 64x56x64 of sm_86, which needs 116 registers, took 255
and spilled 48 bytes; 128x104x64 of sm_80 spilled 64."""

HOISTING = range(86, 90)
"""Architectures for which ptxas moves more tests and addresses ahead than registers hold."""

MANY_SINGLE = 13
"""An odd number of fragments from which on their addresses leave no room for such tests; of slices
of one step any odd number: 96x112x16 by 2x2 warps of sm_80 spilled 24 bytes."""

ADDRESSING = 40
"""Registers for pointers, offsets, loop counters and predicates; read off ptxas, see above."""

BYTEWISE = 8
"""The same where bytes are transposed in registers: two orders, and words on their way."""

UNEVEN = 12
"""The same for one operand that is not copied asynchronously 16 bytes at a time."""


def accumulators_of(tile_m: int, tile_n: int, warps: int) -> int:
    """Sums a thread holds."""
    return tile_m * tile_n // (WARP * warps)


SCALING = 8
"""Registers of scales by block beside scales and factors: two pointers, the rows' tests."""

ADDED_APART, FREE_SUMS = 1 / 2, 32
"""Registers a sum beyond the first so many, where products are added apart beside fragments that
are loaded ahead: fitted to the least caps under which ptxas spilled nothing on sm_89 and sm_120, of
warp tiles of 16x32 to 64x64 with and without scales by block. Without such fragments none are
needed."""

UNPAIRED = 4
"""More where B's fragments are no pairs, so that each is loaded by itself: 128x240x32 in 4x2 warps
spilled 72 bytes under a cap of 255 with an estimate of 253."""


def fragment_buffers(tile_k: int, fragment_k: int) -> int:
    """2 where the steps of a slice alternate evenly between two fragment buffers, else 1."""
    return 2 if tile_k // fragment_k % 2 == 0 else 1


def fragment_registers(tile_m: int, tile_n: int, warps_m: int, warps_n: int) -> int:
    """Registers of one set of fragments: four a fragment of A, two a fragment of B."""
    return tile_m // warps_m // 16 * 4 + tile_n // warps_n // 8 * 2


def register_estimate(tile_m: int, tile_n: int, warps_m: int, warps_n: int) -> int:
    """Registers a thread needs in any case: sums, one set of fragments, and the rest."""
    fragments = fragment_registers(tile_m, tile_n, warps_m, warps_n)
    unpaired = UNPAIRED if tile_n // warps_n % 16 else 0
    return accumulators_of(tile_m, tile_n, warps_m * warps_n) + fragments + ADDRESSING + unpaired


def scale_registers(problem: Problem, tile_m: int, warps_m: int) -> int:
    """Registers of a slice's factors, of the scales that the next slice's are made of, and around.

    A factor for each row of the fragments and each half of a pair; scales of those rows, and one of
    each half.
    """
    if not problem.scaled:
        return 0
    rows = tile_m // warps_m // 8
    return rows * problem.halves + rows + problem.halves + SCALING


def vectors_of(
    problem: Problem, tile_m: int, tile_n: int, tile_k: int, threads: int
) -> tuple[int, int]:
    """Vectors that a thread copies of a slice of A, and of one of B."""
    slice_bytes = tile_k * problem.element_bytes
    return (
        -(-tile_m * slice_bytes // (threads * problem.a.vector_bytes)),
        -(-tile_n * slice_bytes // (threads * problem.b.vector_bytes)),
    )


def copied_vectors(
    problem: Problem, tile_m: int, tile_n: int, tile_k: int, threads: int
) -> tuple[int, int]:
    """Vectors that a thread copies a slice: (asynchronously, through registers)."""
    of_a, of_b = vectors_of(problem, tile_m, tile_n, tile_k, threads)
    held = 0
    if problem.a.mechanism == "registers":
        held += of_a
    if problem.b.mechanism == "registers":
        held += of_b
    return of_a + of_b - held, held


def operand_registers(
    problem: Problem, tile_m: int, tile_n: int, tile_k: int, warps_m: int, warps_n: int
) -> int:
    """Registers a thread needs beside them, for a slice and the operands as they lie.

    A second set of fragments where the loop prefetches them. Shared-memory addresses: one a
    fragment set where k is contiguous, else one a fragment of A or pair of fragments of B. A copy
    through registers holds the next slice meanwhile: a vector of two bytes takes a register of
    its own, and each vector's test half of another. Asynchronous vectors beyond a few that are
    tested against the matrix's edge have addresses that ptxas keeps.
    """
    of_a, of_b = vectors_of(problem, tile_m, tile_n, tile_k, WARP * warps_m * warps_n)
    columns = tile_n // warps_n // 8
    steps = tile_k // problem.fragment_k
    total = scale_registers(problem, tile_m, warps_m)
    apart = problem.promoted and steps > 1
    if apart:
        sums = accumulators_of(tile_m, tile_n, warps_m * warps_n)
        total += ceil(ADDED_APART * max(sums - FREE_SUMS, 0))
    total += steps if problem.a_k_major else tile_m // warps_m // 16
    if problem.b_k_major:
        total += steps
    else:
        total += columns if columns % 2 else columns // 2
    if problem.element_bytes == 1 and not (problem.a_k_major and problem.b_k_major):
        total += BYTEWISE
    if apart or steps % 2 == 0:  # where products are paced, ptxas loads an odd step's ahead, too
        total += fragment_registers(tile_m, tile_n, warps_m, warps_n)
    k_tail = problem.dynamic_k or problem.k % tile_k > 0
    m_tail = problem.dynamic_m or problem.m % tile_m > 0
    n_tail = problem.dynamic_n or problem.n % tile_n > 0
    held_a, tested_a = _copy_registers(problem.a, of_a, tail=k_tail or m_tail)
    held_b, tested_b = _copy_registers(problem.b, of_b, tail=k_tail or n_tail)
    return total + held_a + held_b + 3 * max(tested_a + tested_b - FEW_TESTED, 0)


def stays_rolled(
    operands: Iterable[Operand], k: Extent, fragments_n: int, arch: int, *, promoted: bool
) -> bool:
    """Whether the loop over slices must not be unrolled, as compilers do where slices are few.

    All slices' tests would be made before the first, and their results kept: 96x64x64 by two warps
    at m = 4096, k = 320 then takes more than 255 registers, where one slice at a time takes 226.
    Where vectors are untested or few it takes none more, and runs up to 1 % faster unrolled; but
    where products are added apart: 128x96x32 by four warps, k = 144, then spilled 984 bytes.

    Args:
        operands: A and B.
        k: of the product.
        fragments_n: fragments of B of a warp tile, eight columns each.
        arch: the architecture's number, such as 86.
        promoted: whether products are added apart.
    """
    operands = tuple(operands)
    tested = sum(o.vectors for o in operands if o.in_flight and o.tail)
    one_step = k.tile * operands[0].dtype.bytes == FRAGMENT_BYTES
    single = fragments_n % 2 == 1 and (one_step or fragments_n >= MANY_SINGLE)
    most = LAID_OUT_LONG if single or arch in HOISTING else LAID_OUT
    few = k.part_tiles is not None and k.part_tiles[1] <= FEW_SLICES
    return few and (promoted or tested > most)


def takes_few_passes(steps: Iterable[EpilogueStep], vector: int, *, dynamic: bool) -> bool:
    """Whether threads go through some of a slab's passes at a time, and not all.

    Where D leaves an element at a time, each with a polynomial and a test of its own, a slab has 32
    passes: 128x128x32 of int8 with gelu spilled 544 bytes beside its sums, and takes 192 registers
    with four at a time.

    Args:
        steps: those that this kernel takes.
        vector: elements of D that a lane stores at a time.
        dynamic: whether D's rows or columns are counted at run time.
    """
    return vector == 1 and dynamic and any(step.definition.instructions for step in steps)


def _copy_registers(travel: Travel, vectors: int, *, tail: bool) -> tuple[int, int]:
    """(registers of an operand's vectors on their way, those of them that a test may leave out).

    Only asynchronous ones count as tested: what passes through registers has its test with it.
    """
    width = travel.vector_bytes
    if travel.mechanism == "registers":
        return UNEVEN + vectors * max(width // 4, 1) + vectors // 2, 0
    return 0 if width == CHUNK_BYTES else UNEVEN + vectors, vectors if tail else 0
