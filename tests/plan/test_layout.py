"""The shared-memory formulas against a count of bank conflicts, and against each other."""

from __future__ import annotations

import pytest

from deepgemm_codegen.plan.layout import (
    SLAB_PANEL_COLUMNS,
    SWIZZLES,
    excess_wavefronts,
    lane_slab_mask,
    row_panels,
    slab_mask,
    swizzle,
    swizzle_bytes_for,
    tile_offset,
)


@pytest.mark.parametrize("width", SWIZZLES)
@pytest.mark.parametrize("rows", [16, 48, 64, 80])
@pytest.mark.parametrize("panels", [1, 3])
def test_a_tile_is_a_permutation(width: int, rows: int, panels: int) -> None:
    offsets = [
        tile_offset(row, byte, rows, width)
        for row in range(rows)
        for byte in range(0, width * panels, 16)
    ]
    assert sorted(offsets) == list(range(0, rows * width * panels, 16))


@pytest.mark.parametrize("width", SWIZZLES)
def test_swizzle_is_its_own_inverse(width: int) -> None:
    for offset in range(0, 8 * width, 2):
        assert swizzle(swizzle(offset, width), width) == offset


@pytest.mark.parametrize("width", SWIZZLES)
@pytest.mark.parametrize("first", [0, 8, 40])
def test_ldmatrix_rows_meet_no_bank_twice(width: int, first: int) -> None:
    """One matrix of ldmatrix reads 16 bytes of eight consecutive rows at one column."""
    for byte in range(0, width * 2, 16):
        rows = [tile_offset(row, byte, 64, width) for row in range(first, first + 8)]
        assert excess_wavefronts(rows, 16) == 0


def test_without_the_swizzle_there_are_conflicts() -> None:
    assert excess_wavefronts([row * 128 for row in range(8)], 16) == 7
    assert excess_wavefronts([row * 64 for row in range(8)], 16) == 3


