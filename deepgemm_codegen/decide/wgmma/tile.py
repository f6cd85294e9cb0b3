"""Question: which tile, and how many consumers share it?

What a tile needs is known almost without a spec, so it stands in a table made once.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.decide.menus import TILE_NS
from deepgemm_codegen.decide.wgmma import consumer
from deepgemm_codegen.plan.layout import staged_columns, store_panels
from deepgemm_codegen.plan.tma import PANEL_BYTES
from deepgemm_codegen.spec.block_scales import blocks_of, shared_columns

if TYPE_CHECKING:
    from deepgemm_codegen.decide.machine import Machine

__all__ = ["CONSUMERS", "FRAGMENT_M", "TILE_MS", "Kind", "Tile", "slab_columns", "tile_table"]

FRAGMENT_M = 64
"""Rows of one wgmma, shared by the four warps of a warpgroup."""

TILE_MS = (64, 128, 256)
"""Rows of a tile that the tree tries; 192 would want three consumers, which no kernel has."""

CONSUMERS = (1, 2)
"""Consumer warpgroups that the tree tries."""

TILES_AT_ONCE = (1, 2)
"""Cooperative consumers, or such that take tiles in turn (ping-pong)."""

SHARED_RATE = 128
"""Bytes a clock of a multiprocessor's shared memory: 32 banks of 4 bytes."""

FEED = 1.008
"""Clocks of shared memory charged for each that its bytes take."""

INTEGER_MATH, INTEGER_FEED = 1.023, 0.89
"""How much longer the math of integers takes than its rate says, and `FEED` of them. Fitted as
`writing.WAYS`."""

TWO_FRAGMENTS = 1.025
"""How much longer math takes with two fragments of 64 rows a consumer, each of which reads B again.
Set, with `predict.TURN_HEAT`, by which plans of 85 measured problems come first; what lies within
1.02 and 1.03 picks alike."""

FINISH, FINISH_OWN, FINISH_TMA, PANEL = 271, 0.042, 0.037, 280
"""Clocks of an epilogue by TMA: once, an element of a consumer's rows, an element of the tile, and
a panel of D's columns (two barriers, a fence, and what was there before has to have left)."""

PANEL_BY_WARP = 240
"""A panel's where each warp stores its own rows and waits for no other: 20 to 60 clocks less were
measured (``benchmarks/notes.md``)."""

FINISH_SLAB, PART = 0.038, 300
"""Those of an epilogue by slabs: an element, and one pass of a warp's slab, mostly latency. Fitted
before consumers took turns."""

FINISH_LANES, FINISH_ROWS, PART_ROWS = 0.037, 0.047, 362
"""Those of an epilogue straight from registers and of one in rows by TMA, an element, and of both,
64 columns of a consumer's fragment of rows. Fitted as `writing.WAYS`."""

FINISH_SUMS = 4 / 64
"""Those of partial sums from registers, an element: stores of 64 bytes a clock. An estimate."""

GATHER, GATHER_WRITE, GATHER_READ = 100, 4 / 128, 4 / 12
"""Those of sums that meet in a cluster: once beside `predict.CLUSTER_US`, an element written to
shared memory, and one read from another block. The last two are estimates: published
microbenchmarks of an H100 read 2.7 to 3.3 TB/s of other blocks' shared memory, 12 to 14 bytes a
clock and multiprocessor. The first is set by which programs come first where parts of k meet
(``program_sweep_cluster_k_h200.json``, ``program_sweep_few_rows_h200.json``)."""


PROMOTE, PROMOTE_WAIT, SEQUENCE_WAIT = 1.0, 90, 240
"""Clocks of adding a slice's sums in fp32: one a sum and thread, an estimate, and until the next
slice's math begins, once or for two fragments in the same registers, one after the other."""

PROMOTE_BEHIND = 40
"""Clocks a slice that remain where adding hides behind the next slice's math."""

SCALE_WAIT, SEQUENCE_SCALE_WAIT, SCALE_BEHIND, SCALE = 90, 36, 74, 4
"""What scales by block add to each of the three, and to each for an instruction that a thread takes
for them (`scale_clocks`). Fitted, as those are, to 52 kernels of 9 shapes on an H200
(``benchmarks/results/program_sweep_overlapped_h200.json``)."""


class Kind(NamedTuple):
    """What operands and sums a tile is for.

    Attributes:
        element_bytes: of A and B.
        integers: whether sums are int32.
        promoted: whether a slice's sums start at zero and are added in fp32.
        scaled: whether they are scaled by block on the way.
    """

    element_bytes: int
    integers: bool
    promoted: bool
    scaled: bool = False

    @property
    def tile_k(self) -> int:
        """Elements of k in a slice: one 128-byte row, the only slice there is."""
        return PANEL_BYTES // self.element_bytes

    @property
    def sets(self) -> int:
        """Sets of sums that a thread holds."""
        return 2 if self.promoted else 1


