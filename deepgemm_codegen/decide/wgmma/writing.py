"""What the writing of D costs a wgmma kernel, beside what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.wgmma.consumer import FRAGMENT_M

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


class Way(NamedTuple):
    """What D costs that leaves otherwise than in panels by TMA.

    Attributes:
        write: how much longer device memory takes to write it than to deliver as many bytes.
        far: how much longer yet, where rows of D lie apart.
        passed: clocks of a byte on the way on which slices arrive: what consumers in turns with
            small tiles and a short k wait for (8192x960x320: 14.1 us in 64x128, 12.0 in 128x160).
        last: clocks of the last tiles' writing at the end, for each that device memory needs.
    """

    write: float
    far: float
    passed: float
    last: float


WAYS = {
    "slab": Way(0.79, 0.62, 0.025, 0.69),
    "rows": Way(0.856, 0.347, 0.041, 0.3),
    "lanes": Way(0.844, 0.64, 0.025, 0.79),
}
"""By `Task.leaves`. Those of slabs were fitted to 395 times of int8 programs of 24 shapes, before D
of integers left otherwise (``benchmarks/results/program_sweep_int8_shapes_h200.json``, the set
before it, and the picks of then); rows and lanes with `INTEGER_SLAB`, `tile.INTEGER_MATH`,
`tile.FINISH_LANES`, `task.INTEGER_HEAT`, `predict.INTEGER_FLOW`, `predict.INTEGER_PAIR` and
`predict.INTEGER_TURN`, to programs of those shapes, by which plans come first more than by their
times: 246 with lags, and 522 from before there were any
(``program_sweep_int8_best_h200.json``, ``..._again_h200.json``, ``..._near_h200.json``)."""

INTEGER_SLAB = Way(0.8, 0.63, 0.05, 0.8)
"""The same of int32 sums by slabs, which tiles have whose columns no rows by TMA are made of."""

ROWS_LOW = 0.73
"""Part of `Way.passed` that rows by TMA take from consumers in turns with one fragment of rows
each, who write half as much at a time. Fitted as `WAYS`."""

SLAB_PARTIAL, WHOLE = 0.045, 256
"""`Way.far` more where a tile's rows are no whole pieces of so many bytes."""

ROWS_HIGH = 0.95
"""Part of `Way.write` that rows take which TMA writes from consumers who share a tile and have two
fragments of rows each; why is not known. At 50176x256x64 in int8 256x128 took 14.6 us, 256x64 15.4,
128x128 by one consumer 15.7, by two 16.3, 128x64 15.9, 128x256 16.1."""

SHOWN, MEET = 0.3, 670
"""Part of the bytes' clocks that consumers who share a tile wait in any case where rows of D lie
apart; and clocks of two blocks of a cluster on the way on which slices arrive."""


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
        way = INTEGER_SLAB if leaves == "slab" and task.kind.integers else WAYS[leaves]
        apart = 0.0 if fits else _apart(task)
        far = way.far
        if leaves == "slab" and tile.tile_n * task.problem.d_bytes % WHOLE:
            far += SLAB_PARTIAL
        written = out * (way.write + apart * far) * crowded
        if leaves == "rows" and tile.tiles_at_once == 1 and tile.rows > FRAGMENT_M:
            written *= ROWS_HIGH
        passed = way.passed * tile.tile_m * tile.tile_n * task.problem.d_bytes
        if leaves == "rows" and tile.tiles_at_once > 1 and tile.rows == FRAGMENT_M:
            passed *= ROWS_LOW
        passed += MEET * (cluster != (1, 1))
        return Writing(
            once / rounds + written, written, SHOWN * apart * out, passed, way.last * out
        )
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