@pytest.mark.parametrize("width", SWIZZLES)
@pytest.mark.parametrize("vector", [16, 8, 4])
def test_copies_meet_no_bank_twice(width: int, vector: int) -> None:
    """Consecutive threads fill consecutive vectors of a panel's rows."""
    lanes = width // vector
    addresses = [tile_offset(t // lanes, t % lanes * vector, 64, width) for t in range(32)]
    assert excess_wavefronts(addresses, vector) == 0


def _slab(warp_n: int, row: int, column: int, *, interleaved: bool = False) -> int:
    mask = slab_mask(warp_n, row, interleaved=interleaved)
    return (row * warp_n + ((column // 4 ^ mask) * 4 + column % 4)) * 4


@pytest.mark.parametrize("warp_n", range(8, 257, 8))
def test_the_slab_is_a_permutation(warp_n: int) -> None:
    offsets = {_slab(warp_n, row, column) for row in range(16) for column in range(warp_n)}
    assert offsets == set(range(0, 16 * warp_n * 4, 4))


@pytest.mark.parametrize(
    ("warp_n", "interleaved"),
    [*((n, False) for n in range(8, 257, 8)), *((n, True) for n in range(16, 257, 16))],
)
def test_the_slab_meets_no_bank_twice(warp_n: int, interleaved: bool) -> None:
    step = 4 if interleaved else 2  # columns that a lane writes
    for first in (0, 8):
        for column in range(0, warp_n, 4 * step):
            writes = [
                _slab(warp_n, first + l // 4, column + l % 4 * step, interleaved=interleaved)
                for l in range(32)
            ]
            assert excess_wavefronts(writes, 4 * step) == 0
    for vector in (4, 2, 1):
        per_row = warp_n // vector
        lanes = max(d for d in range(1, 33) if per_row % d == 0)
        rows = max(r for r in (1, 2, 4, 8, 16) if r * lanes <= 32)
        for row in range(0, 16, rows):
            for part in range(0, per_row, lanes):
                reads = [
                    _slab(
                        warp_n,
                        row + l // lanes,
                        (part + l % lanes) * vector,
                        interleaved=interleaved,
                    )
                    for l in range(rows * lanes)
                ]
                assert excess_wavefronts(reads, 4 * vector) == 0


@pytest.mark.parametrize("warp_n", [16, 32, 64, 96, 128])
def test_a_slab_of_pairs_meets_no_bank_twice(warp_n: int) -> None:
    """Its reads are of half rows: those of B's first half, and those of its second."""

    def place(row: int, column: int) -> int:
        mask = slab_mask(warp_n, row, paired=True)
        return (row * warp_n + ((column // 4 ^ mask) * 4 + column % 4)) * 4

    assert {place(row, column) for row in range(16) for column in range(warp_n)} == set(
        range(0, 16 * warp_n * 4, 4)
    )
    for first in (0, 8):
        for column in range(0, warp_n, 8):
            writes = [place(first + l // 4, column + l % 4 * 2) for l in range(32)]
            assert excess_wavefronts(writes, 8) == 0
    per_row = warp_n // 2 // 4
    lanes = max(d for d in range(1, 33) if per_row % d == 0)
    rows = max(r for r in (1, 2, 4, 8, 16) if r * lanes <= 32)
    for row in range(0, 16, rows):
        for half in (0, warp_n // 2):
            reads = [place(row + l // lanes, half + l % lanes * 4) for l in range(rows * lanes)]
            assert excess_wavefronts(reads, 16) == 0


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    ("group", "width"),
    [*((1, n) for n in (8, 16, 32, 64, 128)), *((g, n) for g in (2, 4) for n in (32, 64, 128)),
     (8, 64), (8, 128), (8, 256)],
)  # fmt: skip
def test_a_slab_of_lanes_meets_no_bank_twice(group: int, width: int, paired: bool) -> None:
    """Lanes write 2 * group neighbours, four at most at a time, and read along rows, or halves."""

    def place(row: int, column: int) -> int:
        return (
            row * width + (column ^ lane_slab_mask(group, width, row, column, paired=paired))
        ) * 4

    assert {place(row, column) for row in range(8) for column in range(width)} == set(
        range(0, 8 * width * 4, 4)
    )
    step = min(4, 2 * group)
    for first in range(0, width, 8 * group):
        for e in range(0, 2 * group, step):
            writes = [place(l // 4, first + l % 4 * 2 * group + e) for l in range(32)]
            assert excess_wavefronts(writes, 4 * step) == 0
    length = width // 2 if paired else width
    for half in range(0, width, length):
        for item in range(0, 8 * length, 32):
            at = [divmod(item + l, length) for l in range(32) if item + l < 8 * length]
            reads = [place(row, half + column) for row, column in at]
            assert excess_wavefronts(reads, 4) == 0


@pytest.mark.parametrize(
    ("row_bytes", "pass_bytes", "expected"),
    [
        (64, 2048, 64),  # tile_k = 32
        (128, 2048, 128),  # tile_k = 64
        (96, 2048, 32),  # tile_k = 48: three panels
        (160, 2048, 32),  # tile_m = 80, MN-major
        (128, 512, 64),  # one warp cannot keep the phase of 128-byte rows
        (64, 256, 32),  # two-byte vectors of 128 threads
        (32, 64, 0),  # two-byte vectors of one warp: nothing fits
    ],
)
def test_panel_widths(row_bytes: int, pass_bytes: int, expected: int) -> None:
    assert swizzle_bytes_for(row_bytes, pass_bytes) == expected


@pytest.mark.parametrize(
    ("columns", "panels"),
    [
        (32, (0, 0)),
        (64, (2, 2)),
        (96, (0, 0)),
        (128, (4, 2)),
        (192, (6, 6)),
        (224, (0, 0)),
        (256, (4, 2)),
        (80, (0, 0)),
    ],
)
def test_rows_leave_in_whole_panels(columns: int, panels: tuple[int, int]) -> None:
    assert row_panels(columns) == panels


@pytest.mark.parametrize("panels", [2, 6])
def test_rows_of_panels_meet_no_bank_twice(panels: int) -> None:
    """Pairs of sums, a row of a fragment to four lanes; the swizzle is where a panel lies."""
    for column in range(0, panels * SLAB_PANEL_COLUMNS, 8):
        places = []
        for lane in range(32):
            byte = (lane // 4 * panels * SLAB_PANEL_COLUMNS + column + lane % 4 * 2) * 4
            places.append(swizzle(byte, 128))
        assert excess_wavefronts(places, 8) == 0