class Tile(NamedTuple):
    """A legal tile with all that needs no spec to know.

    Attributes:
        tile_m, tile_n: rows and columns.
        consumers: consumer warpgroups.
        tiles_at_once: tiles in their hands.
        mma: tensor-core clocks of a slice, unheated.
        feed: shared-memory clocks of a slice: what wgmma reads and TMA writes.
        promotion: clocks that a slice's math takes longer because its sums are added in fp32.
        stage_bytes: of a ring slot with its two barriers.
        tma_finish: clocks of the epilogue where D leaves by TMA.
        slab_finish: the same by slabs.
        lanes_finish, rows_finish: the same straight from registers, and in rows by TMA.
        sums_finish: the same where partial sums leave straight from registers.
        gather_finish: the same where they meet in a cluster, but for what others' memory delivers.
        gather_read: clocks in which it would deliver a whole tile's sums.
        tma_bytes, slab_bytes: of the epilogue beside the ring, D leaving by TMA in panels or by
            slab.
        whole_panels: whether D's tile is whole swizzle patterns, so that TMA may write it.
    """

    tile_m: int
    tile_n: int
    consumers: int
    tiles_at_once: int
    mma: float
    feed: float
    promotion: float
    tma_finish: float
    slab_finish: float
    lanes_finish: float
    rows_finish: float
    sums_finish: float
    gather_finish: float
    gather_read: float
    stage_bytes: int
    tma_bytes: int
    slab_bytes: int
    whole_panels: bool

    @property
    def rows(self) -> int:
        """Rows that a consumer sums."""
        return self.tile_m * self.tiles_at_once // self.consumers


