"""What the writing of D costs a wgmma kernel, beside what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.wgmma.consumer import FRAGMENT_M
from deepgemm_codegen.plan.layout import row_panels

if TYPE_CHECKING:
    from deepgemm_codegen.decide.wgmma.task import Task
    from deepgemm_codegen.decide.wgmma.tile import Tile

__all__ = ["Writing", "crowd", "writing"]

WRITE, WRITE_APART, WRITE_COLUMNS = 0.9, 0.35, 5
"""How much longer device memory takes to write D than to deliver as many bytes: at all, more where
rows lie apart, and then over the columns that neighbouring tiles have. What is read takes its time
beside. Fitted, with `PASS` and `predict.NARROW`, to 548 kernels of 13 products
(``benchmarks/results/program_sweep_writing_h200.json``): a tile's height and width hardly matter,
from 64x96 to 256x192, once it is not what TMA moves or the epilogue that takes longest."""

TURNS_HIGH = 1.04
"""How much longer D takes from consumers in turns that have two fragments of rows each; why is not
known. At 2048x2048x128, 32 products, 128x128 to 128x192 took 93 to 98 us, 64x128 to 64x256 89 to
92."""

CROWD, CROWD_USUAL = 0.16, 0.6
"""How much longer D beyond the L2 takes to be written the more slices wait in the ring before the
one in use, where A and B are nothing beside D, and with how many (`Reading.waiting`) `WRITE` was
fitted; why is not known. At 4096x4096x40 and 4096x4096x64, 8 products, tiles of 128x128 in clusters
of 1x2 took 76.1 us with two slots, 78.1 to 79.2 with three, 80.6 to 82.3 with six; a ring of six of
which two are used is as fast as one of two: its memory is not what matters
(``benchmarks/results/program_sweep_rings_h200.json``, ``benchmarks/notes.md``)."""

PASS = 1 / 24
"""Clocks of a byte of D on the way on which slices arrive, where it leaves by TMA and the L2 does
not hold it."""

NEAR = 512
"""Bytes of a row of D up to which all that is written at a time lies together."""

LAST_WRITE = 0.77
"""How long the last tiles' writing takes for each clock that device memory needs: 0.91 as fitted
together with the others, and what leaves their order and mends that of tiles that all run at a time
(``benchmarks/results/program_sweep_batches_h200.json``)."""

SLAB_WRITE, SLAB_FAR, SLAB_PARTIAL, WHOLE = 0.79, 0.62, 0.045, 256
"""The same of what leaves by slabs, whatever the tile: at all, for rows of D that lie apart, and
where a tile's rows are no whole pieces of so many bytes. These and the next were fitted, with
`predict.INTEGER_FLOW`, `predict.INTEGER_PAIR` and `task.INTEGER_HEAT`, to 395 times of int8
programs of 24 shapes (``benchmarks/results/program_sweep_int8_shapes_h200.json``, the set before
it, and the picks of then)."""

ROWS_FAR, BOXES_FAR = 0.5, 0.55
"""`SLAB_FAR` of rows that TMA writes, whole, and by 256 bytes: int8 4096x32768x512 took 163
to 173 us in 128x192 in turns, 171 in 128x128, 172 to 178 in 64x192, by slabs 176 to 182."""

SLAB_SHOWN, SLAB_LAST = 0.3, 0.69
"""Part of the bytes' clocks that consumers who share a tile wait in any case where rows of D lie
apart, and that the last tiles take at the end."""

SLAB_PASS, SLAB_MEET = 0.025, 670
"""Clocks of a byte of D, and of two blocks of a cluster, on the way on which slices arrive: what
consumers in turns with small tiles and a short k wait for (8192x960x320: 14.1 us in 64x128, 12.0 in
128x160)."""

ROWS_PASS = 1 / 30
"""`SLAB_PASS` of rows that TMA writes and the L2 does not hold, near `PASS`: 64x192 took longer
than 128x192 at int8 4096x32768x512."""


class Writing(NamedTuple):
    """Clocks of the writing of D, of a tile where nothing else is said.

    Attributes:
        moved: in which device memory delivers what is read and takes what is written.
        written: the second part of them.
        shown: that consumers who share a tile wait, whatever else they wait for.
        passed: in which what a tile writes passes from its multiprocessor to the L2, on the way on
            which slices arrive.
        last: that the last tiles' writing takes.
    """

    moved: float
    written: float
    shown: float
    passed: float
    last: float


def writing(
    task: Task,
    tile: Tile,
    cluster: tuple[int, int],
    once: float,
    rounds: int,
    waiting: float = CROWD_USUAL,
) -> Writing:
    """The clocks of tiles in so many rounds.

    Args:
        task: what is computed.
        tile: its tile.
        cluster: blocks of a cluster along m and n.
        once: clocks in which device memory delivers A and B as often as they are asked for.
        rounds: tiles that a multiprocessor computes.
        waiting: see `Reading`.
    """
    out, fits = task.out / rounds, task.fits
    crowded = crowd(task, waiting) if task.sparse and not fits else 1.0
    leaves = task.leaves(tile.rows, tile.tile_n, whole_panels=tile.whole_panels)
    if not task.partial and leaves != "tma":
        apart = 0.0 if fits else _apart(task)
        far = SLAB_FAR
        if leaves == "rows":
            far = ROWS_FAR if row_panels(tile.tile_n)[1] > 2 else BOXES_FAR
        if tile.tile_n * task.problem.d_bytes % WHOLE:
            far += SLAB_PARTIAL
        written = out * (SLAB_WRITE + apart * far)
        written *= crowded
        way = ROWS_PASS if leaves == "rows" and not fits else SLAB_PASS
        passed = way * tile.tile_m * tile.tile_n * task.problem.d_bytes
        passed += SLAB_MEET * (cluster != (1, 1))
        shown = SLAB_SHOWN * apart * out
        return Writing(once / rounds + written, written, shown, passed, SLAB_LAST * out)
    columns, problem = tile.tile_n * cluster[1], task.problem
    written = out * (1.0 if fits else _factor(task, columns))
    if tile.tiles_at_once > 1 and tile.tile_m > FRAGMENT_M and not fits:
        written *= TURNS_HIGH
    if task.partial:
        return Writing(written, written, 0.0, 0.0, LAST_WRITE * out)
    written *= crowded
    passed = 0.0
    if not fits:
        passed = PASS * tile.tile_m * tile.tile_n // problem.halves * problem.d_bytes
    return Writing(once / rounds + written, written, 0.0, passed, LAST_WRITE * out)


def crowd(task: Task, waiting: float) -> float:
    """How much longer D beyond the L2 takes to be written beside so many waiting slices."""
    return 1 + CROWD * task.sparse * (waiting - CROWD_USUAL)


def _factor(task: Task, columns: int) -> float:
    """How much longer D beyond the L2 takes to be written, and C to be read, than as much to come.

    By tiles or clusters of so many columns: the more of a row lies together, the better; where rows
    are no longer than `NEAR`, all that runs at a time does.
    """
    return WRITE + _apart(task) * (WRITE_APART + WRITE_COLUMNS / columns)


def _apart(task: Task) -> float:
    """How far apart the rows of D lie that tiles write at a time: 0 together, 1 far."""
    problem = task.problem
    return max(1 - NEAR / (problem.n // problem.halves * problem.d_bytes), 0.0)