def slab_columns(tile_n: int, halves: int, element_bytes: int) -> int:
    """Columns of a warp's slab: a warp's row passes through it in parts.

    Equal ones; of a D of 32 bits, which no TMA writes, such as leave a narrower last one where
    equal ones have fewer than 32 columns: of 4096x24576x1536 in int8, 128x176 took 249 us in parts
    of 16, 128x192 in parts of 64 took 226. Pairs have equal ones.
    """
    widths = (64, 48, 32, 16, 8)
    equal = next(width for width in widths if tile_n % width == 0)
    if equal >= 32 or halves > 1 or element_bytes < 4 or tile_n < widths[0]:
        return equal
    return min(widths[:2], key=lambda width: (-(-tile_n // width), width))


def slab_bytes(columns: int, consumers: int) -> int:
    """Bytes of all warps' slabs: 16 rows of fp32 each."""
    return consumers * 4 * 16 * columns * 4


def turn_bytes(consumers: int, tiles_at_once: int) -> int:
    """Bytes of the barriers by which consumers take turns."""
    return 8 * consumers if tiles_at_once > 1 else 0


class Result(NamedTuple):
    """What becomes of a tile's sums.

    Attributes:
        element_bytes: of D.
        halves: columns of the tile that make one of D.
        vectors: that the epilogue's steps read by columns.
    """

    element_bytes: int
    halves: int
    vectors: int

    def store_bytes(self, rows: int, tile_n: int, consumers: int) -> int:
        """Bytes of all consumers' panels of D and of the columns that they keep.

        0 where D's rows are no whole patterns.
        """
        columns, slots = self.panels(rows, tile_n)
        if not columns:
            return 0
        kept = staged_columns(self.vectors, tile_n) * tile_n * 4
        return consumers * (slots * rows * columns * self.element_bytes + kept)

    def slab_columns(self, tile_n: int) -> int:
        """See the function of that name."""
        return slab_columns(tile_n, self.halves, self.element_bytes)

    def panels(self, rows: int, tile_n: int) -> tuple[int, int]:
        """See `layout.store_panels`."""
        return store_panels(rows, tile_n // self.halves, self.element_bytes)


def scale_clocks(tile_n: int, halves: int, fragments: int) -> int:
    """Instructions a thread and slice: two loads and two products a fragment and block of columns.

    Where a tile lies in two blocks, two selects a fragment for every group of columns beyond the
    first that may lie in either. Of a pair each half lies in one.
    """
    blocks = blocks_of(tile_n, halves)
    selects = tile_n // shared_columns(tile_n) - 1 if blocks > halves else 0
    return 2 * fragments * (1 + blocks + selects)


def _promotion(
    mma: float,
    rows: int,
    tile_n: int,
    consumers: int,
    tiles_at_once: int,
    kind: Kind,
    halves: int,
) -> float:
    """Clocks that adding in fp32 makes a slice longer.

    Args:
        mma: clocks of the slice's math.
        rows: that a consumer sums.
        tile_n: columns of the tile.
        consumers: of the block.
        tiles_at_once: tiles in their hands.
        kind: of operands and sums.
        halves: columns of the tile that make one of D.
    """
    factors = scale_clocks(tile_n, halves, rows // FRAGMENT_M) if kind.scaled else 0
    if consumer.overlapped(rows, tile_n, kind.sets):
        return PROMOTE_BEHIND + (SCALE_BEHIND + SCALE * factors if kind.scaled else 0)
    in_sequence = consumer.in_sequence(rows, tile_n, kind.sets)
    wait = SEQUENCE_WAIT if in_sequence else PROMOTE_WAIT
    if kind.scaled:
        wait += (SEQUENCE_SCALE_WAIT if in_sequence else SCALE_WAIT) + SCALE * factors
    adding = PROMOTE * (rows * tile_n // (2 * FRAGMENT_M)) + wait
    if consumers == 1 or tiles_at_once > 1:
        return adding
    return max(mma / 2 + adding - mma, wait)


def _tile(
    machine: Machine,
    kind: Kind,
    result: Result,
    tile_m: int,
    tile_n: int,
    consumers: int,
    tiles_at_once: int,
) -> Tile:
    """Numbers of one tile."""
    fragments = tile_m // FRAGMENT_M
    mma = 2 * tile_m * tile_n * kind.tile_k / machine.wgmma_rate
    mine = fragments * tiles_at_once // consumers
    if mine > 1:
        mma *= TWO_FRAGMENTS
    if kind.integers:
        mma *= INTEGER_MATH
    columns = result.panels(mine * FRAGMENT_M, tile_n)[0]
    panels = tile_n // result.halves // columns if columns else 0
    slab = result.slab_columns(tile_n)
    elements = (FINISH_OWN * mine * FRAGMENT_M + FINISH_TMA * tile_m) * tile_n
    parts = PART_ROWS * mine * tile_n / 64
    turns = turn_bytes(consumers, tiles_at_once)
    reads = fragments * (FRAGMENT_M + tile_n) * PANEL_BYTES
    written = (tile_m + tile_n) * PANEL_BYTES
    promotion = 0.0
    if kind.promoted:
        rows = mine * FRAGMENT_M
        promotion = _promotion(mma, rows, tile_n, consumers, tiles_at_once, kind, result.halves)
    return Tile(
        tile_m=tile_m,
        tile_n=tile_n,
        consumers=consumers,
        tiles_at_once=tiles_at_once,
        mma=mma,
        feed=(INTEGER_FEED if kind.integers else FEED) * (reads + written) / SHARED_RATE,
        promotion=promotion,
        tma_finish=FINISH + elements + (PANEL_BY_WARP if tiles_at_once == 1 else PANEL) * panels,
        slab_finish=FINISH + FINISH_SLAB * tile_m * tile_n + PART * mine * -(-tile_n // slab),
        lanes_finish=FINISH + FINISH_LANES * tile_m * tile_n + parts,
        rows_finish=FINISH + FINISH_ROWS * tile_m * tile_n + parts,
        sums_finish=FINISH + FINISH_SUMS * tile_m * tile_n,
        gather_finish=FINISH + GATHER + GATHER_WRITE * tile_m * tile_n,
        gather_read=GATHER_READ * tile_m * tile_n,
        stage_bytes=written + 16,
        tma_bytes=result.store_bytes(mine * FRAGMENT_M, tile_n, consumers) + turns,
        slab_bytes=slab_bytes(slab, consumers) + turns,
        whole_panels=columns > 0,
    )


@cache
def tile_table(
    machine: Machine, kind: Kind, result: Result
) -> dict[tuple[int, int, int], list[Tile]]:
    """All legal tiles by rows, consumers and tiles at once, columns rising.

    Made once a machine, kind of operands and kind of result.
    """
    table: dict[tuple[int, int, int], list[Tile]] = {}
    for tile_m, consumers, at_once in product(TILE_MS, CONSUMERS, TILES_AT_ONCE):
        split = consumers, at_once
        if consumer.turns(*split) or consumer.rows(tile_m, *split):
            continue
        table[tile_m, *split] = [
            _tile(machine, kind, result, tile_m, tile_n, *split)
            for tile_n in TILE_NS
            if not consumer.accumulators(tile_m, tile_n, *split, kind.sets)
            and not consumer.columns(tile_n, integers=kind.integers)
            and not consumer.scales(tile_n, result.halves, scaled=kind.scaled)
        ]
    return table
